"""Requests that were denied."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name, connection_key
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import UNNAMED, error_names, some_of, topic_of, unexpected, with_errors
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext, times
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import ResponseError, groups_in, transactional_ids_in
from captures.meaning.exchange import text
from dissectors.api_keys import ASKED_BY_REPLICAS, GROUP_HEARTBEATS, MEMBER_APIS, PRODUCER_APIS, ApiKey
from dissectors.error_codes import ErrorCode

_CODES = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
})  # fmt: skip
_WORK = (PRODUCER_APIS - {ApiKey.END_TXN}) | GROUP_HEARTBEATS | {
    ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP, ApiKey.SHARE_FETCH,
}  # fmt: skip
"""APIs that applications cannot work without: produce, fetch, commit, groups, transactions."""
_OPERATIONS: dict[int, str] = {
    **dict.fromkeys(PRODUCER_APIS - {ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT}, "Write"),
    **dict.fromkeys((MEMBER_APIS | {ApiKey.FETCH}) - {ApiKey.OFFSET_FETCH, ApiKey.SHARE_ACKNOWLEDGE}, "Read"),
    **dict.fromkeys(ASKED_BY_REPLICAS - {ApiKey.FETCH}, "Describe"),
    ApiKey.METADATA: "Describe",
    ApiKey.OFFSET_FETCH: "Describe",
    ApiKey.FIND_COORDINATOR: "Describe",
    ApiKey.DESCRIBE_GROUPS: "Describe",
    ApiKey.DESCRIBE_PRODUCERS: "Describe",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "Describe",
    ApiKey.CREATE_TOPICS: "Create",
    ApiKey.DELETE_TOPICS: "Delete",
    ApiKey.DESCRIBE_CONFIGS: "DescribeConfigs",
    ApiKey.ALTER_CONFIGS: "AlterConfigs",
    ApiKey.CREATE_PARTITIONS: "Alter",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "AlterConfigs",
}
"""API key -> operation that KafkaApis.scala authorizes."""


class _Denials(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    apis: dict[str, int | None] = {}
    resources: dict[str, None] = {}
    clients: dict[str, None] = {}


class AuthorizationFailures(Rule):
    """Finds requests that were denied."""

    name = "authorization_failures"
    title = "Missing authorization"
    about = (
        "The broker's authorizer denied an operation on a topic, a group, the cluster or a transactional ID "
        "(KIP-11, AclAuthorizer and StandardAuthorizer). A topic that a client may not describe seems not to "
        "exist, and some clients ask for it forever."
    )
    apis = None

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._introductions = context.shared.introductions
        self._denied: dict[tuple[str, int], _Denials] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.authenticating | rows.failed

    def add(self, exchange: Exchange) -> None:
        self._introductions.add(exchange)
        for error in unexpected(exchange, _CODES):
            client = client_name(exchange)
            who = self._introductions.known.of(connection_key(exchange)).principal or client
            denied = self._denied.setdefault((who, error.code), _Denials())
            denied.seen.add(exchange)
            denied.apis[exchange.api] = exchange.api_key
            denied.clients[client] = None
            for resource in self._resources(exchange, error):
                denied.resources[resource] = None

    def _resources(self, exchange: Exchange, error: ResponseError) -> list[str]:
        """Return the resources of the denied operation."""
        key, body = exchange.api_key, exchange.request
        if error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            topic = topic_of(error, self.context.names)
            return [topic if topic != UNNAMED else text(error.holders[-1], "resource_name", UNNAMED)]
        if key is None or body is None or body.version is None:
            return []
        if error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return groups_in(key, body.version, body.value)
        if error.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return transactional_ids_in(key, body.version, body.value)
        return []

    def findings(self) -> Iterator[Finding]:
        for (who, code), denied in self._denied.items():
            yield self._finding(who, code, denied)

    def _finding(self, who: str, code: int, denied: _Denials) -> Finding:
        kind: dict[int, str] = {
            ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
            ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional ID",
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "delegation tokens",
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
            f"Grant {needed} on {on} to the principal of {who} (kafka-acls --add). If it should have no"
            " access, take it out of the client's configuration.",
            denied.seen,
            filter_text=f"{with_errors([code])} and ({' or '.join(map(of_client, denied.clients))})",
            severity=Severity.HIGH if works else self.severity,
        )
