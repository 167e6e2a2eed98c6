"""Generated decoders on hand-written bytes: the edge cases of each piece of generated code.

test_generated.py covers random messages of every layout. Here the declarations are made for the test, and the byte
literals follow KIP-482, KIP-893 and ``protocol/types/Type.java``, unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dissectors import apis, codegen, wire
from dissectors.errors import DecodeError
from dissectors.message_version import MessageVersion
from dissectors.schema import (
    Array,
    Bool,
    Bytes,
    Field,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
)

pytestmark = pytest.mark.quick


def flexible(*fields: Field) -> MessageVersion:
    return Message("Test", None, "data", "0", "0+", *fields)[0]


def classic(*fields: Field) -> MessageVersion:
    return Message("Test", None, "data", "0", "none", *fields)[0]


def refusal(layout: MessageVersion, data: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        layout.parse(data)
    return caught.value


# ---------------------------------------------------------------- messages of other encoders
def test_heartbeat_request_v4() -> None:
    """Bytes of kio 0.6.5."""
    known = apis.api(12)
    assert known is not None
    assert known.request[4].parse(b"\x03g1\x00\x00\x00\x07\x08gr\xc3\xb6\xc3\x9fe\x00\x00") == {
        "group_id": "g1",
        "generation_id": 7,
        "member_id": "größe",
        "group_instance_id": None,
    }


def test_produce_response_v0() -> None:
    """Bytes of kafka-python 3.0.12."""
    known = apis.api(0)
    assert known is not None
    data = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00*"
    partition = {"index": 1, "error_code": 0, "base_offset": 42}
    assert known.response[0].parse(data) == {"responses": [{"name": "t", "partition_responses": [partition]}]}


def test_fetch_request_v12_with_a_tagged_string() -> None:
    """Bytes of kio 0.6.5: cluster_id is tag 0, three bytes."""
    known = apis.api(1)
    assert known is not None
    data = bytes.fromhex(
        "ffffffff 000001f4 00000001 7fffffff 00 00000000 ffffffff"
        "02 0274 02 00000002 ffffffff 0000000000000005 ffffffff ffffffffffffffff 00000400 00 00"
        "01 01 01 00 03 036331"
    )
    value = known.request[12].parse(data)
    assert value["cluster_id"] == "c1"
    assert value["topics"][0]["partitions"][0]["fetch_offset"] == 5
    assert "replica_state" not in value


# ---------------------------------------------------------------- lengths
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 40000])
def test_lengths_at_the_edges_of_a_varint(size: int) -> None:
    layout = flexible("a" / Int32, "b" / Bytes, "s" / String.null(), "c" / Int16)
    value = {"a": 1, "b": b"\xfe" * size, "s": "s" * min(size, 32767), "c": -1}
    assert layout.parse(layout.build(value)) == value


@pytest.mark.parametrize(
    ("field", "value"),
    [("f" / Bytes.null(), None), ("f" / String.null(), None), ("f" / Array(Int32).null(), None),
     ("f" / Array("a" / Int8).null(), None)],
)  # fmt: skip
def test_null_in_a_varint_longer_than_needed(field: Field, value: Any) -> None:
    """Kafka's reader takes 0x80 0x00 for zero, which is null."""
    assert flexible(field).parse(b"\x80\x00" + b"\x00") == {"f": value}


@pytest.mark.parametrize("field", ["f" / Bytes, "f" / String, "f" / Array(Int32), "f" / Array("a" / Int8)])
@pytest.mark.parametrize("null", [b"\x00", b"\x80\x00", b"\x80\x80\x00"])
def test_null_where_none_is_allowed(field: Field, null: bytes) -> None:
    error = refusal(flexible("before" / Int8, field), b"\x01" + null + b"\x00")
    assert "must not be null" in error.reason
    assert (error.offset, error.field_path, error.truncated) == (1, "f", False)


@pytest.mark.parametrize("field", ["f" / Bytes, "f" / String, "f" / Array(Int32), "f" / Array("a" / Int8)])
def test_classic_null_where_none_is_allowed(field: Field) -> None:
    error = refusal(classic("before" / Int8, field), b"\x01" + b"\xff" * 4)
    assert (error.offset, error.field_path) == (1, "f")


def test_classic_negative_lengths_are_null() -> None:
    layout = classic(
        "s" / String.null(), "b" / Bytes.null(), "n" / Array(Int8).null(), "a" / Array("x" / Int8).null()
    )
    data = b"\x80\x00" + b"\xff\xff\xff\xf0" * 3
    assert layout.parse(data) == {"s": None, "b": None, "n": None, "a": None}


def test_length_in_two_bytes_that_needs_one() -> None:
    """0x83 0x00 is 3: a string of two bytes."""
    layout = flexible("s" / String, "b" / Bytes, "n" / Array(Int8), "a" / Array("x" / Int8))
    data = b"\x83\x00ab" + b"\x83\x00cd" + b"\x83\x00\x01\x02" + b"\x82\x00\x07\x00" + b"\x00"
    assert layout.parse(data) == {"s": "ab", "b": b"cd", "n": (1, 2), "a": [{"x": 7}]}


def test_string_beyond_32767_bytes() -> None:
    error = refusal(flexible("s" / String), wire.uvarint_bytes(32769) + b"x" * 32768 + b"\x00")
    assert error.reason == "string of 32768 bytes, Kafka allows 32767"
    assert not error.truncated


def test_bad_utf8() -> None:
    error = refusal(flexible("a" / Int8, "s" / String), b"\x01\x04ab\xff\x00")
    assert "not UTF-8" in error.reason
    assert (error.offset, error.field_path, error.truncated) == (4, "s", False)


def test_any_byte_but_zero_is_true() -> None:
    value = classic("a" / Bool, "b" / Bool, "c" / Bool).parse(b"\x00\x02\xff")
    assert value == {"a": False, "b": True, "c": True}


# ---------------------------------------------------------------- arrays and the fields after them
PART = ("x" / Int8, "y" / String)


@pytest.mark.parametrize("make", [flexible, classic])
@pytest.mark.parametrize(
    "items", [None, [], [{"x": 1, "y": "a"}], [{"x": n % 99, "y": "b" * (n % 3)} for n in range(200)]]
)
def test_fixed_fields_after_an_array(make: Callable[..., MessageVersion], items: Any) -> None:
    """They are read together with the array's count, and again after its elements."""
    layout = make(
        "before" / Int16, "parts" / Array(*PART).null(), "after" / Int64, "id" / Uuid, "last" / String
    )
    value = {"before": 1, "parts": items, "after": -2, "id": "AAAAAAAAAAAAAAAAAAAAAQ", "last": "z"}
    assert layout.parse(layout.build(value)) == value


def test_end_right_after_an_array() -> None:
    layout = classic("parts" / Array("x" / Int32), "after" / Int64)
    error = refusal(layout, b"\x00\x00\x00\x01" + b"\x00\x00\x00\x05" + b"\x00" * 7)
    assert (error.field_path, error.truncated) == ("after", True)


def test_numbers_are_tuples_and_other_elements_lists() -> None:
    layout = classic("n" / Array(Int16), "s" / Array(String), "u" / Array(Uuid))
    value = layout.parse(
        b"\x00\x00\x00\x02\x00\x01\x00\x02" + b"\x00\x00\x00\x01\x00\x01t" + b"\x00\x00\x00\x00"
    )
    assert value == {"n": (1, 2), "s": ["t"], "u": []}


def test_fault_inside_an_array_names_the_element() -> None:
    layout = flexible("parts" / Array("names" / Array(String)))
    error = refusal(layout, b"\x03" + b"\x01\x00" + b"\x03\x02a\x00" + b"\x00\x00")
    assert error.field_path == "parts[1].names[1]"


# ---------------------------------------------------------------- nullable structs
def test_nullable_struct() -> None:
    layout = flexible("at" / Struct("x" / Int8).null(), "after" / Int8)
    assert layout.parse(b"\xff\x05\x00") == {"at": None, "after": 5}
    assert layout.parse(b"\x80\x05\x00") == {"at": None, "after": 5}
    for present in (b"\x00", b"\x01", b"\x7f"):
        assert layout.parse(present + b"\x07\x00\x05\x00") == {"at": {"x": 7}, "after": 5}


def test_nullable_struct_in_a_tag() -> None:
    layout = flexible("at" / Struct("x" / Int8).null().tag(3))
    assert layout.parse(b"\x01\x03\x01\x00") == {"at": None}
    assert layout.parse(b"\x01\x03\x03\x01\x07\x00") == {"at": {"x": 7}}
    assert layout.parse(b"\x01\x03\x04\x81\x00\x07\x00") == {"at": {"x": 7}}
    assert layout.parse(b"\x00") == {}


# ---------------------------------------------------------------- tag sections
TAGGED = flexible("n" / Int16.tag(0), "s" / String.null().tag(1))


def test_unknown_tags_are_kept() -> None:
    assert TAGGED.parse(b"\x02" + b"\x00\x02\x00\x07" + b"\x63\x03abc") == {"n": 7, "_tags": {99: b"abc"}}
    assert TAGGED.parse(b"\x01" + b"\x80\x01\x00") == {"_tags": {128: b""}}


def test_null_in_a_tag() -> None:
    assert TAGGED.parse(b"\x01\x01\x01\x00") == {"s": None}


@pytest.mark.parametrize(
    ("data", "size"),
    [(b"\x01\x00\x03\x00\x07\x00", 3), (b"\x01\x00\x01\x00\x07", 1), (b"\x01\x01\x02\x00\x00", 2)],
)
def test_tag_of_another_size_than_its_field(data: bytes, size: int) -> None:
    error = refusal(TAGGED, data)
    assert error.reason.startswith(f"{size} bytes are announced for the tagged field")
    assert not error.truncated


def test_tag_whose_content_wants_more_than_is_announced() -> None:
    """More of the message would not help: all announced bytes are there."""
    error = refusal(TAGGED, b"\x01\x01\x02\x09a")
    assert "are missing" in error.reason
    assert not error.truncated
    assert error.field_path == "s"


def test_cut_tags() -> None:
    for data in (b"", b"\x01", b"\x01\x00", b"\x01\x00\x02", b"\x01\x00\x02\x00", b"\x01\x63\x03ab"):
        assert refusal(TAGGED, data).truncated, data
    assert refusal(TAGGED, b"\x01\x63\x03ab").field_path == "_tags[99]"


# ---------------------------------------------------------------- the generator itself
def test_decoder_of_a_leaf_reads() -> None:
    assert codegen.decoder(wire.INT16)(b"\x00\x01\x00\x02", 2) == (2, 4)


def test_source_is_for_people() -> None:
    text = codegen._Generator().function(flexible("a" / Int32, "b" / Int16, "s" / String).struct).source()
    assert text.startswith("def decode(buf, pos):")
    assert "'a': " in text
    assert " + 0" not in text


def test_fixed_fields_are_read_at_once() -> None:
    text = codegen._Generator().function(classic(*(name / Int32 for name in "abcdefgh")).struct).source()
    assert text.count("(buf, pos)") == 2  # the head, and one unpack


def test_uuid_texts_are_shared() -> None:
    layout = classic("id" / Uuid)
    assert layout.parse(b"\x07" * 16)["id"] is layout.parse(b"\x07" * 16)["id"]
