"""Differences of latency without designed waits, by API: the median and p95."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from captures.analysis.comparison.model import Aspect, Difference, SideValue
from captures.analysis.comparison.rates import NOTABLE, proof, times
from captures.analysis.comparison.side import Side
from captures.analysis.comparison.uncertainty import Interval, binomial_dispersion, percentile_interval
from captures.analysis.latency import SCALE, Dimension, Distribution, Measure, percentile
from captures.analysis.percentiles import Percentiles
from captures.analysis.time_shares import ShareRow
from captures.arrays import Int64s
from captures.meaning import words
from captures.time_format import span

_RANKS = {"median": 50, "p95": 95}
_LEAST_COUNT = 20
"""Number of exchanges on both sides from which on an unproven difference is reported."""
_SMALL = 5_000_000
"""ns: a difference of that size has half its weight."""
_WEIGHT = 1.5


_PARTS = {
    "broker": "the broker's own work",
    "followers": "waiting for followers",
    "paused": "pauses by a quota",
    "network": "the network",
}
"""Shares of the time (:mod:`captures.analysis.time_shares`), in words."""
_MOST_OF_IT = 0.5


@dataclass(frozen=True, slots=True)
class _Point:
    """A percentile of one side."""

    value: int
    interval: Interval
    count: int

    def shown(self, examples: tuple[int, ...]) -> SideValue:
        high = self.interval.high
        return SideValue(
            f"{span(self.value)} of {words.counted(self.count, 'exchange')}",
            value=float(self.value),
            count=self.count,
            low=self.interval.low,
            high=None if math.isinf(high) else high,
            examples=examples,
        )


def latency_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the differences, at most one per API: of the median or of p95, whichever differs more."""
    sides = [
        {
            each.label: each
            for each in side.latency.distributions(Dimension.API, Measure.EXCESS)[1:]
            if each.count
        }
        for side in (good, bad)
    ]
    shares = good.time_shares(), bad.time_shares()
    found = []
    for api in sorted(sides[0].keys() & sides[1].keys()):
        both = [_difference(api, what, (good, sides[0][api]), (bad, sides[1][api])) for what in _RANKS]
        known = [each for each in both if each is not None]
        if known:
            largest = max(known, key=lambda each: (each.certain, each.score))
            part = _largest_part(*(each.get(api) for each in shares)) if largest.certain else ""
            found.append(replace(largest, sentence=f"{largest.sentence}{part}"))
    return found


def _largest_part(good: ShareRow | None, bad: ShareRow | None) -> str:
    """Return a clause about the part of the time that makes up most of the difference; empty if unknown.

    Means are compared, since only they add up.
    """
    if good is None or bad is None:
        return ""
    means = {part: (_mean(good, part), _mean(bad, part)) for part in _PARTS}
    whole = sum(after - before for before, after in means.values())
    part, (before, after) = max(means.items(), key=lambda each: abs(each[1][1] - each[1][0]))
    if not whole or (after - before) / whole < _MOST_OF_IT:
        return ""
    return f"; most of it is {_PARTS[part]}, on average {span(round(before))} and {span(round(after))}"


def _mean(row: ShareRow, part: str) -> float:
    """Return the mean of a part of the time in ns, over all exchanges of an API that did not only wait."""
    of: Percentiles | None = getattr(row, part)
    return of.total / row.broker.count if of is not None and row.broker is not None else 0.0


def _difference(
    api: str, what: str, good: tuple[Side, Distribution], bad: tuple[Side, Distribution]
) -> Difference | None:
    rank = _RANKS[what]
    one, other = _point(*good, rank), _point(*bad, rank)
    sure = _sure(one.interval, other.interval)
    measured = max(other.value, 1) / max(one.value, 1)
    certain = sure != 1.0
    little = min(one.count, other.count) < _LEAST_COUNT
    if not certain and (little or abs(math.log(measured)) < math.log(NOTABLE)):
        return None
    size = abs(other.value - one.value)
    slower = "longer" if other.value > one.value else "shorter"
    both = f"{span(one.value)} in good and {span(other.value)} in bad"
    text = f"{api}: {what} {times(measured)} times {slower} without designed waiting, {both}"
    weight = _WEIGHT * size / (size + _SMALL) if size else 0.0
    return Difference(
        aspect=Aspect.LATENCY,
        subject=api,
        what=what,
        sentence=f"{text}{proof(sure)}",
        good=one.shown(good[0].slowest(api)),
        bad=other.shown(bad[0].slowest(api)),
        ratio=measured,
        sure=sure,
        certain=certain,
        score=abs(math.log2(sure if certain else measured)) * weight,
    )


def _sure(good: Interval, bad: Interval) -> float:
    """Return the ratio of at least so many times, or at most if it is below 1; 1 if the intervals overlap."""
    if bad.low > good.high:
        return bad.low / good.high
    if bad.high < good.low:
        return bad.high / good.low
    return 1.0


def _point(side: Side, found: Distribution, rank: int) -> _Point:
    value = found.p50 if rank == _RANKS["median"] else found.p95
    overdispersion = _spread(side, found, rank)
    interval = percentile_interval(found.counts, SCALE, rank / 100, overdispersion)
    assert interval is not None, "there is something in it"
    return _Point(value, interval, found.count)


def _spread(side: Side, found: Distribution, rank: int) -> float:
    """Return how much more often than by chance exchanges slower than the percentile occur together."""
    bucket = percentile(found.counts, rank)
    over_time = side.latency.over_time(Dimension.API, Measure.EXCESS, found.label, found.condition).merged(64)
    counts: Int64s = over_time.counts
    if bucket is None or not len(counts):
        return 1.0
    return binomial_dispersion(counts[:, bucket:].sum(axis=1), counts.sum(axis=1))
