"""Distributing lines or cells."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kproxy.tui.room import shared


def test_small_wants_are_satisfied_and_the_others_divide_the_rest() -> None:
    assert shared([13, 2, 7], 20) == [11, 2, 7]
    assert shared([13, 2, 7], 10) == [4, 2, 4]
    assert shared([3, 0], 10) == [3, 0]
    assert shared([3], -1) == [0]


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(0, 100))
def test_nothing_is_left_while_anything_is_wanted(wants: list[int], room: int) -> None:
    assert sum(shared(wants, room)) == min(sum(wants), room)
