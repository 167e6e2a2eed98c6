"""Commits that the coordinator refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from captures.analysis.conditions import of_group
from captures.analysis.findings.common import MS, asked, lasted, one_of, some_of, unexpected
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import NO_GROUPS
from captures.analysis.findings.rule import Rule, Scene, Threshold, Unit, times
from captures.analysis.groups.calls import group_of
from captures.analysis.introductions import client_name
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import number, text
from dissectors.apis import api_name
from dissectors.error_codes import BY_CODE, BY_NAME, error_name

OFFSET_COMMIT, TXN_OFFSET_COMMIT = 8, 28

_OF_REBALANCES = frozenset(
    BY_NAME[name].code
    for name in (
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "FENCED_MEMBER_EPOCH",
        "STALE_MEMBER_EPOCH",
    )
)
_OF_OTHER_RULES = frozenset(
    BY_NAME[name].code
    for name in (
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    )
)
"""Of authorization_failures and coordinator_unavailable."""
_PASSES = BY_NAME["REBALANCE_IN_PROGRESS"].code
_ADVICE_PASSES = (
    "Usually harmless: the commit is tried again in the new generation. Commit before partitions are revoked (in "
    "onPartitionsRevoked), and see why the group rebalances."
)
_ADVICE_AFTER_REBALANCE = (
    "The member had lost its membership when it committed, so that what it had processed is processed again by others. "
    "Find out why it was removed (session_timeouts, slow_polls), and commit in smaller steps."
)
_ADVICE_OUTSIDE = (
    "Offsets of a group can be set from outside only while it has no members: stop these before (also before "
    "kafka-consumer-groups --reset-offsets). An application that assigns partitions itself needs a group.id of its own."
)
_OTHER_ADVICE = "See what the broker says in its log about this group."


class _Key(NamedTuple):
    """What failures have in common.

    :ivar outside: whether who commits is no member of the group, and does not say it is
    """

    group: str
    code: int
    outside: bool


@dataclass(slots=True)
class _Failures:
    seen: Occurrences = field(default_factory=Occurrences)
    clients: set[str] = field(default_factory=set)


class CommitFailures(Rule):
    """Counts commits that failed, by group and error."""

    name = "commit_failures"
    title = "Commits that failed"
    about = (
        "OffsetCommit and TxnOffsetCommit fail with ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID if "
        "the member was removed or replaced meanwhile, with REBALANCE_IN_PROGRESS between two generations. Records "
        "that were processed and not committed are processed again. Who is no member, and commits for a group that "
        "has some, gets UNKNOWN_MEMBER_ID too. Errors that belong to a normal conversation, such as "
        "STALE_MEMBER_EPOCH in a group of KIP-848 that is tried again at once, are not counted."
    )
    severity = Severity.MEDIUM
    apis = frozenset({OFFSET_COMMIT, TXN_OFFSET_COMMIT})
    of_groups = True
    thresholds = (
        Threshold(
            "stuck", 30_000, Unit.MILLISECONDS, "how long no commit of a group may succeed after one failed"
        ),
    )

    MOST_CLIENTS = 20
    """Of a group and an error, so many are remembered."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._failures: dict[_Key, _Failures] = {}
        self._succeeded: dict[str, int] = {}
        self._commits = 0

    def add(self, exchange: Exchange) -> None:
        """Look at one commit."""
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
        """Yield one finding for each group and error, and whether it is a member's."""
        for key, failures in self._failures.items():
            seen, name = failures.seen, error_name(key.code)
            stuck = self._stuck(key.group, seen)
            api = one_of("api", (api_name(each) for each in sorted(self.apis)))
            yield self.finding(
                f"group {key.group}, {name}{', from outside' if key.outside else ''}",
                f"{self._told(key, failures)}{f', and none succeeded in {lasted(stuck)}' if stuck else ''}.",
                _ADVICE_OUTSIDE if key.outside else self._advice(key.code),
                seen,
                filter_text=f"{of_group(key.group)} and {api} and error == {name}",
                severity=Severity.HIGH if stuck else Severity.LOW if key.code == _PASSES else Severity.MEDIUM,
            )

    @staticmethod
    def _told(key: _Key, failures: _Failures) -> str:
        group, how_often = words.line(key.group), times(failures.seen.count)
        clients = some_of(sorted(words.line(client) for client in failures.clients))
        failed = f"failed {how_often} with {error_name(key.code)}"
        if key.outside:
            return f"Commits of {clients} for group {group}, of which it is no member, {failed}"
        return f"Commits of group {group} {failed} (by {clients})"

    def _stuck(self, group: str, seen: Occurrences) -> int:
        """Return ns in which commits failed and none succeeded; 0 if that is not long."""
        since = max(self._succeeded.get(group, 0), seen.first)
        lasts = seen.last - since
        return lasts if since == seen.first and lasts >= self.limit("stuck") * MS else 0

    @staticmethod
    def _advice(code: int) -> str:
        if code == _PASSES:
            return _ADVICE_PASSES
        if code in _OF_REBALANCES:
            return _ADVICE_AFTER_REBALANCE
        known = BY_CODE.get(code)
        return _OTHER_ADVICE if known is None else known.advice

    def blind(self) -> str:
        """Return why it could not judge."""
        return "" if self._commits else NO_GROUPS if not self.scene.groups else "no commit was captured"


def _is_outside(exchange: Exchange) -> bool:
    request = asked(exchange)
    generation = number(request, "generation_id_or_member_epoch", number(request, "generation_id"))
    return not text(request, "member_id") and not request.get("group_instance_id") and generation < 0
