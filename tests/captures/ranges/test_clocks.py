"""Clocks of ranges, joined: the same as one clock over all packets."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.packets.clock import CaptureClock, ClockState
from captures.ranges.clocks import ClockSpan, SpanClock, clocks_of

MS = 1_000_000


def times(rng: Random) -> np.ndarray[Any, Any]:
    """Times of packets: mostly rising, with packets that are late, and clocks that are set back."""
    steps = [rng.choice((0, MS, MS, 5 * MS, 400 * MS)) for _ in range(rng.randrange(1, 400))]
    now = np.cumsum(steps, dtype=np.int64) + 10**15
    for _ in range(rng.randrange(4)):
        now[rng.randrange(len(now)) :] -= rng.choice((MS, 900 * MS, 3000 * MS, 20_000 * MS))
    for _ in range(rng.randrange(8)):
        now[rng.randrange(len(now))] -= rng.choice((3 * MS, 1200 * MS))
    return now


def read(
    part: np.ndarray[Any, Any], begin: ClockState | None
) -> tuple[np.ndarray[Any, Any], ClockSpan | None]:
    clock = SpanClock(begin)
    return np.concatenate([clock.read(each) for each in np.array_split(part, 3)]), clock.span


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), cuts=st.integers(0, 8))
def test_readings_are_those_of_one_clock(seed: int, cuts: int) -> None:
    rng = Random(seed)
    whole = times(rng)
    parts = np.split(whole, sorted(rng.choices(range(len(whole) + 1), k=cuts)))
    found = [read(part, None) for part in parts]
    for _ in parts:
        clocks = clocks_of([span for _, span in found])
        assert len(clocks.starts) == len(parts)
        if clocks.wrong is None:
            break
        assert found[clocks.wrong][1].begin != clocks.state  # type: ignore[union-attr]
        found[clocks.wrong] = read(parts[clocks.wrong], clocks.state)
    assert clocks.wrong is None
    made = [start.readings(each) for start, (each, _) in zip(clocks.starts, found, strict=True)]
    assert np.concatenate(made).tolist() == CaptureClock().read(whole).tolist()
    for start, (each, _), true in zip(clocks.starts, found, made, strict=True):
        for reading, really in zip(each.tolist(), true.tolist(), strict=True):
            assert start.is_true(reading) == (reading + start.lag == really)


def test_a_range_in_time_need_not_be_read_again() -> None:
    spans = [read(np.array([t0, t0 + 5 * MS]), None)[1] for t0 in (10**15, 10**15 + 9 * MS, 10**15 + 10 * MS)]
    assert clocks_of(spans).wrong is None


def test_a_range_without_packets_changes_nothing() -> None:
    before, behind = (read(np.array([t0]), None)[1] for t0 in (10**15, 10**15 + MS))
    clocks = clocks_of([before, None, behind])
    assert (clocks.wrong, len(clocks.starts)) == (None, 3)


def test_a_clock_that_was_set_back_at_an_edge() -> None:
    first, second = np.arange(10**15, 10**15 + 9 * MS, MS), np.arange(10**14, 10**14 + 99 * MS, MS)
    spans = [read(part, None)[1] for part in (first, second)]
    clocks = clocks_of(spans)
    assert clocks.wrong == 1
    assert clocks.state == ClockState(10**15 + 8 * MS)
