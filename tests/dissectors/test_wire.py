"""Wire types one by one: bytes in, value and next position out; and back.

Byte forms follow ``protocol/types/Type.java`` and ``ByteUtils.java`` of Apache Kafka and KIP-482, unless a literal
says otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest
from construct import SizeofError, StreamError, StringError
from hypothesis import given
from hypothesis import strategies as st

from dissectors import schema, wire
from dissectors.errors import DecodeError

pytestmark = pytest.mark.quick

COMPACT = {"compact": True, "nullable": False}
CLASSIC = {"compact": False, "nullable": False}
OR_NULL = {"compact": True, "nullable": True}
CLASSIC_OR_NULL = {"compact": False, "nullable": True}


# ---------------------------------------------------------------- UNSIGNED_VARINT
@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\xac\x02", 300),  # the example of Protocol Buffers' encoding guide
        (b"\xff\x7f", 16383),
        (b"\x80\x80\x01", 16384),
        (b"\xff\xff\xff\xff\x07", 2**31 - 1),
        (b"\xff\xff\xff\xff\x0f", 2**32 - 1),
    ],
)
def test_uvarint(data: bytes, value: int) -> None:
    assert wire.read_uvarint(data, 0) == (value, len(data))
    assert wire.read_uvarint(b"\xff" + data + b"\xff", 1) == (value, len(data) + 1)
    assert wire.uvarint_bytes(value) == data


def test_uvarint_longer_than_needed() -> None:
    assert wire.read_uvarint(b"\x80\x00", 0) == (0, 2)
    assert wire.read_uvarint(b"\x85\x80\x80\x80\x00", 0) == (5, 5)


def test_fifth_byte_overflows_silently() -> None:
    """ByteUtils.readUnsignedVarint shifts the fifth byte into 32 bits and drops the rest."""
    assert wire.read_uvarint(b"\x80\x80\x80\x80\x7f", 0) == (0xF000_0000, 5)


def test_sixth_byte_is_an_error() -> None:
    with pytest.raises(DecodeError, match="longer than 5 bytes at byte 1") as caught:
        wire.read_uvarint(b"\x00\x80\x80\x80\x80\x80\x00", 1)
    assert not caught.value.truncated


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_uvarint_cut(data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        wire.read_uvarint(data, 0)
    assert caught.value.truncated
    assert caught.value.offset == len(data)


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value: int) -> None:
    data = wire.uvarint_bytes(value)
    assert wire.read_uvarint(data, 0) == (value, len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))


# ---------------------------------------------------------------- fixed width
@pytest.mark.parametrize(
    ("con", "data", "value"),
    [
        (wire.INT8, b"\xff", -1),
        (wire.INT16, b"\x80\x00", -32768),
        (wire.INT32, b"\x7f\xff\xff\xff", 2**31 - 1),
        (wire.INT64, b"\xff" * 7 + b"\xfe", -2),
        (wire.UINT16, b"\xff\xff", 65535),
        (wire.FLOAT64, b"\x3f\xf0\x00\x00\x00\x00\x00\x00", 1.0),  # IEEE 754: 1.0
        (wire.BOOL, b"\x00", False),
        (wire.BOOL, b"\x01", True),
    ],
)
def test_fixed(con: wire.FixedWidth, data: bytes, value: Any) -> None:
    assert con.read(b"\x55" + data, 1) == (value, 1 + len(data))
    assert con.parse(data) == value
    assert con.build(value) == data
    assert con.sizeof() == len(data)
    with pytest.raises(DecodeError, match=f"end inside {con.kind}") as caught:
        con.read(data[:-1], 0)
    assert caught.value.truncated
    assert caught.value.offset == len(data) - 1


@pytest.mark.parametrize("byte", [b"\x02", b"\x80", b"\xff"])
def test_any_byte_but_zero_is_true(byte: bytes) -> None:
    value, end = wire.BOOL.read(byte, 0)
    assert value is True
    assert end == 1


@pytest.mark.parametrize(
    ("con", "value"), [(wire.INT8, 128), (wire.UINT16, -1), (wire.INT32, "7"), (wire.INT64, None)]
)
def test_number_out_of_range_is_not_built(con: wire.FixedWidth, value: Any) -> None:
    with pytest.raises(StreamError, match=con.kind):
        con.build(value)


# ---------------------------------------------------------------- UUID
#: 16 bytes and what Kafka's Uuid.toString() prints: base64url (RFC 4648) without padding
UUID_BYTES, UUID_TEXT = bytes.fromhex("fb" * 8 + "ff" * 8), "-_v7-_v7-_v__________w"


def test_uuid() -> None:
    assert wire.UUID.read(b"\x00" + UUID_BYTES, 1) == (UUID_TEXT, 17)
    assert wire.UUID.build(UUID_TEXT) == UUID_BYTES
    assert wire.UUID.sizeof() == 16
    assert wire.uuid_text(bytes(16)) == wire.ZERO_UUID
    assert wire.uuid_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"  # Uuid.java: METADATA_TOPIC_ID


def test_uuid_cut() -> None:
    with pytest.raises(DecodeError, match="end inside uuid") as caught:
        wire.UUID.read(bytes(15), 0)
    assert caught.value.truncated


def test_text_that_is_no_uuid() -> None:
    with pytest.raises(ValueError, match="not a Kafka UUID"):
        wire.uuid_bytes("AAAA")


# ---------------------------------------------------------------- strings and bytes
@pytest.mark.parametrize(
    ("con", "data", "value"),
    [
        (wire.String(**COMPACT), b"\x01", ""),
        (wire.String(**COMPACT), b"\x03g1", "g1"),  # kio 0.6.5: group_id of HeartbeatRequest v4
        (wire.String(**COMPACT), b"\x08gr\xc3\xb6\xc3\x9fe", "größe"),  # kio 0.6.5: member_id of the same
        (wire.String(**OR_NULL), b"\x00", None),
        (wire.String(**CLASSIC), b"\x00\x00", ""),
        (wire.String(**CLASSIC), b"\x00\x01t", "t"),  # kafka-python 3.0.12: name in ProduceResponse v0
        (wire.String(**CLASSIC_OR_NULL), b"\xff\xff", None),
        (wire.Bytes(**COMPACT), b"\x03\x00\xff", b"\x00\xff"),
        (wire.Bytes(**OR_NULL), b"\x00", None),
        (wire.Bytes(**CLASSIC), b"\x00\x00\x00\x01a", b"a"),
        (wire.Bytes(**CLASSIC_OR_NULL), b"\xff\xff\xff\xff", None),
        (wire.Records(**OR_NULL), b"\x01", b""),
    ],
)
def test_sized(con: wire.SizedLeaf, data: bytes, value: Any) -> None:
    assert con.read(b"\x55" + data + b"\x55", 1) == (value, 1 + len(data))
    assert con.parse(data) == value
    assert con.build(value) == data


def test_long_compact_length() -> None:
    con = wire.String(**COMPACT)
    assert con.build("x" * 127) == b"\x80\x01" + b"x" * 127
    assert con.parse(b"\x80\x01" + b"x" * 127) == "x" * 127


def test_any_negative_length_is_null() -> None:
    """Type.java: ``if (length < 0) return null``."""
    assert wire.String(**CLASSIC_OR_NULL).read(b"\x80\x00", 0) == (None, 2)
    assert wire.Bytes(**CLASSIC_OR_NULL).read(b"\xff\xff\xff\xf0", 0) == (None, 4)


@pytest.mark.parametrize(
    ("con", "data"),
    [
        (wire.String(**COMPACT), b"\x00"),
        (wire.String(**CLASSIC), b"\xff\xff"),
        (wire.Bytes(**CLASSIC), b"\xff\xff\xff\xfe"),
    ],
)
def test_null_where_none_is_allowed(con: wire.SizedLeaf, data: bytes) -> None:
    with pytest.raises(DecodeError, match=f"null where {con.kind} must not be null at byte 2") as caught:
        con.read(b"\x05\x05" + data, 2)
    assert not caught.value.truncated
    with pytest.raises(StreamError, match="must not be null"):
        con.build(None)


def test_string_beyond_32767_bytes() -> None:
    """Kafka's readers reject it; a longer length is wrong even before its bytes have arrived."""
    con = wire.String(**COMPACT)
    longest = con.build("x" * 32767)
    assert longest[:3] == b"\x80\x80\x02"
    assert con.parse(longest) == "x" * 32767
    for rest in (b"x" * 32768, b""):
        with pytest.raises(DecodeError, match="string of 32768 bytes, Kafka allows 32767") as caught:
            con.read(b"\x81\x80\x02" + rest, 0)
        assert not caught.value.truncated


def test_classic_string_too_long_to_build() -> None:
    with pytest.raises(StreamError, match="32768 bytes are too many for string"):
        wire.String(**CLASSIC).build("x" * 32768)


def test_what_is_no_string_is_not_built() -> None:
    with pytest.raises(StringError, match="is not a string"):
        wire.String(**COMPACT).build(b"bytes")


def test_bad_utf8_says_where() -> None:
    """0xff never occurs in UTF-8 (RFC 3629)."""
    with pytest.raises(DecodeError, match="not UTF-8: invalid start byte at byte 4") as caught:
        wire.String(**COMPACT).read(b"\x00\x04ab\xff", 1)
    assert not caught.value.truncated


def test_cut_content_says_how_much_is_missing() -> None:
    with pytest.raises(DecodeError, match="3 of 5 bytes of bytes are missing at byte 1") as caught:
        wire.Bytes(**COMPACT).read(b"\x06ab", 0)
    assert caught.value.truncated
    with pytest.raises(DecodeError, match="end inside the length of string") as caught:
        wire.String(**CLASSIC).read(b"\x00", 0)
    assert caught.value.truncated


# ---------------------------------------------------------------- containers
def test_array_counts() -> None:
    assert wire.Array(wire.INT16, **COMPACT).build([1, 2]) == b"\x03\x00\x01\x00\x02"
    assert wire.Array(wire.INT16, **CLASSIC).build(()) == b"\x00\x00\x00\x00"
    assert wire.Array(wire.INT16, **OR_NULL).build(None) == b"\x00"
    assert wire.Array(wire.INT16, **CLASSIC_OR_NULL).build(None) == b"\xff\xff\xff\xff"


def test_array_parses_as_a_construct() -> None:
    assert wire.Array(wire.INT16, **COMPACT).parse(b"\x03\x00\x01\x00\x02") == (1, 2)
    assert wire.Array(wire.String(**COMPACT), **CLASSIC).parse(b"\x00\x00\x00\x01\x02t") == ["t"]


def struct(*fields: schema.Field) -> wire.Struct:
    return schema.Struct(*fields).bound(0, flexible=True)


def test_struct_closes_with_ascending_tags() -> None:
    con = struct("a" / schema.Int8, "high" / schema.Int16.tag(9), "low" / schema.String.tag(1))
    assert con.build({"a": 1}) == b"\x01\x00"
    built = con.build({"a": 1, "high": 2, "low": "t", "_tags": {5: b"??"}})
    assert built == b"\x01\x03" + b"\x01\x02\x02t" + b"\x05\x02??" + b"\x09\x02\x00\x02"
    assert con.parse(built) == {"a": 1, "high": 2, "low": "t", "_tags": {5: b"??"}}


def test_missing_values_are_built_as_defaults() -> None:
    con = struct(
        "a" / schema.Int32.default(-1),
        "b" / schema.String.null().default(None),
        "c" / schema.Array(schema.Int8),
    )
    assert con.build({}) == b"\xff\xff\xff\xff" + b"\x00" + b"\x01" + b"\x00"


def test_nullable_struct_markers() -> None:
    """KIP-893: int8 -1 or 1; inside a tag a uvarint 0 or 1."""
    inner = struct("a" / schema.Int8)
    plain, tagged = wire.NullableStruct(inner, tagged=False), wire.NullableStruct(inner, tagged=True)
    assert plain.build(None) == b"\xff"
    assert plain.build({"a": 7}) == b"\x01\x07\x00"
    assert tagged.build(None) == b"\x00"
    assert tagged.build({"a": 7}) == b"\x01\x07\x00"
    assert plain.read_marker(b"\x00", 0) == (True, 1)  # MessageDataGenerator: null only if negative
    assert plain.read_marker(b"\x80", 0) == (False, 1)
    assert tagged.read_marker(b"\x80\x01", 0) == (True, 2)


def test_variable_length_has_no_size() -> None:
    with pytest.raises(SizeofError):
        wire.String(**COMPACT).sizeof()
