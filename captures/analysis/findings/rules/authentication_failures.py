"""Clients that fail to authenticate."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.attempts import ended, ended_by_broker
from captures.analysis.client_identity import Introduction, client_name, connection_key
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import one_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange, Flag
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.meaning.exchange import text
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND

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

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._introductions = context.shared.introductions
        self._begun: dict[int, _Attempt] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.authenticating

    def add(self, exchange: Exchange) -> None:
        self._introductions.add(exchange)
        if exchange.api_key not in _SASL and Flag.SASL_TOKEN not in exchange.flag:
            return
        begun = self._begun.get(exchange.connection)
        if begun is None:
            known = self._introductions.known.of(connection_key(exchange))
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
            if known.authenticated or (not known.refusal and not over) or _succeeded(known):
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
            yield self._finding(client, broker, mechanism, principal, refused)

    def _finding(
        self, client: str, broker: str, mechanism: str, principal: str, refused: _Refusals
    ) -> Finding:
        seen, shown = refused.seen, self.context.capture.names.shown(broker)
        who = f"{client} as {principal}" if principal else client
        sentence = f"{mechanism} authentication of {who} at {shown} failed on {words.counted(seen.count, 'connection')}"
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
        return self.finding(
            f"client {who}, {mechanism} at {shown}",
            f"{sentence}.",
            _advice(refused),
            seen,
            filter_text=f"{_shown_by(refused)} and {one_of('client.host', refused.hosts)}"
            f" and broker == {quoted(broker)}",
            certainty=Certainty.OBSERVED if refused.refusals else Certainty.INFERRED,
            severity=self.severity if seen.count > 1 or _for_good(refused) else Severity.MEDIUM,
        )


def _succeeded(known: Introduction) -> bool:
    return known.authenticated is None and not known.refusal and not known.mechanism


def _shown_by(refused: _Refusals) -> str:
    if refused.announced == refused.seen.count:
        return f"api in {{SaslHandshake, SaslAuthenticate}} and {one_of('error', refused.refusals)}"
    return "(sasl_token or api in {SaslHandshake, SaslAuthenticate})"


def _for_good(refused: _Refusals) -> bool:
    """Return whether a retry is useless; a message at the wrong time may be an accident."""
    return bool(refused.refusals.keys() - {_ILLEGAL_STATE})


def _advice(refused: _Refusals) -> str:
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
