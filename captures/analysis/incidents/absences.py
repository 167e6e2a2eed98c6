"""Times in which the process of a member was away."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from captures.analysis.groups.calls import Call, GroupCalls, Join
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import Cause, GroupTimeline, TopicPartition
from captures.analysis.groups.namesakes import Namesakes
from captures.analysis.groups.vocabulary import Certainty, SessionEnd, TimeoutCause, Trigger
from dissectors.error_codes import ErrorCode

# A process that comes back is identified by its instance ID, or else by its client ID and host: it has new connections,
# and joins without a member ID or is another member. A process that rejoins on one of its connections never ended.

_OVERLAP = 100_000_000
"""ns by which the last call of the former member and the first of the next may overlap."""
_MOST_IDS = 100
"""Latest member IDs of an instance that an absence has: it may rejoin several times before the next assignment."""


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which a member's process was away.

    :ivar who: its label
    :ivar identity: what identifies it when it comes back
    :ivar begin: time of its last sign of life
    :ivar end: when it joined again; None if that was not seen
    :ivar session_end: how its session ended; None if it left, or was back before
    :ivar left: whether it sent LeaveGroup
    :ivar given_up: when the coordinator removed the former member; None if it did not have to
    :ivar static: whether it has an instance ID
    :ivar session: its session timeout in ns; None if unknown
    :ivar members: member IDs before and after
    :ivar places: partitions that it had
    :ivar evidence: numbers of exchanges
    """

    who: str
    identity: tuple[str, str]
    begin: int
    end: int | None
    session_end: SessionEnd | None
    left: bool
    given_up: int | None
    static: bool
    session: int | None
    members: tuple[str, ...]
    places: frozenset[TopicPartition]
    evidence: tuple[int, ...]

    @property
    def crashed(self) -> bool:
        """Whether its process died, surely or possibly."""
        return self.session_end is not None and self.session_end.cause is TimeoutCause.PROCESS_DIED

    @property
    def certainty(self) -> Certainty:
        """The certainty of how it ended."""
        return Certainty.INFERRED if self.session_end is None else self.session_end.certainty

    @property
    def partitions(self) -> str:
        """The partitions that it had, in words."""
        return partitions(self.places)


def absences(timeline: GroupTimeline, calls: GroupCalls | None) -> list[Absence]:
    """Return the absences of a group's members, in the order of their starts."""
    labels = Labels(timeline)
    found = [*_dynamic(timeline, labels), *_static(timeline, calls, labels)]
    return sorted(found, key=lambda each: each.begin)


def _dynamic(timeline: GroupTimeline, labels: Labels) -> Iterator[Absence]:
    timeouts = _causes(timeline, Trigger.SESSION_TIMEOUT)
    departures = _causes(timeline, Trigger.MEMBER_LEFT)
    known = [member for member in timeline.members if member.instance is None]
    namesakes, assignments = Namesakes(known), _Assignments(timeline)
    for member in known:
        timeout, departure = timeouts.get(member.member), departures.get(member.member)
        if timeout is None and departure is None:
            continue
        begin = member.last if timeout is None or timeout.silence is None else timeout.time - timeout.silence
        after = namesakes.after(member, begin - _OVERLAP - 1)
        if after is None and timeout is None:
            continue  # a member that left is not absent
        same = after is not None and bool(set(after.connections) & set(member.connections))
        why = None if timeout is None or timeout.session_end is None else timeout.session_end.cause
        if same and why in (None, TimeoutCause.PROCESS_DIED, TimeoutCause.CLOSED_IN_ORDER):
            continue  # it was never away
        cause = timeout or departure
        yield Absence(
            who=labels.of("", member.client) if after is not None else labels.of(member.member),
            identity=(member.client, member.host),
            begin=begin,
            end=None if after is None else after.first,
            session_end=None if timeout is None else timeout.session_end,
            left=timeout is None,
            given_up=None if timeout is None else timeout.time,
            static=False,
            session=member.session_timeout,
            members=(member.member, *(() if after is None else (after.member,))),
            places=assignments.of((member.member,), begin),
            evidence=() if cause is None else cause.evidence,
        )


class _Instance(msgspec.Struct):
    """The state of an instance ID while the calls are read.

    :ivar members: its member IDs, in order
    :ivar connections: connections of its process
    :ivar last: time of its last sign of life; None before the first
    :ivar fenced: whether one of its member IDs was fenced: its process continued when another one replaced it
    """

    members: dict[str, None] = {}
    connections: set[int] = set()
    last: int | None = None
    fenced: bool = False

    def returns(self, call: Call) -> bool:
        """Return whether a call is the first of a process that replaces it."""
        rejoins = isinstance(call, Join) and not call.asked_as and bool(self.members)
        return rejoins and call.connection not in self.connections and not self.fenced

    def latest_members(self) -> tuple[str, ...]:
        """Return its latest :data:`_MOST_IDS` member IDs, in order."""
        return tuple(islice(reversed(self.members), _MOST_IDS))[::-1]


def _static(timeline: GroupTimeline, calls: GroupCalls | None, labels: Labels) -> Iterator[Absence]:
    timeouts = _Timeouts(timeline)
    members, assignments = timeline.by_id(), _Assignments(timeline)
    reported: set[int] = set()
    every = [] if calls is None else calls.ordered()
    fenced = {call.member for call in every if call.error == ErrorCode.FENCED_INSTANCE_ID}
    instances: dict[str, _Instance] = {}
    names: dict[str, str] = {}
    for call in every:
        name = call.instance or names.get(call.member)
        if not name or not call.member or call.error:
            continue
        names.setdefault(call.member, name)
        instance = instances.setdefault(name, _Instance())
        if instance.last is not None and instance.returns(call):
            timeout = timeouts.between(name, instance.last, call.time)
            if timeout is not None:
                reported.add(id(timeout))
            member, former = members.get(call.member), instance.latest_members()
            yield Absence(
                who=labels.of(call.member, name),
                identity=(name, ""),
                begin=instance.last,
                end=call.time,
                session_end=None if timeout is None else timeout.session_end,
                left=False,
                given_up=None if timeout is None else timeout.time,
                static=True,
                session=None if member is None else member.session_timeout,
                members=(*former, call.member),
                places=assignments.of(former, instance.last),
                evidence=(
                    *(() if timeout is None else timeout.evidence),
                    *((call.number,) if call.number else ()),
                ),
            )
            instance.connections = set()
        instance.members[call.member] = None
        instance.fenced |= call.member in fenced
        instance.connections.add(call.connection)
        instance.last = max(instance.last or 0, call.latest)
    for timeout in timeouts:
        if id(timeout) in reported:
            continue
        begin = timeout.time - (timeout.silence or 0)
        member = members.get(timeout.member)
        yield Absence(
            who=labels.of(timeout.member, timeout.client),
            identity=(timeout.instance or "", ""),
            begin=begin,
            end=None,
            session_end=timeout.session_end,
            left=False,
            given_up=timeout.time,
            static=True,
            session=None if member is None else member.session_timeout,
            members=(timeout.member,),
            places=assignments.of((timeout.member,), begin),
            evidence=timeout.evidence,
        )


class _Timeouts:
    """Session timeouts of static members, by instance ID and in the order of time."""

    def __init__(self, timeline: GroupTimeline) -> None:
        self._causes: dict[str, list[Cause]] = {}
        for rebalance in timeline.rebalances:
            for cause in rebalance.causes:
                if cause.session_end is not None and cause.instance is not None:
                    self._causes.setdefault(cause.instance, []).append(cause)
        for causes in self._causes.values():
            causes.sort(key=_time_of)

    def __iter__(self) -> Iterator[Cause]:
        for causes in self._causes.values():
            yield from causes

    def between(self, instance: str, begin: int, end: int) -> Cause | None:
        """Return the first timeout of an instance from `begin` to `end`; None if there is none."""
        causes = self._causes.get(instance, [])
        index = bisect_left(causes, begin, key=_time_of)
        return causes[index] if index < len(causes) and causes[index].time <= end else None


def _causes(timeline: GroupTimeline, trigger: Trigger) -> dict[str, Cause]:
    return {
        cause.member: cause
        for rebalance in timeline.rebalances
        for cause in rebalance.causes
        if cause.trigger is trigger
    }


class _Assignments:
    """The assignments of a group over time."""

    def __init__(self, timeline: GroupTimeline) -> None:
        self._times: list[int] = []
        self._assigned: list[Mapping[str, Iterable[TopicPartition]]] = []
        for rebalance in timeline.rebalances:
            if rebalance.assigned:
                self._times.append(rebalance.time)
                self._assigned.append(rebalance.assigned)

    def of(self, members: tuple[str, ...], time: int) -> frozenset[TopicPartition]:
        """Return the partitions at `time` of a member with any of the IDs `members`."""
        index = bisect_right(self._times, time)
        assigned = self._assigned[index - 1] if index else {}
        return frozenset(each for member in members for each in assigned.get(member, ()))


def _time_of(cause: Cause) -> int:
    return cause.time
