"""Choosing columns."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App
from textual.widgets import OptionList

from kproxy.saved_choices import ProfileColumn
from kproxy.tui.columns import COLUMNS
from kproxy.tui.dialogs.columns import Choice, ColumnsDialog
from kproxy.tui.profiles import BUILT_IN, Profile

FEW = Profile("few", (ProfileColumn("number"), ProfileColumn("client", 20), ProfileColumn("topic")))


class ColumnsApp(App[None]):
    """Shows the dialog and stores its result."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, profile: Profile = FEW) -> None:
        super().__init__()
        self.profile = profile
        self.answers: list[Any] = []

    def on_mount(self) -> None:
        dialog = ColumnsDialog(self.profile, BUILT_IN, lambda name: "taken" if name == "default" else "")
        self.push_screen(dialog, self.answers.append)


def names(profile: Profile) -> list[str]:
    return [each.column for each in profile.columns]


def test_a_choice_begins_with_what_is_shown_and_offers_the_rest() -> None:
    choice = Choice(FEW)
    assert choice.profile == FEW
    assert {entry.chosen.column for entry in choice.entries} == {*COLUMNS, "topic"}


def test_a_column_is_taken_and_left() -> None:
    choice = Choice(FEW)
    index = next(at for at, entry in enumerate(choice.entries) if entry.chosen.column == "api")
    assert choice.toggle(index) == 3
    assert names(choice.profile) == ["number", "client", "topic", "api"]
    assert choice.profile.name == "", "it is no more what has that name"
    choice.toggle(1)
    assert names(choice.profile) == ["number", "topic", "api"]


def test_one_column_always_stays() -> None:
    choice = Choice(Profile("", (ProfileColumn("number"),)))
    assert choice.toggle(0) == 0
    assert names(choice.profile) == ["number"]


def test_columns_are_moved_among_those_that_are_shown() -> None:
    choice = Choice(FEW)
    assert choice.move(0, 1) == 1
    assert names(choice.profile) == ["client", "number", "topic"]
    assert choice.move(2, 1) == 2
    assert choice.move(5, -1) == 5, "it is not shown"


def test_a_width_is_chosen_and_given_up() -> None:
    choice = Choice(FEW)
    choice.widen(1, -3)
    choice.widen(0, 1)
    assert choice.profile.columns[:2] == (
        ProfileColumn("number", COLUMNS["number"].least + 1),
        ProfileColumn("client", 17),
    )
    choice.widen(1, None)
    assert choice.profile.columns[1] == ProfileColumn("client")


def test_a_field_is_added_once() -> None:
    choice = Choice(FEW)
    assert choice.add("group") == 3
    assert choice.add("topic") == 2
    assert names(choice.profile) == ["number", "client", "topic", "group"]
    choice.load(BUILT_IN["wire"])
    assert choice.profile == BUILT_IN["wire"]
    assert "group" in [entry.chosen.column for entry in choice.entries], "what was added can be had again"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "columns"),
    [
        (["enter"], ["number", "client", "topic"]),
        (["J", "enter"], ["client", "number", "topic"]),
        (["j", "j", "K", "K", "enter"], ["topic", "number", "client"]),
        (["space", "enter"], ["client", "topic"]),
        (["plus", *"group", "enter", "enter"], ["number", "client", "topic", "group"]),
        (["p", "down", "enter", "enter"], names(list(BUILT_IN.values())[1])),
    ],
)
async def test_keys_choose_columns(keys: list[str], columns: list[str]) -> None:
    app = ColumnsApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
    (answer,) = app.answers
    assert names(answer) == columns


@pytest.mark.slow
async def test_a_width_is_changed_with_keys() -> None:
    app = ColumnsApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(
            "j",
            "greater_than_sign",
            "greater_than_sign",
            "less_than_sign",
            "j",
            "right",
            "equals_sign",
            "enter",
        )
    assert app.answers[0].columns == (
        ProfileColumn("number"),
        ProfileColumn("client", 21),
        ProfileColumn("topic"),
    )


@pytest.mark.slow
async def test_columns_are_kept_under_a_name() -> None:
    app = ColumnsApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("J", "s", *"default", "enter")
        await pilot.pause()
        assert not app.answers, "the name cannot be had"
        await pilot.press(*"2", "enter")
        await pilot.pause()
    assert app.answers[0].name == "default2"
    assert names(app.answers[0]) == ["client", "number", "topic"]


@pytest.mark.slow
async def test_a_click_takes_a_column_and_escape_changes_nothing() -> None:
    app = ColumnsApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        options = app.screen.query_one(OptionList)
        await pilot.click(options, offset=(2, 3))
        await pilot.pause()
        assert "[x]" in str(options.get_option_at_index(3).prompt)
        await pilot.press("escape")
    assert app.answers == [None]


@pytest.mark.slow
async def test_it_fits_a_small_terminal_and_shows_the_keys() -> None:
    app = ColumnsApp()
    async with app.run_test(size=(60, 14)) as pilot:
        await pilot.press(*["j"] * 20)
        await pilot.pause()
        box = app.screen.query_one(".box")
        assert box.region.height <= 14
        keys = app.screen.query_one("#columns-keys")
        assert box.region.contains_region(keys.region)
        options = app.screen.query_one(OptionList)
        assert options.highlighted is not None
        assert options.highlighted == 20
