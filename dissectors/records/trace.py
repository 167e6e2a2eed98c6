"""The traced reading: every field of a records field with its value and its bytes.

Positions count in the records field. A compressed part is a node whose ``buffer`` holds the
decompressed bytes, and the positions below it count in that buffer. Errors never lose what was read
before them: they are collected in :attr:`RecordsTrace.problems`, and the nodes end there.
"""

from __future__ import annotations

import struct

import msgspec

from dissectors.budget import Budget, limit, message_budget
from dissectors.codec import Codec
from dissectors.errors import DecodeError
from dissectors.records import legacy
from dissectors.records.batch import HEADER_FIELDS, Batch
from dissectors.records.codecs import Buffer, inflate
from dissectors.records.cursor import DECOMPRESSED, Cursor, walk_message, walk_record
from dissectors.records.record import most_records
from dissectors.records.sets import record_set
from dissectors.trace import Node

_HEADER_LAYOUT = tuple((name, struct.Struct(">" + code)) for name, code in HEADER_FIELDS.items())


class RecordsTrace(msgspec.Struct):
    """Nodes in byte order, and the problems.

    :ivar skipped: number of records skipped because of ``max_records``
    :ivar traced: number of records traced
    """

    nodes: list[Node] = []
    problems: list[DecodeError] = []
    skipped: int = 0
    traced: int = 0


def trace_records(
    data: Buffer, budget: Budget | None = None, *, max_records: int = 10_000, aligned: bool = True
) -> RecordsTrace:
    """Trace a whole records field. Never raises on malformed bytes.

    The problems are those of :meth:`Batch.read`: the nodes add positions, not a second opinion.

    :param budget: budget of the message that contains the field; None gives the field a message's budget of its own
    :param max_records: records to trace in total, each about ten nodes; of batches after the last of
        them only the header is traced
    :param aligned: as for :func:`~dissectors.records.sets.record_set`
    """
    data = bytes(data)
    budget = message_budget() if budget is None else budget
    found = record_set(data, budget, aligned=aligned)
    trace = RecordsTrace()
    if found.leading:
        trace.nodes.append(_rest("unaligned", data, 0, found.leading))
    for index, batch in enumerate(found.batches):
        most = min(max(max_records - trace.traced, 0), most_records(budget)[0])
        before = budget.left("message_bytes")
        trace.problems += batch.read(budget).problems
        # the records read to find problems are dropped: only the buffers of the nodes are kept
        budget.give_back("message_bytes", before - budget.left("message_bytes"))
        cursor = Cursor(data, batch.start, batch.end)
        walk = _trace_batch if batch.magic == 2 else _trace_message
        trace.skipped += walk(batch, cursor, budget, index, most)
        (node,) = cursor.nodes
        trace.nodes.append(node)
        last = (node.children or [node])[-1]
        # an uncompressed legacy message is a record itself
        trace.traced += len(last.children or ()) or int(last.name != "records" and last.buffer is None)
    if found.trailing is not None:
        trace.nodes.append(_rest(found.trailing.kind, data, found.trailing.start, len(data)))
    elif found.problems:
        start = found.batches[-1].end if found.batches else found.leading
        trace.nodes.append(_rest("unreadable", data, start, len(data)))
    trace.problems += found.problems
    return trace


def _rest(name: str, data: bytes, start: int, end: int) -> Node:
    return Node(name, start, "", None, end, data[start:end])


def _trace_batch(batch: Batch, cursor: Cursor, budget: Budget, index: int, most: int) -> int:
    """Read a batch of magic 2; return the number of records skipped."""
    with cursor.group("batches", index):
        for name, layout in _HEADER_LAYOUT:
            cursor.fixed(name, layout)
        count = batch.count or 0
        wanted = min(count, most)
        skipped = count - wanted
        plain = None
        inner = Cursor(cursor.data, cursor.pos, batch.end)
        if batch.codec != Codec.NONE and (wanted > 0 or not skipped):
            plain = batch.payload(budget).data
            inner = Cursor(plain, 0, len(plain), DECOMPRESSED)
        try:
            for number in range(wanted):
                walk_record(inner, "records", number)
        except DecodeError:
            skipped = 0
        children = inner.nodes or None
        cursor.nodes.append(Node("records", cursor.pos, "records", None, batch.end, None, children, plain))
        cursor.pos = batch.end
    cursor.nodes[0].value = repr(batch)
    return max(skipped, 0)


def _trace_message(batch: Batch, cursor: Cursor, budget: Budget, index: int, most: int) -> int:
    """Read a message of magic 0 or 1, and those inside it; return the number of inner messages skipped."""
    try:
        walk_message(cursor, "batches", index)
    except DecodeError:
        return 0
    value = (cursor.nodes[0].children or [])[-1]
    if not value.value or not batch.codec or batch.codec.oldest_magic > batch.magic:
        return 0
    plain = inflate(batch.codec, value.value, budget, magic=batch.magic).data
    messages, _ = legacy.all_messages(plain, batch.magic, limit("batch_records"))
    inner = Cursor(plain, 0, len(plain), DECOMPRESSED)
    for number, entry in enumerate(messages[:most]):
        inner.end = entry.end
        walk_message(inner, f"messages[{number}]")
    value.children, value.buffer = inner.nodes or None, plain
    return max(len(messages) - most, 0)
