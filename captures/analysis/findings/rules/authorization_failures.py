"""What was denied to whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from captures.analysis.conditions import of_client
from captures.analysis.findings.common import UNNAMED, error_names, some_of, topic_of, unexpected, with_errors
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, Scene, times
from captures.analysis.introductions import client_name, connection_key
from captures.exchanges import Exchange
from captures.meaning import ErrorFound, groups_in, transactional_ids_in
from captures.meaning.exchange import text

_TOPIC, _GROUP, _CLUSTER, _TRANSACTION, _TOKEN = 29, 30, 31, 53, 65
_CODES = frozenset({_TOPIC, _GROUP, _CLUSTER, _TRANSACTION, _TOKEN})
_WORK = frozenset({0, 1, 8, 9, 10, 11, 14, 22, 24, 25, 28, 68, 76, 78, 88})
"""APIs that applications cannot work without: produce, fetch, commit, groups, transactions."""
_OPERATIONS = {
    **dict.fromkeys((0, 22, 24, 25), "Write"),
    **dict.fromkeys((1, 8, 11, 12, 13, 14, 28, 68, 76, 78, 88), "Read"),
    **dict.fromkeys((2, 3, 9, 10, 15, 23, 61, 75), "Describe"),
    19: "Create",
    20: "Delete",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    37: "Alter",
    44: "AlterConfigs",
}
"""API key -> operation that KafkaApis.scala asks the authorizer for."""


@dataclass(slots=True)
class _Denied:
    seen: Occurrences = field(default_factory=Occurrences)
    apis: dict[str, int | None] = field(default_factory=dict)
    resources: dict[str, None] = field(default_factory=dict)
    clients: dict[str, None] = field(default_factory=dict)


class AuthorizationFailures(Rule):
    """Finds requests that were denied."""

    name: ClassVar[str] = "authorization_failures"
    title: ClassVar[str] = "Authorization that is missing"
    about: ClassVar[str] = (
        "The broker's authorizer denied an operation on a topic, a group, the cluster or a transactional ID (KIP-11,"
        " AclAuthorizer and StandardAuthorizer). A topic that a client may not describe looks to it as if it were not"
        " there, and some clients ask for it again without end."
    )
    severity: ClassVar[Severity] = Severity.MEDIUM
    apis: ClassVar[frozenset[int] | None] = None

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._introductions = scene.shared.introductions
        self._denied: dict[tuple[str, int], _Denied] = {}

    def add(self, exchange: Exchange) -> None:
        self._introductions.add(exchange)
        for error in unexpected(exchange, _CODES):
            client = client_name(exchange)
            who = self._introductions.known.of(connection_key(exchange)).principal or client
            denied = self._denied.setdefault((who, error.code), _Denied())
            denied.seen.add(exchange)
            denied.apis[exchange.api] = exchange.api_key
            denied.clients[client] = None
            for resource in self._resources(exchange, error):
                denied.resources[resource] = None

    def _resources(self, exchange: Exchange, error: ErrorFound) -> list[str]:
        """Return what the operation was to be done on."""
        key, body = exchange.api_key, exchange.request
        if error.code == _TOPIC:
            topic = topic_of(error, self.scene.names)
            return [topic if topic != UNNAMED else text(error.holders[-1], "resource_name", UNNAMED)]
        if key is None or body is None or body.version is None:
            return []
        if error.code == _GROUP:
            return groups_in(key, body.version, body.value)
        if error.code == _TRANSACTION:
            return transactional_ids_in(key, body.version, body.value)
        return []

    def findings(self) -> Iterator[Finding]:
        for (who, code), denied in self._denied.items():
            yield self._finding(who, code, denied)

    def _finding(self, who: str, code: int, denied: _Denied) -> Finding:
        kind = {
            _TOPIC: "topic",
            _GROUP: "group",
            _TRANSACTION: "transactional ID",
            _TOKEN: "delegation tokens",
        }
        what = kind.get(code, "the cluster")
        resources = some_of(denied.resources)
        on = f"{what} {resources}".strip() if resources else what
        clients = "" if list(denied.clients) == [who] else f" (client {some_of(denied.clients)})"
        operations = dict.fromkeys(
            operation
            for key in denied.apis.values()
            if (operation := _OPERATIONS.get(-1 if key is None else key))
        )
        needed = " and ".join(operations) or "the operation"
        works = any(key in _WORK for key in denied.apis.values())
        return self.finding(
            f"{who}, {what}",
            f"{who}{clients} was denied {some_of(denied.apis)} on {on} {times(denied.seen.count)}"
            f" ({error_names([code])}).",
            f"Grant {needed} on {on} to the principal of {who} (kafka-acls --add), or take it out of the client's"
            " configuration if it should not have it.",
            denied.seen,
            filter_text=f"{with_errors([code])} and ({' or '.join(map(of_client, denied.clients))})",
            severity=Severity.HIGH if works else self.severity,
        )
