"""Arriving files, read batch by batch: numbering and connections continue from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from captures.ranges.checkpoint import Checkpoint, CheckpointStitcher
from captures.ranges.clocks import clocks_of
from captures.ranges.edges import Pair, unpack
from captures.ranges.exchange_numbers import NumberedRanges, PriorCounts, bases
from captures.ranges.jobs import EDGES, Input, RangeOutput, RangeSummary, marked_of, number_all, settled
from captures.ranges.whole_connections import StitchedConnections
from dissectors.session_context import SessionContext, SessionFacts


@dataclass(slots=True)
class BatchState:
    """State between two batches.

    :ivar buckets: number of tasks that stitch connections; the same for all batches
    :ivar carried: bucket -> connections that continue
    :ivar packets: number of packets so far
    :ivar exchanges: number of exchanges reported so far
    :ivar connections: number of connection ids assigned so far
    :ivar ids: ids of connections that continue
    :ivar facts: session facts so far
    :ivar latest: time of the latest packet, ns since the epoch
    """

    buckets: int
    carried: dict[int, Checkpoint] = field(default_factory=dict)
    packets: int = 0
    exchanges: int = 0
    connections: int = 0
    ids: dict[tuple[Pair, int], int] = field(default_factory=dict)
    facts: SessionFacts = field(default_factory=lambda: SessionContext().facts)
    latest: int = 0


def stitch_batch(
    given: Input,
    marked: Sequence[RangeSummary],
    before: BatchState,
    bucket: int,
    packed: Iterable[tuple[int, bytes]],
) -> tuple[StitchedConnections, Checkpoint]:
    """Stitch the connections of one bucket, starting from the state of earlier batches.

    :param packed: numbers of ranges, and their packed edges of that bucket
    :raises CaptureError: if a file can no longer be read
    """
    marks = [each.mark for each in marked]
    with given.plan.source() as source:
        stitcher = CheckpointStitcher(
            source,
            given.plan.ranges,
            bases(marks, before.packets),
            clocks=clocks_of(marks).starts,
            keylog=given.secrets(secret for mark in marks for secret in mark.secrets),
            in_place=[given.in_place(part) for part in given.plan.ranges],
            carried=before.carried.get(bucket, Checkpoint()),
        )
        for part, data in sorted(packed):
            stitcher.feed(part, unpack(data))
        return stitcher.carry(max([before.latest, *(mark.latest for mark in marks)]))


def stitch_and_number_batch(
    given: Input, outputs: dict[int, list[RangeOutput]], before: BatchState
) -> tuple[Input, NumberedRanges, BatchState]:
    """Take all steps that follow the reading of a batch's ranges, in this process.

    :param outputs: results of all ranges by number; ranges that need it are read again
    :return: the batch with its final plan, its exchanges, and the state for the next batch
    :raises CaptureError: if a file can no longer be read
    """
    given, outputs = settled(given, outputs)
    marked = marked_of(outputs)
    edges = [each for number in sorted(outputs) for each in outputs[number] if each.kind == EDGES]
    made = {
        bucket: stitch_batch(
            given, marked, before, bucket, [(each.part, each.data) for each in edges if each.bucket == bucket]
        )
        for bucket in busy_buckets(before, (each.bucket for each in edges))
    }
    return given, *number_batch(given, marked, before, made)


def number_batch(
    given: Input,
    marked: Sequence[RangeSummary],
    before: BatchState,
    made: dict[int, tuple[StitchedConnections, Checkpoint]],
) -> tuple[NumberedRanges, BatchState]:
    """Continue the numbering of connections and exchanges over a batch.

    :param made: by bucket, of buckets with work
    """
    earlier = PriorCounts(before.packets, before.exchanges, before.connections, before.ids)
    numbered = number_all(given, marked, [each for _, (each, _) in sorted(made.items())], earlier)
    facts = SessionContext()
    facts.add(before.facts)
    facts.add(numbered.facts)
    numbered.facts = facts.facts
    carried = before.carried | {bucket: each for bucket, (_, each) in made.items()}
    known = before.ids | {whole.key: connection for connection, whole in numbered.connections.items()}
    ids = {whole.key: known[whole.key] for each in carried.values() for whole in each.wholes.values()}
    new = sum(connection >= before.connections for connection in numbered.connections)
    after = BatchState(
        before.buckets,
        carried,
        before.packets + sum(each.mark.statistics.packets for each in marked),
        before.exchanges + numbered.exchanges,
        before.connections + new,
        ids,
        numbered.facts,
        max([before.latest, *(each.mark.latest for each in marked)]),
    )
    return numbered, after


def busy_buckets(before: BatchState, buckets: Iterable[int]) -> Iterator[int]:
    """Yield the buckets with work: those with results of ranges, and those with connections that continue."""
    yield from sorted({*buckets, *before.carried})
