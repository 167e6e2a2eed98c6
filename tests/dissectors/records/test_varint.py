"""Zig-zag varints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.errors import DecodeError
from dissectors.records.build import encode_varint
from dissectors.records.cursor import read_varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [  # protobuf's encoding guide, "Signed Integers"
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2147483647, "feffffff0f"),
        (-2147483648, "ffffffff0f"),
        (-(1 << 63), "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(value: int, encoded: str) -> None:
    raw = bytes.fromhex(encoded)
    assert encode_varint(value) == raw
    assert read_varint(b"?" + raw + b"?", 1, 64) == (value, 1 + len(raw))


@settings(deadline=None)
@given(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([32, 64]))
def test_round_trip(value: int, bits: int) -> None:
    raw = encode_varint(value)
    if -(1 << bits - 1) <= value < 1 << bits - 1:
        assert read_varint(raw, 0, bits) == (value, len(raw))
    else:
        with pytest.raises(DecodeError, match="longer than 32 bits"):
            read_varint(raw, 0, bits)


def test_longer_than_needed_is_read() -> None:
    assert read_varint(b"\x80\x80\x00", 0) == (0, 3)


@pytest.mark.parametrize(
    ("raw", "bits"),
    [
        (b"\x80" * 5 + b"\x00", 32),
        (b"\xff\xff\xff\xff\x10", 32),
        (b"\x80" * 10 + b"\x00", 64),
        (b"\xff" * 9 + b"\x02", 64),
    ],
)
def test_too_long(raw: bytes, bits: int) -> None:
    with pytest.raises(DecodeError) as caught:
        read_varint(b"??" + raw, 2, bits)
    assert caught.value.offset == 2
    assert not caught.value.truncated


def test_truncated() -> None:
    for raw in (b"", b"\x80", b"\xff\xff\xff"):
        with pytest.raises(DecodeError) as caught:
            read_varint(raw, 0)
        assert caught.value.truncated
