"""Handshake messages: reassembled from records, and parsed as far as capture analysis needs.

Layouts are those of RFC 8446, section 4, and RFC 5246, section 7.4; extensions those of RFC 6066 (server name),
RFC 7301 (ALPN), RFC 7366 (encrypt-then-MAC) and RFC 5077 (session ticket). Nothing is verified: the peers did that.
A message that does not match its layout raises :class:`MalformedHandshake`; lists and names are truncated to a bounded
size.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum

import msgspec

MAX_MESSAGE = 128 << 10
_MAX_LIST = 64
_FRAGMENT = 512  # the smallest max_fragment_length (RFC 6066, section 4)
_MAX_NAME = 255

#: the random that makes a ServerHello a HelloRetryRequest (RFC 8446, section 4.1.3)
_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

TLS12 = 0x0303
TLS13 = 0x0304
_VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS12: "TLS 1.2", TLS13: "TLS 1.3"}


class MessageType(IntEnum):
    """Handshake message types that are parsed."""

    CLIENT_HELLO = 1
    SERVER_HELLO = 2
    NEW_SESSION_TICKET = 4
    END_OF_EARLY_DATA = 5
    ENCRYPTED_EXTENSIONS = 8
    CERTIFICATE = 11
    SERVER_HELLO_DONE = 14
    FINISHED = 20
    KEY_UPDATE = 24
    COMPRESSED_CERTIFICATE = 25


# without HelloRequest (0): a counted nonce, which may start protected records, looks like one
_KNOWN_TYPES = frozenset((1, 2, 3, 4, 5, 6, 8, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25))


class _Extension(IntEnum):
    SERVER_NAME = 0
    ALPN = 16
    ENCRYPT_THEN_MAC = 22
    SESSION_TICKET = 35
    PRE_SHARED_KEY = 41
    EARLY_DATA = 42
    SUPPORTED_VERSIONS = 43


class MalformedHandshake(Exception):  # noqa: N818  # says what is wrong, reads well at the raise
    """A message that does not match its layout."""


def version_name(version: int) -> str:
    """Return the usual name of a protocol version."""
    return _VERSIONS.get(version, f"version 0x{version:04x}")


class ClientHello(msgspec.Struct):
    """The client's offer.

    :ivar versions: offered versions, best first, without GREASE (RFC 8701)
    :ivar ticket: session ticket of TLS 1.2, empty if none
    :ivar early_data: application data follows before the server has answered
    """

    random: bytes
    session_id: bytes
    suites: tuple[int, ...]
    versions: tuple[int, ...]
    server_name: str = ""
    alpn: tuple[str, ...] = ()
    ticket: bytes = b""
    early_data: bool = False


class ServerHello(msgspec.Struct):
    """The server's choice.

    :ivar retry: a HelloRetryRequest: the client has to send another hello
    :ivar resumed: a pre-shared key was accepted (TLS 1.3 only; TLS 1.2 does not say)
    """

    random: bytes
    session_id: bytes
    suite: int
    compression: int
    version: int
    alpn: str = ""
    encrypt_then_mac: bool = False
    resumed: bool = False

    @property
    def retry(self) -> bool:
        return self.random == _RETRY_RANDOM


class _Cursor:
    """Reads a message from its start."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise MalformedHandshake(f"{end - len(self._data)} bytes are missing from byte {self._at} on")
        part = self._data[self._at : end]
        self._at = end
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """Read a variable-length vector whose length field has `size` bytes."""
        return self.take(self.number(size))


def _numbers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(data) // 2}H", data[: len(data) & ~1])


def _text(data: bytes) -> str:
    return data[:_MAX_NAME].decode("ascii", "backslashreplace")


def _grease(number: int) -> bool:
    return number & 0x0F0F == 0x0A0A and number >> 8 == number & 0xFF


def _extensions(cursor: _Cursor) -> dict[int, bytes]:
    if not cursor:
        return {}  # a hello may end before its extensions
    rest = _Cursor(cursor.vector(2))
    found: dict[int, bytes] = {}
    while rest:
        kind = rest.number(2)
        found.setdefault(kind, rest.vector(2))
    return found


def _alpn(data: bytes | None) -> tuple[str, ...]:
    if not data:
        return ()
    names: list[str] = []
    rest = _Cursor(_Cursor(data).vector(2))
    while rest and len(names) < _MAX_LIST:
        name = rest.vector(1)
        if not (len(name) == 2 and _grease(int.from_bytes(name, "big"))):
            names.append(_text(name))
    return tuple(names)


def _server_name(data: bytes | None) -> str:
    if not data:
        return ""
    rest = _Cursor(_Cursor(data).vector(2))
    while rest:
        kind, name = rest.number(1), rest.vector(2)
        if kind == 0:
            return _text(name)
    return ""


def parse_client_hello(body: bytes) -> ClientHello:
    """Parse a ClientHello.

    :raises MalformedHandshake: if it does not match its layout
    """
    cursor = _Cursor(body)
    version, random, session_id = cursor.number(2), cursor.take(32), cursor.vector(1)
    suites = tuple(each for each in _numbers(cursor.vector(2)) if not _grease(each))
    cursor.vector(1)
    extensions = _extensions(cursor)
    versions: tuple[int, ...] = (version,)
    if _Extension.SUPPORTED_VERSIONS in extensions:
        offered = _numbers(_Cursor(extensions[_Extension.SUPPORTED_VERSIONS]).vector(1))
        versions = tuple(each for each in offered if not _grease(each))[:_MAX_LIST]
    return ClientHello(
        random,
        session_id,
        suites,
        versions,
        _server_name(extensions.get(_Extension.SERVER_NAME)),
        _alpn(extensions.get(_Extension.ALPN)),
        extensions.get(_Extension.SESSION_TICKET, b""),
        _Extension.EARLY_DATA in extensions,
    )


def parse_server_hello(body: bytes) -> ServerHello:
    """Parse a ServerHello or HelloRetryRequest.

    :raises MalformedHandshake: if it does not match its layout
    """
    cursor = _Cursor(body)
    version, random, session_id = cursor.number(2), cursor.take(32), cursor.vector(1)
    chosen, compression = cursor.number(2), cursor.number(1)
    extensions = _extensions(cursor)
    if _Extension.SUPPORTED_VERSIONS in extensions:
        version = _Cursor(extensions[_Extension.SUPPORTED_VERSIONS]).number(2)
    return ServerHello(
        random,
        session_id,
        chosen,
        compression,
        version,
        next(iter(_alpn(extensions.get(_Extension.ALPN))), ""),
        _Extension.ENCRYPT_THEN_MAC in extensions,
        _Extension.PRE_SHARED_KEY in extensions,
    )


class EncryptedExtensions(msgspec.Struct):
    """Extensions that a TLS 1.3 server sends encrypted."""

    alpn: str
    early_data: bool


def parse_encrypted_extensions(body: bytes) -> EncryptedExtensions:
    """Parse EncryptedExtensions.

    :raises MalformedHandshake: if they do not match their layout
    """
    extensions = _extensions(_Cursor(body))
    alpn = next(iter(_alpn(extensions.get(_Extension.ALPN))), "")
    return EncryptedExtensions(alpn, _Extension.EARLY_DATA in extensions)


def decompressed_certificate(body: bytes) -> bytes:
    """Return the Certificate message inside a CompressedCertificate (RFC 8879, section 4).

    :raises MalformedHandshake: if it does not decompress to the announced size, or that is too large for certificates
    """
    cursor = _Cursor(body)
    algorithm, size, data = cursor.number(2), cursor.number(3), cursor.vector(3)
    if size > MAX_MESSAGE:
        raise MalformedHandshake(f"{size} bytes of certificates are announced")
    decompress = _DECOMPRESSIONS.get(algorithm)
    if decompress is None:
        raise MalformedHandshake(f"unknown compression of certificates {algorithm}")
    plain = decompress(data, size)
    if plain is None or len(plain) != size:
        raise MalformedHandshake("the certificates do not decompress to the announced size")
    return plain


def _inflated(data: bytes, size: int) -> bytes | None:
    try:
        return zlib.decompressobj().decompress(data, size + 1)
    except zlib.error:
        return None


def _unbrotlied(data: bytes, size: int) -> bytes | None:
    import cramjam

    buffer = bytearray(size)
    try:
        return bytes(buffer[: cramjam.brotli.decompress_into(data, buffer)])
    except cramjam.DecompressionError:
        return None


def _unzstd(data: bytes, size: int) -> bytes | None:
    import zstandard

    try:
        if zstandard.frame_content_size(data) > size:  # the library would allocate it at once
            return None
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError:
        return None


_DECOMPRESSIONS: dict[int, Callable[[bytes, int], bytes | None]] = {1: _inflated, 2: _unbrotlied, 3: _unzstd}
"""By number in IANA's registry "TLS Certificate Compression Algorithm IDs"; called with data and maximum size."""


def parse_certificate(body: bytes, *, tls13: bool) -> bytes:
    """Return the peer's own certificate (DER), empty if it sent none.

    :raises MalformedHandshake: if the message does not match its layout
    """
    cursor = _Cursor(body)
    if tls13:
        cursor.vector(1)  # request context
    chain = _Cursor(cursor.vector(3))
    return chain.vector(3) if chain else b""


def parse_session_ticket(body: bytes) -> bytes:
    """Return the ticket of a TLS 1.2 NewSessionTicket (RFC 5077, section 3.3).

    :raises MalformedHandshake: if the message does not match its layout
    """
    cursor = _Cursor(body)
    cursor.take(4)  # lifetime hint
    return cursor.vector(2)


def plausible_start(payload: bytes | memoryview) -> bool:
    """Return whether a handshake record may start with a message in clear.

    A message that continues in further records fills this one, or much of it if a smaller fragment was negotiated.
    """
    if len(payload) < 4 or payload[0] not in _KNOWN_TYPES:
        return False
    size = int.from_bytes(payload[1:4], "big")
    return size <= MAX_MESSAGE and (4 + size <= len(payload) or len(payload) >= _FRAGMENT)


class MessageReader(msgspec.Struct):
    """Splits the content of one direction's handshake records into messages.

    Messages longer than `MAX_MESSAGE` are skipped: decryption needs none of that length.
    """

    _data: bytearray = bytearray()
    _skip: int = 0

    def reset(self) -> None:
        """Drop an unfinished message, after a loss."""
        self._data.clear()
        self._skip = 0

    def feed(self, payload: bytes | memoryview) -> Iterator[tuple[int, bytes]]:
        """Yield type and body of each message that is now complete."""
        if self._skip:
            skipped = min(self._skip, len(payload))
            self._skip -= skipped
            payload = payload[skipped:]
        data = self._data
        data += payload
        while len(data) >= 4:
            size = int.from_bytes(data[1:4], "big")
            if size > MAX_MESSAGE:
                self._skip = max(4 + size - len(data), 0)
                del data[: 4 + size]
                continue
            if len(data) < 4 + size:
                break
            kind, body = data[0], bytes(data[4 : 4 + size])
            del data[: 4 + size]
            yield kind, body
