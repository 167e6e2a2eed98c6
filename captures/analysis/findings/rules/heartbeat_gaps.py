"""Members whose heartbeats are so late that their sessions nearly time out."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_group
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import RowGroups
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences
from captures.analysis.findings.of_groups import NO_GROUPS, named
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit, times
from captures.analysis.groups.calls import HEARTBEATS, group_of
from captures.analysis.groups.vocabulary import Kind
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import number, text
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS

_OF_MEMBERS = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})
"""Errors in responses to members whose session continues."""

_MOST = 2
"""Number of session timeouts: after a longer silence a member was removed, or traffic was not captured."""
MOST_CLIENTS = 100
"""Most clients with late heartbeats that are named of one group."""
MOST_MEMBERS = 50_000
"""Most members whose last sign of life is kept; the ones silent longest are dropped."""


class _LastContact(msgspec.Struct):
    """The last sign of life of a member.

    :ivar time: latest time at which its session was surely renewed
    :ivar number: number of the exchange that renewed it
    :ivar session: session timeout in ns; 0 if unknown
    :ivar broker: the coordinator at that time
    """

    time: int
    number: int
    session: int
    broker: str


class _LateHeartbeats(msgspec.Struct):
    """Late heartbeats in one group.

    :ivar clients: client IDs, or addresses
    :ivar longest: longest time between two, in ns
    :ivar share: percentage of the session timeout
    :ivar session: session timeout at that time, in ns
    :ivar kind: kind of group
    """

    kind: Kind
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    clients: set[str] = set()
    longest: int = 0
    share: float = 0.0
    session: int = 0


class _Gaps(NamedTuple):
    """Calls of a member in a part of a capture.

    :ivar first: time of the first request, ns since the epoch
    :ivar last: end of the last call
    :ivar longest: longest time from the end of a call to the next, ns; -1 if there is one call
    :ivar touched: whether kproxy intervened in one: 0 or 1
    """

    first: int
    last: int
    longest: int
    touched: int


class _Calls(NamedTuple):
    """Calls of members in a part of a capture.

    :ivar session: shortest session timeout in ms; infinite if there is none
    :ivar members: by group and member
    """

    session: float
    members: Mapping[tuple[str, str], _Gaps]


class HeartbeatGaps(Rule):
    """Measures the time between two signs of life of each member."""

    name = "heartbeat_gaps"
    effect_of = EffectOf.MEMBERS
    title = "Heartbeats that come close to the session timeout"
    about = (
        "A coordinator removes a member that was silent for session.timeout.ms. Every Heartbeat, JoinGroup, "
        "SyncGroup and OffsetCommit of a classic member restarts that time (GroupCoordinator). Heartbeats are due"
        " every heartbeat.interval.ms, a third of it by default. If a member comes close, a slightly longer pause"
        " causes a rebalance. The session timeout of the newer protocols (KIP-848, KIP-932, KIP-1071) is a broker"
        " setting that is not on the wire."
    )
    apis = frozenset({
        ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, *HEARTBEATS,
    })  # fmt: skip
    thresholds = (
        Threshold("share", 75, Unit.PERCENT, "share of the session timeout that a member may be silent"),
        Threshold("session", 45_000, Unit.MILLISECONDS, "session timeout of groups of the newer protocols"),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._calls = False
        self._timeouts = False  # a session timeout
        self._contacts: OrderedDict[tuple[str, str], _LastContact] = OrderedDict()
        self._late: dict[str, _LateHeartbeats] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        """Return a mask of all calls of members that may be late, and of one as evidence that calls exist.

        The evidence is the first call with a session timeout, if there is one.
        """
        member, timeout = (rows.columns.flat(name) for name in ("member", "session_timeout_ms"))
        calls = rows.of_api(self.apis or ()) & (member >= 0) & (rows.group >= 0)
        newer = calls & rows.of_api(HEARTBEATS)
        sessions = [*timeout[calls & (timeout > 0)].tolist(), *[self.limit("session")] * bool(newer.any())]
        kinds = RowGroups(rows.group[calls], member[calls])
        groups, members = (rows.columns.texts(name) for name in ("groups", "member"))
        first = np.flatnonzero(calls)[kinds.first]
        codes = zip(rows.group[first].tolist(), member[first].tolist(), strict=True)
        keys = [(groups[group] or "", members[code] or "") for group, code in codes]
        own = _Calls(min(sessions, default=math.inf), dict(zip(keys, _gaps(rows, calls, kinds), strict=True)))
        late = rows.merged("gaps between calls", own, partial(_late, share=self.limit("share")), _of_part)
        found = rows.nothing
        found[calls] = np.array([key in late for key in keys], np.bool_)[kinds.of]
        telling = newer | calls & (timeout > 0)
        # every part of a capture reports all three
        evidence = [
            (rows.ever(f"are {what}", among), rows.earliest(what, among))
            for what, among in (
                ("successful calls with a session timeout", telling & ~rows.erroneous),
                ("calls with a session timeout", telling),
                ("calls of known members", calls),
            )
        ]
        shown = next((among for there, among in evidence if there), rows.nothing)
        found[np.flatnonzero(shown)[:1]] = True
        return found

    def add(self, exchange: Exchange) -> None:
        group = group_of(exchange)
        request = exchange.request_body
        response = exchange.response_body
        if not group or not request:
            return
        member = text(request, "member_id") or text(response, "member_id")
        if not member:
            return
        self._calls = True
        key = group, member
        if exchange.api_key == ApiKey.LEAVE_GROUP or number(request, "member_epoch", 0) < 0:
            self._contacts.pop(key, None)
            return
        if any(error.code not in _OF_MEMBERS for error in exchange.errors):
            self._contacts.pop(key, None)  # it may be no member any more: this is more than a gap
            return
        self._measure(key, exchange, number(request, "session_timeout_ms", 0) * MS)

    def intervened(self, exchange: Exchange) -> None:
        """Restart with the member: its coordinator did not get the call, or the member not the response."""
        request = exchange.request_body
        self._contacts.pop((group_of(exchange) or "", text(request or {}, "member_id")), None)

    def _measure(self, key: tuple[str, str], exchange: Exchange, timeout: int) -> None:
        # while JoinGroup and SyncGroup wait, the session does not run
        end = exchange.end
        contact = self._contacts.get(key)
        if exchange.api_key == ApiKey.OFFSET_COMMIT and (contact is None or not contact.session):
            return  # in the newer protocols commits do not renew the session
        self._timeouts = self._timeouts or bool(timeout) or exchange.api_key in HEARTBEATS
        # another coordinator restarts the session
        if contact is not None and exchange.time > contact.time and exchange.broker == contact.broker:
            self._judge(key, contact, exchange)
        session = timeout or (contact.session if contact is not None else 0)
        latest = max(end, contact.time if contact is not None else 0)
        self._contacts[key] = _LastContact(latest, exchange.number, session, exchange.broker)
        self._contacts.move_to_end(key)
        if len(self._contacts) > MOST_MEMBERS:
            self._contacts.popitem(last=False)

    def _judge(self, key: tuple[str, str], contact: _LastContact, exchange: Exchange) -> None:
        kind = HEARTBEATS.get(exchange.api_key or 0, Kind.CLASSIC)
        session = round(self.limit("session") * MS) if kind is not Kind.CLASSIC else contact.session
        gap = exchange.time - contact.time
        if session <= 0 or gap * 100 < session * self.limit("share") or gap > session * _MOST:
            return
        late = self._late.setdefault(key[0], _LateHeartbeats(kind))
        if len(late.clients) < MOST_CLIENTS:
            late.clients.add(client_name(exchange))
        late.seen.note(exchange.number, exchange.time)
        late.seen.show(contact.number)
        share = 100 * gap / session
        if share > late.share:
            late.longest, late.share, late.session = gap, share, session

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each group."""
        for group, late in self._late.items():
            yield self.finding(
                f"group {group}",
                f"{named(late.clients)} sent nothing to group {words.line(group)} for up to {span(late.longest)}, "
                f"{late.share:.0f}% of the session timeout ({span(late.session)}), {times(late.seen.count)}.",
                _advice(late.kind),
                late.seen,
                group=group,
                filter_text=of_group(group),
            )

    def blind(self) -> str:
        if not self._calls:
            return NO_GROUPS
        if self._timeouts:
            return ""
        return "no JoinGroup of a member was captured, which would contain its session timeout"


def _gaps(rows: DecisionColumns, calls: Bools, kinds: RowGroups) -> Iterator[_Gaps]:
    """Yield the gaps of each member.

    :param calls: mask of the calls
    :param kinds: the members, in the rows of the calls
    """
    if not len(kinds):
        return
    call, order = np.flatnonzero(calls), np.argsort(kinds.of, kind="stable")
    time, same = rows.columns.flat("time")[call], np.diff(kinds.of[order]) == 0
    ends, gaps = time + np.maximum(rows.latency[call], 0), np.full(len(call), -1)
    gaps[order[1:][same]] = (time[order[1:]] - ends[order[:-1]])[same]
    last, touched = order[np.append(~same, True)], ~rows.untouched[call]
    columns = (time[kinds.first].tolist(), ends[last].tolist())
    yield from map(_Gaps, *columns, kinds.greatest(gaps), kinds.greatest(touched.astype(np.int64)))


def _late(parts: Sequence[_Calls], share: float) -> set[tuple[str, str]]:
    """Return the members with a gap that may be late, or with calls in which kproxy intervened."""
    # rounding may add a member, but never drops one
    least = min(part.session for part in parts) * MS * share / 100 - 1
    found, ends = set[tuple[str, str]](), dict[tuple[str, str], int]()
    for part in parts:
        for member, gaps in part.members.items():
            since = gaps.first - ends.get(member, gaps.first)
            if gaps.touched or max(gaps.longest, since) >= least:
                found.add(member)
            ends[member] = gaps.last
    return found


def _of_part(late: set[tuple[str, str]], own: _Calls) -> set[tuple[str, str]]:
    return late & own.members.keys()


def _advice(kind: Kind) -> str:
    # in the newer protocols, brokers set both
    scope = "" if kind is Kind.CLASSIC else f"group.{kind}."
    session = f"{scope}session.timeout.ms"
    return (
        "Look for pauses of that process (garbage collection, CPU limits) and a slow network. Keep "
        f"{scope}heartbeat.interval.ms at a third of {session} or less, or raise {session}."
    )
