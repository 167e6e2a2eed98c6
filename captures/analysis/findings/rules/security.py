"""Clients that brokers do not authenticate or authorize."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.attempts import ended, ended_by_broker
from captures.analysis.client_identity import Introduction, client_name, connection_key
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import (
    UNNAMED,
    error_names,
    one_of,
    some_of,
    topic_of,
    unexpected,
    with_errors,
)
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, Threshold, Unit, times
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange, Flag
from captures.filters.lexer import quoted
from captures.meaning import ResponseError, groups_in, transactional_ids_in, words
from captures.meaning.exchange import text
from captures.time_format import span
from dissectors.api_keys import ASKED_BY_REPLICAS, GROUP_HEARTBEATS, MEMBER_APIS, PRODUCER_APIS, ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import SECOND

# ---------------------------------------------------------------- authentication_failures

_ILLEGAL_STATE = "ILLEGAL_SASL_STATE"
_SASL = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class _Attempt(msgspec.Struct):
    """An authentication on a connection.

    :ivar number: number of the exchange that refused it, or else of its latest exchange
    :ivar message: the broker's error message
    """

    client: str
    broker: str
    host: str
    known: Introduction
    number: int
    time: int
    message: str = ""
    refused: bool = False


class _Refusals(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    refusals: dict[str, None] = {}
    messages: dict[str, None] = {}
    hosts: dict[str, None] = {}
    announced: int = 0
    by_broker: int = 0


class AuthenticationFailures(Rule):
    """Finds connections whose SASL authentication did not succeed."""

    name = "authentication_failures"
    title = "Authentication that fails"
    about = (
        "A broker refuses SASL with SASL_AUTHENTICATION_FAILED or UNSUPPORTED_SASL_MECHANISM. Brokers before 1.0,"
        " and all brokers after a SaslHandshake v0, just close the connection (KIP-43, KIP-152). With SCRAM the "
        "client may leave first, because the broker could not prove that it knows the password (RFC 5802). Many "
        "clients retry at once and forever."
    )
    severity = Severity.HIGH
    key = Key.BROKER
    apis = None
    thresholds = (Threshold("loop", 5, Unit.COUNT, "failed connections of one client that count as a loop"),)

    _begun: dict[int, _Attempt] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.authenticating

    def add(self, exchange: Exchange) -> None:
        self.context.shared.introductions.add(exchange)
        if exchange.api_key not in _SASL and Flag.SASL_TOKEN not in exchange.flag:
            return
        begun = self._begun.get(exchange.connection)
        if begun is None:
            known = self.context.shared.introductions.known.of(connection_key(exchange))
            host = exchange.client.rpartition(":")[0]
            begun = self._begun[exchange.connection] = _Attempt(
                client_name(exchange), exchange.broker, host, known, exchange.number, exchange.time
            )
        if exchange.client_id and begun.client == begun.host:
            begun.client = exchange.client_id
        if not begun.refused and (exchange.errors or exchange.number >= begun.number):
            begun.number, begun.time = exchange.number, exchange.time
            begun.refused = bool(exchange.errors)
        begun.message = text(exchange.response_body, "error_message") or begun.message

    def findings(self) -> Iterator[Finding]:
        found: dict[tuple[str, str, str, str], _Refusals] = {}
        for connection, begun in self._begun.items():
            known = begun.known
            by_broker = ended_by_broker(self.context.capture, connection) is not None
            over = ended(self.context.capture, connection) is not None
            nothing = known.authenticated is None and not known.refusal and not known.mechanism
            if known.authenticated or nothing or (not known.refusal and not over):
                continue
            key = begun.client, begun.broker, known.mechanism or "SASL", known.principal or ""
            refused = found.setdefault(key, _Refusals())
            refused.seen.note(begun.number, begun.time)
            refused.hosts[begun.host.strip("[]")] = None
            refused.announced += bool(known.refusal)
            refused.by_broker += by_broker
            if known.refusal:
                refused.refusals[known.refusal] = None
            if begun.message:
                refused.messages[begun.message] = None
        for (client, broker, mechanism, principal), refused in found.items():
            seen, shown = refused.seen, self.context.capture.names.shown(broker)
            who = f"{client} as {principal}" if principal else client
            failed = words.counted(seen.count, "connection")
            sentence = f"{mechanism} authentication of {who} at {shown} failed on {failed}"
            if refused.refusals:
                sentence += f" ({', '.join(refused.refusals)})"
            elif refused.by_broker:
                sentence += ": the broker closed the connection without an answer"
            else:
                sentence += ": the client closed the connection before it was done"
            if refused.messages:
                sentence += f": {words.clipped(next(iter(refused.messages)), 120)}".rstrip(".")
            if seen.count >= self.limit("loop"):
                rate = seen.count * SECOND / max(seen.last - seen.first, SECOND)
                sentence += f"; it retried {rate:.1f} times a second for {span(seen.last - seen.first)}"
            yield self.finding(
                f"client {who}, {mechanism} at {shown}",
                f"{sentence}.",
                _authentication_advice(refused),
                seen,
                filter_text=f"{_shown_by(refused)} and {one_of('client.host', refused.hosts)}"
                f" and broker == {quoted(broker)}",
                certainty=Certainty.OBSERVED if refused.refusals else Certainty.INFERRED,
                severity=self.severity if seen.count > 1 or _for_good(refused) else Severity.MEDIUM,
            )


def _shown_by(refused: _Refusals) -> str:
    if refused.announced == refused.seen.count:
        return f"api in {{SaslHandshake, SaslAuthenticate}} and {one_of('error', refused.refusals)}"
    return "(sasl_token or api in {SaslHandshake, SaslAuthenticate})"


def _for_good(refused: _Refusals) -> bool:
    """Return whether a retry is useless; a message at the wrong time may be an accident."""
    return bool(refused.refusals.keys() - {_ILLEGAL_STATE})


def _authentication_advice(refused: _Refusals) -> str:
    if _ILLEGAL_STATE in refused.refusals:
        return (
            "The listener does not expect SASL at this point: set the client's security.protocol to PLAINTEXT or SSL,"
            " or use the port of a SASL listener."
        )
    if "UNSUPPORTED_SASL_MECHANISM" in refused.refusals:
        return (
            "Set sasl.mechanism to one that the broker's response lists, or add it to sasl.enabled.mechanisms of the "
            "listener."
        )
    if refused.announced or refused.by_broker:
        return (
            "Check that user and password (or token, or ticket) are right and not expired, and that the broker knows "
            "the user (kafka-configs --entity-type users for SCRAM). Only the broker's log has the reason. If clients"
            " retry in a loop, connection.failed.authentication.delay.ms slows them down."
        )
    return (
        "Check the client's log. With SCRAM a client leaves if the broker does not prove that it knows the "
        "password: the password is wrong, or the broker implements SCRAM badly."
    )


# ---------------------------------------------------------------- authorization_failures

_DENIED_CODES = frozenset({
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


_DENIED_KINDS: dict[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional ID",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "delegation tokens",
}


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

    _denied: dict[tuple[str, int], _Denials] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.authenticating | rows.failed

    def add(self, exchange: Exchange) -> None:
        self.context.shared.introductions.add(exchange)
        for error in unexpected(exchange, _DENIED_CODES):
            client = client_name(exchange)
            who = self.context.shared.introductions.known.of(connection_key(exchange)).principal or client
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
            what = _DENIED_KINDS.get(code, "the cluster")
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
            yield self.finding(
                f"{who}, {what}",
                f"{who}{clients} was denied {some_of(denied.apis)} on {on} {times(denied.seen.count)}"
                f" ({error_names([code])}).",
                f"Grant {needed} on {on} to the principal of {who} (kafka-acls --add). If it should have no"
                " access, take it out of the client's configuration.",
                denied.seen,
                filter_text=f"{with_errors([code])} and ({' or '.join(map(of_client, denied.clients))})",
                severity=Severity.HIGH if works else self.severity,
            )
