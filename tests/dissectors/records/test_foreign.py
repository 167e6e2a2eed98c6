"""Batches encoded by kafka-python 3.0.12 and read by us, and ours read by it."""

from __future__ import annotations

from typing import Any, Literal

import cramjam
import kafka.codec
import pytest
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from dissectors.codec import KNOWN_CODECS
from dissectors.records import Codec, Record, record_set
from dissectors.records.build import build_batch

ROWS = [
    Record(0, 1_700_000_000_000, None, b"first", (("trace", b"\x00\xff"), ("none", None), ("é", b""))),
    Record(1, 1_699_999_999_000, b"", None),
    *(Record(n, 1_700_000_000_000 + n * 50, b"key%d" % n, b"value" * n) for n in range(2, 150)),
]


class Snappy:
    """The two functions of python-snappy that kafka-python calls, so that its xerial writer can run."""

    @staticmethod
    def compress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.compress_raw(data))

    @staticmethod
    def decompress(data: Any) -> bytes:
        return bytes(cramjam.snappy.decompress_raw(bytes(data)))


@pytest.fixture(autouse=True)
def snappy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka.codec, "snappy", Snappy)


def read(data: bytes) -> list[Record]:
    found = record_set(data)
    assert (found.trailing, found.problems) == (None, [])
    assert all(batch.crc_valid for batch in found)
    return [record for batch in found for record in batch.records()]


@pytest.mark.parametrize("codec", KNOWN_CODECS)
def test_reads_its_batches(codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, int(codec), True, 1234, 5, 6, 1 << 20)
    for row in ROWS:
        builder.append(row.offset, row.timestamp, row.key, row.value, list(row.headers))
    data = bytes(builder.build())
    assert read(data) == ROWS
    (batch,) = record_set(data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1234, 5, 6)
    assert (batch.transactional, batch.codec) == (True, codec)


# For LZ4 in magic 0 it needs xxhash (KIP-57); recorded bytes of that are in test_legacy.
LEGACY = [(magic, codec) for magic in (0, 1) for codec in KNOWN_CODECS[: 3 + magic]]
LATER = [(2, codec) for codec in KNOWN_CODECS]


@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_reads_its_message_sets(codec: Codec, magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, int(codec), 1 << 20)
    for row in ROWS:
        builder.append(row.offset, row.timestamp, row.key, row.value)
    rows = [row._replace(headers=(), timestamp=row.timestamp if magic else -1) for row in ROWS]
    assert read(bytes(builder.build())) == rows


@pytest.mark.parametrize(("magic", "codec"), LEGACY + LATER)
def test_it_reads_ours(codec: Codec, magic: Literal[0, 1, 2]) -> None:
    rows = [row if magic == 2 else row._replace(headers=()) for row in ROWS]
    reader = MemoryRecords(build_batch(rows, magic=magic, codec=codec))
    seen = []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        seen += [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert seen == [tuple(row._replace(timestamp=row.timestamp if magic else None)) for row in rows]
