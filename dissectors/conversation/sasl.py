"""Raw SASL tokens on the wire: where they start and where they end.

Tokens without Kafka headers, an int32 size and opaque bytes in both directions, occur in two cases
(``clients/.../SaslServerAuthenticator.java``): after SaslHandshake v0 was accepted (0.10 to 3.9), and from the
first byte on in 0.9, which had no handshake. Nothing announces their end: the client's next frame has a request
header instead. No token of a known mechanism looks like one: PLAIN starts with letters, SCRAM and OAUTHBEARER
with "n", "y", "p", "c" or byte 1, GSSAPI with 0x60, 0x05 or a wrapped message, all above any API key's high byte.
A broker sends at most one token for each of the client's: GSSAPI's last is not answered.
"""

from __future__ import annotations

import struct

import msgspec

from dissectors.conversation.plausible import is_text
from dissectors.headers import SIZE_BYTES

#: longest PLAIN token recognised without a handshake; names and passwords are shorter
_MAX_PLAIN = 4096

#: more tokens than any authentication has
_UNKNOWN = 1 << 30


class TokenPhase(msgspec.Struct):
    """Progress of both sides in an exchange of raw tokens; each SaslHandshake v0 of the client starts a new one.

    :ivar active: tokens are or were exchanged
    :ivar client_done: the client has resumed sending requests
    :ivar from_client: number of tokens from the client
    :ivar from_broker: number of tokens from the broker
    """

    mechanism: str = ""
    active: bool = False
    client_done: bool = False
    from_client: int = 0
    from_broker: int = 0

    def lose_client(self) -> None:
        """Record that the number of the client's tokens is unknown: answers are tokens until a response is due."""
        self.client_done = True
        self.from_client = _UNKNOWN


def handshake_mechanism(payload: bytes) -> str:
    """Return the mechanism requested by a SaslHandshake v0, "" if the payload ends before it."""
    at = 10
    for _ in range(2):
        if at > len(payload):
            return ""
        (length,) = struct.unpack_from(">h", payload, at - 2)
        start, at = at, at + max(length, 0) + 2
    return payload[start : at - 2].decode("utf-8", "replace")


def handshake_error(payload: bytes) -> int | None:
    """Return the error code of a SaslHandshake v0 response, None if the payload ends before it."""
    return int.from_bytes(payload[4:6], "big", signed=True) if len(payload) >= 6 else None


def first_token(data: bytes, at: int, max_token: int) -> str | int | None:
    """Return whether a connection opens with a SASL token, as in 0.9.

    :returns: the mechanism, None if it is not a token, or the number of bytes from `at` needed to decide
    """
    have = len(data) - at
    if have < SIZE_BYTES + 1:
        return SIZE_BYTES + 1
    size = int.from_bytes(data[at : at + SIZE_BYTES], "big", signed=True)
    token = data[at + SIZE_BYTES : at + SIZE_BYTES + size] if 0 < size <= max_token else b""
    if token[:1] == b"\x60":
        # InitialContextToken (RFC 2743, section 3.1): [APPLICATION 0], DER length, then an OID (tag 6).
        if len(token) < min(size, 8):
            return SIZE_BYTES + min(size, 8)
        length_bytes = token[1] & 0x7F if len(token) > 1 and token[1] & 0x80 else 0
        return "GSSAPI" if token[2 + length_bytes : 3 + length_bytes] == b"\x06" else None
    if not 4 <= size <= _MAX_PLAIN or not (token[:1] == b"\0" or is_text(token[:1])):
        return None
    if len(token) < size:
        return SIZE_BYTES + size
    parts = token.split(b"\0")
    if len(parts) == 3 and parts[1] and parts[2] and all(map(is_text, parts)):
        return "PLAIN"
    return None
