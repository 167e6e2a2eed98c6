"""Records fields: with every magic and codec, they keep size, structure and checksum."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from captures.export.scrub.records import RecordScrubber, blank_records
from dissectors.errors import DecodeError
from dissectors.records import Codec, Record, record_set
from dissectors.records.build import build_batch
from dissectors.records.cursor import Cursor, walk_record

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LEGACY = [(magic, codec) for magic in (0, 1) for codec in CODECS[:4]]

data = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=8), data), max_size=3).map(tuple)


def rows(count: int, *, magic: int = 2) -> list[Record]:
    return [
        Record(
            n,
            1000 + n if magic else -1,
            b"key-%d" % n,
            b'{"user":"Ada Lovelace","n":%d}' % n,
            (("trace", b"secret-%d" % n),) if magic == 2 else (),
        )
        for n in range(count)
    ]


def check(original: bytes, blanked: bytes) -> None:
    assert len(blanked) == len(original)
    before, after = record_set(original), record_set(blanked)
    assert not after.problems
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        assert new.crc_valid
        for was, now in zip(old.records(), new.records(), strict=True):
            assert (now.offset, now.timestamp) == (was.offset, was.timestamp)
            for one, other in ((was.key, now.key), (was.value, now.value)):
                assert other == (None if one is None else b"x" * len(one))
            assert [value for _, value in now.headers] == [
                None if value is None else b"x" * len(value) for _, value in was.headers
            ]


@pytest.mark.parametrize("count", [1, 31, 32, 500])
@pytest.mark.parametrize("codec", CODECS)
def test_record_batches(codec: Codec, count: int) -> None:
    original = build_batch(rows(count), codec=codec)
    blanked = RecordScrubber().scrub(original)
    check(original, blanked)
    if codec is Codec.SNAPPY:
        return  # kafka-python has no snappy implementation of its own
    # kafka-python can read all of it, too
    batches = MemoryRecords(blanked)
    read = list(batches.next_batch())
    assert [record.value for record in read] == [b"x" * len(row.value or b"") for row in rows(count)]


@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_message_sets(magic: int, codec: Codec) -> None:
    original = build_batch(rows(20, magic=magic), magic=magic, codec=codec)
    check(original, RecordScrubber().scrub(original))


@pytest.mark.slow
@given(
    st.lists(
        st.builds(Record, st.integers(0, 50), st.integers(0, 99), data, data, headers),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from(CODECS),
)
@settings(max_examples=150, deadline=None)
def test_any_records(records: list[Record], codec: Codec) -> None:
    original = build_batch(sorted(records, key=lambda record: record.offset), codec=codec)
    scrubber = RecordScrubber()
    check(original, scrubber.scrub(original))
    assert scrubber.counts["records"] == len(records)
    assert not scrubber.counts["zeroed"]


@pytest.mark.slow
@given(st.lists(st.builds(Record, st.just(0), st.just(0), data, data, headers), min_size=1, max_size=20))
def test_blanked_is_what_the_trace_calls_keys_and_values(records: list[Record]) -> None:
    (batch,) = record_set(build_batch(records)).batches
    plain = batch.payload().data
    cursor, blanked = Cursor(plain, 0, len(plain)), bytearray(plain)
    for index in range(len(records)):
        walk_record(cursor, "records", index)
    for node in cursor.nodes:
        for _, field in node.walk():
            if field.name in ("key", "value"):
                blanked[field.start : field.end] = b"x" * (field.end - field.start)
    assert blank_records(plain, len(records)) == blanked


@given(
    st.lists(st.builds(Record, st.just(0), st.just(0), data, data, headers), min_size=1, max_size=5),
    st.data(),
)
def test_damaged_records_are_blanked_where_they_can_be_read(
    records: list[Record], draw: st.DataObject
) -> None:
    (batch,) = record_set(build_batch(records)).batches
    plain = bytearray(batch.payload().data)
    plain[draw.draw(st.integers(0, len(plain) - 1))] = draw.draw(st.integers(0, 255))
    cursor = Cursor(bytes(plain), 0, len(plain))
    try:
        for index in range(len(records)):
            walk_record(cursor, "records", index)
        sound = cursor.pos == len(plain)
    except DecodeError:
        sound = False
    assert (blank_records(bytes(plain), len(records)) is not None) == sound


def test_control_records_stay() -> None:
    original = build_batch([Record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\7")], control=True, transactional=True)
    assert RecordScrubber().scrub(original) == original


def test_a_checksum_that_was_wrong_stays_wrong() -> None:
    original = bytearray(build_batch(rows(3)))
    original[17] ^= 0xFF  # the first byte of the checksum
    (batch,) = record_set(RecordScrubber().scrub(bytes(original))).batches
    assert not batch.crc_valid


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_cannot_be_decompressed_is_zeroed(codec: Codec) -> None:
    original = build_batch(rows(50), codec=codec)
    cut = bytearray(original)
    cut[100:] = b"\xa5" * (len(cut) - 100)
    scrubber = RecordScrubber()
    blanked = scrubber.scrub(bytes(cut))
    assert blanked[61:] == bytes(len(cut) - 61)
    assert scrubber.counts["zeroed"] == len(cut) - 61


def test_a_batch_cut_off_by_a_byte_limit_keeps_its_header_only() -> None:
    whole, second = build_batch(rows(3)), build_batch(rows(9), codec=Codec.GZIP)
    field = whole + second[:90]
    blanked = RecordScrubber().scrub(field)
    check(whole, blanked[: len(whole)])
    assert blanked[len(whole) :] == second[:61] + bytes(29)
    trailing = record_set(blanked).trailing
    assert trailing is not None
    assert trailing == record_set(field).trailing


@given(st.binary(max_size=200))
def test_bytes_that_are_no_records_leave_nothing(noise: bytes) -> None:
    blanked = RecordScrubber().scrub(noise)
    assert len(blanked) == len(noise)
    if not record_set(noise).batches and record_set(noise).trailing is None:
        assert not any(blanked)


@given(st.integers(0, 400), st.integers(0, 255), st.sampled_from(CODECS))
@example(22, 0x20, Codec.NONE)  # the bit of control batches, whose records stay unchanged
@settings(max_examples=100, deadline=None)
def test_damage_anywhere_never_raises_nor_leaks(at: int, byte: int, codec: Codec) -> None:
    original = bytearray(build_batch(rows(8), codec=codec))
    original[at % len(original)] = byte
    blanked = RecordScrubber().scrub(bytes(original))
    assert len(blanked) == len(original)
    assert b"Lovelace" not in blanked
    for batch in record_set(blanked).batches:
        for record in batch.read().records:
            assert b"Lovelace" not in (record.value or b"")
