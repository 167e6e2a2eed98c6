"""Slices, scales and the words for numbers."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.export.group_html.axis import WIDTH
from captures.export.report.plots import HEATS, shade, shade_from
from captures.export.report.scales import (
    MOST_SLICES,
    Slices,
    TimeAxis,
    amount,
    logarithmic_ticks,
    rounded_up,
)

SECOND = 1_000_000_000
DAY = 86_400 * SECOND


@given(first=st.integers(0, 1 << 61), length=st.integers(0, 1 << 62))
def test_slices_are_round_and_not_too_many(first: int, length: int) -> None:
    slices = Slices.of(first, first + length)
    assert 1 <= len(slices.begins) <= MOST_SLICES + 1
    assert all(begin % slices.width == 0 for begin in slices.begins)
    assert slices.begins[0] <= first
    assert slices.begins[-1] <= first + length < slices.begins[-1] + slices.width
    low, high = slices.edges
    assert low < high


def test_slices_at_the_edges_are_as_wide_as_they_were_seen() -> None:
    slices = Slices(int(0.2 * SECOND), int(9.1 * SECOND), SECOND)
    assert slices.covered(0) == (int(0.2 * SECOND), SECOND)
    assert slices.covered(4 * SECOND) == (4 * SECOND, 5 * SECOND)
    assert slices.covered(9 * SECOND) == (
        9 * SECOND,
        10 * SECOND,
    )  # a tenth of it would multiply the rate by ten


@given(value=st.floats(1e-6, 1e15), least=st.sampled_from([0.0, 1.0]))
def test_scales_hold_their_values(value: float, least: float) -> None:
    top, step = rounded_up(value, least)
    assert top >= value * 0.999
    assert step >= least
    assert 1 <= round(top / step) <= 6
    assert top <= max(value * 2.01, least)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "", "0"),
        (12, "", "12"),
        (999.6, "", "1k"),
        (1250, "", "1.25k"),
        (340_000_000, "B/s", "340 MB/s"),
        (0.25, "", "0.25"),
        (0.0004, "", "0.0004"),
    ],
)
def test_amounts_have_three_digits(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_ticks_of_latencies_are_round() -> None:
    assert list(logarithmic_ticks(1e6, 1e8)) == pytest.approx([1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8])
    assert list(logarithmic_ticks(1e3, 1e9)) == pytest.approx([10.0**power for power in range(3, 10)])


@given(begin=st.integers(0, 1 << 61), length=st.integers(1_000_000, 1 << 60), hours=st.integers(-11, 13))
def test_ticks_of_time_can_be_read(begin: int, length: int, hours: int) -> None:
    ticks = TimeAxis(begin, begin + length, timezone(timedelta(hours=hours))).ticks()
    assert all(0 <= x <= WIDTH for x, _, _ in ticks)
    assert all(later[0] - earlier[0] >= 60 for earlier, later in pairwise(ticks))


def test_the_date_stands_where_it_begins() -> None:
    ticks = TimeAxis(20 * DAY + 20 * 3600 * SECOND, 21 * DAY + 4 * 3600 * SECOND, UTC).ticks()
    assert [name for _, name, _ in ticks] == [f"{hour % 24:02}:00" for hour in range(20, 29)]
    assert [date for _, _, date in ticks if date] == ["1970-01-21", "1970-01-22"]


def test_days_are_told_by_their_dates() -> None:
    ticks = TimeAxis(0, 30 * DAY, UTC).ticks()
    assert ticks[0][1:] == ("1970-01-01", "")
    assert all(name.startswith("1970-01-") for _, name, _ in ticks)


@given(most=st.integers(1, 10**9))
def test_shades_begin_where_their_legend_says(most: int) -> None:
    assert shade(most, most) == HEATS - 1
    for at in range(HEATS):
        least = shade_from(at, most)
        assert shade(least, most) >= at
        assert least == 1 or shade(least - 1, most) < at
