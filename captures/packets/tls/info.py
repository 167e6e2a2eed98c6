"""Description of a TLS connection, decrypted or not."""

from __future__ import annotations

import msgspec

from captures.packets.tls.events import Alert

_MAX_NOTES = 16
_MAX_ALERTS = 16


class TlsInfo(msgspec.Struct):
    """A connection as listed; it grows as more is seen. Empty strings and tuples mean not seen.

    :ivar version: the version in use, such as ``TLS 1.3``
    :ivar suite: the cipher suite by its IANA name
    :ivar server_name: the name requested by the client (SNI)
    :ivar offered_alpn: application protocols offered by the client
    :ivar alpn: the one chosen by the server; in TLS 1.3 only visible when decrypted
    :ivar certificate: names of the server's certificate, common name first; in TLS 1.3 only when decrypted
    :ivar client_certificate: names of the client's certificate
    :ivar resumed: an earlier session was resumed; None if unknown
    :ivar early_data: the client sent application data before the end of the handshake (0-RTT), and it was accepted
    :ivar client_random: key by which a key log lists the secrets
    :ivar alerts: readable alerts, at most 16
    :ivar notes: other oddities, at most 16
    :ivar records: number of decrypted application data records
    :ivar reason: why something is not decrypted; empty if everything is
    """

    version: str = ""
    suite: str = ""
    server_name: str = ""
    offered_alpn: tuple[str, ...] = ()
    alpn: str = ""
    certificate: tuple[str, ...] = ()
    client_certificate: tuple[str, ...] = ()
    resumed: bool | None = None
    early_data: bool = False
    client_random: bytes = b""
    alerts: list[Alert] = []
    notes: list[str] = []
    records: int = 0
    reason: str = ""

    def note(self, text: str) -> None:
        """Add a remark, once."""
        if text not in self.notes and len(self.notes) < _MAX_NOTES:
            self.notes.append(text)

    def add_alert(self, alert: Alert) -> None:
        if len(self.alerts) < _MAX_ALERTS:
            self.alerts.append(alert)

    def summary(self) -> str:
        """Return one line for a list of connections."""
        parts = [self.version or "TLS"]
        if self.suite:
            parts.append(self.suite)
        if self.server_name:
            parts.append(f"SNI {self.server_name}")
        if self.alpn:
            parts.append(f"ALPN {self.alpn}")
        elif self.offered_alpn:
            parts.append(f"ALPN offered {' '.join(self.offered_alpn)}")
        if self.certificate:
            parts.append(f"certificate {' '.join(self.certificate)}")
        if self.client_certificate:
            parts.append(f"client certificate {' '.join(self.client_certificate)}")
        if self.resumed:
            parts.append("resumed")
        if self.early_data:
            parts.append("early data")
        parts.extend(alert.text for alert in self.alerts if alert.name != "close_notify")
        if self.reason:
            parts.append(f"{'decryption stopped' if self.records else 'not decrypted'}: {self.reason}")
        return ", ".join(parts)
