"""TLS spoken to a plaintext port, and plaintext to a TLS port."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.attempts import ended
from captures.analysis.findings.common import SimilarConnections
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, times
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Capture
from captures.exchanges.broker_logs import Lack


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
        capture = self.context.capture
        found: dict[tuple[str, str, bool], SimilarConnections] = {}
        for connection in sorted(capture.foreign):
            client, broker = capture.shown_endpoints(connection)
            hello = _hello_in_vain(capture, connection)
            if hello or _plain_met_tls(capture, connection):
                key = client.rpartition(":")[0], broker, hello
                found.setdefault(key, SimilarConnections()).add(capture, connection)
        for (client, broker, hello), alike in found.items():
            spoke, got, advice, certainty = _TO_PLAINTEXT if hello else _TO_TLS
            yield self.finding(
                f"client {client}, broker {broker}",
                f"{client} spoke {spoke} to {broker} {times(alike.seen.count)}, and got {got} TLS answer.",
                advice,
                alike.seen,
                # a scanner tries once; a client with this configuration tries again
                severity=self.severity if alike.seen.count > 1 else Severity.MEDIUM,
                certainty=certainty,
                connections=alike.connections,
            )


_TO_PLAINTEXT = (
    "TLS",
    "no",
    (
        "The listener seems to be plaintext: set security.protocol of the client to PLAINTEXT or SASL_PLAINTEXT, or "
        "use the port of the TLS listener."
    ),
    Certainty.INFERRED,
)
_TO_TLS = (
    "plaintext",
    "a",
    (
        "The listener uses TLS: set security.protocol of the client to SSL or SASL_SSL, or use the port of the "
        "plaintext listener."
    ),
    Certainty.OBSERVED,
)


def _hello_in_vain(capture: Capture, connection: int) -> bool:
    """Return whether a client started TLS, and the connection ended without a byte from the broker."""
    if connection not in capture.decryption.tls or ended(capture, connection) is None:
        return False
    streams, broker = capture.connections.streams, capture.client_stream(connection) ^ 1
    return bool(streams.syn_seen[broker]) and int(streams.end[broker]) == 0


def _plain_met_tls(capture: Capture, connection: int) -> bool:
    return connection not in capture.decryption.tls and capture.foreign[connection].startswith("TLS:")
