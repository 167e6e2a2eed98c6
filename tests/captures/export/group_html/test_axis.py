"""Positions of times in the picture of a group."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from captures.export.group_html.axis import FOLDED, MOST_ROWS, WIDTH, AxisRow, axis
from dissectors.units import SECOND

HOUR = 3600 * SECOND


def test_a_short_time_is_one_row_with_nothing_folded() -> None:
    (row,) = axis(0, 40 * SECOND, [(5 * SECOND, 8 * SECOND)], 3 * SECOND)
    assert [piece.folded for piece in row.pieces] == [False]
    assert row.x(0) == 0
    assert row.x(20 * SECOND) == WIDTH / 2
    assert row.x(40 * SECOND) == WIDTH


def test_quiet_time_is_folded_and_what_goes_on_has_the_room() -> None:
    busy = [(HOUR, HOUR + 3 * SECOND), (3 * HOUR, 3 * HOUR + 3 * SECOND)]
    (row,) = axis(0, 4 * HOUR, busy, 3 * SECOND)
    assert [piece.folded for piece in row.pieces] == [True, False, True, False, True]
    assert [piece.width for piece in row.pieces if piece.folded] == [FOLDED] * 3
    assert row.width > WIDTH - 1
    for begin, end in busy:
        assert row.x(end) - row.x(begin) > 100


def test_lengths_can_be_compared() -> None:
    rows = axis(0, 9 * HOUR, [(HOUR, HOUR + SECOND), (5 * HOUR, 5 * HOUR + 4 * SECOND)], SECOND)
    scales = {
        round(piece.width / (piece.end - piece.begin) * SECOND, 3)
        for row in rows
        for piece in row.pieces
        if not piece.folded
    }
    assert len(scales) == 1


def test_a_long_time_takes_several_rows() -> None:
    busy = [(hour * HOUR, hour * HOUR + 30 * SECOND) for hour in range(1, 100)]
    rows = axis(0, 100 * HOUR, busy, 3 * SECOND)
    assert 2 < len(rows) <= 2 * MOST_ROWS
    assert all(row.width <= WIDTH + 0.01 for row in rows)


def test_time_format_outside_are_at_the_ends() -> None:
    (row,) = axis(SECOND, 2 * SECOND, [], 0)
    assert (row.x(0), row.x(HOUR)) == (0, WIDTH)
    assert row.holds(SECOND)
    assert not row.holds(HOUR)


def test_ticks_are_round_and_can_be_read() -> None:
    (row,) = axis(3 * SECOND // 7, 61 * SECOND, [], SECOND)
    ticks = row.ticks()
    assert len(ticks) > 3
    assert all(time % SECOND == 0 for time in ticks)
    assert all(row.x(later) - row.x(earlier) >= 70 for earlier, later in pairwise(ticks))


def test_a_piece_between_folds_has_a_tick_of_its_own() -> None:
    begin = HOUR + 17 * SECOND // 10
    rows = axis(0, 9 * HOUR, [(begin, begin + SECOND), (5 * HOUR, 5 * HOUR + SECOND)], SECOND)
    (row,) = rows
    for piece in row.pieces:
        if not piece.folded:
            assert any(piece.begin <= time <= piece.end for time in row.ticks())


@given(
    begin=st.integers(0, 1 << 61),
    length=st.integers(0, 1 << 58),
    busy=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1 << 40)), max_size=30),
    usual=st.integers(0, 1 << 45),
)
def test_all_of_the_time_is_on_rows_in_its_order(
    begin: int, length: int, busy: list[tuple[float, int]], usual: int
) -> None:
    stretches = [(first, first + took) for share, took in busy for first in (begin + int(length * share),)]
    rows = axis(begin, begin + length, stretches, usual)
    pieces = [piece for row in rows for piece in row.pieces]
    assert pieces[0].begin == begin
    assert pieces[-1].end == max(begin + length, begin + 1)
    assert all(earlier.end == later.begin for earlier, later in pairwise(pieces))
    assert all(in_order(row) for row in rows)


def in_order(row: AxisRow) -> bool:
    ends = [piece.x + piece.width for piece in row.pieces]
    starts = [piece.x for piece in row.pieces]
    return (
        starts[0] == 0
        and all(abs(end - start) < 0.01 for end, start in zip(ends, starts[1:], strict=False))
        and max(ends) <= WIDTH + 0.01
    )
