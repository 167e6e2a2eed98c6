"""Built records are read back, in every magic and codec."""

from __future__ import annotations

import struct
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.codec import KNOWN_CODECS
from dissectors.records import Codec, Record, record_set, trace_records
from dissectors.records.build import build_batch
from tests.batches import batches
from tests.dissectors.records.strategies import HEADER_RECORD, MARKER, record_lists

LEGACY_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def test_builds_the_bytes_of_a_broker() -> None:
    (marker,) = batches(MARKER)
    built = build_batch(
        marker.records(),
        transactional=True,
        control=True,
        producer_id=2,
        producer_epoch=1,
        partition_leader_epoch=0,
    )
    assert built == MARKER


def test_builds_the_bytes_of_a_client() -> None:
    assert build_batch(batches(HEADER_RECORD)[0].records(), partition_leader_epoch=0) == HEADER_RECORD


@pytest.mark.slow
@settings(deadline=None)
@given(record_lists(), st.sampled_from(KNOWN_CODECS))
def test_round_trip_magic_2(records: list[Record], codec: Codec) -> None:
    data = build_batch(records, codec=codec, producer_id=7, producer_epoch=1, base_sequence=3)
    found = record_set(data)
    (batch,) = found.batches
    assert (found.trailing, found.problems) == (None, [])
    assert batch.crc_valid
    assert (batch.magic, batch.codec, batch.count) == (2, codec, len(records))
    assert batch.records() == records
    if records:
        assert batch.base_offset == records[0].offset
        assert batch.last_offset == records[-1].offset
        assert batch.max_timestamp == max(record.timestamp for record in records)
    assert not trace_records(data).problems


@pytest.mark.slow
@settings(deadline=None)
@given(record_lists(with_headers=False), st.sampled_from([0, 1]))
def test_round_trip_message_set(records: list[Record], magic: Literal[0, 1]) -> None:
    data = build_batch(records, magic=magic)
    found = record_set(data)
    assert (found.trailing, found.problems) == (None, [])
    assert len(found) == len(records)
    assert all(batch.crc_valid and batch.magic == magic and batch.count == 1 for batch in found)
    expected = records if magic else [record._replace(timestamp=-1) for record in records]
    assert [record for batch in found for record in batch.records()] == expected
    assert not trace_records(data).problems


@pytest.mark.slow
@settings(deadline=None)
@given(record_lists(with_headers=False), st.sampled_from(LEGACY_CODECS[1:]), st.sampled_from([0, 1]))
def test_round_trip_wrapper(records: list[Record], codec: Codec, magic: Literal[0, 1]) -> None:
    data = build_batch(records, magic=magic, codec=codec)
    (batch,) = batches(data)
    assert batch.crc_valid
    assert batch.count is None
    expected = records if magic else [record._replace(timestamp=-1) for record in records]
    assert batch.records() == expected
    assert not trace_records(data).problems


# An uncompressed message of magic 1 has its own timestamp and nothing above it that could override.
OVERRIDING: list[tuple[Literal[0, 1, 2], Codec]] = [(1, codec) for codec in LEGACY_CODECS[1:]]
OVERRIDING += [(2, codec) for codec in LEGACY_CODECS]


@pytest.mark.slow
@settings(deadline=None)
@given(record_lists(with_headers=False), st.sampled_from(OVERRIDING))
def test_log_append_time(records: list[Record], layout: tuple[Literal[0, 1, 2], Codec]) -> None:
    magic, codec = layout
    data = build_batch(records, magic=magic, codec=codec, max_timestamp=5000, timestamp_type="log_append")
    (batch,) = batches(data)
    assert batch.timestamp_type == "log_append"
    assert batch.records() == [record._replace(timestamp=5000) for record in records]


def test_flags_and_fields() -> None:
    data = build_batch(
        [Record(10, 100, None, b"v")],
        base_offset=8,
        last_offset=12,
        base_timestamp=90,
        max_timestamp=200,
        partition_leader_epoch=4,
        producer_id=1 << 40,
        producer_epoch=3,
        base_sequence=2147483647,
        transactional=True,
    )
    (batch,) = batches(data)
    assert (batch.base_offset, batch.last_offset, batch.last_offset_delta) == (8, 12, 4)
    assert (batch.base_timestamp, batch.max_timestamp) == (90, 200)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1 << 40, 3, 2147483647)
    assert (batch.transactional, batch.control, batch.partition_leader_epoch) == (True, False, 4)
    assert batch.records() == [Record(10, 100, None, b"v")]


def test_empty_batch_kept_for_its_producer_state() -> None:
    (batch,) = batches(build_batch([], base_offset=5, last_offset=9, codec=Codec.GZIP, producer_id=1))
    assert (batch.count, batch.base_offset, batch.last_offset, batch.size) == (0, 5, 9, 61)
    assert batch.records() == []


def test_what_old_formats_cannot_hold() -> None:
    with pytest.raises(ValueError, match="no record headers"):
        build_batch([Record(0, 0, None, None, (("h", None),))], magic=1)
    with pytest.raises(ValueError, match="no codec zstd"):
        build_batch([Record(0, 0, None, None)], magic=1, codec=Codec.ZSTD)
    with pytest.raises(struct.error):
        build_batch([], producer_epoch=40_000)
