"""Framing of records, and resynchronisation after a loss."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.packets.tls.records import (
    ALERT,
    APPLICATION_DATA,
    HANDSHAKE,
    MAX_PAYLOAD,
    RecordHole,
    RecordReader,
    TlsRecord,
    is_client_hello,
    looks_like_tls,
)


def record(payload: bytes, kind: int = APPLICATION_DATA, version: int = 0x0303) -> bytes:
    """RFC 8446, section 5.1."""
    return struct.pack(">BHH", kind, version, len(payload)) + payload


def contents(items: list[TlsRecord | RecordHole]) -> list[bytes | tuple[int, int]]:
    return [bytes(i.payload) if isinstance(i, TlsRecord) else (i.start, i.end) for i in items]


def test_records_in_one_piece() -> None:
    reader = RecordReader()
    items = reader.feed(record(b"hello", HANDSHAKE, 0x0301) + record(b"") + record(b"data")[:-1])
    assert [(i.kind, i.start, i.end) for i in items if isinstance(i, TlsRecord)] == [
        (22, 0, 10),
        (23, 10, 15),
    ]
    assert items[0].header == bytes.fromhex("1603010005")  # type 22, TLS 1.0, length 5
    assert reader.position == 15
    assert contents(reader.feed(b"a")) == [b"data"]
    assert reader.close() == []


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=8), st.data())
def test_any_segmentation(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(record, payloads))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    reader, items = RecordReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        items += reader.feed(stream[start:end])
    assert contents(items) == payloads
    assert reader.close() == []


@given(st.integers(0, 260), st.integers(1, 260))
def test_gap_loses_only_what_it_touches(start: int, length: int) -> None:
    payloads = [bytes((0x80 + i,)) * 30 for i in range(8)]  # no byte of which looks like a header
    stream = b"".join(map(record, payloads))
    end = min(start + length, len(stream))
    reader = RecordReader()
    items = reader.feed(stream[:start]) + reader.gap(end - start, "lost") + reader.feed(stream[end:])
    items += reader.close()
    whole = [p for i, p in enumerate(payloads) if 35 * i + 35 <= start or 35 * i >= end]
    assert [bytes(i.payload) for i in items if isinstance(i, TlsRecord)] == whole
    position = 0
    for item in items:
        assert item.start == position
        position = item.end
    assert position == len(stream)
    touched = 8 - len(whole)
    holes = [i for i in items if isinstance(i, RecordHole)]
    assert sum(hole.records for hole in holes) >= touched > 0
    assert {hole.reason for hole in holes} == {"lost"}


def test_gap_inside_a_record_of_known_length_is_exact() -> None:
    reader = RecordReader()
    stream = record(b"a" * 100) + record(b"b")
    assert reader.feed(stream[:50]) == []
    assert reader.gap(20, "lost") == []
    hole, after = reader.feed(stream[70:])
    assert isinstance(hole, RecordHole)
    assert (hole.start, hole.end, hole.records) == (0, 105, 1)
    assert isinstance(after, TlsRecord)


def test_two_gaps_make_one_hole() -> None:
    reader = RecordReader()
    stream = record(b"a" * 100) + record(b"b" * 100) + record(b"c")
    reader.feed(stream[:50])
    reader.gap(20, "lost")
    reader.feed(stream[70:80])
    reader.gap(60, "lost again")
    items = reader.feed(stream[140:])
    items += reader.close()
    assert contents(items) == [(0, 210), b"c"]


def test_what_looks_like_a_header_but_is_followed_by_none() -> None:
    reader = RecordReader()
    reader.feed(record(b"x"))
    reader.gap(1000, "lost")
    lure = b"\x17\x03\x03\x00\x05"  # as if 5 bytes of application data followed
    items = reader.feed(b"rest" + lure + b"12345 no header here" + record(b"y") + record(b"z"))
    assert contents(items)[1:] == [b"y", b"z"]


def test_garbage_between_records() -> None:
    reader = RecordReader()
    items = reader.feed(record(b"x") + b"garbage" + record(b"y") + record(b"z"))
    assert contents(items) == [b"x", (6, 13), b"y", b"z"]
    assert not reader.foreign


def test_cut_off_at_the_end() -> None:
    reader = RecordReader()
    reader.feed(record(b"x" * 10)[:7])
    (hole,) = reader.close()
    assert isinstance(hole, RecordHole)
    assert (hole.start, hole.end) == (0, 7)
    assert hole.reason == "the stream ended 7 bytes into a record"


def test_what_is_held_is_bounded() -> None:
    reader = RecordReader()
    reader.feed(record(b"x"))
    reader.gap(1000, "lost")
    for _ in range(1000):
        reader.feed(b"\x17\x03\x03\x40\x00" * 100)  # headers of 16 KiB records wherever one looks
        assert reader._have < 2 * MAX_PAYLOAD
    reader.feed(b"\x00" * 100_000)
    assert reader._have < 2 * MAX_PAYLOAD


def test_discard() -> None:
    reader = RecordReader()
    reader.feed(record(b"x") + b"\x17")
    reader.discard()
    assert reader.feed(record(b"y")) == reader.gap(5, "lost") == reader.close() == []
    assert reader.position == 6 + 1 + 6 + 5


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (b"", None),
        (bytes.fromhex("160301020001"), True),  # ClientHello of 512 bytes as OpenSSL sends it
        (bytes.fromhex("1603030040 02"), True),  # ServerHello
        (bytes.fromhex("1503030002 02"), True),  # fatal alert
        (bytes.fromhex("160301"), None),
        (bytes.fromhex("1603010200 0b"), False),  # Certificate is never the first message
        (bytes.fromhex("1703030100 00"), False),  # application data: not the beginning
        (bytes.fromhex("00000023 0012"), False),  # Kafka: ApiVersions request of 35 bytes
        (b"GET / HTTP/1.1", False),
    ],
)
def test_looks_like_tls(first: bytes, expected: bool | None) -> None:
    assert looks_like_tls(first) is expected
    assert is_client_hello(first) is (first[:1] == b"\x16" and first[5:6] == b"\x01")


def test_foreign() -> None:
    reader = RecordReader()
    reader.feed(b"GET / HTTP/1.1\r\n")
    assert reader.foreign
    after_gap = RecordReader()
    after_gap.gap(10, "lost")
    after_gap.feed(b"GET / HTTP/1.1\r\n")
    assert not after_gap.foreign


def test_kinds() -> None:
    assert contents(RecordReader().feed(record(b"\x02\x28", ALERT))) == [b"\x02\x28"]
