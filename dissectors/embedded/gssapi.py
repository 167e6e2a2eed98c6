"""GSSAPI tokens: Kerberos and SPNEGO, recognised by the readable bytes outside the encryption.

RFC 2743 (token framing), RFC 4121 and RFC 1964 (Kerberos), RFC 4178 (SPNEGO), RFC 4752 (the security layer that
SASL negotiates in the last two tokens).
"""

from __future__ import annotations

from typing import Any

_APPLICATION_0 = 0x60
_OBJECT_IDENTIFIER = 0x06

_MECHANISMS = {
    "1.2.840.113554.1.2.2": "Kerberos",
    "1.2.840.48018.1.2.2": "Kerberos (Microsoft)",
    "1.3.6.1.5.5.2": "SPNEGO",
}

# RFC 4121 section 4.1, RFC 1964 section 1.2
_FRAMED = {b"\x01\x00": "AP-REQ", b"\x02\x00": "AP-REP", b"\x03\x00": "KRB-ERROR", b"\x02\x01": "wrap"}

_WRAP = b"\x05\x04"
_WRAP_HEADER = 16
_SEALED = 0x02

_LAYERS = {1: "auth", 2: "auth-int", 4: "auth-conf"}


def token(data: bytes) -> dict[str, Any] | None:
    """Return the readable fields of a token, None if it is not a GSSAPI token."""
    if data.startswith(_WRAP) and len(data) >= _WRAP_HEADER:
        return _wrap(data)
    if data[:1] != bytes([_APPLICATION_0]):
        return None
    content = _der(data, 0)
    if content is None or content[1] != len(data):
        return None
    start = content[0]
    oid = _der(data, start) if data[start : start + 1] == bytes([_OBJECT_IDENTIFIER]) else None
    if oid is None:
        return None
    name = _dotted(data[oid[0] : oid[1]])
    mechanism = _MECHANISMS.get(name, name)
    message = "token"
    if mechanism.startswith("Kerberos"):
        message = _FRAMED.get(data[oid[1] : oid[1] + 2], "token")
    elif mechanism == "SPNEGO":
        message = "negTokenInit"
    return {
        "mechanism": "GSSAPI",
        "message": f"{mechanism} {message}",
        "oid": name,
        "bytes": len(data),
    }


def _wrap(data: bytes) -> dict[str, Any]:
    """Read a wrap token: flags, filler, EC and RRC (16 bits each), sequence number; then the message.

    An unsealed message is readable: the security layers offered or chosen, the maximum message size, a user name.
    """
    flags = data[2]
    fields: dict[str, Any] = {
        "mechanism": "GSSAPI",
        "message": "Kerberos wrap",
        "from": "acceptor" if flags & 1 else "initiator",
        "sealed": bool(flags & _SEALED),
        "bytes": len(data),
    }
    body = data[_WRAP_HEADER:]
    checksum, rotation = int.from_bytes(data[4:6]), int.from_bytes(data[6:8])
    if body and not flags & _SEALED and checksum <= len(body):
        turn = rotation % len(body)
        plain = (body[turn:] + body[:turn])[: len(body) - checksum]
        if len(plain) >= 4:
            fields["security_layers"] = [name for bit, name in _LAYERS.items() if plain[0] & bit]
            fields["max_message_bytes"] = int.from_bytes(plain[1:4])
            fields["authzid"] = plain[4:].decode("utf-8", "backslashreplace")
    return fields


def _der(data: bytes, pos: int) -> tuple[int, int] | None:
    """Return start and end of the content of the DER element at ``pos``, None if it is malformed."""
    if pos + 2 > len(data):
        return None
    length, start = data[pos + 1], pos + 2
    if length & 0x80:
        size = length & 0x7F
        if not 1 <= size <= 4 or start + size > len(data):
            return None
        length, start = int.from_bytes(data[start : start + size]), start + size
    end = start + length
    return (start, end) if end <= len(data) else None


def _dotted(content: bytes) -> str:
    """Return an object identifier as text; the first number holds two (X.690, 8.19)."""
    numbers, value = [], 0
    for byte in content[:64]:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        return ""
    top = min(numbers[0] // 40, 2)
    return ".".join(map(str, [top, numbers[0] - 40 * top, *numbers[1:]]))
