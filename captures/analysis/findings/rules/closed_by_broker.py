"""Connections that the broker closed, and what preceded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.broker_disconnects import BrokerDisconnect, Reason
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import one_of, some_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.meaning import words
from captures.time_format import span

_SHOWN = 20
"""Most connections that a finding names."""


class _Case(NamedTuple):
    """The meaning of a reason, and advice."""

    severity: Severity
    certainty: Certainty
    meaning: str
    advice: str


_CASES = {
    Reason.NOT_AUTHENTICATED: _Case(
        Severity.HIGH,
        Certainty.POSSIBLE,
        "the client had not authenticated, as the listener may require (SASL)",
        "Check what the listener of that port expects (listener.security.protocol.map), and set the clients' "
        "security.protocol and sasl.mechanism accordingly.",
    ),
    Reason.TOO_LARGE: _Case(
        Severity.HIGH,
        Certainty.INFERRED,
        "a request was not complete, and may be larger than it accepts (socket.request.max.bytes)",
        "Make requests smaller (max.request.size, batch.size), or raise socket.request.max.bytes of the broker.",
    ),
    Reason.ACKS_0: _Case(
        Severity.HIGH,
        Certainty.INFERRED,
        "a Produce with acks=0 came before: with acks=0 that is the only sign of an error",
        "Records are lost without notice: produce with acks=all, at least until the error is known (size over "
        "message.max.bytes, no authorization, unknown topic, wrong leader).",
    ),
    Reason.STOPPED: _Case(
        Severity.MEDIUM,
        Certainty.INFERRED,
        "it accepted no more connections, so it stopped",
        "Check the broker's log for whether it was stopped or killed, or crashed.",
    ),
    Reason.UNANSWERED: _Case(
        Severity.MEDIUM,
        Certainty.OBSERVED,
        "a request stayed unanswered",
        "Check the broker's log at that time: it logs an exception when it closes a connection (unknown version, "
        "malformed request, shutdown).",
    ),
    Reason.IDLE: _Case(
        Severity.INFO,
        Certainty.INFERRED,
        "the connection was idle",
        "Nothing to do: brokers close connections that were idle for connections.max.idle.ms, and clients "
        "reconnect. Load balancers in between may do the same.",
    ),
    Reason.ANSWERED: _Case(
        Severity.INFO,
        Certainty.OBSERVED,
        "all requests were answered",
        "Check the broker's log: a stop of the broker, a limit of connections (max.connections.per.ip) and the "
        "end of a SASL session (connections.max.reauth.ms, KIP-368) all look like this.",
    ),
}
"""Reasons that are found here; authentication_failures and unsupported_versions find the others."""


class _Closures(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    clients: dict[str, None] = {}
    asked: dict[str, None] = {}
    connections: list[int] = []
    shortest: int = 1 << 62
    longest: int = 0
    count: int = 0

    def add(self, closing: BrokerDisconnect) -> None:
        self.count += 1
        self.clients[closing.client] = None
        self.connections.append(closing.connection)
        self.shortest = min(self.shortest, closing.quiet)
        self.longest = max(self.longest, closing.quiet)
        request = closing.request
        if request is None:
            self.seen.note(0, closing.time)
            return
        version = "" if request.version is None else f" v{request.version}"
        self.asked[f"{request.api}{version} of {words.volume(request.size)}"] = None
        # exchanges that the filter does not show are no evidence
        self.seen.note(request.number if self.count <= _SHOWN else 0, closing.time)


class ClosedByBroker(Rule):
    """Finds connections that the broker closed first."""

    name = "closed_by_broker"
    needs = Lack.PACKETS
    effect_of = EffectOf.BROKERS
    title = "Connections that the broker closed, and the request before"
    about = (
        "A broker closes a connection without a response if a request is too large, malformed, or sent before "
        "authentication, and after a Produce with acks=0 that failed (SocketServer.scala, KafkaApis.scala). It "
        "also closes connections that were idle for connections.max.idle.ms, and all of them when it stops. The "
        "reason is inferred from the first request without a response."
    )
    key = Key.BROKER
    apis = None

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.closing

    def add(self, exchange: Exchange) -> None:
        self.context.shared.closings.add(exchange)

    def findings(self) -> Iterator[Finding]:
        found: dict[tuple[str, Reason], _Closures] = {}
        for closing in self.context.shared.closings.known.result():
            if closing.reason in _CASES:
                found.setdefault((closing.broker, closing.reason), _Closures()).add(closing)
        for (broker, reason), closed in found.items():
            yield self._finding(broker, reason, closed)

    def _finding(self, broker: str, reason: Reason, closed: _Closures) -> Finding:
        shown, case = self.context.capture.names.shown(broker), _CASES[reason]
        text = (
            f"{shown} closed {words.counted(closed.count, 'connection')} of {some_of(closed.clients)}:"
            f" {case.meaning}"
        )
        if reason is Reason.IDLE:
            least, most = span(closed.shortest), span(closed.longest)
            text += f" for {least}" + ("" if least == most else f" to {most}")
        elif closed.asked and reason is not Reason.ANSWERED:
            text += f". The request before: {some_of(closed.asked)}"
        connections = closed.connections[:_SHOWN]
        return self.finding(
            f"broker {shown}, {reason.value}",
            f"{text}.",
            case.advice,
            closed.seen,
            filter_text=one_of("connection", connections),
            severity=_severity(reason, closed.count),
            certainty=case.certainty,
            connections=connections,
        )


def _severity(reason: Reason, count: int) -> Severity:
    # a single case may have any reason
    once = reason is Reason.NOT_AUTHENTICATED and count == 1
    return Severity.MEDIUM if once else _CASES[reason].severity
