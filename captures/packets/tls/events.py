"""Events of a TLS connection, and the texts of alerts.

``start`` and ``end`` are stream positions of an event's record, header included: the bytes as carried by TCP.
A record can be read once its last byte has arrived, so the time of its content is the time of byte ``end - 1``.
``position`` counts decrypted application bytes of one side.
"""

from __future__ import annotations

import msgspec

from dissectors.conversation import Side
from dissectors.conversation.foreign import TLS_ALERTS


class Plaintext(msgspec.Struct):
    """Decrypted application data of one record.

    :ivar position: number of earlier application bytes of this side, as far as they could be decrypted
    """

    side: Side
    start: int
    end: int
    position: int
    data: bytes


class MissingData(msgspec.Struct):
    """Lost application data between the preceding and the following; its size is unknown.

    :ivar start: first byte of the part of the stream that could not be read
    :ivar end: the byte after it
    :ivar position: as in :class:`Plaintext`; the missing bytes are not counted
    """

    side: Side
    start: int
    end: int
    position: int
    reason: str


class DecryptionStopped(msgspec.Struct):
    """The end of decryption of this side at ``start``, with the reason."""

    side: Side
    start: int
    reason: str


#: usual meaning of common alerts
_MEANINGS = {
    "bad_certificate": "the peer's certificate does not verify",
    "bad_record_mac": "a record was damaged or encrypted with other keys",
    "certificate_expired": "the peer's certificate is out of date",
    "certificate_required": "the broker wants a client certificate (ssl.client.auth=required)",
    "certificate_unknown": "the peer's certificate was rejected; Java sends this for most failed checks",
    "close_notify": "the sender is done",
    "handshake_failure": "no common cipher suite, or no client certificate",
    "inappropriate_fallback": "the client retried with an older version than both speak",
    "no_application_protocol": "no common ALPN protocol",
    "protocol_version": "no common TLS version",
    "unknown_ca": "the sender does not trust the authority that signed the peer's certificate",
    "unrecognized_name": "the server has no certificate for this server name",
}

_LEVELS = {1: "warning", 2: "fatal"}


class Alert(msgspec.Struct):
    """An alert (RFC 8446, section 6; RFC 5246, section 7.2).

    :ivar level: as on the wire: 1 warning, 2 fatal
    :ivar code: number of the description
    """

    side: Side
    start: int
    end: int
    level: int
    code: int

    @property
    def name(self) -> str:
        """The description's name, such as ``unknown_ca``."""
        return TLS_ALERTS.get(self.code, f"alert {self.code}")

    @property
    def text(self) -> str:
        """The alert in words: sender, severity and meaning."""
        level = _LEVELS.get(self.level, f"level {self.level}")
        meaning = _MEANINGS.get(self.name)
        return f"{level} alert {self.name} from the {self.side.value}" + (f": {meaning}" if meaning else "")


Event = Plaintext | MissingData | Alert | DecryptionStopped

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
        named = (
            ("SNI", self.server_name),
            ("ALPN", self.alpn),
            ("ALPN offered", "" if self.alpn else " ".join(self.offered_alpn)),
            ("certificate", " ".join(self.certificate)),
            ("client certificate", " ".join(self.client_certificate)),
        )
        parts = [self.version or "TLS", self.suite, *(f"{what} {value}" for what, value in named if value)]
        parts += ["resumed" if self.resumed else "", "early data" if self.early_data else ""]
        parts += [alert.text for alert in self.alerts if alert.name != "close_notify"]
        if self.reason:
            parts.append(f"{'decryption stopped' if self.records else 'not decrypted'}: {self.reason}")
        return ", ".join(filter(None, parts))
