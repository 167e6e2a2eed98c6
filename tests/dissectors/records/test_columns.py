"""Columns against the record loop."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.budget import changed as limits
from dissectors.records import Batch, Codec, Columns, Record, batches, build_batch, columns
from dissectors.records.columns import _vectorised
from tests.dissectors.records.strategies import GZIP_V1_RELATIVE, RECORDED, record_lists


def cut(table: Columns, start: str, length: str) -> list[bytes | None]:
    places = zip(getattr(table, start).tolist(), getattr(table, length).tolist(), strict=True)
    return [None if size < 0 else table.data[at : at + size] for at, size in places]


def assert_same(batch: Batch) -> Columns:
    table = columns(batch)
    records, problems = batch.read()
    assert len(table) == len(records)
    assert table.offset.tolist() == [record.offset for record in records]
    assert table.timestamp.tolist() == [record.timestamp for record in records]
    assert cut(table, "key_start", "key_length") == [record.key for record in records]
    assert cut(table, "value_start", "value_length") == [record.value for record in records]
    assert table.headers_count.tolist() == [len(record.headers) for record in records]
    assert [(p.reason, p.offset) for p in table.problems] == [(p.reason, p.offset) for p in problems]
    assert all(column.dtype == "int64" for column in (table.offset, table.timestamp, table.headers_start))
    return table


@pytest.mark.parametrize("data", RECORDED)
def test_recorded(data: bytes) -> None:
    assert_same(batches(data)[0])


@settings(deadline=None)
@given(record_lists(), st.sampled_from(list(Codec)[:5]))
def test_sound_batches_are_vectorised(records: list[Record], codec: Codec) -> None:
    (batch,) = batches(build_batch(records, codec=codec))
    assert_same(batch)
    assert _vectorised(batch, batch.payload().data, len(records)) is not None


@settings(deadline=None)
@given(record_lists(start=0), st.data())
def test_mutations_agree(records: list[Record], draw: st.DataObject) -> None:
    data = bytearray(build_batch(records))
    for _ in range(draw.draw(st.integers(0, 3))):
        at = draw.draw(st.integers(23, len(data) - 1))
        data[at] = draw.draw(st.integers(0, 255))
    assert_same(Batch(bytes(data), 0, len(data), 2))


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 6))
def test_noise_agrees(noise: bytes, count: int) -> None:
    data = bytearray(build_batch([]) + noise)
    data[57:61] = count.to_bytes(4, "big")
    assert_same(Batch(bytes(data), 0, len(data), 2))


def test_long_fields() -> None:
    rows = [Record(n * 70_000, 10**12 * (n + 1), bytes(n * 5000), bytes(n * 9000)) for n in range(5)]
    assert_same(batches(build_batch(rows))[0])


def test_header_positions() -> None:
    rows = [Record(0, 0, b"k", None, (("a", b"1"), ("b", None))), Record(1, 0, None, b"v")]
    table = assert_same(batches(build_batch(rows))[0])
    at = int(table.headers_start[0])
    assert table.data[at : at + 3] == b"\x02a\x02"


def test_more_headers_than_are_walked_in_step() -> None:
    rows = [Record(0, 0, None, None, (("h", b"v"),) * 100), Record(1, 0, None, None)]
    (batch,) = batches(build_batch(rows))
    assert_same(batch)
    assert _vectorised(batch, batch.payload().data, 2) is None


def test_numbers_wrap_at_64_bits() -> None:
    top = (1 << 63) - 1
    data = bytearray(build_batch([Record(0, 0, None, None), Record(5, 9, None, None)]))
    for at in (0, 27):  # base offset, base timestamp
        data[at : at + 8] = top.to_bytes(8, "big")
    assert_same(Batch(bytes(data), 0, len(data), 2))


def test_legacy_wrapper() -> None:
    table = assert_same(batches(GZIP_V1_RELATIVE)[0])
    assert table.offset.tolist() == [3, 4]


def test_limits() -> None:
    (batch,) = batches(build_batch([Record(n, 0, None, b"v") for n in range(9)]))
    with limits(batch_records=4):
        assert len(assert_same(batch)) == 4
    with limits(message_records=0):
        assert len(assert_same(batch)) == 0


def test_numpy_is_imported_only_when_asked_for() -> None:
    code = "import sys, dissectors.records; raise SystemExit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
