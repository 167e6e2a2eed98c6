"""Nearest-rank percentiles."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from captures.analysis.percentiles import Times, weighted
from captures.json_objects import to_json

NANOSECONDS = st.integers(-(2**40), 2**60)


def nearest_rank(values: list[int], rank: int) -> int:
    return sorted(values)[max(math.ceil(len(values) * rank / 100), 1) - 1]


def test_no_times_have_no_percentiles() -> None:
    assert Times().percentiles() is None


@given(st.lists(NANOSECONDS, min_size=1, max_size=400))
def test_each_percentile_is_a_time_that_was_measured(values: list[int]) -> None:
    one_by_one, at_once = Times(), Times()
    for value in values:
        one_by_one.add(value)
    at_once.extend(np.array(values, np.int64))
    found = one_by_one.percentiles()
    assert found == at_once.percentiles()
    assert found is not None
    assert (found.p50, found.p95, found.p99) == tuple(nearest_rank(values, rank) for rank in (50, 95, 99))
    assert (found.count, found.max) == (len(values), max(values))


def test_times_can_be_added_after_percentiles_were_taken() -> None:
    times = Times()
    times.add(5)
    times.percentiles()
    times.add(7)
    assert to_json(times.percentiles()) == {
        "count": 2, "total_ns": 12, "p50_ns": 5, "p95_ns": 7, "p99_ns": 7, "max_ns": 7
    }  # fmt: skip


@given(st.lists(st.tuples(st.integers(-(2**30), 2**30), st.integers(0, 6)), max_size=40))
def test_times_that_count_several_times(pairs: list[tuple[int, int]]) -> None:
    every = Times()
    for value, count in pairs:
        for _ in range(count):
            every.add(value)
    table = np.array(pairs, np.int64).reshape(-1, 2)
    assert weighted(table[:, 0], table[:, 1]) == every.percentiles()
