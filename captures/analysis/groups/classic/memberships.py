"""Members of a classic group one by one: their signs of life, the errors they received, and how they ended.

A membership is one member ID. The coordinator gives a new ID to each member that joins again, including static ones
(KIP-345); the instance ID shows which memberships belong together.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, TypeVar

import msgspec

from captures.analysis.groups.calls import Call, Commit, HeartbeatRun, Join, Leave, Run, Sync
from dissectors.error_codes import ErrorCode

_AnyCall = TypeVar("_AnyCall", bound=Call)
_LIVING = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
"""Errors of responses with which the coordinator restarts the session."""
_UUID = re.compile(r"-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


class Departure(msgspec.Struct, kw_only=True):
    """A member that a LeaveGroup removed.

    :ivar time: when the coordinator handled the request
    :ivar reason: in words (KIP-800); empty if none is given
    :ivar by_admin: whether another client sent the request (an administrator)
    """

    time: int
    call: Leave
    member: str
    instance: str | None
    reason: str
    by_admin: bool


class SignOfLife(NamedTuple):
    """A time in which the coordinator saw a member as alive.

    :ivar number: number of the last exchange that shows it
    """

    begin: int
    end: int
    number: int


@dataclass(slots=True)
class Membership:
    """One member ID.

    :ivar client: client ID, or address without one; the readable part of the member ID if it has no calls
    :ivar calls: calls of the member, in the order of time, without those with which others remove it
    :ivar joins: its JoinGroups among them
    :ivar signs: times in which calls kept its session alive, in the order of starts
    :ivar left: how a LeaveGroup removed it; None if none did
    :ivar unknown_since: when the coordinator first said that it does not know the member; None if it did not
    :ivar by_heartbeats: whether commits do not keep its session alive: those of JoinGroup v0 did not (0.9.0.1)
    """

    member: str
    client: str = ""
    host: str = ""
    instance: str | None = None
    calls: list[Call] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    signs: list[SignOfLife] = field(default_factory=list)
    left: Departure | None = None
    session_timeout: int | None = None
    rebalance_timeout: int | None = None
    by_heartbeats: bool = False
    unknown_since: int | None = None
    _latest: list[tuple[int, int]] = field(default_factory=list, repr=False)
    """For each sign, the latest end up to it, and the number of that exchange."""
    _notified_beats: list[HeartbeatRun] = field(default_factory=list, repr=False)
    _notified_calls: list[Call] = field(default_factory=list, repr=False)

    @property
    def seen(self) -> bool:
        """Whether calls of it were seen."""
        return bool(self.calls)

    @property
    def connections(self) -> list[int]:
        """IDs of the connections of its calls, in order."""
        return list(dict.fromkeys(call.connection for call in self.calls))

    def add(self, call: Call, answered: int) -> None:
        """Add a call of the member, later than those before.

        :param answered: assumed time of the response to a JoinGroup or SyncGroup, if it was not seen
        """
        self.calls.append(call)
        self.client, self.host = call.client, call.host
        self.instance = call.instance or self.instance
        if isinstance(call, Join):
            self.joins.append(call)
            self.session_timeout = call.session_timeout or self.session_timeout
            self.rebalance_timeout = call.rebalance_timeout or self.rebalance_timeout
            self.by_heartbeats = self.by_heartbeats or call.one_timeout
        elif call.error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.is_unknown(call.at)
        elif call.error == ErrorCode.REBALANCE_IN_PROGRESS and call.end is not None:
            if isinstance(call, HeartbeatRun):
                self._notified_beats.append(call)
            else:
                self._notified_calls.append(call)
        sign = None if self.by_heartbeats and isinstance(call, Commit) else _sign(call, answered)
        if sign is not None:
            self.signs.append(sign)
            known = self._latest[-1] if self._latest else (sign.end, sign.number)
            self._latest.append(max(known, (sign.end, sign.number)))

    def is_unknown(self, time: int) -> None:
        """Record that the coordinator did not know the member at `time`."""
        self.unknown_since = time if self.unknown_since is None else min(self.unknown_since, time)

    def last_sign(self, until: int) -> tuple[int, int] | None:
        """Return its last sign of life up to `until`, and the number of that exchange; None if there is none."""
        index = bisect_right(self.signs, until, key=lambda sign: sign.begin)
        if not index:
            return None
        time, number = self._latest[index - 1]
        return min(time, until), number

    def joins_before(self, time: int) -> Iterator[Join]:
        """Yield the JoinGroups that it sent before `time`, the latest first."""
        position = bisect_left(self.joins, time, key=lambda join: join.time)
        return (self.joins[index] for index in range(position - 1, -1, -1))

    def first_notice(self, after: int, until: int) -> Call | None:
        """Return the first response after `after` and up to `until` that announced a rebalance, except JoinGroup's."""
        found: list[Call] = [
            *_in_time(self._notified_beats, after, until),
            *_in_time(self._notified_calls, after, until),
        ]
        return min(found, key=lambda call: call.at, default=None)

    def notices(self, after: int, until: int) -> int:
        """Return the number of heartbeats after `after` and up to `until` whose response announced a rebalance."""
        return sum(call.count for call in _in_time(self._notified_beats, after, until))

    def refused(self, error: int, until: int | None = None) -> Call | None:
        """Return the first call that was answered with `error`, at `until` at the latest."""
        return next(
            (call for call in self.calls if call.error == error and (until is None or call.at <= until)), None
        )

    def beat_well(self, generation: int, after: int) -> bool:
        """Return whether a heartbeat of `generation` was answered without an error after `after`."""
        return any(
            isinstance(call, HeartbeatRun)
            and not call.error
            and call.generation == generation
            and call.last > after
            for call in reversed(self.calls)
        )

    def interval(self) -> int | None:
        """Return the median time between its heartbeats in ns; None if there were too few."""
        gaps = [
            (run.last - run.time) // (run.count - 1)
            for run in self.calls
            if isinstance(run, HeartbeatRun) and run.count > 1
        ]
        return round(median(gaps)) if gaps else None


def _in_time(calls: Sequence[_AnyCall], after: int, until: int) -> list[_AnyCall]:
    """Return the calls that were answered after `after` and up to `until`, including runs that overlap that time."""
    out = []
    for index in range(bisect_right(calls, until, key=lambda call: call.time) - 1, -1, -1):
        call = calls[index]
        if (call.last_end or call.end or 0) <= after:
            break
        if call.at <= until:
            out.append(call)
    return out


def _sign(call: Call, answered: int) -> SignOfLife | None:
    """Return the time in which a call keeps the session alive; None if it does not."""
    if isinstance(call, Run):
        if (
            call.error not in _LIVING
            or call.end is None
            or (isinstance(call, Commit) and call.generation < 0)
        ):
            return None
        return SignOfLife(call.time, call.last_end or call.end, call.last_number)
    if isinstance(call, Join | Sync):
        if call.error not in _LIVING:
            return None
        # a member that waits for the response is alive to the coordinator (ClassicGroupMember.hasSatisfiedHeartbeat)
        return SignOfLife(call.time, answered if call.end is None else call.end, call.number)
    return None


class Memberships:
    """The members of a group by ID.

    :param calls: in the order of time
    :param formed: when generations were formed, and so JoinGroups answered; in the order of time
    :param reloads: when a coordinator had loaded the group, in the order of time: all sessions restart then
        (``GroupMetadataManager.onLoaded``)
    :param now: the end of the capture
    :ivar by_instance: instance ID -> its member IDs
    :ivar departures: members that left or were removed by LeaveGroup, in the order of time
    :ivar newcomers: connection -> its JoinGroups without a member ID, in the order of time
    """

    def __init__(
        self, calls: Iterable[Call], formed: Sequence[int], reloads: Sequence[int], now: int
    ) -> None:
        self._reloads = reloads
        self._memberships: dict[str, Membership] = {}
        self.by_instance: dict[str, list[str]] = {}
        self.departures: list[Departure] = []
        self.newcomers: dict[int, list[Join]] = {}
        leaves = []
        busy: dict[int, int] = {}
        for call in calls:
            if isinstance(call, Join | Sync) and call.end is not None:
                busy[call.connection] = max(busy.get(call.connection, 0), call.end)
            if isinstance(call, Leave):
                # brokers answer one request of a connection before they read the next (SocketServer mutes it)
                leaves.append((max(call.time, busy.get(call.connection, 0) + 1), call))
            elif call.member and (not isinstance(call, Commit) or call.generation >= 0):
                index = bisect_right(formed, call.time)
                self.of(call.member).add(call, formed[index] if index < len(formed) else max(now, call.time))
                if isinstance(call, Join) and not call.asked_as:
                    self.newcomers.setdefault(call.connection, []).append(call)
        sessions = [membership.session_timeout for membership in self._memberships.values()]
        self._longest_session = max((known for known in sessions if known), default=None)
        for membership in self._memberships.values():
            if membership.instance:
                self.by_instance.setdefault(membership.instance, []).append(membership.member)
        for handled, leave in sorted(leaves, key=lambda each: each[0]):
            self._leave(leave, handled)

    def __iter__(self) -> Iterator[Membership]:
        return iter(self._memberships.values())

    def of(self, member: str) -> Membership:
        """Return the membership of a member ID, an empty one if nothing of it was seen."""
        membership = self._memberships.get(member)
        if membership is None:
            membership = self._memberships[member] = Membership(member, _UUID.sub("", member))
        return membership

    def counted_from(self, sign: int, until: int) -> int:
        """Return the start of a member's session at `until`, if its last sign of life was at `sign`.

        A coordinator that loads the group restarts all sessions, however long members were silent before.
        """
        index = bisect_right(self._reloads, until)
        return max(self._reloads[index - 1], sign) if index else sign

    def session_timeout(self, membership: Membership) -> int | None:
        """Return the session timeout of a member; if unknown, the longest of the group's other members."""
        return membership.session_timeout or self._longest_session

    def know(self, member: str, instance: str | None) -> None:
        """Record a member that a response to another member names."""
        membership = self.of(member)
        if instance and membership.instance is None:
            membership.instance = instance
            self.by_instance.setdefault(instance, []).append(member)

    def _leave(self, call: Leave, handled: int) -> None:
        if call.error not in (0, ErrorCode.UNKNOWN_MEMBER_ID):
            return
        for named, instance, reason, code in call.gone:
            member = named or self._of_instance(instance, call.time)
            if member and ErrorCode.UNKNOWN_MEMBER_ID in (code, call.error):
                self.of(member).is_unknown(call.at)
            if code or call.error or not member:
                continue
            membership = self.of(member)
            same_client = call.connection in membership.connections or (call.client, call.host) == (
                membership.client,
                membership.host,
            )
            departure = Departure(
                time=handled,
                call=call,
                member=member,
                instance=instance or membership.instance,
                reason=reason,
                by_admin="by an admin" in reason or (membership.seen and not same_client),
            )
            membership.left = membership.left or departure
            self.departures.append(departure)

    def _of_instance(self, instance: str | None, time: int) -> str:
        """Return the member ID of a static member at `time`; empty if unknown."""
        known = [
            member
            for member in self.by_instance.get(instance or "", ())
            if any(call.time <= time for call in self.of(member).calls)
        ]
        return known[-1] if known else ""
