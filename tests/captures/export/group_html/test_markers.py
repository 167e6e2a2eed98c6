"""The numbers of rebalances above the lanes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from captures.export.group_html.markers import NumberedRebalance, placed
from tests.captures.analysis.groups.kit import rebalance


def numbered(*places: float) -> list[tuple[NumberedRebalance, float]]:
    return [(NumberedRebalance(number, f"r{number}", rebalance()), x) for number, x in enumerate(places, 1)]


def test_numbers_that_are_close_are_on_levels_and_then_left_out() -> None:
    found = placed(numbered(100, 105, 110, 112, 300), 1000)
    assert [(marker.each.number, marker.level) for marker in found] == [(1, 0), (2, 1), (3, 2), (5, 0)]


def test_words_stand_beside_a_number_where_there_is_room() -> None:
    near, far = placed(numbered(100, 130), 1000)
    drawn = [marker.draw(24, "title", "session_timeout m3") for marker in (near, far)]
    assert ["session_timeout m3" in each for each in drawn] == [False, True]
    assert all('href="#r' in each for each in drawn)


def test_words_end_before_the_stem_of_a_number_above() -> None:
    low, _, high = placed(numbered(100, 105, 200), 1000)
    assert high.level == 0
    assert low.room < 100


@given(st.lists(st.floats(150, 1100), max_size=60))
def test_numbers_do_not_cover_each_other(places: list[float]) -> None:
    found = placed(numbered(*sorted(places)), 1130)
    for level in range(3):
        here = [marker for marker in found if marker.level == level]
        assert all(one.x + one.width <= other.x + 0.01 for one, other in pairwise(here))
