"""Arriving files, read batch by batch: numbering and connections continue from batch to batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from captures.ranges.checkpoint import Checkpoint, CheckpointStitcher
from captures.ranges.clocks import clocks_of
from captures.ranges.edges import unpack
from captures.ranges.exchange_numbers import PriorCounts, bases
from captures.ranges.jobs import EDGES, Input, MergeResult, RangeOutput, marked_of, number_all, settled
from dissectors.session_context import SessionContext, SessionFacts


@dataclass(slots=True)
class BatchState:
    """State between two batches.

    :ivar carried: connections that continue
    :ivar counts: numbers of packets, exchanges and connections so far, and the ids of connections that continue
    :ivar facts: session facts so far
    :ivar latest: time of the latest packet, ns since the epoch
    """

    carried: Checkpoint = field(default_factory=Checkpoint)
    counts: PriorCounts = field(default_factory=PriorCounts)
    facts: SessionFacts = field(default_factory=lambda: SessionContext().facts)
    latest: int = 0


def stitch_and_number_batch(
    given: Input, outputs: dict[int, list[RangeOutput]], before: BatchState
) -> tuple[MergeResult, BatchState]:
    """Take all steps that follow the reading of a batch's ranges, in this process.

    :param given: the batch, with one bucket
    :param outputs: results of all ranges by number; ranges that need it are read again
    :return: the batch with its final plan, and the state for the next batch
    :raises CaptureError: if a file can no longer be read
    """
    given, outputs = settled(given, outputs)
    marked = marked_of(outputs)
    marks = [each.mark for each in marked]
    latest = max([before.latest, *(mark.latest for mark in marks)])
    counts = before.counts
    with given.plan.source() as source:
        stitcher = CheckpointStitcher(
            source,
            given.plan.ranges,
            bases(marks, counts.packets),
            clocks=clocks_of([mark.clock for mark in marks]).starts,
            keylog=given.secrets(secret for mark in marks for secret in mark.secrets),
            in_place=[given.in_place(part) for part in given.plan.ranges],
            carried=before.carried,
        )
        for part in sorted(outputs):
            for each in outputs[part]:
                if each.kind == EDGES:
                    stitcher.feed(part, unpack(each.data))
        together, carried = stitcher.carry(latest)
    numbered = number_all(given, marked, [together], counts)
    facts = SessionContext()
    facts.add(before.facts)
    facts.add(numbered.facts)
    numbered.facts = facts.facts
    known = counts.ids | {whole.key: connection for connection, whole in numbered.connections.items()}
    after = PriorCounts(
        counts.packets + sum(mark.statistics.packets for mark in marks),
        counts.exchanges + numbered.exchanges,
        counts.connections + sum(each >= counts.connections for each in numbered.connections),
        {whole.key: known[whole.key] for whole in carried.wholes.values()},
    )
    return MergeResult(given, marked, [], numbered), BatchState(carried, after, numbered.facts, latest)
