"""The steps by which a capture is read in ranges, each of which may run in a process of its own.

First every range is read by itself (:func:`read_part`), then connections that cross edges are stitched
(:func:`stitch_bucket`), then everything is numbered (:func:`number_all`); after that any range can produce its
exchanges (:func:`read_exchanges`). Steps exchange little data, as bytes: the only payload is that of encrypted
connections and of files that cannot be read in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from captures.packets.tls import KeyLog
from captures.ranges.clocks import clocks_of
from captures.ranges.edges import SyncPoint, pack, unpack
from captures.ranges.exchange_numbers import (
    NOTHING,
    Context,
    NumberedBucket,
    NumberedRanges,
    PriorCounts,
    bases,
    number,
)
from captures.ranges.exchanges import RangeExchanges
from captures.ranges.plan import COMPRESSED, Plan, Range
from captures.ranges.range_reader import in_buckets, read_range
from captures.ranges.stitcher import stitch
from captures.ranges.whole_connections import StitchedConnections
from dissectors.session_context import SessionContext, SessionFacts

MARK, FINISHED, EDGES = KINDS = "mark", "finished", "edges"


@dataclass(frozen=True, slots=True)
class Input:
    """A capture that is read in ranges.

    :ivar keylog: secrets of TLS connections (NSS format)
    :ivar buckets: number of tasks that stitch connections
    :ivar learn: whether session facts, such as names of topics, are needed
    """

    plan: Plan
    keylog: bytes = b""
    buckets: int = 1
    learn: bool = True

    def secrets(self, more: Iterable[bytes] = ()) -> KeyLog:
        """Return the key log for readers.

        :param more: further secrets, such as those found in the capture
        """
        keylog = KeyLog()
        for each in (self.keylog, *more):
            if each:
                keylog.add(each)
        return keylog

    def in_place(self, part: Range) -> bool:
        """Return whether bytes of a range can be read from its files without reading everything before them."""
        return not any(self.plan.whole.get(file, "").startswith(COMPRESSED) for file in range(*part.files))


class RangeOutput(NamedTuple):
    """One result of reading a range.

    :ivar part: number of the range
    :ivar kind: :data:`MARK`, :data:`FINISHED`, or :data:`EDGES`
    :ivar bucket: the stitching task that receives it; -1 for none
    :ivar data: a packed :class:`RangeSummary`, :class:`~captures.ranges.range_reader.FinishedExchanges`, or
        :class:`~captures.ranges.edges.Edges`
    """

    part: int
    kind: str
    bucket: int
    data: bytes


class RangeSummary(NamedTuple):
    """The sync point of a range, and the session facts of its exchanges, except those of single connections."""

    mark: SyncPoint
    facts: SessionFacts


def read_part(given: Input, part: Range) -> Iterator[RangeOutput]:
    """Read one range and yield its results.

    A file that cannot be read is noted in the mark.
    """
    with given.plan.source() as source:
        reading = read_range(source, part, keylog=given.secrets(), in_place=given.in_place(part))
        finished, edges = reading.results()
        facts = reading.facts() if given.learn else SessionContext().facts
        for crossing in edges.crossings:
            crossing.mechanism = facts.mechanisms.get(crossing.local, "")
            crossing.cluster = facts.clusters.get(crossing.local, "")
        summary = RangeSummary(reading.mark, facts.of_no_connection)
        yield RangeOutput(part.number, MARK, -1, pack(summary))
        yield RangeOutput(part.number, FINISHED, -1, pack(finished))
        for bucket, edges_of_bucket in in_buckets(edges, given.buckets).items():
            yield RangeOutput(part.number, EDGES, bucket, pack(edges_of_bucket))


def misread(plan: Plan, marks: Sequence[SyncPoint]) -> list[Range]:
    """Return ranges to read again because they do not start where the range before ended, or with the wrong clock.

    Bytes in them looked like a record, or their first packets are much earlier than packets before. At most one range
    after each correct one is returned, so this has to be called again after reading these.
    """
    found = []
    for before, mark, part in zip(marks, marks[1:], plan.ranges[1:], strict=False):
        follows = plan.ranges[before.number].files == part.files and before.end >= 0
        if follows and mark.begin != before.end and not (part.known and part.begin == before.end):
            found.append(replace(part, begin=before.end, known=True))
    if not found:
        clocks = clocks_of([mark.clock for mark in marks])
        if clocks.wrong is not None:
            found.append(replace(plan.ranges[clocks.wrong], clock=clocks.state))
    return found


def replan(plan: Plan, marks: Sequence[SyncPoint]) -> Plan | None:
    """Return the plan with ranges merged that have to be read as one; None if there are none.

    These are files that were captured at the same time, and files with IP fragments across an edge.
    """
    together: list[tuple[int, int]] = []
    latest: int | None = None
    first = 0
    for at, (mark, part) in enumerate(zip(marks, plan.ranges, strict=True)):
        begins = part.files[0] > plan.ranges[at - 1].files[0] if at else True
        overlaps = begins and latest is not None and mark.first_key is not None and mark.first_key < latest
        if begins and not overlaps:
            first = part.files[0]
        fragments = at > 0 and _fragments(marks[at - 1]) and _fragments(mark)
        if overlaps or fragments:
            low = first if overlaps else min(first, plan.ranges[at - 1].files[0])
            while together and together[-1][1] > low:
                low = min(low, together.pop()[0])
            together.append((low, part.files[1]))
        if mark.last_key is not None:
            latest = mark.last_key if latest is None else max(latest, mark.last_key)
    wanted = [
        pair for pair in together if sum(pair[0] <= each.files[0] < pair[1] for each in plan.ranges) > 1
    ]
    return (
        plan.merged(wanted, "captured at the same time as others, or IP fragments cross its parts")
        if wanted
        else None
    )


def _fragments(mark: SyncPoint) -> int:
    return mark.statistics.fragments_waiting


def stitch_bucket(
    given: Input, marks: Sequence[SyncPoint], packed: Iterable[tuple[int, bytes]]
) -> StitchedConnections:
    """Stitch the connections of one bucket.

    :param packed: numbers of ranges, and their packed edges of that bucket
    :raises CaptureError: if a file can no longer be read
    """
    secrets = [secret for mark in marks for secret in mark.secrets]
    with given.plan.source() as source:
        return stitch(
            source,
            given.plan.ranges,
            bases(marks),
            sorted(packed),
            clocks=clocks_of([mark.clock for mark in marks]).starts,
            keylog=given.secrets(secrets),
            in_place=[given.in_place(part) for part in given.plan.ranges],
        )


def number_all(
    given: Input,
    marked: Sequence[RangeSummary],
    together: Sequence[StitchedConnections],
    earlier: PriorCounts = NOTHING,
) -> NumberedRanges:
    """Number connections and exchanges over the whole capture, or over a batch of it.

    :param together: by bucket
    :param earlier: counts before the first range
    """
    marks = [each.mark for each in marked]
    before = bases(marks, earlier.packets)
    buckets = [NumberedBucket.of(made, before, earlier.ids) for made in together]
    summaries, facts = [each.summary for each in buckets], [each.facts for each in marked]
    numbered = number(given.plan, marks, summaries, facts, earlier)
    numbered.add(together, buckets)
    return numbered


def read_exchanges(given: Input, context: Context, facts: SessionFacts) -> RangeExchanges:
    """Read a range again, for its exchanges.

    :raises CaptureError: if a file can no longer be read
    """
    in_place = given.in_place(context.part)
    return RangeExchanges(given.plan.source(), context, facts, keylog=given.secrets(), in_place=in_place)


class MergeResult(NamedTuple):
    """A capture that was read in ranges.

    :ivar given: the capture, with its final plan
    """

    given: Input
    marked: list[RangeSummary]
    finished: list[bytes]
    numbered: NumberedRanges

    @property
    def marks(self) -> list[SyncPoint]:
        """The sync points of the ranges, in order."""
        return [each.mark for each in self.marked]

    @property
    def noted(self) -> bool:
        """Whether packets have comments."""
        return any(mark.noted for mark in self.marks)


def read_here(given: Input, processes: int = 1, kinds: Collection[str] = KINDS) -> MergeResult:
    """Take all steps on this machine.

    :param processes: number of processes that read ranges in parallel
    :param kinds: results of ranges to keep; without :data:`FINISHED` memory does not grow with the exchanges
    :raises CaptureError: if a file can no longer be read
    """
    given, outputs = settled(given, _read_all(given, processes, kinds), processes, kinds)
    marked = marked_of(outputs)
    marks = [each.mark for each in marked]
    everything = [each for number in sorted(outputs) for each in outputs[number]]
    together = [
        stitch_bucket(given, marks, [(each.part, each.data) for each in everything if each.bucket == bucket])
        for bucket in range(given.buckets)
    ]
    finished = [each.data for each in everything if each.kind == FINISHED]
    return MergeResult(given, marked, finished, number_all(given, marked, together))


def settled(
    given: Input,
    outputs: dict[int, list[RangeOutput]],
    processes: int = 1,
    kinds: Collection[str] = KINDS,
) -> tuple[Input, dict[int, list[RangeOutput]]]:
    """Read again, on this machine, ranges that did not start at a record, or have to be merged.

    :param outputs: results by number of the range
    :param processes: number of processes that read ranges in parallel
    :param kinds: results of ranges to keep
    :return: the capture with its final plan, and the final results
    """

    def read(given: Input, parts: list[Range]) -> list[RangeSummary]:
        nonlocal outputs
        reread = dict(_read_kinds(given, kinds, part) for part in parts)
        outputs = outputs | reread if parts else _read_all(given, processes, kinds)
        return marked_of(outputs)

    return settle(given, marked_of(outputs), read)[0], outputs


def settle(
    given: Input, marked: list[RangeSummary], read: Callable[[Input, list[Range]], list[RangeSummary]]
) -> tuple[Input, list[RangeSummary]]:
    """Repeat the reading of ranges that did not start at a record, or have to be merged, until all are correct.

    :param marked: summaries of all ranges
    :param read: reads the given ranges again, or all of a new plan if none are given; returns summaries of all ranges
    :return: the capture with its final plan, and the summaries of its ranges
    """
    while True:
        marks = [each.mark for each in marked]
        to_reread = misread(given.plan, marks)
        for part in to_reread:
            given.plan.ranges[part.number] = part
        if not to_reread:
            merged = replan(given.plan, marks)
            if merged is None:
                return given, marked
            given = replace(given, plan=merged)
        marked = read(given, to_reread)


def _read_all(
    given: Input, processes: int = 1, kinds: Collection[str] = KINDS
) -> dict[int, list[RangeOutput]]:
    ranges = given.plan.ranges
    read = partial(_read_kinds, given, kinds)
    if min(processes, len(ranges)) < 2:
        return dict(map(read, ranges))
    # forked, because the main module of other programs, such as Spark's workers, cannot be imported again
    with ProcessPoolExecutor(min(processes, len(ranges)), get_context("fork")) as pool:
        return dict(pool.map(read, ranges))


def _read_kinds(given: Input, kinds: Collection[str], part: Range) -> tuple[int, list[RangeOutput]]:
    return part.number, [each for each in read_part(given, part) if each.kind in kinds]


def marked_of(outputs: Mapping[int, Sequence[RangeOutput]]) -> list[RangeSummary]:
    """Return the summaries of all ranges, in order."""
    marks = [next(each.data for each in outputs[number] if each.kind == MARK) for number in sorted(outputs)]
    return [unpack(mark) for mark in marks]
