"""Rows of record batches, and of the records in them.

A row of a batch is read from its header; nothing is decompressed. Records are decompressed within the budget of
their message (:mod:`dissectors.budget`), and those of internal topics lose the values that hold secrets, as they do in
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
"""Characters of a key or value that are shown as text."""
_PREVIEW_BYTES = 4 * PREVIEW
_utf8 = codecs.getincrementaldecoder("utf-8")


BATCH_COLUMNS = TABLES["record_batches"].since("side")
"""The columns of a batch's row: those behind what all rows of an exchange have in common."""
RECORD_COLUMNS = TABLES["records"].since("side")
"""Likewise of a record's row."""


def batch_rows(sent: FieldBatches, key: int) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each batch of a records field, with :data:`BATCH_COLUMNS`."""
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
    """A batch, decompressed.

    :ivar number: which batch of the field it is, counted from 0
    :ivar offsets: of each record, in the log; None where it is not known
    """

    number: int
    batch: Batch
    records: list[Record]
    problems: tuple[DecodeError, ...]
    offsets: list[int | None]


def read_batches(sent: FieldBatches, key: int, budget: Budget) -> Iterator[DecompressedBatch]:
    """Decompress the batches of a records field one after the other.

    Of a batch that is damaged inside, or that goes over a limit, the records before that are given.

    :param budget: of the message
    """
    for number, (batch, at) in enumerate(zip(sent.batches, log_offsets(sent, key), strict=True)):
        records, problems = batch.read(budget)
        yield DecompressedBatch(number, batch, records, problems, _in_log(batch, records, at, key))


def _in_log(batch: Batch, records: list[Record], at: int | None, key: int) -> list[int | None]:
    """Return the offsets in the log of a batch's records; None where they are not known.

    What would have more than 64 bits is nothing that could be.

    :param at: offset in the log of the first record; None if that is not known
    """
    if key != ApiKey.PRODUCE:
        return [record.offset for record in records]
    if at is None:
        return [None] * len(records)
    if batch.magic < 2:  # what clients number the messages of a set with is nothing that brokers look at
        return [as_int64(at + index) for index in range(len(records))]
    shift = at - batch.base_offset
    return [as_int64(record.offset + shift) for record in records]


def record_rows(
    sent: FieldBatches, key: int, budget: Budget, beyond: list[LimitReached]
) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each record of a records field, with :data:`RECORD_COLUMNS`.

    :param budget: of the message
    :param beyond: takes the limits that were reached
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
    """Return the first characters of bytes that are UTF-8; None for others."""
    if data is None:
        return None
    try:
        # what is cut off inside a character is no mistake
        return _utf8().decode(data[:_PREVIEW_BYTES], len(data) <= _PREVIEW_BYTES)[:PREVIEW]
    except UnicodeDecodeError:
        return None
