"""The certainty with which two rates, or two distributions of times, differ.

**Rates.** Counts of requests are compared as Poisson counts: given their sum, the number on one side is binomial, and
the exact (Clopper-Pearson) interval of its share gives the interval of the ratio of the rates (Przyborowski and
Wilenski 1940). It is exact, because errors and rebalances are few. Requests arrive in bursts, which makes counts vary
more than Poisson's: the dispersion is measured between slices of time (the index of dispersion, variance by mean), and
counts are divided by it (quasi-Poisson); the more dispersed side decides. Counts that vary less are treated as
Poisson's.

**Times.** Percentiles are compared by intervals from order statistics: the rank of the true percentile is binomial,
whatever the distribution of times. This needs neither a model nor resampling, works with counts in buckets, and two
disjoint intervals give a bound of the ratio. Slow exchanges occur together, too, so the number of exchanges is divided
by the dispersion of the slow ones among the slices.

The level is 99.9 % for each comparison; two captures need some hundred of them: one in ten pairs of equal captures
shows a false difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from captures.arrays import Int64s

LEVEL = 0.999
_ALPHA = 1 - LEVEL
_Z = 3.290527
"""Quantile of the normal distribution for :data:`LEVEL`."""
_LARGE = 2_000
"""Counts from which on the normal approximation is good enough."""
_LEAST_SLICES = 8
_STEPS = 80


@dataclass(frozen=True, slots=True)
class Interval:
    """The interval of a value at :data:`LEVEL`.

    :ivar high: infinite if there is no bound
    """

    low: float
    high: float

    @property
    def sure(self) -> float:
        """The bound of a ratio that is nearest to 1: at least so many times; 1 if there may be no difference."""
        return self.low if self.low > 1 else self.high if self.high < 1 else 1.0


def dispersion(counts: Sequence[int]) -> float:
    """Return the dispersion of counts of equal slices of time in comparison with Poisson's, at least 1.

    1 if there are too few slices.
    """
    total = sum(counts)
    if len(counts) < _LEAST_SLICES or total < 2:
        return 1.0
    mean = total / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / (len(counts) - 1)
    return max(1.0, variance / mean)


def binomial_dispersion(chosen: Int64s, totals: Int64s) -> float:
    """Return the dispersion of a share between slices in comparison with chance, at least 1.

    :param chosen: count in each slice
    :param totals: total in each slice; empty slices do not count
    """
    kept = totals > 0
    chosen, totals = chosen[kept], totals[kept]
    if len(totals) < _LEAST_SLICES:
        return 1.0
    share = chosen.sum() / totals.sum()
    if not 0 < share < 1:
        return 1.0
    squares = (chosen - totals * share) ** 2 / (totals * share * (1 - share))
    return max(1.0, float(squares.sum()) / (len(totals) - 1))


def rate_ratio(
    good: int, good_time: float, bad: int, bad_time: float, overdispersion: float = 1.0
) -> Interval:
    """Return the interval of the ratio of two rates, bad to good.

    :param good: count
    :param good_time: s in which it was counted; above 0, as is ``bad_time``
    :param overdispersion: :func:`dispersion` of the counts; the larger one of both
    """
    share = share_interval(bad / overdispersion, (good + bad) / overdispersion)
    low, high = (each / (1 - each) if each < 1 else math.inf for each in (share.low, share.high))
    return Interval(low * good_time / bad_time, high * good_time / bad_time)


@lru_cache(maxsize=4096)  # many compared counts are equal
def share_interval(count: float, total: float) -> Interval:
    """Return the Clopper-Pearson interval of a share; counts may be fractional.

    Large counts use Wilson's interval, which is equal in all relevant digits.
    """
    if total <= 0:
        return Interval(0.0, 1.0)
    rest = total - count
    if count > _LARGE and rest > _LARGE:
        return _wilson(count / total, total)
    low = 0.0 if count <= 0 else _quantile(_ALPHA / 2, count, rest + 1)
    high = 1.0 if rest <= 0 else _quantile(1 - _ALPHA / 2, count + 1, rest)
    return Interval(low, high)


def percentile_interval(
    counts: Int64s, scale: Sequence[int], rank: float, overdispersion: float
) -> Interval | None:
    """Return the bucket bounds between which a percentile lies; None if nothing was counted.

    :param counts: by bucket: bucket ``i`` is from ``scale[i - 1]`` on, below ``scale[i]``; the first has no lower bound
    :param rank: such as 0.95
    :param overdispersion: from :func:`binomial_dispersion`
    """
    total = int(counts.sum())
    if not total:
        return None
    worth = total / overdispersion
    ranks = _wilson(rank, worth)
    summed = list(accumulate(counts.tolist()))
    low, high = 0.0, math.inf
    if (1 - rank) ** worth <= _ALPHA / 2:
        bucket = int(np.searchsorted(summed, max(math.floor(ranks.low * total), 1)))
        low = float(scale[bucket - 1]) if bucket else 0.0
    if rank**worth <= _ALPHA / 2:
        bucket = int(np.searchsorted(summed, min(math.ceil(ranks.high * total), total)))
        high = float(scale[bucket]) if bucket < len(scale) else math.inf
    return Interval(low, high)


def _wilson(share: float, total: float) -> Interval:
    square = _Z * _Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = _Z / (1 + square / total) * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    return Interval(max(middle - half, 0.0), min(middle + half, 1.0))


# ------------------------------------------------------------ the beta distribution
def _quantile(probability: float, a: float, b: float) -> float:
    """Return the quantile of the beta distribution, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _beta(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """Return the value of the continued fraction, evaluated from the front (Lentz's method)."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    found = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            found *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return found
