"""TLS spoken to a plaintext port, and plaintext to a TLS port."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.attempts import ended
from captures.analysis.findings.common import Alike
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, times
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Capture
from captures.exchanges.broker_logs import Lack

_SHOWN = 20


class TlsOnPlaintext(Rule):
    """Finds clients and listeners of which only one uses TLS."""

    name = "tls_on_plaintext"
    needs = Lack.PACKETS
    title = "TLS on a plaintext port, or plaintext on a TLS port"
    about = (
        "A listener without TLS reads a ClientHello as the size of a request of some 369 MB, and closes the "
        "connection (NetworkReceive.java). A listener with TLS answers a Kafka request with an alert, or not at "
        "all. Either way the client only sees that the connection ends, and retries forever."
    )
    severity = Severity.HIGH
    key = Key.CAPTURE

    def findings(self) -> Iterator[Finding]:
        capture = self.scene.capture
        to_plain: dict[tuple[str, str], Alike] = {}
        to_tls: dict[tuple[str, str], Alike] = {}
        for connection in sorted(capture.foreign):
            client, broker = capture.shown_endpoints(connection)
            key = client.rpartition(":")[0], broker
            if _hello_in_vain(capture, connection):
                to_plain.setdefault(key, Alike()).add(capture, connection)
            elif _plain_met_tls(capture, connection):
                to_tls.setdefault(key, Alike()).add(capture, connection)
        for (client, broker), alike in to_plain.items():
            yield self._finding(
                client,
                broker,
                alike,
                f"{client} spoke TLS to {broker} {times(alike.seen.count)}, and got no TLS answer",
                "The listener seems to be plaintext: set security.protocol of the client to PLAINTEXT or "
                "SASL_PLAINTEXT, or use the port of the TLS listener.",
                Certainty.INFERRED,
            )
        for (client, broker), alike in to_tls.items():
            yield self._finding(
                client,
                broker,
                alike,
                f"{client} spoke plaintext to {broker} {times(alike.seen.count)}, and got a TLS answer",
                "The listener uses TLS: set security.protocol of the client to SSL or SASL_SSL, or use the port of "
                "the plaintext listener.",
                Certainty.OBSERVED,
            )

    def _finding(
        self, client: str, broker: str, alike: Alike, sentence: str, advice: str, certainty: Certainty
    ) -> Finding:
        return self.finding(
            f"client {client}, broker {broker}",
            f"{sentence}.",
            advice,
            alike.seen,
            # a scanner tries once; a client with this configuration tries again
            severity=self.severity if alike.seen.count > 1 else Severity.MEDIUM,
            certainty=certainty,
            connections=alike.connections[:_SHOWN],
        )


def _hello_in_vain(capture: Capture, connection: int) -> bool:
    """Return whether a client started TLS, and the connection ended without a byte from the broker."""
    if connection not in capture.decryption.tls or ended(capture, connection) is None:
        return False
    streams, broker = capture.connections.streams, capture.client_stream(connection) ^ 1
    return bool(streams.syn_seen[broker]) and int(streams.end[broker]) == 0


def _plain_met_tls(capture: Capture, connection: int) -> bool:
    return connection not in capture.decryption.tls and capture.foreign[connection].startswith("TLS:")
