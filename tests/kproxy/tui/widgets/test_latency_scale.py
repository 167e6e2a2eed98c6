"""Rows of latency: round bounds, their number, and filters that match exactly the exchanges counted in a row."""

from __future__ import annotations

import numpy as np
import pytest

from captures.analysis.latency import BUCKETS, SCALE, Measure
from captures.exchanges import ExchangeReader, open_capture
from captures.filters import compile_filter, context_of
from kproxy.tui.widgets.latency_scale import bound_literal, bound_text, fitting
from tests.captures.analysis.kit import exchange
from tests.kproxy.tui.kit import REBALANCE


def counts(*buckets: int):
    made = np.zeros(BUCKETS, np.int64)
    made[list(buckets)] = 1
    return made


def bucket(nanoseconds: int) -> int:
    return int(np.searchsorted(SCALE, nanoseconds, "right"))


@pytest.mark.parametrize(
    ("nanoseconds", "text", "literal"),
    [
        (1_000, "1 µs", "1us"),
        (1_500_000, "1.5 ms", "1.5ms"),
        (100_000_000, "100 ms", "100ms"),
        (2_500_000_000, "2.5 s", "2.5s"),
        (10**13, "10,000 s", "10000s"),
    ],
)
def test_bounds_as_people_and_filters_write_them(nanoseconds: int, text: str, literal: str) -> None:
    assert (bound_text(nanoseconds), bound_literal(nanoseconds)) == (text, literal)


@pytest.mark.parametrize("most", [4, 7, 10, 18, 40])
def test_the_finest_scale_that_fits(most: int) -> None:
    scale = fitting(counts(bucket(1_200_000), bucket(999_000_000)), most)
    assert scale is not None
    assert most // 2 <= len(scale) <= most
    assert all(one.high == other.low for one, other in zip(scale.ranges, scale.ranges[1:], strict=False))
    assert 1_200_000 in scale.ranges[0]
    assert 999_000_000 in scale.ranges[-1]


def test_nothing_has_no_scale() -> None:
    assert fitting(counts(), 10) is None


def test_rows_count_what_is_in_their_ranges() -> None:
    low, high = bucket(1_000_000), bucket(80_000_000)
    made = counts() + np.arange(BUCKETS)
    made[:low] = made[high + 1 :] = 0
    scale = fitting(made, 7)
    assert scale is not None
    rows = scale.counts(np.stack([made, made * 2]))
    assert rows.sum(axis=1).tolist() == [made.sum(), 2 * made.sum()]
    for row, span in enumerate(scale.ranges):
        assert rows[0, row] == sum(
            int(made[index]) for index in range(BUCKETS) if (SCALE[index - 1] if index else 0) in span
        )
        assert scale.row_at(span.low or 0) == row


def test_the_ends_of_the_scale_are_open() -> None:
    scale = fitting(counts(0, BUCKETS - 1), 12)
    assert scale is not None
    assert scale.ranges[0].text == "below 1 µs"
    assert scale.ranges[-1].text == "10,000 s and more"
    assert scale.ranges[-1].condition(Measure.MEASURED) == "latency >= 10000s"


def test_a_filter_means_what_the_row_counts() -> None:
    capture = open_capture(str(REBALANCE))
    capture.read()
    context = context_of(ExchangeReader(capture))
    scale = fitting(counts(0, bucket(1_000), bucket(60_000)), 6)
    assert scale is not None
    waited = exchange(1, latency=500_000_000, wait=500_000_000)
    for span in scale.ranges:
        wanted = compile_filter(span.condition(Measure.EXCESS))
        for latency in (0, 999, 1_000, 9_999, 10_000, 60_000, 100_000):
            made = exchange(latency=latency)
            assert wanted.match(made, context) is (latency in span)
        # exchanges that only waited are in no row
        assert not wanted.match(waited, context)
