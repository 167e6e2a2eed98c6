"""Producer IDs inside record batches, read by kafka-python and by kproxy."""

from __future__ import annotations

import pytest

from dissectors.records import Record, record_set
from dissectors.records.build import build_batch
from kproxy.replay.producers import with_producers

RECORDS = [Record(0, 1_700_000_000_000, b"key", b"value", [])]
BATCHES = b"".join(
    build_batch(RECORDS, producer_id=producer, producer_epoch=epoch, base_sequence=3)
    for producer, epoch in ((7, 0), (-1, -1), (8, 2))
)


def test_producers_are_replaced_and_nothing_else() -> None:
    made = with_producers(BATCHES, lambda producer: (1 << 40, 5) if producer == (7, 0) else producer)
    assert made is not None
    before, after = record_set(BATCHES).batches, record_set(made).batches
    assert [(batch.producer_id, batch.producer_epoch) for batch in after] == [(1 << 40, 5), (-1, -1), (8, 2)]
    assert all(batch.crc_valid for batch in after)
    assert [batch.base_sequence for batch in after] == [batch.base_sequence for batch in before]
    assert [batch.records() for batch in after] == [batch.records() for batch in before]
    assert made[before[1].start :] == BATCHES[before[1].start :]


def test_nothing_to_replace_leaves_the_same_bytes() -> None:
    assert with_producers(BATCHES, lambda producer: producer) is BATCHES
    assert with_producers(None, lambda producer: (1, 1)) is None


def test_damaged_batches_are_left_alone() -> None:
    end = record_set(BATCHES).batches[0].end
    damaged = BATCHES[: end - 1] + bytes((BATCHES[end - 1] ^ 1,)) + BATCHES[end:]
    made = with_producers(damaged, lambda _: (9, 0))
    assert made is not None
    assert made[:end] == damaged[:end]
    assert record_set(made).batches[2].producer_id == 9


def test_kafka_python_takes_the_checksum() -> None:
    reader = pytest.importorskip("kafka.record.default_records")
    made = with_producers(build_batch(RECORDS, producer_id=7, producer_epoch=0), lambda _: (99, 1))
    batch = reader.DefaultRecordBatch(made)
    assert batch.validate_crc()
    assert batch.producer_id == 99
