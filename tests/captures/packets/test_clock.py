"""The capture clock: only forward, through steps backwards and mixed clocks, however packets are cut into blocks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from captures.arrays import Int64s
from captures.packets.clock import STEADY, STEP, CaptureClock


def readings(times: list[int], sizes: list[int] | None = None) -> Int64s:
    clock, column, at = CaptureClock(), np.array(times, np.int64), 0
    parts = []
    for size in sizes or []:
        parts.append(clock.read(column[at : at + size]))
        at += size
    return np.concatenate([*parts, clock.read(column[at:])])


def test_packets_slightly_out_of_order_do_not_turn_it_back() -> None:
    assert readings([5, 9, 7, 8, 12, 3]).tolist() == [5, 9, 9, 9, 12, 12]


def test_after_a_step_backwards_it_goes_on() -> None:
    before, after = list(range(100)), [n - 3600 * STEP for n in range(1000)]
    got = readings(before + after)
    assert got[99 + STEADY] == got[99]  # it has to be sure first
    assert got[-1] - got[99 + STEADY] == 1000 - STEADY


def test_two_clocks_apart_do_not_make_it_run() -> None:
    times = [n + (n % 2) * 5 * STEP for n in range(1000)]
    assert readings(times)[-1] == times[-1]


def test_a_single_time_far_ahead() -> None:
    got = readings([0, 1, 900 * STEP, *range(2, 500)])
    assert got[-1] == 900 * STEP + 499 - (STEADY + 1)


@given(
    st.lists(st.one_of(st.integers(0, 1000), st.integers(-3 * STEP, 3 * STEP)), max_size=400),
    st.lists(st.integers(0, 90), max_size=20),
    st.integers(1, 5),
)
def test_it_never_runs_backwards_and_knows_no_blocks(
    changes: list[int], sizes: list[int], stretch: int
) -> None:
    times = np.cumsum(np.repeat(np.array(changes, np.int64), stretch)).tolist()
    whole = readings(times)
    assert np.all(np.diff(whole) >= 0)
    assert np.array_equal(readings(times, sizes), whole)


def test_set_back_by_centuries_again_and_again_it_never_runs_backwards() -> None:
    far = (1 << 62) - 1
    got = readings([time for _ in range(5) for time in (0, far, *[0] * (2 * STEADY))])
    assert (np.diff(got) >= 0).all()
    assert got[-1] == far + (1 << 62)
