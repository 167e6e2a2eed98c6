"""Events of a TLS connection, and the texts of alerts.

``start`` and ``end`` are stream positions of an event's record, header included: the bytes as carried by TCP.
A record can be read once its last byte has arrived, so the time of its content is the time of byte ``end - 1``.
``position`` counts decrypted application bytes of one side.
"""

from __future__ import annotations

import msgspec

from dissectors.conversation import Side


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


#: alert descriptions (IANA registry "TLS Alerts")
ALERTS = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    60: "export_restriction",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    100: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    111: "certificate_unobtainable",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    114: "bad_certificate_hash_value",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}

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
        return ALERTS.get(self.code, f"alert {self.code}")

    @property
    def text(self) -> str:
        """The alert in words: sender, severity and meaning."""
        level = _LEVELS.get(self.level, f"level {self.level}")
        meaning = _MEANINGS.get(self.name)
        return f"{level} alert {self.name} from the {self.side.value}" + (f": {meaning}" if meaning else "")


Event = Plaintext | MissingData | Alert | DecryptionStopped
