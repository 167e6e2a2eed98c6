"""Generations of a classic group, and the transitions between them.

All members of a generation get the response to their JoinGroup at the same time; the leader's lists them all. A static
member that returns is answered alone, with the current generation (KIP-345), and so is a member that rejoins without
need: such responses belong to no rebalance.

A transition leads to the next generation, or empties the group, or lasts to the end of the capture. If the members are
known, their departures show whether the group was empty in between: the coordinator counts that as a separate
generation (``GroupMetadata.initNextGeneration``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import msgspec

from captures.analysis.groups.calls import Call, Join, Subscription, Sync, WorkerOrders
from captures.analysis.groups.classic.memberships import Departure, Membership, Memberships
from captures.analysis.groups.model import Tasks, TopicPartition
from dissectors.error_codes import ErrorCode

_Given = TypeVar("_Given")
_OF_THIS_GENERATION = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})


@dataclass
class Generation:
    """One generation.

    :ivar id: generation ID
    :ivar formed: time of the JoinGroup responses; time of the first sign of it, if they were not seen
    :ivar number: number of the first exchange that shows it
    :ivar joined: whether a JoinGroup of it was seen
    :ivar joins: JoinGroups that formed it, in the order of requests
    :ivar later: JoinGroups answered with it later, without a rebalance
    :ivar syncs: in the order of requests
    :ivar listed: member ID -> instance ID, from the leader's response; empty if that was not seen
    :ivar subscriptions: member ID -> subscription
    :ivar running: member ID -> what a worker of Kafka Connect ran when it joined
    :ivar contacts: members with calls in this generation
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
    contacts: dict[str, None] = field(default_factory=dict)

    @cached_property
    def members(self) -> dict[str, None]:
        """The members, as far as known; to be read only after all calls were added."""
        named = {self.leader: None} if self.leader else {}
        known = self.listed or {call.member: None for call in self.joins} | self.contacts | named
        return dict.fromkeys(known)

    @property
    def whole(self) -> bool:
        """Whether all members are known."""
        return bool(self.listed)

    @cached_property
    def assigned(self) -> dict[str, frozenset[TopicPartition]]:
        """The partitions of the members whose assignment was seen; to be read only after all calls were added."""
        out: dict[str, frozenset[TopicPartition]] = {}
        for sync in self.syncs:
            if not sync.error:
                out.update(sync.given)
        for sync in self.syncs:
            # a static member that returned later keeps the partitions of its former ID
            if sync.assigned is not None and sync.member in self.members:
                out[sync.member] = sync.assigned
        for member, orders in self.orders.items():
            if (runs := orders.after(self.running.get(member))) is not None:
                out[member] = runs
        if any(sync.gives_all and not sync.error and sync.protocol_type == "consumer" for sync in self.syncs):
            # the leader may leave out members without partitions
            for member in self.listed:
                out.setdefault(member, frozenset())
        return out

    @property
    def tasks(self) -> dict[str, Tasks]:
        """The tasks of Kafka Streams members whose assignment was seen."""
        return self._of_members(sync.tasks for sync in self.syncs if not sync.error)

    @cached_property
    def orders(self) -> dict[str, WorkerOrders]:
        """The assignments of Kafka Connect workers, as far as seen."""
        return self._of_members(sync.orders for sync in self.syncs if not sync.error)

    def _of_members(self, found: Iterable[Mapping[str, _Given]]) -> dict[str, _Given]:
        return {member: given for each in found for member, given in each.items() if member in self.members}


def find_generations(calls: Iterable[Call]) -> list[Generation]:
    """Return the generations that were seen, in the order of time."""
    out: list[Generation] = []
    for time, call, generation in _mentions(calls):
        latest = out[-1] if out else None
        if latest is None or _begins(latest, call, generation):
            latest = Generation(generation, time, call.number)
            out.append(latest)
        elif generation != latest.id:
            continue  # late response of an earlier one
        _include(latest, call)
    for each in out:
        each.joins.sort(key=lambda join: (join.time, join.number))
    return out


def _mentions(calls: Iterable[Call]) -> list[tuple[int, Call, int]]:
    """Return the calls that show a generation, with time and generation ID, in the order of time."""
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
    """Return whether a member cannot belong to a generation with the same ID: the group restarted its count."""
    known = {**latest.listed, **latest.contacts}
    return (
        join.time > latest.formed
        and join.instance is None
        and join.member not in known
        and (not join.asked_as or bool(latest.listed))
    )


def _include(generation: Generation, call: Call) -> None:
    generation.contacts.setdefault(call.member)
    if isinstance(call, Sync):
        generation.syncs.append(call)
    if not isinstance(call, Join):
        return
    if call.time >= generation.formed:
        generation.later.append(call)
        if not generation.listed:
            generation.listed.update(call.members)  # in the response to a returning leader (KIP-814)
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
"""ns by which a session may seem to end too late: the last request seen may not be the last one received."""


class Expiry(msgspec.Struct, frozen=True):
    """The end of a member's session.

    :ivar time: when the coordinator removed the member
    :ivar since: time of its last sign of life
    :ivar number: number of the exchange with its last sign of life
    """

    member: str
    time: int
    since: int
    number: int


@dataclass(slots=True, kw_only=True)
class Transition:
    """A change from one state of a group to the next.

    :ivar before: previous generation; None if it was not seen
    :ivar previous: previous generation ID, including that of an empty group; -1 if unknown
    :ivar begin: its earliest possible start
    :ivar end: when its generation was formed, or the group became empty; the end of the capture if it is running
    :ivar generation: new generation; None if the group became empty, or the transition is running
    :ivar emptied: whether it left the group without members
    :ivar unseen: whether it led to a generation of which nothing was seen
    :ivar present: IDs of the members at its start, as far as known
    :ivar whole: whether all members at its start are known
    :ivar expiries: sessions that ended in it
    :ivar departures: members that a LeaveGroup removed in it
    :ivar joins: JoinGroups that were sent in it, in the order of time
    :ivar ended: IDs of the members that left or whose sessions ended in it, with the time
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
        """Return whether a member left, or its session ended, in the transition, at `until` at the latest."""
        time = self.ended.get(member)
        return time is not None and (until is None or time <= until)


def present_in(generation: Generation, memberships: Memberships) -> dict[str, None]:
    """Return the members of a generation when it ended: for static members that returned, the latest ID."""
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
    """Return the transitions in the order of time; the last one may be no change at all.

    :param now: the end of the capture
    """
    out: list[Transition] = []
    joins = [call for call in calls if isinstance(call, Join)]
    for index in range(len(generations) + 1):
        before = generations[index - 1] if index else None
        after = generations[index] if index < len(generations) else None
        if after is not None and before is None and not after.joined:
            continue  # the capture begins during it
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
    # requests in flight when a generation was formed were too late for it, and belong to the next
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
        # the coordinator deletes empty groups after a while, and restarts the count
        second.previous = -1 if anew else second.previous
        return [first, second]
    if (between := _unseen_at(transition)) is not None:
        first, second = _split(transition, between)
        first.emptied, first.unseen, second.whole = False, True, False
        return [first, second]
    return [transition]


def _within(found: Sequence[_Timed], begin: int, end: int) -> Sequence[_Timed]:
    """Return the elements of a time-ordered sequence from `begin` to `end`, both included."""
    first = bisect_left(found, begin, key=lambda each: each.time)
    return found[first : bisect_right(found, end, key=lambda each: each.time)]


def _expiries(transition: Transition, memberships: Memberships) -> list[Expiry]:
    """Return the ended sessions: of members that are missing in the next generation and did not leave."""
    found = [
        _expiry(membership, memberships, transition)
        for membership in missing_in_next(transition, memberships)
        # otherwise its place in the group was taken by another with its instance ID
        if membership.refused(ErrorCode.FENCED_INSTANCE_ID) is None
    ]
    return sorted((each for each in found if each is not None), key=lambda each: each.time)


def missing_in_next(transition: Transition, memberships: Memberships) -> Iterator[Membership]:
    """Yield the members that are missing in the next generation, though nothing ended their membership."""
    generation = transition.generation
    stayed = {*generation.members, *generation.contacts} if generation is not None else set()
    instances = {memberships.of(member).instance for member in stayed} - {None}
    for member in transition.present:
        membership = memberships.of(member)
        if not transition.gone(member) and member not in stayed and membership.instance not in instances:
            yield membership


def _expiry(membership: Membership, memberships: Memberships, transition: Transition) -> Expiry | None:
    sign, session = membership.last_sign(transition.end), memberships.session_timeout(membership)
    if session is None or not membership.seen:
        return None
    if membership.signs and membership.signs[-1].begin > transition.end:
        return None  # it was still a member later
    time, number = sign if sign is not None else (transition.begin, 0)
    if transition.before is not None and time < transition.before.formed:
        # its response was not seen, but restarted the session
        time = transition.before.formed if transition.before.joined else time
    counted = memberships.counted_from(time, transition.end)
    ends = counted + session
    # without a generation that lacks it, only the time shows that it is gone
    slack = min(LATE, session // 5) if transition.generation is not None else 0
    gone = min(membership.unknown_since or transition.end, transition.end)
    if counted > time and transition.generation is not None and time + session <= gone < ends - slack:
        ends = counted  # its coordinator had loaded the group before it accepted connections
    if transition.generation is None and _continues(transition, memberships, ends + LATE):
        return None  # the others would have learned of it
    if membership.unknown_since is not None and membership.unknown_since < ends - slack:
        return None  # the coordinator had forgotten it before
    return (
        Expiry(membership.member, min(ends, transition.end), time, number)
        if ends <= transition.end + slack
        else None
    )


def _continues(transition: Transition, memberships: Memberships, time: int) -> bool:
    """Return whether heartbeats after `time` show that the previous generation still exists."""
    before = transition.before
    return before is not None and any(
        memberships.of(member).beat_well(before.id, time) for member in transition.present
    )


def _emptied_at(transition: Transition, memberships: Memberships) -> int | None:
    """Return when the last member was gone; None if a member stayed, or that is unknown."""
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
        return None  # members that were not captured may have been there all the time
    time = max(transition.ended[member] for member in transition.present)
    waiting = [
        join
        for join in transition.joins
        if join.time < time and not _refused(join) and not transition.gone(join.member, time)
    ]
    return None if waiting else time


def _forgotten_at(transition: Transition) -> int:
    """Return when a group was empty that restarted its generation count: after the last departure or expiry seen."""
    endings = [time for who, time in transition.ended.items() if who in transition.present]
    came = [
        join.time for join in transition.joins if join.member not in transition.present and not _refused(join)
    ]
    return max(endings, default=min(came, default=transition.end))


def _unseen_at(transition: Transition) -> int | None:
    """Return when a departure led to a generation of which no member was seen; None if there is no such generation.

    If a member leaves and returns, and the rest of the group was not captured, generation IDs show that there was one.
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
    """Return the transition that emptied the group, and the one after it."""
    first = replace(
        transition,
        end=time,
        generation=None,
        emptied=True,
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
