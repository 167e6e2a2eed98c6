from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.budget import LimitReached
from dissectors.budget import changed as limits
from dissectors.embedded import protobuf
from dissectors.embedded.protobuf import ProtobufField, Schema, read
from dissectors.errors import DecodeError

NESTED: Schema = {
    1: ProtobufField("number", protobuf.INT),
    2: ProtobufField("text", protobuf.STRING),
    3: ProtobufField("inner", lambda: NESTED),
    4: ProtobufField("numbers", protobuf.SINT, repeated=True),
    5: ProtobufField("doubles", protobuf.DOUBLE, repeated=True),
    6: ProtobufField("flag", protobuf.BOOL),
    7: ProtobufField("many", lambda: NESTED, repeated=True),
    8: ProtobufField("word", protobuf.Scalar(protobuf.FIXED32, lambda raw: int.from_bytes(raw, "little"))),
    9: ProtobufField("signed", protobuf.FIXED_INT64),
}


def value(data: bytes) -> dict[str, Any]:
    into: dict[str, Any] = {}
    read(NESTED, data, into)
    return into


# The examples of protobuf.dev, "Encoding": 150 is 96 01; "testing"; -2 in ten bytes; zigzag
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("08 9601", {"number": 150}),
        ("12 07 74657374696e67", {"text": "testing"}),
        ("08 feffffffffffffffff01", {"number": -2}),
        ("1a 03 08 9601", {"inner": {"number": 150}}),
        ("20 01 20 02 20 feffffff0f", {"numbers": [-1, 1, 2147483647]}),
        ("22 03 01 02 03", {"numbers": [-1, 1, -2]}),
        ("2a 08 000000000000f03f", {"doubles": [1.0]}),
        ("29 000000000000f03f", {"doubles": [1.0]}),
        ("30 01", {"flag": True}),
        ("3a 00 3a 02 30 00", {"many": [{}, {"flag": False}]}),
        ("45 01000080", {"word": 0x80000001}),
        ("49 ffffffffffffffff", {"signed": -1}),
        ("7a 03 616263 08 01", {"number": 1}),  # field 15 is not known
        ("1a 02 08 01 1a 02 30 01", {"inner": {"number": 1, "flag": True}}),  # a message in two pieces is one
        ("12 01 ff", {"text": "\\xff"}),
    ],
)
def test_values(data: str, expected: dict[str, Any]) -> None:
    assert value(bytes.fromhex(data)) == expected


@pytest.mark.parametrize(
    ("data", "path", "reason", "offset"),
    [
        ("08", "", "end inside a varint", 1),
        ("08 ffffffffffffffffffff01", "", "longer than 10 bytes", 1),
        ("12 05 6162", "", "3 of 5 bytes are missing", 2),
        ("3a 04 08 01 12 09", "many[0]", "9 of 9 bytes are missing", 6),
        ("0b", "", "unknown wire type 3", 1),
        ("10 01", "text", "wire type 0 where 2 is expected", 1),
        ("18 01", "inner", "wire type 0 of a message", 0),
        ("22 02 01 ff", "numbers", "end inside a varint", 3),
        ("2a 07 00000000000000", "doubles", "1 of 8 bytes are missing", 2),
    ],
)
def test_faults(data: str, path: str, reason: str, offset: int) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        value(bytes.fromhex(data))
    assert (caught.value.field_path, caught.value.offset) == (path, offset)


def test_what_came_before_a_fault_stays() -> None:
    into: dict[str, Any] = {}
    with pytest.raises(DecodeError):
        read(NESTED, bytes.fromhex("08 01 3a 04 30 01 12 09"), into)
    assert into == {"number": 1, "many": [{"flag": True}]}


def test_depth_is_bounded() -> None:
    data = b""
    for _ in range(protobuf.MAX_DEPTH + 1):
        data = b"\x1a" + bytes([len(data)]) + data
    with pytest.raises(DecodeError, match="nested more than 32 deep"):
        value(data)


def test_values_are_bounded() -> None:
    tracemalloc.start()
    try:
        with limits(telemetry_values=1000), pytest.raises(LimitReached, match="telemetry_values"):
            value(b"\x3a\x00" * 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def offset_of_fault(data: bytes) -> int:
    try:
        value(data)
    except DecodeError as error:
        return error.offset
    return 0


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    assert 0 <= offset_of_fault(data) <= len(data)
