"""The Internet checksum against the example of its RFC, and against a plain loop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from captures.export.checksum import internet_checksum, tcp_checksum, words_sum


def by_words(data: bytes) -> int:
    """RFC 1071 section 4.1, word by word."""
    data += b"\0" * (len(data) & 1)
    total = sum(int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def test_the_example_of_rfc_1071() -> None:
    # section 3: the words 0001 f203 f4f5 f6f7 add up to ddf2
    assert internet_checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xDDF2 ^ 0xFFFF


@given(st.binary(min_size=1, max_size=300).filter(any))
def test_as_word_by_word(data: bytes) -> None:
    assert internet_checksum(data) == by_words(data)


@given(st.binary(max_size=40), st.integers(0, 700), st.integers(0, 7))
def test_sums_of_parts_add_up(pattern: bytes, size: int, shift: int) -> None:
    """With Python integers or numpy, at any alignment, and with a last part of any length."""
    data = memoryview(((pattern or b"\xff") * 900)[: size * 2 + 37])[shift:]
    parts = data[: 2 * (size // 2)], data[2 * (size // 2) :]
    total = sum(map(words_sum, parts))
    assert -total % 0xFFFF == internet_checksum(bytes(data)) % 0xFFFF
    assert words_sum(data) % 0xFFFF == total % 0xFFFF


def test_tcp_counts_the_pseudo_header() -> None:
    source, target, segment = b"\x0a\0\0\x01", b"\x0a\0\0\x02", bytes(range(21))
    # RFC 9293 section 3.1: addresses, zero, protocol, length
    assert tcp_checksum(source, target, segment) == by_words(source + target + b"\0\x06\0\x15" + segment)
