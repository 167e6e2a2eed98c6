"""Bisection finds the same periods as a check of each."""

from __future__ import annotations

from random import Random

import pytest

from captures.analysis.incidents.periods import Period, Periods


@pytest.mark.parametrize("seed", range(20))
def test_the_first_and_the_latest_are_those_that_looking_at_each_finds(seed: int) -> None:
    rng = Random(seed)
    begins = rng.sample(range(1_000), rng.randrange(12))
    known = [Period(begin, begin + rng.randrange(300), number) for number, begin in enumerate(begins)]
    periods, in_order = Periods(known), sorted(known)
    for _ in range(100):
        begin, end = rng.randrange(1_200), rng.randrange(1_200)
        first = next((each.of for each in in_order if each.begin <= begin and each.end >= end), None)
        assert periods.first(begin, end) == first
        latest = next((each for each in reversed(in_order) if each.begin <= begin), None)
        assert periods.latest(begin) == latest
