"""Commits that the coordinator refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_group
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import one_of, some_of, unexpected
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import NO_GROUPS
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit, times
from captures.analysis.groups.calls import group_of
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import number, text
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name
from dissectors.error_codes import BY_CODE, COORDINATOR_AWAY, ErrorCode, error_name
from dissectors.units import MS

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
_OTHER_ADVICE = "Check the broker's log for errors about this group."


class _Key(NamedTuple):
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
            "stuck",
            30_000,
            Unit.MILLISECONDS,
            "how long a group may be without a successful commit after one failed",
        ),
    )

    MOST_CLIENTS = 20
    """Most clients that are kept of a group and an error."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._failures: dict[_Key, _Failures] = {}
        self._succeeded: dict[str, int] = {}
        self._commits = 0

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
            key = _Key(group, code, code in _OF_REBALANCES and _is_outside(exchange))
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
    def _summary(key: _Key, failures: _Failures) -> str:
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
        return _OTHER_ADVICE if known is None else known.advice

    def blind(self) -> str:
        return "" if self._commits else NO_GROUPS if not self.context.groups else "no commit was captured"


def _is_outside(exchange: Exchange) -> bool:
    request = exchange.request_body
    generation = number(request, "generation_id_or_member_epoch", number(request, "generation_id"))
    return not text(request, "member_id") and not request.get("group_instance_id") and generation < 0
