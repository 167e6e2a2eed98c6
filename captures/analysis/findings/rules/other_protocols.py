"""Connections that speak neither Kafka nor TLS."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.common import SimilarConnections
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, times
from captures.exchanges.broker_logs import Lack
from captures.meaning import words


class OtherProtocols(Rule):
    """Finds connections with other protocols than Kafka."""

    name = "other_protocols"
    needs = Lack.PACKETS
    title = "Connections that are not Kafka"
    about = (
        "Something sends HTTP, or another protocol, to a broker's port: a health check, monitoring or a scanner. "
        "The broker reads the first four bytes as the size of a request and closes the connection."
    )
    severity = Severity.LOW
    key = Key.CAPTURE

    def findings(self) -> Iterator[Finding]:
        capture = self.context.capture
        found: dict[tuple[str, str, str], SimilarConnections] = {}
        for connection, what in sorted(capture.foreign.items()):
            if what.startswith("TLS"):
                continue
            client, broker = capture.shown_endpoints(connection)
            protocol = what.partition(":")[0]
            found.setdefault((client.rpartition(":")[0], broker, protocol), SimilarConnections()).add(
                capture, connection
            )
        for (client, broker, protocol), alike in found.items():
            example = words.clipped(capture.foreign[alike.connections[0]], 120)
            yield self.finding(
                f"client {client}, broker {broker}, {protocol}",
                f"{client} sent non-Kafka data to {broker} {times(alike.seen.count)}: {example}.",
                "Identify the sender. Let a health check just open and close a connection, or use the Kafka protocol. "
                "Keep port scanners out.",
                alike.seen,
                connections=alike.connections,
            )
