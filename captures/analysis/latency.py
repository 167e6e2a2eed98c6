"""Distributions of latencies, also over time, by API, broker and client, in bounded memory.

Latencies are counted in buckets that are log-linear with base ten, as in OpenHistogram: 90 per decade, with decimal
bounds of two digits (1.0, 1.1, ... 9.9 ms, 10, 11 ms). So bounds are round in every unit, and a percentile is at most
5% off. Over time, latencies are counted in tenths of decades (:data:`SCALE`, the preferred numbers R10, rounded to
bounds of the fine buckets), in slices of time that get longer as the covered time does.

Everything is counted twice: as measured, and without designed waits (a Fetch that waits for records is not slow).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np

from captures.analysis.exchange_groups import RowGroups, api_grouping
from captures.analysis.percentiles import RANKS, nearest_rank
from captures.arrays import Int64s
from captures.exchanges import Exchange, ExchangeReader
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from captures.filters.lexer import quoted
from dissectors.units import SECOND

LEAST = 1_000
"""ns; all shorter latencies are in one bucket."""
MOST = 10**13
"""ns, 2 h 47 min; all latencies from here on are in one bucket."""
MOST_SLICES = 480
MOST_GROUPS = 32
"""Most groups of a dimension; later ones are counted together."""

_DECADES = [10**power for power in range(3, 13)]
_FINE = [decade * tenths // 10 for decade in _DECADES for tenths in range(10, 100)] + [MOST]
_R10 = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
SCALE: tuple[int, ...] = (*(decade * tenths // 10 for decade in _DECADES for tenths in _R10), MOST)
"""Bounds in ns of the buckets over time: bucket ``i`` is from ``SCALE[i - 1]`` on, below ``SCALE[i]``;
the first has no lower bound, the last no upper one."""
BUCKETS = len(SCALE) + 1

_SCALE_OF = np.array([bisect_right(SCALE, lower) for lower in (0, *_FINE)], np.int64)
_MIDDLE = np.array([LEAST // 2, *((low + high) // 2 for low, high in pairwise(_FINE)), MOST], np.int64)

_MINUTE, _HOUR, _DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
_WIDTHS = (
    *(10**power * lead for power in (6, 7, 8) for lead in (1, 2)),
    *(lead * SECOND for lead in (1, 2, 10, 30)),
    *(lead * _MINUTE for lead in (1, 2, 10, 30)),
    *(lead * _HOUR for lead in (1, 2, 6, 12)),
    *(_DAY << doubled for doubled in range(16)),
)
"""Possible widths of slices, in ns: each is a multiple of the one before."""

_ROUND = (
    *(10**power * lead for power in (6, 7, 8) for lead in (1, 2, 5)),
    *(lead * SECOND for lead in (1, 2, 5, 10, 15, 20, 30)),
    *(lead * _MINUTE for lead in (1, 2, 5, 10, 15, 20, 30)),
    *(lead * _HOUR for lead in (1, 2, 3, 4, 6, 8, 12)),
    *(_DAY << doubled for doubled in range(17)),
)
"""Widths, in ns, that slices may be merged to."""

Counts = Int64s


class Dimension(Enum):
    """What latencies are grouped by."""

    API = "API"
    BROKER = "broker"
    CLIENT = "client"


class Measure(Enum):
    """What is measured. The value is the field of the filter language."""

    EXCESS = "excess"
    """Latency without designed waits. Exchanges that only waited are left out, as everywhere: their messages do not
    show how long the broker worked."""
    MEASURED = "latency"
    """From the last byte of the request to the first byte of the response."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of latencies. Times are in ns.

    :ivar label: name of the group
    :ivar condition: filter for the counted exchanges; empty if there is none
    :ivar p50: as all percentiles by nearest rank, at most 5% off
    :ivar slowest: number of the slowest exchange, the first of several
    :ivar counts: counts by the buckets of :data:`SCALE`
    """

    label: str
    condition: str
    count: int
    p50: int
    p95: int
    p99: int
    max: int
    slowest: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class OverTime:
    """Distributions by slice.

    :ivar begin: start of the first slice, ns since the epoch
    :ivar width: ns of a slice; slices begin at multiples of it
    :ivar counts: one row per slice, one column per bucket of :data:`SCALE`
    """

    begin: int
    width: int
    counts: Counts

    def __len__(self) -> int:
        return len(self.counts)

    def merged(self, most: int) -> OverTime:
        """Return the distributions in at most `most` slices."""
        if len(self) <= most:
            return self
        widths = (width for width in _ROUND if width % self.width == 0 and self._slices(width) <= most)
        width = next(widths, self.width * len(self) * 2)
        first = self.begin // width
        times = self.begin + self.width * np.arange(len(self), dtype=np.int64)
        merged = np.zeros((self._slices(width), self.counts.shape[1]), np.int64)
        np.add.at(merged, times // width - first, self.counts)
        return OverTime(first * width, width, merged)

    def _slices(self, width: int) -> int:
        return (self.begin + self.width * (len(self) - 1)) // width - self.begin // width + 1


def percentile(counts: Counts, percent: int) -> int | None:
    """Return the bucket of :data:`SCALE` with a percentile by nearest rank, None if nothing was counted."""
    total = int(counts.sum())
    if not total:
        return None
    return int(np.searchsorted(np.cumsum(counts), nearest_rank(total, percent)))


class _Histogram:
    """Counts by fine buckets."""

    __slots__ = ("_counts", "_max", "_min", "_slowest")

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * len(_MIDDLE)))
        self._min, self._max, self._slowest = MOST, 0, 0

    def add(self, bucket: int, nanoseconds: int, number: int) -> None:
        self._counts[bucket] += 1
        if nanoseconds < self._min:
            self._min = nanoseconds
        if nanoseconds > self._max or not self._slowest:
            self._max, self._slowest = nanoseconds, number

    def extend(self, buckets: Int64s, nanoseconds: Int64s, numbers: Int64s) -> None:
        counts = np.frombuffer(self._counts, np.uint64)
        counts += np.bincount(buckets, minlength=len(counts)).astype(np.uint64)
        self._min = min(self._min, int(nanoseconds.min()))
        slowest = int(nanoseconds.argmax())
        if nanoseconds[slowest] > self._max or not self._slowest:
            self._max, self._slowest = int(nanoseconds[slowest]), int(numbers[slowest])

    @property
    def total(self) -> int:
        """Number of counted latencies."""
        return sum(self._counts)

    def distribution(self, label: str, condition: str) -> Distribution:
        fine = np.array(self._counts, np.int64)
        total = int(fine.sum())
        summed = np.cumsum(fine)
        ranks = (nearest_rank(total, percent) for percent in RANKS)
        found = (int(_MIDDLE[min(int(np.searchsorted(summed, rank)), len(fine) - 1)]) for rank in ranks)
        p50, p95, p99 = (min(max(value, self._min), self._max) for value in found)
        counts = np.bincount(_SCALE_OF, fine, BUCKETS).astype(np.int64)
        return Distribution(label, condition, total, p50, p95, p99, self._max, self._slowest, counts)


class _Slices:
    """Counts by slice of time and bucket of :data:`SCALE`; empty slices cost nothing."""

    __slots__ = ("_rows", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._rows: dict[int, array[int]] = {}

    def add(self, at: int, width: int, bucket: int) -> None:
        """Count one latency in slice `at` of a width."""
        if width != self._width:
            self._widen(width)
        row = self._rows.get(at)
        if row is None:
            row = self._rows[at] = array("I", bytes(4 * BUCKETS))
        row[bucket] += 1

    def extend(self, at: Int64s, width: int, buckets: Int64s) -> None:
        """Count one latency in each of some slices of a width."""
        if width != self._width:
            self._widen(width)
        codes, counts = np.unique(at * BUCKETS + buckets, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            row = self._rows.setdefault(code // BUCKETS, array("I", bytes(4 * BUCKETS)))
            row[code % BUCKETS] += count

    def _widen(self, width: int) -> None:
        factor = width // self._width
        rows: dict[int, array[int]] = {}
        for at, row in self._rows.items():
            into = rows.get(at // factor)
            rows[at // factor] = row if into is None else array("I", map(sum, zip(into, row, strict=True)))
        self._rows, self._width = rows, width

    def over_time(self, width: int, begin: int, end: int) -> OverTime:
        """Return all slices between two times."""
        if width != self._width:
            self._widen(width)
        first = begin // width
        counts = np.zeros((end // width - first + 1, BUCKETS), np.int64)
        for at, row in self._rows.items():
            counts[at - first] = row
        return OverTime(first * width, width, counts)


class _Counter:
    """Counts one measure, in total and by slice."""

    __slots__ = ("histogram", "slices")

    def __init__(self, width: int) -> None:
        self.histogram = _Histogram()
        self.slices = _Slices(width)


class _Group:
    """The counts of one API, broker or client."""

    __slots__ = ("condition", "excess", "label", "measured")

    def __init__(self, label: str, condition: str, width: int) -> None:
        self.label = label
        self.condition = condition
        self.measured, self.excess = _Counter(width), _Counter(width)

    def counter(self, measure: Measure) -> _Counter:
        return self.measured if measure is Measure.MEASURED else self.excess


class LatencyStats:
    """Counts the latencies of exchanges.

    However many exchanges are added and however long they lasted, there are at most :data:`MOST_GROUPS` groups per
    dimension (and one for others), each of which takes at most 400 kB for all its slices.

    :ivar unmeasured: exchanges without a latency: not answered, or the request was not captured
    :ivar only_waited: exchanges that only waited by design
    """

    def __init__(self) -> None:
        self.unmeasured = 0
        self.only_waited = 0
        self._width = _WIDTHS[0]
        self._begin = self._end = 0
        self._all = _Group("all", "", self._width)
        self._groups: dict[Dimension, dict[object, _Group]] = {dimension: {} for dimension in Dimension}
        # avoids lookups by dimension
        self._by = tuple(self._groups.values())
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        latency = exchange.latency
        if latency is None:
            self.unmeasured += 1
            return
        self._cover(exchange.time)
        self._count += 1
        at = exchange.time // self._width
        groups = self._groups_of(exchange)
        # clocks of several captures may differ, so that an answer seems to precede its request
        self._count_one([group.measured for group in groups], max(latency, 0), at, exchange.number)
        if exchange.wait and exchange.wait >= latency:
            self.only_waited += 1
        else:
            excess = max(latency - exchange.wait, 0)
            self._count_one([group.excess for group in groups], excess, at, exchange.number)

    def add_columns(self, columns: ExchangeColumns, reader: ExchangeReader, indexes: Int64s) -> None:
        """Count exchanges.

        :param columns: exchanges in the order of their numbers
        :param indexes: index in the reader for each row of the columns
        """
        measured = np.flatnonzero(columns.flat("latency") != NO_VALUE)
        self.unmeasured += len(columns) - len(measured)
        if not len(measured):
            return
        times, latency, wait = (columns.flat(name)[measured] for name in ("time", "latency", "wait"))
        self._cover(int(times.min()))
        self._count += len(measured)
        self._cover(int(times.max()))
        worked = (wait == 0) | (wait < latency)
        self.only_waited += int(np.count_nonzero(~worked))
        indexes = indexes[measured]
        at, numbers = times // self._width, indexes + reader.first
        for group, rows in self._rows_by_group(columns, measured, reader, indexes):
            busy = rows[worked[rows]]
            for counter, counted, values in (
                (group.measured, rows, latency[rows]),
                (group.excess, busy, latency[busy] - wait[busy]),
            ):
                if len(counted):
                    values = np.maximum(values, 0)
                    buckets = np.searchsorted(_FINE, values, side="right")
                    counter.histogram.extend(buckets, values, numbers[counted])
                    counter.slices.extend(at[counted], self._width, _SCALE_OF[buckets])

    def _rows_by_group(
        self, columns: ExchangeColumns, measured: Int64s, reader: ExchangeReader, indexes: Int64s
    ) -> Iterator[tuple[_Group, Int64s]]:
        """Yield the groups of exchanges, each with the indexes of its exchanges in `measured`."""
        kinds = api_grouping(columns, columns.flat("connection"), columns.flat("client_id")).of[measured]
        grouping = RowGroups(kinds)
        alike = reader.bares(indexes[grouping.first].tolist())
        positions: dict[_Group, list[Int64s]] = {}
        for places_of_kind, exchange in zip(grouping, alike, strict=True):
            for group in self._groups_of(exchange):
                positions.setdefault(group, []).append(places_of_kind)
        for group, parts in positions.items():
            yield group, np.sort(np.concatenate(parts))

    def _count_one(self, counters: list[_Counter], nanoseconds: int, at: int, number: int) -> None:
        bucket, width = bisect_right(_FINE, nanoseconds), self._width
        wide = int(_SCALE_OF[bucket])
        for counter in counters:
            counter.histogram.add(bucket, nanoseconds, number)
            counter.slices.add(at, width, wide)

    def _cover(self, time: int) -> None:
        """Extend the covered time; widen the slices if there would be too many."""
        if not self._count:
            self._begin = self._end = time
        elif self._begin <= time <= self._end:
            return
        self._begin, self._end = min(self._begin, time), max(self._end, time)
        if self._end // self._width - self._begin // self._width >= MOST_SLICES:
            self._width = next(
                width for width in _WIDTHS if self._end // width - self._begin // width < MOST_SLICES
            )

    def _groups_of(self, exchange: Exchange) -> tuple[_Group, ...]:
        api, broker = exchange.api, exchange.broker
        client = exchange.client_id or (exchange.client.rpartition(":")[0],)
        apis, brokers, clients = self._by
        return (
            self._all,
            apis.get(api) or self._new(Dimension.API, api, exchange),
            brokers.get(broker) or self._new(Dimension.BROKER, broker, exchange),
            clients.get(client) or self._new(Dimension.CLIENT, client, exchange),
        )

    def _new(self, dimension: Dimension, key: object, exchange: Exchange) -> _Group:
        groups = self._groups[dimension]
        if len(groups) >= MOST_GROUPS:
            key = None
            if key in groups:
                return groups[key]
        named = ("others", "") if key is None else _named(dimension, exchange)
        group = groups[key] = _Group(*named, self._width)
        return group

    # ------------------------------------------------------------ results
    def distributions(self, dimension: Dimension, measure: Measure) -> list[Distribution]:
        """Return one distribution for all, then one for each group, those with most exchanges first.

        Exchanges that only waited count for the order, so that it is the same for both measures.
        """
        groups = sorted(
            self._groups[dimension].values(), key=lambda group: group.measured.histogram.total, reverse=True
        )
        return [
            group.counter(measure).histogram.distribution(group.label, group.condition)
            for group in (self._all, *groups)
        ]

    def over_time(self, dimension: Dimension, measure: Measure, label: str, condition: str) -> OverTime:
        """Return the distributions of a group by slice, from the first exchange of all groups to the last.

        :param label: label of its :class:`Distribution`, as is ``condition``; an unknown group has no slices
        """
        groups = [self._all, *self._groups[dimension].values()]
        found = next(
            (group for group in groups if (group.label, group.condition) == (label, condition)), None
        )
        if found is None or not self._count:
            return OverTime(self._begin, self._width, np.zeros((0, BUCKETS), np.int64))
        return found.counter(measure).slices.over_time(self._width, self._begin, self._end)


def _named(dimension: Dimension, exchange: Exchange) -> tuple[str, str]:
    """Return the label of an exchange's group, and the filter for it."""
    match dimension:
        case Dimension.API:
            return exchange.api, f"api == {exchange.api}"
        case Dimension.BROKER:
            return exchange.shown_broker, f"broker == {quoted(exchange.broker)}"
        case Dimension.CLIENT:
            if exchange.client_id:
                return exchange.client_id, f"client_id == {quoted(exchange.client_id)}"
            host = exchange.client.rpartition(":")[0]
            name = next(iter(exchange.client_names), host)
            return name, f"not client_id and client.host == {quoted(host.strip('[]'))}"
