"""Calls of group members to their coordinators: late heartbeats, refused members, failed commits."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_group
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import RowGroups
from captures.analysis.findings.common import one_of, some_of, unexpected
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import NO_GROUPS, named
from captures.analysis.findings.rule import Rule, Threshold, Unit, times
from captures.analysis.groups.calls import HEARTBEATS, OF_MEMBERS, group_of
from captures.analysis.groups.vocabulary import Kind
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import items, number, rows, text
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name
from dissectors.error_codes import BY_CODE, COORDINATOR_AWAY, ErrorCode, error_name
from dissectors.units import MS

# ---------------------------------------------------------------- refused members

MOST_SEEN = 20
"""Most clients, instance IDs and protocols that are named for one group."""


class RefusedCalls(msgspec.Struct):
    """Calls to one group that failed with one error.

    :ivar clients: client IDs, or addresses
    :ivar members: member IDs, if they had one
    :ivar instances: their group.instance.ids
    :ivar offered: assignors that they support, one text for each combination
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    clients: set[str] = set()
    members: set[str] = set()
    instances: set[str] = set()
    offered: set[str] = set()


class RefusedMembers(Rule):
    """Counts calls of members that fail with certain errors, by group.

    :cvar advice: error that it looks for -> what to do
    """

    severity = Severity.HIGH
    apis = OF_MEMBERS
    advice: ClassVar[Mapping[int, str]]
    unseen = NO_GROUPS

    _refused: dict[tuple[str, int], RefusedCalls] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        """Return a mask of the calls with these errors, and of evidence that calls exist."""
        return rows.with_errors(self.advice) | rows.evidence_of(rows.of_api(OF_MEMBERS))

    def add(self, exchange: Exchange) -> None:
        self.saw_any = True
        code = next((error.code for error in exchange.errors if error.code in self.advice), 0)
        group = group_of(exchange) if code else ""
        if not group:
            return
        refused = self._refused.setdefault((group, code), RefusedCalls())
        refused.seen.add(exchange)
        request = exchange.request_body
        _note(refused.clients, client_name(exchange))
        _note(refused.members, text(request, "member_id"))
        instance = request.get("group_instance_id") or request.get("instance_id")
        if isinstance(instance, str):
            _note(refused.instances, instance)
        names = [text(row, "name") for row in rows(request, "protocols")]
        _note(
            refused.offered, " ".join(filter(None, names)) or " ".join(map(str, items(request, "protocols")))
        )

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each group and error."""
        for (group, code), refused in self._refused.items():
            yield self.finding(
                f"group {group}, {error_name(code)}",
                self.sentence(words.line(group), code, refused),
                self.advice[code],
                refused.seen,
                filter_text=f"{of_group(group)} and error.any == {error_name(code)}",
                severity=self.how_grave(code, refused),
            )

    def sentence(self, group: str, code: int, refused: RefusedCalls) -> str:
        raise NotImplementedError

    def how_grave(self, code: int, refused: RefusedCalls) -> Severity:
        return self.severity


def _note(known: set[str], name: str) -> None:
    if name and len(known) < MOST_SEEN:
        known.add(name)


def listed(names: set[str]) -> str:
    """Return some names, fit for a sentence."""
    return some_of(sorted(words.clipped(words.line(name), 60) for name in names))


# ---------------------------------------------------------------- heartbeat_gaps

_OF_MEMBERS = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})
"""Errors in responses to members whose session continues."""

_MOST_SESSIONS = 2
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
        Threshold("session", 45_000, Unit.MS, "session timeout of groups of the newer protocols"),
    )

    _calls: bool = False
    _timeouts: bool = False  # a session timeout
    _contacts: OrderedDict[tuple[str, str], _LastContact] = msgspec.field(default_factory=OrderedDict)
    _late: dict[str, _LateHeartbeats] = {}

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
        late = rows.merged(
            "gaps between calls", own, partial(_late_members, share=self.limit("share")), _late_in_part
        )
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
        if session <= 0 or gap * 100 < session * self.limit("share") or gap > session * _MOST_SESSIONS:
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
                _heartbeat_advice(late.kind),
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


def _late_members(parts: Sequence[_Calls], share: float) -> set[tuple[str, str]]:
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


def _late_in_part(late: set[tuple[str, str]], own: _Calls) -> set[tuple[str, str]]:
    return late & own.members.keys()


def _heartbeat_advice(kind: Kind) -> str:
    # in the newer protocols, brokers set both
    scope = "" if kind is Kind.CLASSIC else f"group.{kind}."
    session = f"{scope}session.timeout.ms"
    return (
        "Look for pauses of that process (garbage collection, CPU limits) and a slow network. Keep "
        f"{scope}heartbeat.interval.ms at a third of {session} or less, or raise {session}."
    )


# ---------------------------------------------------------------- commit_failures

_OF_REBALANCES = frozenset({
    ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH,
})  # fmt: skip
_OF_OTHER_RULES = COORDINATOR_AWAY | {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}  # fmt: skip
"""Errors that authorization_failures and coordinator_unavailable find."""
_ADVICE_PASSES = (
    "Usually harmless: the client commits again in the new generation. Commit before partitions are revoked "
    "(in onPartitionsRevoked), and find out why the group rebalances."
)
_ADVICE_AFTER_REBALANCE = (
    "The member had been removed from the group, so other members process its records again. Find out why it "
    "was removed (findings session_timeouts, slow_polls), and commit in smaller steps."
)
_ADVICE_OUTSIDE = (
    "A client outside the group can set its offsets only while the group has no members: stop these first "
    "(also before kafka-consumer-groups.sh --reset-offsets). An application that assigns partitions itself "
    "needs a group.id of its own."
)
_ADVICE_OTHERWISE = "Check the broker's log for errors about this group."


class _FailureKey(NamedTuple):
    """The key by which failures are combined.

    :ivar outside: whether the committing client is no member of the group, and does not claim to be one
    """

    group: str
    code: int
    outside: bool


class _Failures(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    clients: set[str] = set()


class CommitFailures(Rule):
    """Counts failed commits, by group and error."""

    name = "commit_failures"
    effect_of = EffectOf.MEMBERS
    title = "Commits that failed"
    about = (
        "OffsetCommit and TxnOffsetCommit fail with ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID "
        "if the member has been removed or replaced, and with REBALANCE_IN_PROGRESS between two generations. "
        "Records that were processed but not committed are processed again. A client that is no member, but "
        "commits for a group with members, also gets UNKNOWN_MEMBER_ID. Errors of a normal conversation do not "
        "count, such as STALE_MEMBER_EPOCH in a KIP-848 group when the client retries at once."
    )
    apis = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
    of_groups = True
    thresholds = (
        Threshold(
            "stuck", 30_000, Unit.MS, "how long a group may be without a successful commit after one failed"
        ),
    )

    MOST_CLIENTS = 20
    """Most clients that are kept of a group and an error."""

    _failures: dict[_FailureKey, _Failures] = {}
    _succeeded: dict[str, int] = {}
    _commits: int = 0

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        """Return a mask of the failed commits, and the latest successful one of each group."""
        commits = rows.of_api(self.apis or ())
        return rows.erroneous | rows.last_of_groups(commits & rows.answered & ~rows.erroneous)

    def add(self, exchange: Exchange) -> None:
        group = group_of(exchange)
        if not group or exchange.response is None:
            return
        self._commits += 1
        codes = {error.code for error in unexpected(exchange)} - _OF_OTHER_RULES
        if not exchange.errors:
            self._succeeded[group] = max(self._succeeded.get(group, 0), exchange.time)
        for code in codes:
            key = _FailureKey(group, code, code in _OF_REBALANCES and _is_outside(exchange))
            failures = self._failures.setdefault(key, _Failures())
            failures.seen.add(exchange)
            if len(failures.clients) < self.MOST_CLIENTS:
                failures.clients.add(client_name(exchange))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each group and error, separately for members and others."""
        members = {
            timeline.group: {member.client for member in timeline.members} for timeline in self.context.groups
        }
        for key, failures in self._failures.items():
            # a client that names no member may be one, or have been one just before
            outside = key.outside and not failures.clients <= members.get(key.group, set())
            seen, name = failures.seen, error_name(key.code)
            stuck = self._stuck(key.group, seen)
            api = one_of("api", (api_name(each) for each in sorted(self.apis)))
            about = ", from outside" if outside else ", without a member ID" if key.outside else ""
            summary = self._summary(key._replace(outside=outside), failures)
            yield self.finding(
                f"group {key.group}, {name}{about}",
                f"{summary}{f', and none succeeded in {span(stuck)}' if stuck else ''}.",
                _ADVICE_OUTSIDE if outside else self._advice(key.code),
                seen,
                group=key.group,
                filter_text=f"{of_group(key.group)} and {api} and error == {name}",
                severity=Severity.HIGH
                if stuck
                else Severity.LOW
                if key.code == ErrorCode.REBALANCE_IN_PROGRESS
                else Severity.MEDIUM,
            )

    @staticmethod
    def _summary(key: _FailureKey, failures: _Failures) -> str:
        group, how_often = words.line(key.group), times(failures.seen.count)
        clients = some_of(sorted(words.line(client) for client in failures.clients))
        failed = f"failed {how_often} with {error_name(key.code)}"
        if key.outside:
            return f"Commits of {clients} for group {group}, of which they are not members, {failed}"
        return f"Commits of group {group} {failed} (by {clients})"

    def _stuck(self, group: str, seen: Occurrences) -> int:
        """Return the time in ns in which commits failed and none succeeded; 0 if it is short."""
        since = max(self._succeeded.get(group, 0), seen.first)
        lasts = seen.last - since
        return lasts if since == seen.first and lasts >= self.limit("stuck") * MS else 0

    @staticmethod
    def _advice(code: int) -> str:
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return _ADVICE_PASSES
        if code in _OF_REBALANCES:
            return _ADVICE_AFTER_REBALANCE
        known = BY_CODE.get(code)
        return _ADVICE_OTHERWISE if known is None else known.advice

    def blind(self) -> str:
        return "" if self._commits else NO_GROUPS if not self.context.groups else "no commit was captured"


def _is_outside(exchange: Exchange) -> bool:
    request = exchange.request_body
    generation = number(request, "generation_id_or_member_epoch", number(request, "generation_id"))
    return not text(request, "member_id") and not request.get("group_instance_id") and generation < 0


# ---------------------------------------------------------------- inconsistent_protocols


class InconsistentProtocols(RefusedMembers):
    """Finds clients that have no assignor in common with their group."""

    name = "inconsistent_protocols"
    title = "Clients whose assignors do not match the group"
    about = (
        "All members of a classic group have to support one assignor in common, and one protocol type. The "
        "coordinator refuses others with INCONSISTENT_GROUP_PROTOCOL: the Java consumer then ends, librdkafka "
        "retries every few seconds. This happens if partition.assignment.strategy is changed in one step, if "
        "client libraries with different defaults share a group, or if Connect or a schema registry uses the "
        "group of a consumer."
    )
    advice: ClassVar = {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
            "Give all members the same partition.assignment.strategy, or use another group.id. To change the strategy"
            " without downtime, first roll out both the old and the new one, then the new one alone (KIP-429)."
        )
    }

    def sentence(self, group: str, code: int, refused: RefusedCalls) -> str:
        offered = f" with {listed(refused.offered)}" if refused.offered else ""
        return (
            f"{listed(refused.clients)} could not join group {group}{offered}: not all of its members support that "
            f"(refused {times(refused.seen.count)})."
        )


# ---------------------------------------------------------------- group_full


class GroupFull(RefusedMembers):
    """Finds clients that a full group rejects."""

    name = "group_full"
    title = "Groups that accept no more members"
    about = (
        "A broker accepts group.max.size members in a classic group (KIP-389) and group.consumer.max.size in a "
        "KIP-848 group. It refuses more with GROUP_MAX_SIZE_REACHED."
    )
    advice: ClassVar = {
        ErrorCode.GROUP_MAX_SIZE_REACHED: (
            "Check whether so many members are intended, or come from a consumer leak or an autoscaler. If they are "
            "intended, raise group.max.size or group.consumer.max.size of the brokers."
        )
    }

    def sentence(self, group: str, code: int, refused: RefusedCalls) -> str:
        return f"Group {group} is full: {listed(refused.clients)} could not join (refused {times(refused.seen.count)})."


# ---------------------------------------------------------------- instance_conflicts

_UNRELEASED = ErrorCode.UNRELEASED_INSTANCE_ID


class InstanceConflicts(RefusedMembers):
    """Finds two processes with one group.instance.id."""

    name = "instance_conflicts"
    title = "Processes that share a group.instance.id"
    about = (
        "A static member (KIP-345) is known by its group.instance.id. If a second process uses the same one, a "
        "classic coordinator accepts it and refuses the first from then on (FENCED_INSTANCE_ID). A KIP-848 "
        "coordinator refuses the second until the session of the first ends (UNRELEASED_INSTANCE_ID), even if the"
        " first has crashed and this is its successor."
    )
    advice: ClassVar = {
        ErrorCode.FENCED_INSTANCE_ID: (
            "Give every process a group.instance.id of its own, such as the name of its pod, and let the old process "
            "end before the new one starts."
        ),
        _UNRELEASED: (
            "Give every process a group.instance.id of its own. If it replaces one that crashed, let it retry "
            "until group.consumer.session.timeout.ms is over, or shorten that."
        ),
    }
    of_groups = True

    thresholds = (
        Threshold(
            "shut_out",
            2,
            Unit.COUNT,
            "members shut out of a group, from which the severity is high; fewer are medium",
        ),
    )

    def how_grave(self, code: int, refused: RefusedCalls) -> Severity:
        """Return the severity: a process that is fenced once may have been about to end anyway."""
        fight = code == _UNRELEASED or len(refused.members) >= self.limit("shut_out")
        return Severity.HIGH if fight else Severity.MEDIUM

    def sentence(self, group: str, code: int, refused: RefusedCalls) -> str:
        instances = f" {listed(refused.instances)}" if refused.instances else ""
        who = listed(refused.clients)
        if code == _UNRELEASED:
            owned = (
                f"their group.instance.ids{instances} belong to members whose sessions have not ended"
                if len(refused.instances) > 1
                else f"its group.instance.id{instances} belongs to a member whose session has not ended"
            )
            holders = self._holders(group, code)
            owned += f" ({holders})" if holders else ""
            return f"{who} could not join group {group}: {owned} (refused {times(refused.seen.count)})."
        were = "were" if len(refused.clients) > 1 else "was"
        return (
            f"{who} {were} shut out of group {group} {times(refused.seen.count)}: "
            f"{self._holders(group, code) or 'another process'} joined with its group.instance.id{instances}."
        )

    def _holders(self, group: str, code: int) -> str:
        """Return the clients that have the instance IDs; empty if unknown, or if they share a client ID."""
        refused = [
            each
            for timeline in self.context.groups
            if words.line(timeline.group) == group
            for each in timeline.refused
            if each.error == code
        ]
        named = {each.holder for each in refused if each.holder} - {each.client for each in refused}
        return listed(named) if named else ""
