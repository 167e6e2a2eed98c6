"""Handshake messages: over records, and their content."""

from __future__ import annotations

import contextlib
import struct
import zlib

import cramjam
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.packets.tls.handshake import (
    MAX_MESSAGE,
    MalformedHandshake,
    MessageReader,
    decompressed_certificate,
    parse_certificate,
    parse_client_hello,
    parse_encrypted_extensions,
    parse_server_hello,
    parse_session_ticket,
    plausible_start,
    version_name,
)


def vector(data: bytes, size: int = 2) -> bytes:
    return len(data).to_bytes(size, "big") + data


def extension(kind: int, data: bytes) -> bytes:
    return struct.pack(">H", kind) + vector(data)


def message(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + vector(body, 3)


RANDOM = bytes(range(32))
# extension numbers: IANA registry "TLS ExtensionType Values"
SNI = extension(0, vector(b"\x00" + vector(b"broker-1.example")))
ALPN = extension(16, vector(vector(b"\x0a\x0a", 1) + vector(b"kafka", 1) + vector(b"h2", 1)))
VERSIONS = extension(43, vector(struct.pack(">3H", 0x7A7A, 0x0304, 0x0303), 1))
HELLO = struct.pack(">H", 0x0303) + RANDOM + vector(b"session", 1)
CLIENT_HELLO = (
    HELLO
    + vector(struct.pack(">3H", 0x2A2A, 0x1301, 0xC02F))
    + vector(b"\0", 1)
    + vector(SNI + ALPN + VERSIONS + extension(35, b"ticket") + extension(42, b""))
)


def test_client_hello() -> None:
    hello = parse_client_hello(CLIENT_HELLO)
    assert (hello.random, hello.session_id, hello.ticket) == (RANDOM, b"session", b"ticket")
    assert hello.suites == (0x1301, 0xC02F)  # without the GREASE value 0x2A2A (RFC 8701)
    assert hello.versions == (0x0304, 0x0303)
    assert (hello.server_name, hello.alpn, hello.early_data) == ("broker-1.example", ("kafka", "h2"), True)


def test_client_hello_without_extensions() -> None:
    hello = parse_client_hello(HELLO + vector(b"\x00\x2f") + vector(b"\0", 1))
    assert (hello.versions, hello.server_name, hello.alpn, hello.early_data) == ((0x0303,), "", (), False)


def test_server_hello() -> None:
    body = HELLO + b"\xc0\x27\0" + vector(extension(22, b"") + extension(16, vector(vector(b"kafka", 1))))
    hello = parse_server_hello(body)
    assert (hello.version, hello.suite, hello.compression) == (0x0303, 0xC027, 0)
    assert (hello.alpn, hello.encrypt_then_mac, hello.resumed, hello.retry) == ("kafka", True, False, False)


def test_server_hello_of_tls13() -> None:
    hello = parse_server_hello(
        HELLO + b"\x13\x01\0" + vector(extension(43, b"\x03\x04") + extension(41, b"\0\0"))
    )
    assert (hello.version, hello.resumed) == (0x0304, True)


def test_hello_retry_request() -> None:
    # its random is the SHA-256 of "HelloRetryRequest" (RFC 8446, section 4.1.3)
    from hashlib import sha256

    body = b"\x03\x03" + sha256(b"HelloRetryRequest").digest() + b"\0" + b"\x13\x01\0" + b"\0\0"
    assert parse_server_hello(body).retry


def test_encrypted_extensions() -> None:
    body = vector(extension(16, vector(vector(b"kafka", 1))) + extension(42, b""))
    extensions = parse_encrypted_extensions(body)
    assert (extensions.alpn, extensions.early_data) == ("kafka", True)


def test_certificate() -> None:
    chain = vector(vector(b"leaf", 3) + vector(b"issuer", 3), 3)
    assert parse_certificate(chain, tls13=False) == b"leaf"
    chain = vector(b"context", 1) + vector(vector(b"leaf", 3) + vector(b""), 3)
    assert parse_certificate(chain, tls13=True) == b"leaf"
    assert parse_certificate(vector(b"", 3), tls13=False) == b""


def test_session_ticket() -> None:
    assert parse_session_ticket(b"\0\0\x1c\x20" + vector(b"ticket")) == b"ticket"


@pytest.mark.parametrize("size", range(len(CLIENT_HELLO)))
def test_cut_client_hello(size: int) -> None:
    without_extensions = len(HELLO) + 8 + 2
    if size == without_extensions:
        assert parse_client_hello(CLIENT_HELLO[:size]).server_name == ""
    else:
        with pytest.raises(MalformedHandshake):
            parse_client_hello(CLIENT_HELLO[:size])


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for parse in (
        parse_client_hello,
        parse_server_hello,
        parse_encrypted_extensions,
        parse_session_ticket,
        lambda body: parse_certificate(body, tls13=True),
        lambda body: parse_certificate(body, tls13=False),
    ):
        with contextlib.suppress(MalformedHandshake):
            parse(data)


def test_names_are_bounded() -> None:
    long = extension(0, vector(b"\x00" + vector(b"a" * 60_000)))
    many = extension(16, vector(vector(b"p", 1) * 30_000))
    body = HELLO + vector(b"\x13\x01") + vector(b"\0", 1)
    assert parse_client_hello(body + vector(long)).server_name == "a" * 255
    assert parse_client_hello(body + vector(many)).alpn == ("p",) * 64
    odd = extension(0, vector(b"\x00" + vector(b"\xffbroker\n")))
    assert parse_client_hello(body + vector(odd)).server_name == "\\xffbroker\n"


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.data())
def test_messages_over_records(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(message(11, body) for body in bodies)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    reader, found = MessageReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == [(11, body) for body in bodies]


def test_message_that_is_too_long_is_passed_over() -> None:
    reader = MessageReader()
    stream = message(11, bytes(MAX_MESSAGE + 1)) + message(14, b"")
    found = []
    for start in range(0, len(stream), 16384):
        found += reader.feed(stream[start : start + 16384])
        assert len(reader._data) < 16384
    assert found == [(14, b"")]


def test_reset() -> None:
    reader = MessageReader()
    assert list(reader.feed(message(11, b"abc")[:5])) == []
    reader.reset()
    assert list(reader.feed(message(14, b""))) == [(14, b"")]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (message(14, b""), True),
        (message(11, bytes(20_000))[:16384], True),
        (message(11, bytes(20_000))[:100], False),
        (message(99, b""), False),
        (bytes(40), False),  # the counted nonce of a first AES-GCM record
        (b"\x14", False),
    ],
)
def test_plausible_start(payload: bytes, expected: bool) -> None:
    assert plausible_start(payload) is expected


def test_version_names() -> None:
    assert [version_name(v) for v in (0x0301, 0x0303, 0x0304)] == ["TLS 1.0", "TLS 1.2", "TLS 1.3"]
    assert version_name(0x7F1C) == "version 0x7f1c"  # a draft of TLS 1.3


# ------------------------------------------------------------ CompressedCertificate (RFC 8879)
CERTIFICATES = b"\0" + vector(vector(b"DER of a certificate " * 40, 3) + vector(b""), 3)
# numbers: IANA registry "TLS Certificate Compression Algorithm IDs"
COMPRESSED = {
    1: zlib.compress(CERTIFICATES),
    2: bytes(cramjam.brotli.compress(CERTIFICATES)),
    3: zstandard.compress(CERTIFICATES),
}


def compressed(algorithm: int, size: int = len(CERTIFICATES), data: bytes | None = None) -> bytes:
    return (
        struct.pack(">H", algorithm)
        + size.to_bytes(3, "big")
        + vector(COMPRESSED[algorithm] if data is None else data, 3)
    )


@pytest.mark.parametrize("algorithm", COMPRESSED)
def test_compressed_certificates(algorithm: int) -> None:
    assert decompressed_certificate(compressed(algorithm)) == CERTIFICATES


@pytest.mark.parametrize("algorithm", COMPRESSED)
def test_compressed_certificates_of_another_size(algorithm: int) -> None:
    for size in (0, 1, len(CERTIFICATES) - 1, len(CERTIFICATES) + 1):
        with pytest.raises(MalformedHandshake, match="announced size"):
            decompressed_certificate(compressed(algorithm, size))


@pytest.mark.parametrize("algorithm", COMPRESSED)
@settings(deadline=None)
@given(st.data())
def test_damaged_compressed_certificates(algorithm: int, data: st.DataObject) -> None:
    whole = COMPRESSED[algorithm]
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes((whole[at] ^ data.draw(st.integers(1, 255)),)) + whole[at + 1 :]
    for damaged in (changed, whole[:at]):
        with contextlib.suppress(MalformedHandshake):
            assert len(decompressed_certificate(compressed(algorithm, data=damaged))) == len(CERTIFICATES)


def test_compressed_certificates_that_are_none() -> None:
    with pytest.raises(MalformedHandshake, match="unknown compression of certificates 9"):
        decompressed_certificate(compressed(9, data=b""))
    with pytest.raises(MalformedHandshake, match="are announced"):
        decompressed_certificate(compressed(1, size=MAX_MESSAGE + 1))
    # 1 GiB of zeros, in the header of a zstd frame
    frame = zstandard.ZstdCompressor().compressobj(size=1 << 30).compress(b"") + b"\0" * 20
    with pytest.raises(MalformedHandshake, match="announced size"):
        decompressed_certificate(compressed(3, data=frame))
