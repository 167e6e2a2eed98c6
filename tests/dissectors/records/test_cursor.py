"""The cursor: nodes of the data read, even if reading fails."""

from __future__ import annotations

import struct

import pytest

from dissectors.errors import DecodeError
from dissectors.records.cursor import Cursor, walk_message, walk_record
from dissectors.trace import Node
from tests.dissectors.records.strategies import HEADER_RECORD, LOG_APPEND_V1


def flat(node: Node) -> list[tuple[str, object, int, int]]:
    return [(child.name, child.value, child.start, child.end) for child in node.children]


def test_record_of_a_client() -> None:
    cursor = Cursor(HEADER_RECORD, 61, len(HEADER_RECORD))
    walk_record(cursor, "record")
    (record,) = cursor.nodes
    assert (record.start, record.end) == (61, 75)
    assert flat(record) == [
        ("length", 13, 61, 62),
        ("attributes", 0, 62, 63),
        ("timestamp_delta", 0, 63, 64),
        ("offset_delta", 0, 64, 65),
        ("key_length", 0, 65, 66),
        ("key", b"", 66, 66),
        ("value_length", 0, 66, 67),
        ("value", b"", 67, 67),
        ("headers_count", 1, 67, 68),
        ("headers[0]", None, 68, 75),
    ]
    assert flat(record.children[-1]) == [
        ("key_length", 5, 68, 69),
        ("key", b"empty", 69, 74),
        ("value_length", 0, 74, 75),
        ("value", b"", 75, 75),
    ]


def test_message_of_a_broker() -> None:
    cursor = Cursor(LOG_APPEND_V1, 0, len(LOG_APPEND_V1))
    walk_message(cursor, "message")
    assert flat(cursor.nodes[0]) == [
        ("offset", 3, 0, 8),
        ("size", 26, 8, 12),
        ("crc", 0xA75547AA, 12, 16),
        ("magic", 1, 16, 17),
        ("attributes", 8, 17, 18),
        ("timestamp", 1795254762768, 18, 26),
        ("key_length", 4, 26, 30),
        ("key", b"key3", 30, 34),
        ("value_length", -1, 34, 38),
        ("value", None, 38, 38),
    ]


def test_failed_walk_keeps_its_nodes() -> None:
    cursor = Cursor(HEADER_RECORD[:70], 61, 70)
    with pytest.raises(DecodeError) as caught:
        walk_record(cursor, "record")
    assert caught.value.field_path == "record.length"
    assert [node.name for node in cursor.nodes[0].children] == ["length"]


def test_error_inside_a_record_is_not_a_truncation() -> None:
    with pytest.raises(DecodeError) as caught:
        walk_record(Cursor(b"\x04\x00\x00", 0, 3), "record")
    assert not caught.value.truncated


def test_varint_beyond_the_end_of_its_record() -> None:
    cursor = Cursor(b"\x80\x80\x01", 0, 2)
    with pytest.raises(DecodeError) as caught:
        cursor.varint("length")
    assert (caught.value.offset, caught.value.truncated, cursor.pos) == (0, True, 0)


def test_groups_nest_paths() -> None:
    cursor = Cursor(b"\x00", 0, 1)
    with pytest.raises(DecodeError) as caught, cursor.group("outer"), cursor.group("inner"):
        cursor.fixed("number", struct.Struct(">i"))
    assert caught.value.field_path == "outer.inner.number"
    assert cursor.path == ""
    assert [node.name for node in cursor.nodes] == ["outer"]
