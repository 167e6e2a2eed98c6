"""Waits of partitions' records at each hop, and records that a group gets twice or not at all.

Batches, deliveries and commits are ranges of offsets. Cut at each other's edges they form stretches of records with the
same journey; each is weighted with its number of records.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from captures.analysis.journey.attempts import Attempts
from captures.analysis.journey.covers import Cover, Overlap, first_cover, rows_at
from captures.analysis.journey.ledger import COMMITS, Ledger, PartitionLog
from captures.analysis.journey.logs import Log, Rows, by_time
from captures.analysis.journey.model import Settlement
from captures.analysis.journey.totals import GroupWaits, Range, TopicWaits
from captures.analysis.percentiles import Percentiles, weighted
from captures.arrays import Bools, Int64s, distinct_values
from captures.meaning.topic_partitions import TopicPartition

Consumer = tuple[str, str]
"""Group, and the client ID if no group is known."""


_Samples = list[tuple[Int64s, Int64s]]
"""Times, and the numbers of records with these times."""


class _Group(msgspec.Struct):
    shares: bool = False
    records: int = 0
    delivered: _Samples = []
    settled: _Samples = []
    total: _Samples = []
    refetched: list[Range] = []
    skipped: list[Range] = []

    def result(self, group: str, client: str) -> GroupWaits:
        return GroupWaits(
            group=group or None,
            client=client,
            shares=self.shares,
            records=self.records,
            delivered=_percentiles(self.delivered),
            settled=_percentiles(self.settled),
            total=_percentiles(self.total),
            refetched=self.refetched,
            skipped=self.skipped,
        )


def _percentiles(samples: _Samples) -> Percentiles | None:
    times, counts = ([pair[of] for pair in samples] for of in (0, 1))
    return weighted(np.concatenate(times), np.concatenate(counts)) if samples else None


def consumers(ledger: Ledger) -> list[Consumer | None]:
    """Return the consumer of each reader; None for replicas."""
    return [
        None if reader.replica >= 0 else (reader.group, "" if reader.group else reader.client)
        for reader in ledger.readers
    ]


def deliveries_of(log: PartitionLog, of: list[Consumer | None]) -> Iterator[tuple[Consumer, Rows]]:
    """Yield the deliveries of a partition by consumer, ordered by time."""
    rows = log.deliveries.rows()
    if not len(rows):
        return
    known = {each: at for at, each in enumerate(dict.fromkeys(each for each in of if each is not None))}
    codes = np.array([-1 if each is None else known[each] for each in of], np.int64)[rows["reader"]]
    for consumer, code in known.items():
        deliveries = rows[codes == code]
        if len(deliveries):
            yield consumer, by_time(deliveries)


class Waits:
    """Adds up partitions."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._consumers = consumers(ledger)
        self._groups: dict[Consumer, _Group] = {}
        self._acknowledged: _Samples = []
        self._partitions = self._sent = self._done = self._refused = self._resent = 0

    def add(self, tp: TopicPartition, log: PartitionLog) -> None:
        """Add one partition."""
        self._partitions += 1
        attempts = Attempts(log, self._ledger)
        sent, done = attempts.first_times()
        self._count(attempts, sent, done)
        located = np.flatnonzero(attempts.base >= 0)
        located = located[np.argsort(attempts.base[located], kind="stable")]
        base = attempts.base[located]
        sends, _ = first_cover(base, base + attempts.rows["count"][located] - 1)
        known = _KnownOffsets(sends, log)
        markers = log.markers.rows()["offset"]
        for consumer, rows in deliveries_of(log, self._consumers):
            group = self._groups.setdefault(consumer, _Group())
            group.shares |= any(
                self._ledger.readers[each].shares for each in distinct_values(rows["reader"]).tolist()
            )
            cover, overlaps = first_cover(rows["first"], rows["last"])
            settled, commits = _settled(log, consumer[0])
            group.records += sum(cover.lasts) - sum(cover.firsts) + len(cover.firsts)
            group.records -= int((rows_at(cover, markers) >= 0).sum())
            edges = _edges(sends, cover, settled)
            counts = np.diff(edges)
            s, d, c = (rows_at(each, edges[:-1]) for each in (sends, cover, settled))
            when = rows["time"]
            both = np.flatnonzero((s >= 0) & (d >= 0))
            sent_at, done_at, got_at = sent[located[s[both]]], done[located[s[both]]], when[d[both]]
            group.total.append((got_at - sent_at, counts[both]))
            acked = done_at >= 0
            group.delivered.append(((got_at - done_at)[acked], counts[both][acked]))
            # a commit before the delivery is not a wait
            over = np.flatnonzero((d >= 0) & (c >= 0))
            took = commits["time"][c[over]] - when[d[over]]
            group.settled.append((took[took >= 0], counts[over][took >= 0]))
            group.refetched += _again(tp, overlaps, rows)
            group.skipped += _skipped(tp, cover, rows, known)

    def result(self) -> TopicWaits:
        """Return the totals, groups by name, then consumers without one."""
        ordered = sorted(self._groups.items(), key=lambda item: (not item[0][0], item[0]))
        return TopicWaits(
            partitions=self._partitions,
            sent=self._sent,
            acknowledged=self._done,
            refused=self._refused,
            resent=self._resent,
            waits=_percentiles(self._acknowledged),
            groups=[each.result(*consumer) for consumer, each in ordered],
        )

    def _count(self, attempts: Attempts, sent: Int64s, done: Int64s) -> None:
        rows = attempts.rows
        once = attempts.batch == np.arange(len(rows))
        count = rows["count"].astype(np.int64)

        def batches(chosen: Bools) -> Bools:
            """Return a mask of the first rows of batches of which any row is chosen."""
            found = np.zeros(len(rows), np.bool_)
            found[attempts.batch[chosen]] = True
            return found

        confirmed = done >= 0
        first = np.full(len(rows), np.iinfo(np.int64).max)
        np.minimum.at(first, attempts.batch[confirmed], done[confirmed])
        acked = batches(confirmed)
        refused = batches(rows["error"] != 0) & ~acked & ~batches(attempts.base >= 0)
        self._sent += int(count[once].sum())
        self._done += int(count[acked].sum())
        self._refused += int(count[refused].sum())
        self._resent += int(count[batches(~once)].sum())
        self._acknowledged.append(((first - sent)[acked], count[acked]))


class _KnownOffsets:
    """Offsets that are known to be records of the log: they were sent, or delivered to any consumer."""

    def __init__(self, sends: Cover, log: PartitionLog) -> None:
        rows = log.deliveries.rows()
        first = np.concatenate([np.array(sends.firsts, np.int64), rows["first"]])
        last = np.concatenate([np.array(sends.lasts, np.int64), rows["last"]])
        order = np.argsort(first, kind="stable")
        first, reach = first[order], np.maximum.accumulate(last[order])
        begins = np.flatnonzero(np.r_[True, first[1:] > reach[:-1] + 1][: len(first)])
        self._firsts, self._lasts = first[begins], reach[np.r_[begins[1:], len(first)][: len(begins)] - 1]
        self._before = np.r_[0, np.cumsum(self._lasts - self._firsts + 1)]
        self._markers = np.sort(log.markers.rows()["offset"])

    def records(self, first: Int64s, last: Int64s) -> Int64s:
        """Return the number of known records in ranges, which include their last offset; no markers are among them."""
        return self._up_to(last) - self._up_to(first - 1)

    def _up_to(self, offsets: Int64s) -> Int64s:
        ranges = np.searchsorted(self._firsts, offsets, "right")
        beyond = np.maximum(self._lasts[ranges - 1] - offsets, 0) if len(self._lasts) else 0
        found: Int64s = self._before[ranges] - np.where(ranges > 0, beyond, 0)
        return found - np.searchsorted(self._markers, offsets, "right")


def _settled(log: PartitionLog, group: str) -> tuple[Cover, Rows]:
    """Return the ranges finished first by each commit of a group, and the commits, ordered by time."""
    commits = log.commits[group].rows() if group in log.commits else Log(COMMITS).rows()
    commits = by_time(commits[np.isin(commits["kind"], [kind for kind in Settlement if kind.done])])
    if not len(commits) or bool((commits["first"] >= 0).any()):
        return first_cover(commits["first"], commits["last"])[0], commits
    before = np.concatenate([[-1], np.maximum.accumulate(commits["last"])[:-1]])
    rises = np.flatnonzero(commits["last"] > before)
    return Cover((before[rises] + 1).tolist(), commits["last"][rises].tolist(), rises.tolist()), commits


def _edges(*covers: Cover) -> Int64s:
    """Return all offsets at which a range begins, or before which one ends."""
    found = [np.array(each.firsts, np.int64) for each in covers]
    found += [np.array(each.lasts, np.int64) + 1 for each in covers]
    edges: Int64s = distinct_values(np.concatenate(found))
    return edges


def _again(tp: TopicPartition, overlaps: list[Overlap], rows: Rows) -> Iterator[Range]:
    """Yield ranges delivered more than once; adjacent ranges are joined."""
    numbers, delivery_counts = rows["number"], rows["times"]
    ranges = sorted(overlaps)
    at = 0
    while at < len(ranges):
        first, last, before, refetched = ranges[at]
        edges: list[tuple[int, int]] = [(first, 1), (last + 1, -1)]
        at += 1
        while at < len(ranges) and ranges[at].first <= last + 1:
            each = ranges[at]
            last, before, refetched = (
                max(last, each.last),
                min(before, each.before),
                min(refetched, each.refetched),
            )
            edges += [(each.first, 1), (each.last + 1, -1)]
            at += 1
        times = 1 + int(np.cumsum([step for _, step in sorted(edges)]).max())
        times = max(times, int(delivery_counts[refetched]))
        yield Range(*tp, first, last, last - first + 1, times, int(numbers[before]), int(numbers[refetched]))


def _skipped(tp: TopicPartition, cover: Cover, rows: Rows, known: _KnownOffsets) -> Iterator[Range]:
    """Yield the known records between deliveries."""
    first, last = np.array(cover.lasts[:-1], np.int64) + 1, np.array(cover.firsts[1:], np.int64) - 1
    counts, numbers = known.records(first, last), rows["number"][cover.rows]
    for at in np.flatnonzero(counts > 0).tolist():
        yield Range(*tp, int(first[at]), int(last[at]), int(counts[at]), 0, *numbers[at : at + 2].tolist())
