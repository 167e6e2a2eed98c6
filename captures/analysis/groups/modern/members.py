"""Members of groups of the newer kinds over time: assigned and owned partitions, and signs of life.

A static member keeps its timeline when it returns with another member ID (KIP-345). So does a member that was expelled
and rejoins with its own ID, which it chose itself (KIP-848): it has another membership in the same timeline.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter

import msgspec

from captures.analysis.groups.calls import Call, Join, ModernHeartbeatRun
from captures.analysis.groups.model import GroupMember, MemberFacts, Span, Tasks, TopicPartition
from captures.analysis.groups.vocabulary import Kind, Phase

ALWAYS = 0
"""Start of a membership that began before the capture."""
_MISSED = 3
"""Missing heartbeats after which a member counts as silent."""
_NEAR = 4
"""Calls that may overlap: a member rarely has more than one in flight."""
_UNKNOWN_INTERVAL = 5_000_000_000
"""ns; default of ``group.consumer.heartbeat.interval.ms``, and of those of share and streams groups."""


@dataclass(frozen=True, slots=True)
class State:
    """The known state of a member from a time on.

    :ivar at: when the message that shows it was complete
    :ivar asked: time of that message, or of its request
    :ivar number: number of the exchange
    :ivar epoch: member epoch; -1 before it is known
    :ivar assigned: partitions assigned to it; None if not seen
    :ivar owned: partitions that it claimed to own; None if it made no claim
    :ivar since: since when it has to revoke partitions that it still owns; None if it has none to revoke
    """

    at: int
    asked: int
    number: int
    epoch: int
    assigned: frozenset[TopicPartition] | None = None
    owned: frozenset[TopicPartition] | None = None
    since: int | None = None

    @property
    def known(
        self,
    ) -> tuple[int, frozenset[TopicPartition] | None, frozenset[TopicPartition] | None, int | None]:
        """The facts, without time and number of the exchange."""
        return self.epoch, self.assigned, self.owned, self.since

    @property
    def held_back(self) -> frozenset[TopicPartition]:
        """Partitions that it has to revoke and still owns."""
        return (self.owned or frozenset()) - (self.assigned or frozenset())

    @property
    def held(self) -> frozenset[TopicPartition] | None:
        """Its partitions, including those it has to revoke until it confirms that; None if unknown."""
        return self.owned if self.assigned is None else self.assigned | self.held_back


class Membership(msgspec.Struct):
    """A time in which a client was a member.

    :ivar member: member ID
    :ivar begin: ns since the epoch; :data:`ALWAYS` if before the capture
    :ivar end: when it left or was removed; None if it did not
    :ivar expelled: whether the coordinator removed it
    """

    member: str
    begin: int
    end: int | None = None
    expelled: bool = False


@dataclass(slots=True, kw_only=True)
class MemberTimeline(MemberFacts):
    """A member over time.

    :ivar classic: whether it uses JoinGroup and SyncGroup
    :ivar calls: heartbeats and joins that were answered without an error, in the order of requests
    :ivar states: states in the order of time
    :ivar memberships: memberships in the order of time
    :ivar tasks: tasks of Kafka Streams assigned to it, each with the time
    :ivar paused: when it left for a while (member epoch -2); None if it did not, or is back
    :ivar order: index among all members of the group by first sign of life
    """

    classic: bool = False
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    topology: int | None = None
    assignor: str = ""
    calls: list[Call] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    memberships: list[Membership] = field(default_factory=list)
    tasks: list[tuple[int, Tasks]] = field(default_factory=list)
    paused: int | None = None
    order: int = 0

    @property
    def alive(self) -> bool:
        """Whether it is a member after all calls read so far."""
        return bool(self.memberships) and self.memberships[-1].end is None

    @property
    def state(self) -> State | None:
        return self.states[-1] if self.states else None

    @property
    def pace(self) -> int:
        """ns between its heartbeats, as far as known."""
        return self.interval or _UNKNOWN_INTERVAL

    @property
    def patience(self) -> int:
        """ns without a sign of life after which it counts as silent."""
        return _MISSED * self.pace

    @property
    def subscription(self) -> tuple[str, ...]:
        """Topics, and the pattern between slashes."""
        pattern = (f"/{self.pattern}/",) if self.pattern else ()
        return (*sorted(self.topics or ()), *pattern)

    def subscribed_before(self, topics: tuple[str, ...], time: int) -> bool:
        """Return whether its subscription differs from `topics`, the previous one; keep that as a former one."""
        if not topics or topics == self.subscription:
            return False
        self.former_subscriptions.append((topics, time))
        return True

    def membership(self, member: str, begin: int) -> None:
        """Start a membership, or give the current one this ID."""
        if self.alive:
            self.memberships[-1].member = member
        else:
            self.memberships.append(Membership(member, begin))
        if member != self.member:
            if self.member not in self.former:
                self.former.append(self.member)
            self.member = member
        self.paused = None

    def ends(self, time: int, *, expelled: bool = False) -> None:
        if self.alive:
            membership = self.memberships[-1]
            membership.end, membership.expelled = time, expelled
        self.paused = None

    def state_at(self, time: int) -> State | None:
        """Return the latest state at `time`; None if there is none."""
        index = bisect_right(self.states, time, key=lambda state: state.at)
        return self.states[index - 1] if index else None

    def tasks_at(self, time: int) -> Tasks | None:
        """Return its tasks of Kafka Streams at `time`; None if unknown."""
        index = bisect_right(self.tasks, time, key=itemgetter(0))
        return self.tasks[index - 1][1] if index else None

    def changed_before(self, time: int) -> int:
        """Return the time of its last state up to `time`; 0 if there is none."""
        state = self.state_at(time)
        return 0 if state is None else state.at

    def states_after(self, time: int) -> list[State]:
        """Return the states after `time`."""
        return self.states[bisect_right(self.states, time, key=lambda state: state.at) :]

    def add_contact(self, call: Call) -> None:
        """Record a call of the member as a sign of life."""
        insort(self.calls, call, key=lambda known: known.time)
        self.first = min(self.first, call.time)
        self.last = max(self.last, call.last)
        if call.connection not in self.connections:
            self.connections.append(call.connection)

    def silent_since(self, time: int) -> int | None:
        """Return the time of its last sign of life up to `time`; None if unknown."""
        index = bisect_right(self.calls, time, key=lambda call: call.time)
        near = self.calls[max(index - _NEAR, 0) : index]
        return max((min(call.last, time) for call in near), default=None)

    def call_before(self, time: int) -> Call | None:
        """Return its latest call that began before `time`; None if there is none."""
        index = bisect_right(self.calls, time - 1, key=lambda call: call.time)
        return self.calls[index - 1] if index else None

    def last_number(self, time: int) -> int | None:
        """Return the number of the exchange with its last sign of life before `time`; None if there is none."""
        call = self.call_before(time)
        return None if call is None else call.last_number

    def now(self, call: Call) -> State:
        """Return the latest state, as `call` shows it again."""
        known = self.state or State(call.at, call.time, call.number, -1)
        return replace(known, at=call.at, asked=call.time, number=call.number)

    def note(self, state: State) -> None:
        """Add a state, if it differs from the latest."""
        if not self.states or state.known != self.states[-1].known:
            self.states.append(state)


def as_member(member: MemberTimeline, now: int) -> GroupMember:
    """Return a member for the timeline of its group."""
    ended = member.memberships[-1].end if member.memberships else None
    return GroupMember(
        **member.facts(), subscription=member.subscription, left=ended, spans=list(_spans(member, now))
    )


def _spans(member: MemberTimeline, now: int) -> Iterator[Span]:
    for membership in member.memberships:
        end = now if membership.end is None else membership.end
        states = [state for state in member.states if membership.begin <= state.at <= end]
        if not states:
            continue
        last_call = member.silent_since(end) or end
        quiet = membership.expelled or (
            membership.end is None and member.paused is None and end - last_call > member.patience
        )
        still = max(last_call, states[-1].at) if quiet else end
        yield from _phases(states, still)
        if quiet and still < end:
            number = member.last_number(end) or states[-1].number
            yield Span(still, end, Phase.SILENT, states[-1].epoch, number)


def _phases(states: list[State], end: int) -> Iterator[Span]:
    if states[0].asked < states[0].at:
        yield Span(states[0].asked, states[0].at, Phase.JOINING, states[0].epoch, states[0].number)
    begun = states[0]
    for state in states[1:]:
        if _look(state) != _look(begun):
            yield _span(begun, state.at)
            begun = state
    if begun.at < end:
        yield _span(begun, end)


def _look(state: State) -> tuple[int, bool, frozenset[TopicPartition] | None]:
    return state.epoch, state.since is not None, state.assigned


def _span(state: State, end: int) -> Span:
    phase = Phase.STABLE if state.since is None else Phase.REVOKING
    return Span(state.at, end, phase, state.epoch, state.number, state.assigned)


class Roster:
    """All members that were seen.

    :ivar lanes: members in the order of their first signs of life
    :ivar topics: topics that a member subscribed to by name
    """

    def __init__(self, kind: Kind) -> None:
        self.lanes: list[MemberTimeline] = []
        self.topics: set[str] = set()
        self._present: dict[int, MemberTimeline] = {}
        self._kind = kind
        self._by_id: dict[str, MemberTimeline] = {}
        self._by_instance: dict[str, MemberTimeline] = {}

    @property
    def alone(self) -> bool:
        """Whether there is no current member."""
        return not self.present

    @property
    def present(self) -> list[MemberTimeline]:
        """The current members, in order; former ones are dropped from the index."""
        self._present = {at: member for at, member in self._present.items() if member.alive}
        return [self._present[at] for at in sorted(self._present)]

    def find(self, member: str, instance: str | None = None) -> MemberTimeline | None:
        """Return a member by a current or former ID, or else by its instance ID; None if it was not seen."""
        return self._by_id.get(member) or self._by_instance.get(instance or "")

    def known(self, call: Call) -> MemberTimeline:
        """Return the member that sent `call`; if it is new, it was a member before the capture."""
        member = self._by_id.get(call.member)
        if member is None:
            member = self.enter(call)
            self.enrol(member, call.member, ALWAYS)
        return member

    def enter(self, call: Call) -> MemberTimeline:
        """Return a new member without a membership."""
        member = MemberTimeline(
            member=call.member,
            client=call.client,
            host=call.host,
            first=call.time,
            last=call.last,
            instance=call.instance,
        )
        member.order = len(self.lanes)
        self.lanes.append(member)
        return member

    def admit(self, call: Call) -> tuple[MemberTimeline, bool]:
        """Return the sender of a join, and whether it was a member before."""
        member = self.find(call.member, call.instance)
        return (self.enter(call), False) if member is None else (member, member.alive)

    def take(self, timeline: MemberTimeline) -> None:
        """Add a client that is already a member."""
        timeline.order = len(self.lanes)
        self.lanes.append(timeline)
        self._present[timeline.order] = timeline
        self.topics.update(timeline.topics or ())
        for member in (*timeline.former, timeline.member):
            self._by_id[member] = timeline
        if timeline.instance:
            self._by_instance[timeline.instance] = timeline

    def enrol(self, timeline: MemberTimeline, member: str, begin: int) -> None:
        """Make a client a member with an ID."""
        timeline.membership(member, begin)
        self._present[timeline.order] = timeline
        self._by_id[member] = timeline
        if timeline.instance:
            self._by_instance[timeline.instance] = timeline

    def subscribe(self, member: MemberTimeline, beat: ModernHeartbeatRun) -> str:
        """Update a member from its heartbeat; return its new subscription in words, empty if unchanged."""
        member.rack = beat.rack or member.rack
        member.assignor = beat.assignor or member.assignor
        member.rebalance_timeout = beat.rebalance_timeout or member.rebalance_timeout
        member.interval = beat.interval or member.interval
        before, topology = member.subscription, member.topology
        member.topics = beat.topics if beat.topics is not None else member.topics
        self.topics.update(beat.topics or ())
        member.pattern = beat.pattern if beat.pattern is not None else member.pattern
        member.topology = beat.topology if beat.topology is not None else topology
        changed = member.subscribed_before(before, beat.time)
        if topology is not None and topology != member.topology:
            return f"has another topology (epoch {member.topology} instead of {topology})"
        return news(member) if changed else ""

    def resubscribe(self, member: MemberTimeline, join: Join) -> str:
        """Update a classic member from its JoinGroup; return its new subscription in words, empty if unchanged."""
        member.session_timeout = join.session_timeout or member.session_timeout
        member.rebalance_timeout = join.rebalance_timeout or member.rebalance_timeout
        before = member.subscription
        if join.subscription is None:
            return ""
        member.topics = join.subscription.topics
        self.topics.update(member.topics)
        member.rack = join.subscription.rack or member.rack
        return news(member) if member.subscribed_before(before, join.time) else ""

    def owns(self, member: MemberTimeline, beat: ModernHeartbeatRun) -> None:
        """Record the partitions that a member claims to own: it may have revoked those it had to."""
        state = member.state
        if beat.owned is None or state is None or state.owned == beat.owned:
            return
        held = beat.owned - (state.assigned if state.assigned is not None else beat.owned)
        since = state.since if held else None
        # the claim is in the request
        member.note(replace(member.now(beat), at=beat.time, owned=beat.owned, since=since))

    def answered(
        self, member: MemberTimeline, beat: ModernHeartbeatRun, epoch: int
    ) -> frozenset[TopicPartition]:
        """Record the response to a member, and return its assigned partitions."""
        member.add_contact(beat)
        self.owns(member, beat)
        state = member.state
        owned = beat.owned if beat.owned is not None or state is None else state.owned
        assigned = beat.assigned if beat.assigned is not None or state is None else state.assigned
        since = state.since if state is not None else None
        if self._kind is not Kind.SHARE and assigned is not None:
            since = (since or beat.at) if (owned or frozenset()) - assigned else None
        member.note(replace(member.now(beat), epoch=epoch, assigned=assigned, owned=owned, since=since))
        if beat.tasks is not None and any(listed is not None for listed in beat.tasks):
            known = member.tasks[-1][1] if member.tasks else Tasks(None, None, None)
            both = zip(beat.tasks, known, strict=True)
            member.tasks.append(
                (beat.at, Tasks(*(had if listed is None else listed for listed, had in both)))
            )
        return assigned or frozenset()


def news(member: MemberTimeline) -> str:
    """Return a member's subscription in words."""
    wanted = ", ".join(member.subscription)
    return f"subscribes to {wanted} now" if wanted else "subscribes to nothing now"
