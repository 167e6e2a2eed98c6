"""The traced reading: every field of a records field with its value and its bytes.

Positions count in the records field. What was compressed is a span whose ``buffer`` holds the
decompressed bytes, and the positions below it count in that buffer. Faults never lose what was read
before them: they stand in :attr:`Trace.problems`, and the spans end there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from dissectors.budget import Budget, limit, of_message
from dissectors.errors import DecodeError
from dissectors.records import legacy
from dissectors.records.batch import HEADER, Batch
from dissectors.records.codecs import Buffer, Codec, inflate
from dissectors.records.record import most_records
from dissectors.records.sets import record_set
from dissectors.records.spans import Cursor, Span, walk_message, walk_record

_HEADER_FIELDS = (
    ("base_offset", "q"),
    ("length", "i"),
    ("partition_leader_epoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp", "q"),
    ("max_timestamp", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("records_count", "i"),
)
_HEADER_LAYOUT = tuple((name, struct.Struct(">" + code)) for name, code in _HEADER_FIELDS)
assert sum(layout.size for _, layout in _HEADER_LAYOUT) == HEADER.size


@dataclass(slots=True)
class Trace:
    """Spans in the order of the bytes, and what is wrong.

    :ivar skipped: records that were left out because of ``max_records``
    :ivar traced: records that were not
    """

    spans: list[Span] = field(default_factory=list)
    problems: list[DecodeError] = field(default_factory=list)
    skipped: int = 0
    traced: int = 0


def trace_records(
    data: Buffer, budget: Budget | None = None, *, max_records: int = 10_000, aligned: bool = True
) -> Trace:
    """Trace a whole records field. Never raises on bad bytes.

    :param budget: of the message that the field is in; None: as if it were all of it
    :param max_records: records traced in all, a record costs some ten spans; of batches after the last of
        them only the header is traced
    :param aligned: as for :func:`~dissectors.records.sets.record_set`
    """
    data = bytes(data)
    budget = of_message() if budget is None else budget
    found = record_set(data, budget, aligned=aligned)
    trace = Trace()
    if found.leading:
        trace.spans.append(Span("unaligned", data[: found.leading], 0, found.leading))
    for index, batch in enumerate(found.batches):
        room = max(max_records - trace.traced, 0)
        part = trace_batch(batch, budget, name=f"batches[{index}]", max_records=room)
        trace.traced += part.traced
        trace.spans += part.spans
        trace.problems += part.problems
        trace.skipped += part.skipped
    if found.trailing is not None:
        start = found.trailing.start
        trace.spans.append(Span(found.trailing.kind, data[start:], start, len(data)))
    elif found.problems:
        start = found.batches[-1].end if found.batches else found.leading
        trace.spans.append(Span("unreadable", data[start:], start, len(data)))
    trace.problems += found.problems
    return trace


def trace_batch(
    batch: Batch, budget: Budget | None = None, *, name: str = "batch", max_records: int = 10_000
) -> Trace:
    """Trace one batch: a single span, of header fields and records.

    Its problems are those of :meth:`Batch.read`: the spans add where things lie, not another opinion.
    """
    budget = of_message() if budget is None else budget
    most = min(max_records, most_records(budget)[0])
    before = budget.left("message_bytes")
    problems = batch.read(budget).problems
    # the records that were read for their problems are gone: only what the spans lie in is held
    budget.give_back("message_bytes", before - budget.left("message_bytes"))
    walk = _trace_v2 if batch.magic == 2 else _trace_legacy
    cursor = Cursor(bytes(batch.data), batch.start, batch.end)
    span, skipped = walk(batch, cursor, budget, name, most)
    return Trace([span], list(problems), skipped, _count_records([span]))


def _trace_v2(batch: Batch, cursor: Cursor, budget: Budget, name: str, most: int) -> tuple[Span, int]:
    """The span of a batch of magic 2, and the number of records left out."""
    compressed = batch.codec != Codec.NONE
    with cursor.group(name, repr(batch)):
        for field_name, layout in _HEADER_LAYOUT:
            cursor.fixed(field_name, layout)
        count = batch.count or 0
        wanted = min(count, most)
        skipped = count - wanted
        plain = batch.payload(budget).data if compressed and (wanted > 0 or not skipped) else None
        inner = Cursor(cursor.data, cursor.pos, batch.end) if plain is None else Cursor(plain, 0, len(plain))
        try:
            for index in range(wanted):
                walk_record(inner, f"records[{index}]")
        except DecodeError:
            skipped = 0
        cursor.spans.append(Span("records", None, cursor.pos, batch.end, tuple(inner.spans), plain))
        cursor.pos = batch.end
    return cursor.spans[0], max(skipped, 0)


def _trace_legacy(batch: Batch, cursor: Cursor, budget: Budget, name: str, most: int) -> tuple[Span, int]:
    """The span of a message with those of its inner messages, and the number of these left out."""
    try:
        walk_message(cursor, name)
    except DecodeError:
        return cursor.spans[0], 0
    (message,) = cursor.spans
    value = message.children[-1]
    if not value.value or not Codec.NONE < batch.codec < Codec.ZSTD:
        return message, 0
    plain = inflate(batch.codec, value.value, budget, magic=batch.magic).data
    messages, _ = legacy.all_messages(plain, batch.magic, limit("batch_records"))
    inner = Cursor(plain, 0, len(plain))
    for index, entry in enumerate(messages[:most]):
        inner.end = entry.end
        walk_message(inner, f"messages[{index}]")
    nested = value._replace(children=tuple(inner.spans), buffer=plain)
    return message._replace(children=(*message.children[:-1], nested)), max(len(messages) - most, 0)


def _count_records(spans: list[Span]) -> int:
    """Records below one batch's span; an uncompressed legacy message is one itself."""
    last = spans[0].children[-1]
    return len(last.children) or int(last.name != "records" and last.buffer is None)
