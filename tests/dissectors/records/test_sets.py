"""Records fields: sequences of entries, and the ways a field ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.records import Codec, Record, RecordSet, record_set
from dissectors.records.build import build_batch
from tests.batches import batches
from tests.dissectors.records.strategies import (
    GZIP_V1_RELATIVE,
    HEADER_RECORD,
    LOG_APPEND_V1,
    LZ4_V0,
    LZ4_V2,
    MARKER,
    PADDING,
    RECORDED,
    SNAPPY_V2,
)

ALL = b"".join(RECORDED)


def test_magics_and_codecs_mix_in_one_field() -> None:
    found = record_set(ALL)
    assert [batch.magic for batch in found] == [2, 2, 1, 1, 0, 2, 2, 2, 2]
    assert [batch.codec.name for batch in found] == [
        *("NONE", "NONE", "NONE", "GZIP", "LZ4"),
        *("SNAPPY", "LZ4", "ZSTD", "GZIP"),
    ]
    assert [batch.start for batch in found][1:] == [batch.end for batch in found][:-1]
    assert all(batch.crc_valid for batch in found)
    assert (found.leading, found.trailing, found.problems) == (0, None, [])
    assert [batch.start for batch in batches(ALL)] == [batch.start for batch in found]


def test_empty_field() -> None:
    assert record_set(b"") == RecordSet()


@pytest.mark.parametrize("whole", [MARKER, LOG_APPEND_V1, LZ4_V0], ids=["magic 2", "magic 1", "magic 0"])
def test_every_cut_is_a_partial_entry(whole: bytes) -> None:
    for size in range(1, len(whole)):
        found = record_set(HEADER_RECORD + whole[:size])
        assert len(found) == 1
        assert found.problems == []
        trailing = found.trailing
        assert trailing is not None
        assert (trailing.kind, trailing.start, trailing.size) == ("partial", len(HEADER_RECORD), size)
        assert trailing.announced == (None if size < 12 else len(whole))


def test_padding_of_lazy_down_conversion() -> None:
    found = record_set(LOG_APPEND_V1 + PADDING)
    assert len(found) == 1
    trailing = found.trailing
    assert trailing is not None
    assert (trailing.kind, trailing.start, trailing.size, trailing.announced) == ("padding", 38, 38, 73)
    # With fewer bytes to fill than a length field needs.
    short = record_set(LOG_APPEND_V1 + PADDING[:9]).trailing
    assert short is not None
    assert (short.kind, short.announced) == ("padding", None)


def test_a_cut_batch_at_offset_minus_one_is_not_padding() -> None:
    cut = b"\xff" * 8 + MARKER[8:70]
    trailing = record_set(cut).trailing
    assert trailing is not None
    assert trailing.kind == "partial"


@pytest.mark.parametrize(
    ("entry", "reason", "at"),
    [
        (bytes(8) + b"\x00\x00\x00\x0d" + bytes(40), "entry of 13 bytes", 8),
        (bytes(8) + b"\xff\xff\xff\xff" + bytes(40), "entry of -1 bytes", 8),
        (bytes(8) + b"\x00\x00\x00\x20" + bytes(4) + b"\x03" + bytes(40), "magic 3", 16),
        (bytes(8) + b"\x00\x00\x00\x20" + bytes(4) + b"\xff" + bytes(40), "magic 255", 16),
        (
            bytes(8) + b"\x00\x00\x00\x15" + bytes(4) + b"\x01" + bytes(40),
            "the minimum with magic 1 is 22",
            8,
        ),
        (
            bytes(8) + b"\x00\x00\x00\x30" + bytes(4) + b"\x02" + bytes(80),
            "the minimum with magic 2 is 49",
            8,
        ),
    ],
)
def test_corrupt_entry_ends_the_set_and_keeps_what_came_before(entry: bytes, reason: str, at: int) -> None:
    found = record_set(MARKER + entry + MARKER)
    assert [batch.start for batch in found] == [0]
    (problem,) = found.problems
    assert reason in problem.reason
    assert problem.offset == len(MARKER) + at
    assert found.trailing is None


# --- slices that are not aligned ----------------------------------------------------------------------

SNAPSHOT = b"".join(
    build_batch([Record(n, 1000 + n, None, bytes([2]) * 50)], base_offset=n, codec=Codec(n % 5))
    for n in range(8)
)


def test_every_slice_of_a_snapshot_finds_the_next_batch() -> None:
    edges = [batch.start for batch in batches(SNAPSHOT)] + [len(SNAPSHOT)]
    for start in range(edges[-2]):
        found = record_set(SNAPSHOT[start:], aligned=False)
        following = next(edge for edge in edges if edge >= start)
        assert found.leading == following - start
        assert [batch.start + start for batch in found] == [edge for edge in edges[:-1] if edge >= start]
        assert found.problems == []


def test_slice_inside_one_batch_is_all_leading() -> None:
    assert record_set(SNAPSHOT[5:60], aligned=False) == RecordSet(leading=55)


def test_slice_that_begins_with_a_batch_longer_than_itself() -> None:
    found = record_set(SNAPSHOT[:80], aligned=False)
    assert found.leading == 0
    assert found.trailing is not None
    assert found.trailing.size == 80


def test_slice_made_of_candidates_costs_no_square() -> None:
    # Each 61 bytes look like a header that announces all that follows, with a wrong CRC.
    size = 1 << 20
    header = bytearray(LZ4_V2[:61])
    header[8:12] = (size // 2).to_bytes(4, "big")
    found = record_set(b"?" + bytes(header) * (size // 61), aligned=False)
    assert found.batches == []


@settings(deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_noise(noise: bytes, aligned: bool) -> None:
    found = record_set(noise, aligned=aligned)
    covered = found.batches[-1].end if found.batches else found.leading
    assert covered == len(noise) or found.trailing is not None or found.problems


@settings(deadline=None)
@given(st.sampled_from([MARKER, SNAPPY_V2, GZIP_V1_RELATIVE, ALL]), st.data())
def test_mutations_never_raise(whole: bytes, draw: st.DataObject) -> None:
    data = bytearray(whole)
    for _ in range(draw.draw(st.integers(1, 5))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    for aligned in (True, False):
        for batch in record_set(bytes(data), aligned=aligned):
            records, problems = batch.read()
            assert isinstance(batch.crc_valid, bool)
            assert len(records) < 100
            assert all(problem.reason for problem in problems)
