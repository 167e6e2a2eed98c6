"""Sets of columns."""

from __future__ import annotations

import pytest

from kproxy.saved_choices import ProfileColumn
from kproxy.tui.columns import COLUMNS
from kproxy.tui.profiles import BUILT_IN, DEFAULT, Profile, profile


def test_what_is_always_there_is_made_of_columns_that_are_there() -> None:
    for name, each in BUILT_IN.items():
        assert each.name == name
        assert all(chosen.column in COLUMNS for chosen in each.columns)
        assert profile(name, each.columns) == each


def test_a_profile_knows_its_fields() -> None:
    topic = ProfileColumn("request.topics[0].name", 12)
    made = profile("mine", [ProfileColumn("number"), ProfileColumn("topic"), topic, ProfileColumn("state")])
    assert made.fields == ("topic", "request.topics[0].name")
    assert made.columns[2] == topic


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "no columns"),
        ([("number", None), ("nonsense", None)], "column 2: 'nonsense' is no column, and no field"),
        ([("number", 0)], "width of number is cells, 1 to"),
        ([("number", 10_000)], "width of number is cells, 1 to"),
        ([("number", None), ("number", 4)], "number is there already"),
    ],
)
def test_what_makes_no_sense_is_refused(columns: list[tuple[str, int | None]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        profile("mine", [ProfileColumn(*each) for each in columns])


def test_a_column_is_added_before_the_last() -> None:
    more = DEFAULT.with_column("topic")
    assert [each.column for each in more.columns][-2:] == ["topic", "state"]
    assert more.name == ""
    assert more.with_column("topic") is more


def test_a_width_is_changed() -> None:
    wider = Profile("mine", (ProfileColumn("number"), ProfileColumn("client"))).with_width("client", 30)
    assert wider == Profile("", (ProfileColumn("number"), ProfileColumn("client", 30)))
