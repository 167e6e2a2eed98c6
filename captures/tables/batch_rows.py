"""Rows of record batches, and of the records in them.

A batch row comes from the batch header alone; nothing is decompressed. Records are decompressed within the budget of
their message (:mod:`dissectors.budget`); values of internal topics that contain secrets are dropped, as in
``kproxy read``.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, NamedTuple

from captures.tables.partition_rows import (
    PARTITION,
    TOPIC,
    TOPIC_ID,
    FieldBatches,
    as_int64,
    first_offset,
    log_offsets,
)
from captures.tables.schema import TABLES
from dissectors import embedded
from dissectors.api_keys import ApiKey
from dissectors.budget import Budget, LimitReached
from dissectors.codec import CODEC_LABELS
from dissectors.errors import DecodeError
from dissectors.records import Batch, Record

PREVIEW = 200
"""Characters of a key or value in the text columns."""
_PREVIEW_BYTES = 4 * PREVIEW
_utf8 = codecs.getincrementaldecoder("utf-8")


BATCH_COLUMNS = TABLES["record_batches"].since("side")
"""Columns of a batch row after those that all rows of an exchange share."""
RECORD_COLUMNS = TABLES["records"].since("side")
"""Columns of a record row after those that all rows of an exchange share."""


def batch_rows(sent: FieldBatches, key: int) -> Iterator[tuple[Any, ...]]:
    """Yield a row with :data:`BATCH_COLUMNS` for each batch of a records field."""
    row = sent.row
    place = sent.side, row[TOPIC], row[TOPIC_ID], row[PARTITION]
    for number, (batch, at) in enumerate(zip(sent.batches, log_offsets(sent, key), strict=True)):
        codec, timestamp_type, transactional, control = batch.traits
        yield (
            *place,
            number,
            at,
            first_offset(batch),
            batch.last_offset,
            batch.magic,
            CODEC_LABELS[codec],
            batch.crc,
            batch.crc_valid,
            timestamp_type,
            batch.base_timestamp,
            batch.max_timestamp,
            batch.partition_leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            transactional,
            control,
            batch.end - batch.start,
            batch.count,
        )


class DecompressedBatch(NamedTuple):
    """A decompressed batch.

    :ivar number: index of the batch in the records field
    :ivar offsets: log offset of each record, None if unknown
    """

    number: int
    batch: Batch
    records: list[Record]
    problems: tuple[DecodeError, ...]
    offsets: list[int | None]


def read_batches(sent: FieldBatches, key: int, budget: Budget) -> Iterator[DecompressedBatch]:
    """Decompress the batches of a records field one by one.

    If a batch is damaged or exceeds a limit, the records before that point are returned.

    :param budget: budget of the message
    """
    for number, (batch, at) in enumerate(zip(sent.batches, log_offsets(sent, key), strict=True)):
        records, problems = batch.read(budget)
        yield DecompressedBatch(number, batch, records, problems, _in_log(batch, records, at, key))


def _in_log(batch: Batch, records: list[Record], at: int | None, key: int) -> list[int | None]:
    """Return the log offsets of a batch's records; None if unknown, or if the result would exceed 64 bits.

    :param at: log offset of the first record; None if unknown
    """
    if key != ApiKey.PRODUCE:
        return [record.offset for record in records]
    if at is None:
        return [None] * len(records)
    if batch.magic < 2:  # brokers ignore the offsets that clients set in old message sets
        return [as_int64(at + index) for index in range(len(records))]
    shift = at - batch.base_offset
    return [as_int64(record.offset + shift) for record in records]


def record_rows(
    sent: FieldBatches, key: int, budget: Budget, beyond: list[LimitReached]
) -> Iterator[tuple[Any, ...]]:
    """Yield a row with :data:`RECORD_COLUMNS` for each record of a records field.

    :param budget: budget of the message
    :param beyond: receives the limits that were reached
    """
    row = sent.row
    topic = row[TOPIC]
    place = sent.side, topic, row[TOPIC_ID], row[PARTITION]
    internal = topic in embedded.INTERNAL_TOPICS
    for number, batch, records, problems, offsets in read_batches(sent, key, budget):
        beyond.extend(problem for problem in problems if isinstance(problem, LimitReached))
        control = batch.control
        for (offset, timestamp, name, value, headers), in_log in zip(records, offsets, strict=True):
            size = None if value is None else len(value)
            if internal and not control and _secret(topic, name, value):
                value = None
            yield (
                *place,
                number,
                in_log,
                offset,
                timestamp,
                control,
                name,
                value,
                _text(name),
                _text(value),
                None if name is None else len(name),
                size,
                [{"key": header, "value": data} for header, data in headers] if headers else [],
            )


def _secret(topic: str, key: bytes | None, value: bytes | None) -> bool:
    found = embedded.internal_topic_record(topic, key, value)
    return found is not None and bool(found.masked)


def _text(data: bytes | None) -> str | None:
    """Return the first characters of UTF-8 bytes; None for other bytes."""
    if data is None:
        return None
    try:
        # a character cut off at the end is not an error
        return _utf8().decode(data[:_PREVIEW_BYTES], len(data) <= _PREVIEW_BYTES)[:PREVIEW]
    except UnicodeDecodeError:
        return None
