"""Generations of a classic group, and the transitions from one to the next.

All members of a generation get the answer to their JoinGroup at one moment; the leader's names them all. A static
member that returns is answered alone, with the generation that there is (KIP-345), and so is a member that joins again
without need: such answers belong to no rebalance.

A transition leads to the next generation, or leaves the group empty, or lasts to the end of the capture. Where the
members are known, what became of each tells whether the group was empty in between: the coordinator counts that as a
generation of its own (``GroupMetadata.initNextGeneration``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from captures.analysis.groups.calls import Call, Join, Subscription, Sync, WorkerOrders
from captures.analysis.groups.classic.memberships import Departure, Membership, Memberships
from captures.analysis.groups.model import Tasks, TopicPartition
from dissectors.error_codes import ErrorCode

_OF_THIS_GENERATION = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})


@dataclass
class Generation:
    """One generation.

    :ivar id: as its coordinator counts it
    :ivar formed: when its members were told; when it was first heard of, if that was not seen
    :ivar number: of the first exchange that shows it
    :ivar joined: whether a JoinGroup of it was seen
    :ivar joins: those that made it, in the order of requests
    :ivar later: those that were answered from it, without a rebalance
    :ivar syncs: in the order of requests
    :ivar listed: member ID -> instance ID, as the leader was told; empty if that was not seen
    :ivar subscriptions: member ID -> what it says of itself
    :ivar running: member ID -> what a worker of Kafka Connect ran when it joined
    :ivar heard: members that were heard with this generation
    """

    id: int
    formed: int
    number: int
    joined: bool = False
    joins: list[Join] = field(default_factory=list)
    later: list[Join] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    leader: str = ""
    protocol: str = ""
    listed: dict[str, str | None] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    running: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    heard: dict[str, None] = field(default_factory=dict)

    @cached_property
    def members(self) -> dict[str, None]:
        """The members, as far as they are known, once all calls were taken in."""
        named = {self.leader: None} if self.leader else {}
        known = self.listed or {call.member: None for call in self.joins} | self.heard | named
        return dict.fromkeys(known)

    @property
    def whole(self) -> bool:
        """Whether all of its members are known."""
        return bool(self.listed)

    @cached_property
    def assigned(self) -> dict[str, frozenset[TopicPartition]]:
        """The partitions of the members whose assignment was seen, likewise."""
        out: dict[str, frozenset[TopicPartition]] = {}
        for sync in self.syncs:
            if not sync.error:
                out.update(sync.given)
        for sync in self.syncs:
            # a static member that returned later has what it had under its former ID
            if sync.assigned is not None and sync.member in self.members:
                out[sync.member] = sync.assigned
        for member, orders in self.orders.items():
            if (runs := orders.after(self.running.get(member))) is not None:
                out[member] = runs
        if any(sync.leads and not sync.error and sync.protocol_type == "consumer" for sync in self.syncs):
            # whom the leader gives nothing may be left out
            for member in self.listed:
                out.setdefault(member, frozenset())
        return out

    @property
    def tasks(self) -> dict[str, Tasks]:
        """The tasks of members of Kafka Streams, as far as they were seen."""
        return {
            member: tasks
            for sync in self.syncs
            if not sync.error
            for member, tasks in sync.tasks.items()
            if member in self.members
        }

    @cached_property
    def orders(self) -> dict[str, WorkerOrders]:
        """What workers of Kafka Connect were told, as far as that was seen."""
        return {
            member: orders
            for sync in self.syncs
            if not sync.error
            for member, orders in sync.orders.items()
            if member in self.members
        }


def find_generations(calls: Iterable[Call]) -> list[Generation]:
    """Return the generations that were seen, in the order of time."""
    out: list[Generation] = []
    for time, call, generation in _mentions(calls):
        latest = out[-1] if out else None
        if latest is None or _begins(latest, call, generation):
            latest = Generation(generation, time, call.number)
            out.append(latest)
        elif generation != latest.id:
            continue  # the answer to an earlier one was late
        _include(latest, call)
    for each in out:
        each.joins.sort(key=lambda join: (join.time, join.number))
    return out


def _mentions(calls: Iterable[Call]) -> list[tuple[int, Call, int]]:
    """Return the calls that show a generation, when they do, and which, in the order of time."""
    found: list[tuple[int, Call, int]] = []
    for call in calls:
        if isinstance(call, Join):
            if call.answered >= 0 and call.end is not None:
                found.append((call.end, call, call.answered))
        elif (
            call.generation >= 0
            and call.member
            and call.end is not None
            and call.error in _OF_THIS_GENERATION
        ):
            found.append((call.time, call, call.generation))
    return sorted(found, key=lambda each: (each[0], each[1].number))


def _begins(latest: Generation, call: Call, generation: int) -> bool:
    if isinstance(call, Join):
        return generation != latest.id or _is_stranger(call, latest)
    return generation > latest.id


def _is_stranger(join: Join, latest: Generation) -> bool:
    """Whether a member cannot be of a generation that has the same number: the group counts anew."""
    known = {**latest.listed, **latest.heard}
    return (
        join.time > latest.formed
        and join.instance is None
        and join.member not in known
        and (not join.asked_as or bool(latest.listed))
    )


def _include(generation: Generation, call: Call) -> None:
    generation.heard.setdefault(call.member)
    if isinstance(call, Sync):
        generation.syncs.append(call)
    if not isinstance(call, Join):
        return
    if call.time >= generation.formed:
        generation.later.append(call)
        if not generation.listed:
            generation.listed.update(call.members)  # told to a leader that returns (KIP-814)
        return
    generation.joined = True
    generation.joins.append(call)
    generation.leader = call.leader or generation.leader
    generation.protocol = call.chosen or generation.protocol
    generation.listed.update(call.members)
    generation.subscriptions.update(call.subscriptions)
    generation.running.update(call.running)


_NO_LIMIT = 1 << 32
_Timed = TypeVar("_Timed", Join, Departure)

LATE = 1_000_000_000
"""ns by which the end of a session may seem to come later than it did: what was heard last was not what came last."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The end of a member's session.

    :ivar time: when the coordinator gave it up
    :ivar since: of its last sign of life
    :ivar number: of the exchange with that
    """

    member: str
    time: int
    since: int
    number: int


@dataclass(slots=True, kw_only=True)
class Transition:
    """What led from one state of a group to the next.

    :ivar before: generation that the group had; None if that was not seen
    :ivar previous: the same as a number, that of an empty group included; -1 if not known
    :ivar begin: time after which it began at the earliest
    :ivar end: when its generation was formed, or the group was empty; the end of the capture if it goes on
    :ivar generation: that it led to; None if the group was emptied, or it goes on
    :ivar emptied: whether it left the group without members
    :ivar unseen: whether it led to a generation of which nothing was seen
    :ivar present: IDs of the members at its beginning, as far as they are known
    :ivar whole: whether they are all known
    :ivar expiries: sessions that ended in it
    :ivar departures: members that were removed in it by LeaveGroup
    :ivar joins: JoinGroups that were sent in it, in the order of time
    :ivar ended: member IDs of those that left or whose session ended in it, and when
    """

    before: Generation | None
    previous: int
    begin: int
    end: int
    generation: Generation | None = None
    emptied: bool = False
    unseen: bool = False
    present: dict[str, None] = field(default_factory=dict)
    whole: bool = False
    expiries: Sequence[Expiry] = ()
    departures: Sequence[Departure] = ()
    joins: Sequence[Join] = ()
    ended: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.ended = {each.member: each.time for each in self.departures} | {
            each.member: each.time for each in self.expiries
        }

    def gone(self, member: str, until: int | None = None) -> bool:
        """Whether a member left, or its session ended, in the transition or up to a moment of it."""
        time = self.ended.get(member)
        return time is not None and (until is None or time <= until)


def present_in(generation: Generation, memberships: Memberships) -> dict[str, None]:
    """Return the members of a generation when it ended: of static members that returned, the latest ID."""
    members = dict(generation.members)
    for join in generation.later:
        instance = join.instance
        if instance and join.member not in members:
            for old in [old for old in members if memberships.of(old).instance == instance]:
                del members[old]
        members[join.member] = None
    return members


def find_transitions(
    calls: Sequence[Call], generations: Sequence[Generation], memberships: Memberships, now: int
) -> list[Transition]:
    """Return the transitions in the order of time; the last may lead nowhere, because nothing was going on.

    :param now: the end of the capture
    """
    out: list[Transition] = []
    joins = [call for call in calls if isinstance(call, Join)]
    for place in range(len(generations) + 1):
        before = generations[place - 1] if place else None
        after = generations[place] if place < len(generations) else None
        if after is not None and before is None and not after.joined:
            continue  # the capture begins in the midst of it
        out += _between(before, after, joins, memberships, now)
    return out


def _between(
    before: Generation | None,
    after: Generation | None,
    joins: Sequence[Join],
    memberships: Memberships,
    now: int,
) -> list[Transition]:
    begin = 0 if before is None or not (before.joined or before.listed) else before.formed
    end = now if after is None else after.formed
    anew = before is not None and after is not None and after.id <= before.id
    answered = {id(join) for join in before.joins + before.later} if before is not None else set()
    # what was under way when a generation was formed came too late for it, and belongs to the next
    sent = [join for join in after.joins if join.time < begin] if after is not None else []
    latest = after.id if after is not None and not anew else _NO_LIMIT
    within = [
        join for join in _within(joins, begin, end) if id(join) not in answered and join.answered <= latest
    ]
    transition = Transition(
        before=before,
        previous=-1 if before is None else before.id,
        begin=begin,
        end=end,
        generation=after,
        present={} if before is None else present_in(before, memberships),
        whole=before is not None and before.whole,
        joins=sent + within,
        departures=_within(memberships.departures, begin, end),
    )
    transition = replace(transition, expiries=_expiries(transition, memberships))
    emptied = _forgotten_at(transition) if anew else _emptied_at(transition, memberships)
    if emptied is not None:
        first, second = _split(transition, emptied)
        # the coordinator forgets empty groups after a while, and begins to count anew
        second.previous = -1 if anew else second.previous
        return [first, second]
    if (between := _unseen_at(transition)) is not None:
        first, second = _split(transition, between)
        first.emptied, first.unseen, second.whole = False, True, False
        return [first, second]
    return [transition]


def _within(found: Sequence[_Timed], begin: int, end: int) -> Sequence[_Timed]:
    """Return what lies in a time, of what is in the order of time."""
    first = bisect_left(found, begin, key=lambda each: each.time)
    return found[first : bisect_right(found, end, key=lambda each: each.time)]


def _expiries(transition: Transition, memberships: Memberships) -> list[Expiry]:
    """Return the sessions that ended: of members that are not among the next and did not leave."""
    stayed = members_of(transition.generation, memberships)
    out = []
    for member in transition.present:
        membership = memberships.of(member)
        if transition.gone(member) or member in stayed or membership.instance in stayed:
            continue
        if membership.refused(ErrorCode.FENCED_INSTANCE_ID) is not None:
            continue  # its place in the group was taken by another with its instance ID
        found = _expiry(membership, memberships, transition)
        if found is not None:
            out.append(found)
    return sorted(out, key=lambda each: each.time)


def members_of(generation: Generation | None, memberships: Memberships) -> set[str | None]:
    """Return the IDs of the members of a generation, and the instance IDs of the static ones; none if there is none."""
    if generation is None:
        return set()
    known = {*generation.members, *generation.heard}
    return {*known, *(instance for member in known if (instance := memberships.of(member).instance))}


def _expiry(membership: Membership, memberships: Memberships, transition: Transition) -> Expiry | None:
    sign, session = membership.last_sign(transition.end), memberships.session_timeout(membership)
    if session is None or not membership.seen:
        return None
    if membership.signs and membership.signs[-1].begin > transition.end:
        return None  # it was heard of later, as a member
    time, number = sign if sign is not None else (transition.begin, 0)
    if transition.before is not None and time < transition.before.formed:
        # its answer was not seen to come, but with it the session began anew
        time = transition.before.formed if transition.before.joined else time
    counted = memberships.counted_from(time, transition.end)
    ends = counted + session
    # without a generation that lacks it, nothing shows that it is gone but the time
    slack = min(LATE, session // 5) if transition.generation is not None else 0
    gone = min(membership.unknown_since or transition.end, transition.end)
    if counted > time and transition.generation is not None and time + session <= gone < ends - slack:
        ends = counted  # its coordinator had loaded the group sooner than it took connections
    if transition.generation is None and _goes_on(transition, memberships, ends + LATE):
        return None  # the others would have been told
    if membership.unknown_since is not None and membership.unknown_since < ends - slack:
        return None  # the coordinator did not know it any more before
    return (
        Expiry(membership.member, min(ends, transition.end), time, number)
        if ends <= transition.end + slack
        else None
    )


def _goes_on(transition: Transition, memberships: Memberships, time: int) -> bool:
    """Whether heartbeats show after a moment that the generation before is still there."""
    before = transition.before
    return before is not None and any(
        memberships.of(member).beat_well(before.id, time) for member in transition.present
    )


def _emptied_at(transition: Transition, memberships: Memberships) -> int | None:
    """Return when the last member was gone; None if a member stayed, or that is not known."""
    before, after = transition.before, transition.generation
    if (
        before is None
        or not transition.present
        or not all(transition.gone(member) for member in transition.present)
    ):
        return None
    if after is not None and after.id == before.id + 1:
        return None
    if after is not None and not all(memberships.of(member).seen for member in after.members):
        return None  # there are members that were not captured, who may have been there all the time
    time = max(transition.ended[member] for member in transition.present)
    waiting = [
        join
        for join in transition.joins
        if join.time < time and not _refused(join) and not transition.gone(join.member, time)
    ]
    return None if waiting else time


def _forgotten_at(transition: Transition) -> int:
    """Return when a group was empty that counts its generations anew: after the last ending that was seen."""
    endings = [time for who, time in transition.ended.items() if who in transition.present]
    came = [
        join.time for join in transition.joins if join.member not in transition.present and not _refused(join)
    ]
    return max(endings, default=min(came, default=transition.end))


def _unseen_at(transition: Transition) -> int | None:
    """Return when a member's going led to a generation without any member that was seen; None if there is none such.

    Where a member goes and comes back, and the rest of the group was not captured, the numbers tell that there was
    one.
    """
    before, after = transition.before, transition.generation
    if before is None or after is None or after.id < before.id + 2:
        return None
    first = min((time for who, time in transition.ended.items() if who in transition.present), default=None)
    came = [join for join in transition.joins if join.member not in transition.present and not _refused(join)]
    return first if first is not None and came and all(join.time > first for join in came) else None


def _refused(join: Join) -> bool:
    return join.error not in (0, ErrorCode.MEMBER_ID_REQUIRED)


def _split(transition: Transition, time: int) -> list[Transition]:
    """Return the transition that emptied the group, and what came after."""
    first = Transition(
        before=transition.before,
        previous=transition.previous,
        begin=transition.begin,
        end=time,
        emptied=True,
        present=transition.present,
        whole=transition.whole,
        expiries=transition.expiries,
        departures=[each for each in transition.departures if each.time <= time],
        joins=[each for each in transition.joins if each.time <= time],
    )
    second = Transition(
        before=None,
        previous=transition.previous + 1,
        begin=time,
        end=transition.end,
        generation=transition.generation,
        whole=True,
        departures=[each for each in transition.departures if each.time > time],
        joins=[each for each in transition.joins if each.time > time],
    )
    return [first, second]
