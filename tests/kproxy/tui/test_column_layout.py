"""The positions of columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.saved_choices import ProfileColumn
from kproxy.tui.column_layout import lay_out
from kproxy.tui.columns import COLUMNS, column
from kproxy.tui.profiles import BUILT_IN, DEFAULT, Profile

LONGEST = {
    "number": 7,
    "time": 12,
    "latency": 6,
    "client": 15,
    "broker": 15,
    "api": 20,
    "summary": 40,
    "state": 9,
}
MARGIN = 3


def names(profile: Profile, room: int) -> list[str]:
    return [placed.column.id for placed in lay_out(profile, room, LONGEST, margin=MARGIN).columns]


def test_all_the_usual_columns_have_room_in_120_cells() -> None:
    layout = lay_out(DEFAULT, 119, LONGEST, margin=MARGIN)
    assert [placed.column.id for placed in layout.columns] == [each.column for each in DEFAULT.columns]
    assert layout.width == 119


def test_what_can_be_spared_is_left_out_in_80_cells() -> None:
    layout = lay_out(DEFAULT, 79, LONGEST, margin=MARGIN)
    assert names(DEFAULT, 79) == ["number", "time", "latency", "client", "api", "summary", "state"]
    assert layout.width == 79


def test_a_time_is_shown_to_the_second_or_to_the_millisecond() -> None:
    widths = {
        room: lay_out(DEFAULT, room, LONGEST, margin=MARGIN).columns[1].width for room in range(70, 200)
    }
    assert set(widths.values()) == {len("09:14:03"), len("09:14:03.218")}
    assert (widths[79], widths[119]) == (8, 12)


@pytest.mark.parametrize("room", [60, 79, 119])
def test_numbers_are_not_cut(room: int) -> None:
    layout = lay_out(DEFAULT, room, {**LONGEST, "number": 8, "latency": 9}, margin=MARGIN)
    widths = {placed.column.id: placed.width for placed in layout.columns}
    assert (widths["number"], widths["latency"]) == (8, 9)


def test_what_is_left_over_goes_to_what_has_most_to_say() -> None:
    layout = lay_out(DEFAULT, 199, LONGEST, margin=MARGIN)
    widths = {placed.column.id: placed.width for placed in layout.columns}
    assert widths["summary"] > 80
    assert widths["client"] == 15
    assert layout.gap == 2


def test_small_wants_are_satisfied_first_and_names_before_sentences() -> None:
    longest = LONGEST | {"number": 4, "client": 2, "api": 24, "state": 12, "summary": 60}
    widths = {
        placed.column.id: placed.width for placed in lay_out(DEFAULT, 84, longest, margin=MARGIN).columns
    }
    assert (widths["state"], widths["api"]) == (12, 20)
    assert widths["summary"] == COLUMNS["summary"].least


def test_a_long_error_leaves_sentences_readable_in_120_cells() -> None:
    longest = LONGEST | {"number": 4, "client": 6, "api": 28, "state": 60, "summary": 60}
    widths = {
        placed.column.id: placed.width for placed in lay_out(DEFAULT, 119, longest, margin=MARGIN).columns
    }
    assert widths["summary"] >= 22
    assert min(widths["api"], widths["state"]) >= 14


def test_a_broker_is_whole_or_left_out() -> None:
    for room in range(60, 160):
        widths = [
            placed.width
            for placed in lay_out(DEFAULT, room, LONGEST, margin=MARGIN).columns
            if placed.column.id == "broker"
        ]
        assert widths in ([], [LONGEST["broker"]])


def test_a_width_that_was_chosen_is_kept() -> None:
    chosen = Profile("", (ProfileColumn("number", 30), ProfileColumn("broker", 50), ProfileColumn("summary")))
    layout = lay_out(chosen, 60, LONGEST)
    assert [placed.width for placed in layout.columns] == [30, 50, COLUMNS["summary"].least]
    assert layout.width > 60, "the list is scrolled"


def test_a_column_is_found_by_its_cells_and_by_its_edge() -> None:
    layout = lay_out(
        Profile("", (ProfileColumn("number", 4), ProfileColumn("api", 10))), 80, {}, margin=MARGIN
    )
    first, second = layout.columns
    assert (first.x, second.x) == (3, 8)
    assert layout.at(2) is None
    assert layout.at(3) is first
    assert layout.at(7) is first
    assert layout.at(8) is second
    assert layout.edge(6) is None
    assert layout.edge(7) is first
    assert layout.edge(18) is second
    assert layout.at(40) is None


profiles = st.one_of(
    st.sampled_from(list(BUILT_IN.values())),
    st.lists(
        st.builds(
            ProfileColumn, st.sampled_from([*COLUMNS, "topic"]), st.one_of(st.none(), st.integers(1, 60))
        ),
        min_size=1,
        max_size=12,
        unique_by=lambda chosen: chosen.column,
    ).map(lambda chosen: Profile("", tuple(chosen))),
)


@given(profiles, st.integers(0, 400), st.dictionaries(st.sampled_from(list(COLUMNS)), st.integers(0, 90)))
def test_columns_never_overlap_and_fill_the_room_if_they_can(
    profile: Profile, room: int, longest: dict[str, int]
) -> None:
    layout = lay_out(profile, room, longest, margin=MARGIN)
    x = MARGIN
    for placed in layout.columns:
        assert placed.x == x
        assert placed.width > 0
        x += placed.width + layout.gap
    assert layout.width == x - layout.gap
    left_out = {chosen.column for chosen in profile.columns} - {placed.column.id for placed in layout.columns}
    assert all(column(name).expendable for name in left_out)
    free = [chosen.column for chosen in profile.columns if chosen.width is None]
    if any(column(name).flexible for name in free) and layout.width <= room:
        assert layout.width == room, "nothing is left over"
