"""Rates in words, and their confidence intervals."""

from __future__ import annotations

import math

import pytest

from captures.analysis.comparison.differences import EventCount, proof, rate, times


def poisson_at_most(count: int, mean: float) -> float:
    return sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count + 1))


@pytest.mark.parametrize("count", [0, 1, 10, 60])
def test_the_interval_of_a_count_is_garwoods(count: int) -> None:
    shown = EventCount(count, 10.0, [], (3,)).shown("request", "requests")
    assert shown.low is not None
    assert shown.high is not None
    assert poisson_at_most(count, shown.high * 10) == pytest.approx(0.0005, rel=1e-3)
    if count:
        assert 1 - poisson_at_most(count - 1, shown.low * 10) == pytest.approx(0.0005, rel=1e-3)
    else:
        assert shown.low == 0
    assert (shown.value, shown.count, shown.examples) == (count / 10, count, (3,))


def test_bursts_widen_the_interval() -> None:
    steady = EventCount(64, 64.0, [1] * 64, ()).shown("request")
    burst = EventCount(64, 64.0, [64] + [0] * 63, ()).shown("request")
    assert (steady.high or 0) < 2 < 5 < (burst.high or 0)


def test_rates_in_words() -> None:
    assert [rate(value) for value in (0, 0.001, 0.5, 1, 12.345, 999.6, 1234.5)] == [
        "0/h",
        "3.6/h",
        "30/min",
        "1/s",
        "12.3/s",
        "1,000/s",
        "1,234/s",
    ]
    assert (rate(0.5, beside=7), rate(7, beside=0.5)) == ("0.5/s", "7/s")


def test_ratios_in_words() -> None:
    assert [times(value) for value in (1.5, 0.5, 4.2, 12.4, 1 / 1500)] == [
        "1.50",
        "2.0",
        "4.2",
        "12",
        "1,500",
    ]
    assert proof(1.0) == "; too little data to be sure"
    assert proof(2.5) == " (at least 2.5 times, at 99.9 %)"
