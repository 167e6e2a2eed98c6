"""Records fields: message sets of magic 0 and 1, record batches, every codec.

The first byte of an input says whether the field is aligned; the rest is the field.

* Nothing raises. Every problem has a reason and an offset inside the field.
* Batches are contiguous; a truncated field has the first batches of the whole.
* A batch gives no more records and bytes than its limits allow.
* The nodes of the trace lie inside the field, or the decompressed data, with the same problems as the other readings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

from dissectors.budget import Budget, changed, limit, message_budget
from dissectors.codec import KNOWN_CODECS
from dissectors.errors import DecodeError
from dissectors.records import Batch, Codec, Record, RecordSet, record_set, trace_records
from dissectors.records.build import build_batch
from dissectors.records.codecs import bound_of
from dissectors.trace import Node
from fuzz.target import Input, check

LONGEST = 4096

LIMITS = {"batch_bytes": 1 << 20, "batch_ratio_floor": 1 << 16, "batch_records": 1000}
_TRACED = 300


def run(data: bytes) -> None:
    """Read a field in every way, and compare the results."""
    with changed(**LIMITS):
        compare(data)


def compare(data: bytes) -> None:
    """Read a field in every way, with small limits."""
    given = Input(data)
    aligned = not given.number() & 1
    field = given.rest()
    found = record_set(field, aligned=aligned)
    tiled(found, len(field))
    if aligned:
        cut = crc32(field) % (len(field) + 1)
        first = record_set(field[:cut])
        places = [(batch.start, batch.end, batch.magic) for batch in found]
        check(
            [(batch.start, batch.end, batch.magic) for batch in first] == places[: len(first)], "cut at", cut
        )
        check(len(first) == sum(end <= cut for _, end, _ in places), "batches lost by a cut at", cut)
    problems: list[DecodeError] = []
    budget = message_budget()
    for batch in found:
        problems += read(batch, len(field), budget)
    traced = trace_records(field, max_records=_TRACED, aligned=aligned)
    check(told(traced.problems) == told([*problems, *found.problems]), "the trace has other problems")
    nodes_inside(traced.nodes, 0, len(field))


def tiled(found: RecordSet, size: int) -> None:
    """Check that every byte of a field belongs to exactly one batch or problem."""
    at = found.leading
    for batch in found:
        check(batch.start == at and batch.end > at, batch, "does not begin at", at)
        at = batch.end
    if found.trailing is not None:
        check(found.trailing.start == at, "the incomplete entry does not begin at", at)
        at += found.trailing.size
    check(at == size or found.problems, "nothing is said of the bytes from", at)
    check(len(found.problems) <= 1, "problems", found.problems)
    located(found.problems, size)


def located(problems: Any, size: int) -> None:
    """Check that problems have a reason and an offset."""
    for problem in problems:
        check(problem.reason, "a problem without a reason")
        check(problem.offset >= -1, "a problem at", problem.offset)
        check(
            "decompressed" in str(problem) or problem.offset <= size, "a problem at", problem.offset, problem
        )


def told(problems: Any) -> list[tuple[str, int]]:
    """Return the texts of problems."""
    return [(problem.reason, problem.offset) for problem in problems]


def read(batch: Batch, size: int, budget: Budget) -> tuple[DecodeError, ...]:
    """Read the records of a batch; return its problems.

    :param budget: budget of the message
    """
    check(batch.crc_valid in (True, False), "checksum")
    check(repr(batch), "no repr")
    records, problems = batch.read(budget)
    located(problems, size)
    check(len(records) <= limit("batch_records"), len(records), "records")
    held = sum(len(record.key or b"") + len(record.value or b"") for record in records)
    check(held <= bound_of(batch.size, message_budget())[0] + batch.size, held, "bytes of records")
    return problems


def nodes_inside(nodes: list[Node], start: int, end: int) -> None:
    """Check that nodes lie inside these bytes, in order, and their children inside them."""
    for node in nodes:
        check(
            start <= node.start <= node.end <= end, "node", node.name, node.start, node.end, "of", start, end
        )
        start = node.end
        if node.buffer is None:
            nodes_inside(node.children or [], node.start, node.end)
        else:
            check(len(node.buffer) <= limit("batch_bytes"), "decompressed", len(node.buffer))
            nodes_inside(node.children or [], 0, len(node.buffer))


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield batches and message sets of every codec, control records, and several in one field."""
    rows = [
        Record(5, 1_700_000_000_000, b"key", b"value", (("trace", b"1"), ("none", None))),
        Record(6, 1_700_000_000_003, None, b"v" * 70),
        Record(200, 1_699_999_999_000, b"", None),
    ]
    plain = [row._replace(headers=()) for row in rows]
    for codec in KNOWN_CODECS:
        yield f"v2-{codec.label}", b"\0" + build_batch(rows, codec=codec)
        for magic in (0, 1):
            if codec.oldest_magic == 0:
                made = build_batch(plain, magic=magic, codec=codec)  # type: ignore[arg-type]  # 0 or 1
                yield f"v{magic}-{codec.label}", b"\0" + made
    marker = [Record(9, 1_700_000_000_000, b"\0\0\0\1", b"\0\0\0\0\0\7")]
    yield (
        "control",
        b"\0" + build_batch(marker, producer_id=7, producer_epoch=1, transactional=True, control=True),
    )
    yield "log-append", b"\0" + build_batch(rows, timestamp_type="log_append")
    two = build_batch(rows[:1]) + build_batch(rows[1:2], codec=Codec.LZ4)
    yield "several", b"\0" + two + build_batch(plain[:1], magic=1) + two[:70]
    yield "unaligned", b"\1" + two[30:]
    yield "empty", b"\0"
    yield "padding", b"\0" + b"\xff" * 8 + b"\0\0\0\x3d" + bytes(26)
