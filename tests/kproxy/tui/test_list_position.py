"""Cursor and top line while the list changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kproxy.session.published import HeldMessage, ShownExchanges
from kproxy.tui.list_position import Position, Window
from tests.kproxy.tui.published import held

HEIGHT = 5


def listed(numbers: Sequence[int], *, rising: bool = True) -> ShownExchanges:
    return ShownExchanges(0, len(numbers), numbers=np.asarray(numbers, np.int64), rising=rising)


class List:
    """A position with a top line, as in a list."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.position = Position()
        self.top = 0
        self.show(numbers)

    def show(
        self,
        numbers: Sequence[int],
        waiting: tuple[HeldMessage, ...] | None = None,
        *,
        ordered: bool = False,
        following: bool = False,
    ) -> None:
        self.top = self.position.take(
            listed(numbers, rising=not ordered),
            self.position.held if waiting is None else waiting,
            top=self.top,
            height=HEIGHT,
            ordered=ordered,
            following=following,
        )


def test_the_cursor_begins_with_the_first_and_stays_with_it() -> None:
    shown = List([])
    assert shown.position.number is None
    shown.show([4, 5, 6])
    assert shown.position.number == 4
    shown.show([1, 2, 3, 4, 5, 6])
    assert (shown.position.number, shown.position.row) == (4, 3)


def test_what_is_under_the_cursor_stays_where_it_is_on_the_screen() -> None:
    shown = List(range(1, 101))
    shown.position.go(50)
    shown.top = 48
    shown.show(range(1, 101, 2))
    assert shown.position.number == 51
    assert shown.position.row - shown.top == 2


def test_what_is_on_top_stays_there_while_the_cursor_is_out_of_sight() -> None:
    shown = List(range(100, 200))
    shown.position.go(90)
    shown.top = 10
    shown.show(range(50, 200))
    assert shown.top == 60
    assert shown.position.number == 190


def test_the_nearest_takes_the_place_of_what_is_gone_until_it_is_back() -> None:
    shown = List(range(1, 101))
    shown.position.go(49)
    shown.show([10, 40, 60])
    assert shown.position.number == 60
    shown.show([])
    assert shown.position.number is None
    shown.show(range(1, 101))
    assert shown.position.number == 50


def test_in_another_order_what_comes_to_the_same_line_is_near() -> None:
    shown = List(range(1, 11))
    shown.position.go(4)
    shown.show([3, 1, 9, 5, 2], ordered=True)
    assert (shown.position.number, shown.position.row) == (5, 3)
    shown.show([3, 1, 9, 2], ordered=True)
    assert (shown.position.number, shown.position.row) == (2, 3)


def test_following_stays_with_the_newest() -> None:
    shown = List(range(1, 11))
    shown.show(range(1, 31), following=True)
    assert (shown.position.number, shown.top) == (30, 25)


def test_held_messages_have_lines_behind_the_exchanges() -> None:
    shown = List([1, 2, 3])
    shown.show([1, 2, 3], (held(7), held(8)))
    shown.position.go(4)
    assert shown.position.number is None
    assert shown.position.held_message == held(8)
    shown.show([1, 2, 3, 4], following=True)
    assert shown.position.held_message == held(8), "whoever is there does not follow"


def test_the_next_held_message_takes_the_place_of_one_that_went_on() -> None:
    shown = List([1, 2, 3])
    shown.position.go(1)
    shown.show([1, 2, 3], (held(7), held(8), held(9)))
    shown.position.go(4)
    shown.show([1, 2, 3], (held(7), held(9)))
    assert shown.position.held_message == held(9)
    shown.show([1, 2, 3], (held(7),))
    assert shown.position.held_message == held(7)
    shown.show([1, 2, 3], ())
    assert shown.position.number == 2


def test_going_beyond_the_ends_goes_to_them() -> None:
    shown = List([1, 2, 3])
    shown.position.go(99)
    assert shown.position.row == 2
    shown.position.go(-5)
    assert shown.position.row == 0


numbers = st.lists(st.integers(1, 60), unique=True, max_size=40)
steps = st.one_of(
    st.tuples(st.just("rising"), numbers.map(sorted)),
    st.tuples(st.just("ordered"), numbers),
    st.tuples(st.just("go"), st.integers(0, 45).map(lambda row: [row])),
    st.tuples(st.just("scroll"), st.integers(0, 40).map(lambda row: [row])),
    st.tuples(st.just("held"), st.lists(st.integers(1, 9), unique=True, max_size=4)),
)


@given(st.lists(steps, max_size=25))
def test_the_cursor_is_where_the_user_went_whatever_comes_and_goes(
    changes: list[tuple[str, list[int]]],
) -> None:
    shown, now, is_ordered = List([]), [], False
    wanted: int | None = None
    for what, values in changes:
        position = shown.position
        before, line = position.number, position.row - shown.top
        was_in_sight = 0 <= line < HEIGHT
        if what == "go":
            position.go(values[0])
            wanted = position.number if position.number is not None else wanted
        elif what == "scroll":
            shown.top = min(values[0], max(len(now) - HEIGHT, 0))
        elif what == "held":
            shown.show(now, tuple(held(number) for number in values), ordered=is_ordered)
        else:
            now, is_ordered = values, what == "ordered"
            shown.show(now, ordered=is_ordered)
            if before is not None and before == position.number and was_in_sight:
                unmoved = position.row - line
                assert shown.top == min(max(unmoved, 0), max(len(now) - HEIGHT, 0))
        assert 0 <= shown.top <= max(len(now) - HEIGHT, 0)
        assert 0 <= position.row < max(position.rows, 1)
        assert (position.number is None) == (position.row >= len(now))
        if wanted is None and position.number is not None:
            wanted = position.number
        if wanted in now and position.held_message is None:
            assert position.number == wanted


@given(st.integers(0, 30), st.integers(0, 40), st.integers(0, 12), st.data())
def test_lines_of_list_and_screen_belong_together(
    height: int, exchanges: int, waiting: int, data: st.DataObject
) -> None:
    top = data.draw(st.integers(0, exchanges))
    window = Window(80, height, 0, top, exchanges, waiting, 0)
    window = Window(
        80, height, 0, top, exchanges, waiting, data.draw(st.integers(0, waiting - window.pinned))
    )
    rows = [window.row_at(y) for y in range(height)]
    assert not rows or rows[0] is None, "the titles"
    for y, row in enumerate(rows):
        if row is not None:
            assert window.y_of(row) == y
    assert len({row for row in rows if row is not None}) == sum(row is not None for row in rows)
    assert sum(row is not None and row >= exchanges for row in rows) <= max((height - 1) // 3, 1)
