"""Members that were away: who ended and came back, told from calls, member IDs and connections.

A process that comes back is known by its instance ID, or else by its client ID and host: it has new connections, and
joins without a member ID or is another member. One that joins anew on a connection that it had is the same process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from captures.analysis.groups.calls import GroupCalls, Join
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import (
    Cause,
    Certainty,
    GroupMember,
    GroupTimeline,
    SessionEnd,
    TimeoutCause,
    TopicPartition,
    Trigger,
)
from dissectors.error_codes import ErrorCode

_OVERLAP = 100_000_000
"""ns by which the last word of the former and the first of the next member may overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A time in which a member's process was away.

    :ivar who: what it is called
    :ivar identity: by which it is known when it comes back
    :ivar begin: of its last sign of life
    :ivar end: when it joined again; None if it was not seen to
    :ivar session_end: how its session ended; None if it left, or was back before
    :ivar left: whether it sent LeaveGroup
    :ivar given_up: when the coordinator gave the former member up; None if it did not have to
    :ivar static: whether it has an instance ID
    :ivar session: ns; its session timeout; None if not known
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
        """Whether its process died, for sure or possibly."""
        return self.session_end is not None and self.session_end.cause is TimeoutCause.PROCESS_DIED

    @property
    def certainty(self) -> Certainty:
        """How sure it is how it ended."""
        return Certainty.INFERRED if self.session_end is None else self.session_end.certainty

    @property
    def partitions(self) -> str:
        """The partitions that it had, in words."""
        return partitions(self.places)


def absences(timeline: GroupTimeline, calls: GroupCalls | None) -> list[Absence]:
    """Return the absences of a group's members, in the order of their beginnings."""
    labels = Labels(timeline)
    found = [*_dynamic(timeline, labels), *_static(timeline, calls, labels)]
    return sorted(found, key=lambda each: each.begin)


def _dynamic(timeline: GroupTimeline, labels: Labels) -> Iterator[Absence]:
    timeouts = _causes(timeline, Trigger.SESSION_TIMEOUT)
    departures = _causes(timeline, Trigger.MEMBER_LEFT)
    known = [member for member in timeline.members if member.instance is None]
    for member in known:
        timeout, departure = timeouts.get(member.member), departures.get(member.member)
        if timeout is None and departure is None:
            continue
        begin = member.last if timeout is None or timeout.silence is None else timeout.time - timeout.silence
        after = _next(member, known, begin)
        if after is None and timeout is None:
            continue  # it left, which is no absence
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
            places=_had(timeline, (member.member,), begin),
            evidence=() if cause is None else cause.evidence,
        )


def _next(member: GroupMember, known: list[GroupMember], begin: int) -> GroupMember | None:
    """Return the member that a process is when it comes back."""
    later = [
        other
        for other in known
        if other is not member
        and (other.client, other.host) == (member.client, member.host)
        and other.first >= begin - _OVERLAP
        and other.first > member.first
    ]
    return min(later, key=lambda other: other.first, default=None)


def _static(timeline: GroupTimeline, calls: GroupCalls | None, labels: Labels) -> Iterator[Absence]:
    timeouts = [
        cause
        for rebalance in timeline.rebalances
        for cause in rebalance.causes
        if cause.session_end is not None and cause.instance is not None
    ]
    told: set[int] = set()
    ids: dict[str, list[str]] = {}
    last: dict[str, int] = {}
    connections: dict[str, set[int]] = {}
    every = [] if calls is None else calls.ordered()
    # who is fenced lived on when another took its instance ID
    fenced = {call.member for call in every if call.error == ErrorCode.FENCED_INSTANCE_ID}
    for call in every:
        instance = call.instance or next((name for name, mine in ids.items() if call.member in mine), None)
        if not instance or not call.member or call.error:
            continue
        mine = ids.setdefault(instance, [])
        begin = last.get(instance)
        fresh = call.connection not in connections.setdefault(instance, set())
        if (
            isinstance(call, Join)
            and not call.asked_as
            and mine
            and begin is not None
            and fresh
            and not fenced & set(mine)
        ):
            timeout = next(
                (each for each in timeouts if each.instance == instance and begin <= each.time <= call.time),
                None,
            )
            if timeout is not None:
                told.add(id(timeout))
            member = timeline.member(call.member)
            yield Absence(
                who=labels.of(call.member, instance),
                identity=(instance, ""),
                begin=begin,
                end=call.time,
                session_end=None if timeout is None else timeout.session_end,
                left=False,
                given_up=None if timeout is None else timeout.time,
                static=True,
                session=None if member is None else member.session_timeout,
                members=(*mine, call.member),
                places=_had(timeline, tuple(mine), begin),
                evidence=(
                    *(() if timeout is None else timeout.evidence),
                    *((call.number,) if call.number else ()),
                ),
            )
            connections[instance] = set()
        if call.member not in mine:
            mine.append(call.member)
        connections[instance].add(call.connection)
        last[instance] = max(last.get(instance, 0), call.latest)
    for timeout in timeouts:
        if id(timeout) in told:
            continue
        begin = timeout.time - (timeout.silence or 0)
        member = timeline.member(timeout.member)
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
            places=_had(timeline, (timeout.member,), begin),
            evidence=timeout.evidence,
        )


def _causes(timeline: GroupTimeline, trigger: Trigger) -> dict[str, Cause]:
    return {
        cause.member: cause
        for rebalance in timeline.rebalances
        for cause in rebalance.causes
        if cause.trigger is trigger
    }


def _had(timeline: GroupTimeline, members: tuple[str, ...], time: int) -> frozenset[TopicPartition]:
    """Return what a member had at a moment, by any of its IDs."""
    for rebalance in reversed(timeline.rebalances):
        if rebalance.time <= time and rebalance.assigned:
            return frozenset(
                place for member in members for place in rebalance.assigned.get(member, frozenset())
            )
    return frozenset()
