"""Confidence intervals of rates and percentiles: against exact sums, and their actual coverage."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from captures.analysis.comparison.uncertainty import (
    Interval,
    binomial_dispersion,
    dispersion,
    percentile_interval,
    rate_ratio,
    share_interval,
)
from captures.analysis.latency import SCALE

ALPHA = 0.001


def at_least(count: int, total: int, share: float) -> float:
    """Return the probability that a binomial count is at least this high."""
    return sum(math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(count, total + 1))


@pytest.mark.parametrize(("count", "total"), [(0, 5), (1, 5), (5, 5), (3, 40), (20, 40), (199, 400)])
def test_the_bounds_of_a_share_are_where_the_binomial_tails_are_that_small(count: int, total: int) -> None:
    found = share_interval(count, total)
    if count:
        assert at_least(count, total, found.low) == pytest.approx(ALPHA / 2, rel=1e-6)
    else:
        assert found.low == 0
    if count < total:
        assert 1 - at_least(count + 1, total, found.high) == pytest.approx(ALPHA / 2, rel=1e-6)
    else:
        assert found.high == 1


def test_large_counts_go_over_smoothly() -> None:
    exact, normal = share_interval(1_990, 1_990 * 2), share_interval(2_010, 2_010 * 2)
    assert exact.low == pytest.approx(normal.low, abs=4e-4)
    assert exact.high == pytest.approx(normal.high, abs=4e-4)
    assert share_interval(0, 0) == Interval(0.0, 1.0)


@pytest.mark.slow
def test_rates_that_do_not_differ_are_seldom_told_to() -> None:
    chance = np.random.default_rng(11)
    pairs = chance.poisson((30, 90), (3_000, 2))
    wrong = sum(rate_ratio(int(good), 10, int(bad), 30).sure != 1.0 for good, bad in pairs)
    assert wrong <= 8  # at most 3 are expected


@pytest.mark.slow
def test_a_ratio_of_rates_is_within_its_interval() -> None:
    chance = np.random.default_rng(12)
    for good, bad in chance.poisson((40, 200), (500, 2)):
        found = rate_ratio(int(good), 10, int(bad), 10)
        assert found.low < 5 < found.high
        assert 1 < found.sure < 5


@pytest.mark.parametrize(
    ("good", "bad", "proved"),
    [(0, 0, False), (0, 5, False), (0, 12, True), (12, 0, True), (10, 14, False), (3, 40, True)],
)
def test_what_few_counts_prove(good: int, bad: int, proved: bool) -> None:
    assert (rate_ratio(good, 10, bad, 10).sure != 1.0) is proved


def test_counts_that_come_in_bursts_prove_less() -> None:
    assert dispersion([5] * 20) == 1.0
    assert dispersion([0] * 19 + [100]) > 90
    assert dispersion([100]) == 1.0  # too few slices to tell
    assert dispersion([0] * 20) == 1.0
    assert rate_ratio(100, 10, 300, 10).sure > 2
    assert rate_ratio(100, 10, 300, 10, overdispersion=50).sure == 1.0


@pytest.mark.slow
def test_bursts_are_not_taken_for_a_difference() -> None:
    chance = random.Random(5)
    wrong = 0
    for _ in range(300):
        sides = []
        for _ in "ab":
            slices = [0] * 64
            for _ in range(12):
                slices[chance.randrange(64)] += 50
            slices = [count + chance.randrange(-(count > 0) * 20, 21) * (count > 0) for count in slices]
            sides.append(slices)
        good, bad = sides
        worst = max(map(dispersion, sides))
        wrong += rate_ratio(sum(good), 64, sum(bad), 64, worst).sure != 1.0
    assert wrong <= 2


def counted(times: list[float]) -> np.ndarray:
    return np.bincount(np.searchsorted(SCALE, times, side="right"), minlength=len(SCALE) + 1)


@pytest.mark.parametrize("rank", [0.5, 0.95])
def test_a_percentile_is_within_its_interval(rank: float) -> None:
    chance = random.Random(3)
    outside = 0
    for _ in range(300):
        times = [1e6 * math.exp(chance.gauss(0, 1)) for _ in range(400)]
        true = 1e6 * math.exp(1.644854 * (rank == 0.95))
        found = percentile_interval(counted(times), SCALE, rank, 1.0)
        assert found is not None
        outside += not found.low <= true <= found.high
        assert found.high < 10 * found.low
    assert outside <= 2


def test_few_times_have_no_bounds() -> None:
    assert percentile_interval(counted([1e6] * 5), SCALE, 0.5, 1.0) == Interval(0.0, math.inf)
    several = percentile_interval(counted([1e6] * 40), SCALE, 0.95, 1.0)
    assert several is not None
    assert several.high == math.inf
    assert several.low > 0
    assert percentile_interval(counted([]), SCALE, 0.5, 1.0) is None
    # the same number, few of which are independent
    assert percentile_interval(counted([1e6] * 400), SCALE, 0.5, 100.0) == Interval(0.0, math.inf)


def test_the_first_and_the_last_bucket_have_one_bound() -> None:
    shortest = percentile_interval(counted([1.0] * 100), SCALE, 0.5, 1.0)
    longest = percentile_interval(counted([1e15] * 100), SCALE, 0.5, 1.0)
    assert shortest == Interval(0.0, 1_000.0)
    assert longest == Interval(1e13, math.inf)


def test_slow_ones_that_come_together_count_for_less() -> None:
    totals = np.full(20, 10)
    together = np.array([10] * 2 + [0] * 18)
    assert binomial_dispersion(together, totals) > 5
    assert binomial_dispersion(np.full(20, 1), totals) == 1.0
    assert binomial_dispersion(np.zeros(20, int), totals) == 1.0
    assert binomial_dispersion(together[:3], totals[:3]) == 1.0
