"""The line of views, and the target of escape."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input

from captures.filters import compile_filter
from kproxy.tui.commands import COMMANDS
from kproxy.tui.main.view_line import ViewLine
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.tui.kit import main_of, opened, settled, shown_lines
from tests.waiting import until

pytestmark = pytest.mark.slow

KEYED = {command.keys: command.name.removeprefix("view.") for command in COMMANDS if command.group == "view"}


async def test_escape_leads_back_to_the_view_the_filter_and_the_cursor() -> None:
    async with opened(size=(200, 30)) as pilot:
        main = main_of(pilot)
        main.list.set_filter(compile_filter("client == m1"))
        await settled(pilot)
        main.exchanges.list.go_to(52)
        before = main.number
        await pilot.press("7", "enter")
        await settled(pilot)
        narrowed = main.session.status.filter
        assert narrowed is not None
        assert narrowed.text.startswith("client == m1 and ")
        assert shown_lines(pilot)[-2].startswith(" esc: errors client == m1 ")
        await pilot.press("escape")
        await settled(pilot)
        assert main.view.view_name == "errors"
        assert main.session.status.filter is not None
        assert main.session.status.filter.text == "client == m1"
        await pilot.press("escape")
        await settled(pilot)
        assert main.view.view_name == "exchanges"
        assert main.number == before
        assert "esc:" not in shown_lines(pilot)[-2]


def _list_lines(pilot: Pilot[Any]) -> list[str]:
    region = main_of(pilot).exchanges.list.region
    return shown_lines(pilot)[region.y : region.bottom]


@pytest.mark.parametrize(
    "keys",
    [
        ["f", *"fetch", "enter"],
        ["ctrl+g", *"11", "enter"],
        ["7", "enter"],
        ["5", "enter"],
        ["0", "enter"],
        ["6", "s"],
        ["8", "g", "enter"],
        ["R", "G", "enter"],
    ],
    ids=lambda keys: "-".join(keys),
)
async def test_escape_leads_back_to_the_same_lines_from_anywhere(keys: list[str]) -> None:
    async with opened(size=(120, 30)) as pilot:
        main = main_of(pilot)
        await pilot.press(*["pagedown"] * 9, "up", "up")
        await settled(pilot)
        before = _list_lines(pilot)
        for key in keys:
            await pilot.press(key)
            await settled(pilot)
        assert _list_lines(pilot) != before
        steps = 0
        while "esc:" in shown_lines(pilot)[-2]:
            await pilot.press("escape")
            await settled(pilot)
            steps += 1
        assert 0 < steps < 4
        assert main.session.status.filter is None
        assert _list_lines(pilot) == before


@pytest.mark.parametrize("line", ["f", ":", "/"])
async def test_escape_closes_a_line_and_leads_nowhere_else(line: str) -> None:
    async with opened(size=(80, 24)) as pilot:
        await pilot.press("2", "down")
        await settled(pilot)
        before = shown_lines(pilot)
        await pilot.press(line, *"xyz")
        await settled(pilot)
        assert shown_lines(pilot) != before
        await pilot.press("escape")
        await settled(pilot)
        assert shown_lines(pilot) == before


async def test_escape_leads_back_to_cursor_focus_and_scrolling_of_a_view() -> None:
    async with opened(size=(120, 24)) as pilot:
        main = main_of(pilot)
        await pilot.press("f", *"api != Fetch", "enter")
        await settled(pilot)
        for key in ("2", *["j"] * 11, *["k"] * 3):
            await pilot.press(key)
        await settled(pilot)
        before = shown_lines(pilot)
        await pilot.press("enter")
        await settled(pilot)
        assert main.view.view_name == "exchanges"
        await pilot.press("escape")
        await settled(pilot)
        assert shown_lines(pilot) == before
        await pilot.press("tab", "tab", "j", "enter")
        await settled(pilot)
        assert main.view.view_name == "exchanges"
        await pilot.press("escape")
        await settled(pilot)
        assert main.view.view_name == "connections"
        assert main.focused is list(main.view.query(RowTable))[1]


async def test_an_order_by_what_is_no_field_is_refused_while_it_is_typed() -> None:
    async with opened() as pilot:
        await pilot.press(*":order foo", "enter")
        await settled(pilot)
        assert any("this is not the name of a field" in line for line in shown_lines(pilot))
        assert isinstance(pilot.app.focused, Input)


async def test_no_name_is_cut_where_narrow_gaps_make_room() -> None:
    async with opened(size=(140, 24)) as pilot:
        await pilot.press("7", "enter")
        await settled(pilot)
        names = str(pilot.app.screen.query_one(ViewLine).render())
        assert {"connections", "conversation"} <= set(names.split())


class LineApp(App[None]):
    """Shows only the line."""

    def compose(self) -> ComposeResult:
        yield ViewLine({})


async def test_names_are_whole_on_a_narrow_screen_and_the_current_view_is_among_them() -> None:
    names = {f"{key}{name}" for key, name in KEYED.items()}
    app = LineApp()
    async with app.run_test(size=(30, 24)) as pilot:
        line = app.query_one(ViewLine)
        for columns in (40, 60, 80, 100, 110):
            await pilot.resize_terminal(columns, 24)
            await until(lambda: line.size.width == columns - 2)  # noqa: B023
            for key, name in KEYED.items():
                line.show(name)
                shown = str(line.render())
                assert len(shown) <= columns - 2
                words = shown.strip("‹› ").split()
                assert f"{key}{name}" in words
                assert set(words) <= names


async def test_the_line_scrolls_to_the_view_that_a_key_opens() -> None:
    async with opened(size=(40, 24)) as pilot:
        for key in ("W", "1"):
            await pilot.press(key)
            await settled(pilot)
            shown = str(pilot.app.screen.query_one(ViewLine).render())
            assert f"{key}{KEYED[key]}" in shown.strip("‹› ").split()


@pytest.mark.parametrize("view", ["1", "2"])
async def test_escape_leads_back_from_a_series_of_matches_to_where_it_began(view: str) -> None:
    async with opened(size=(100, 24)) as pilot:

        def cursor_and_numbers() -> list[str]:
            return [line[:7] for line in shown_lines(pilot)[2:12]]

        await pilot.press(view)
        await settled(pilot)
        for key in ("j", "j", "j"):
            await pilot.press(key)
        await settled(pilot)
        before = cursor_and_numbers()
        for key in ("/", *"m2", "enter", "n", "n", "N"):
            await pilot.press(key)
            await settled(pilot)
        assert cursor_and_numbers() != before
        await pilot.press("escape")
        await settled(pilot)
        assert cursor_and_numbers() == before


async def test_a_search_without_a_match_leaves_nothing_to_go_back_to() -> None:
    async with opened(size=(100, 24)) as pilot:
        for key in ("/", *"no such text", "enter", "n"):
            await pilot.press(key)
            await settled(pilot)
        assert main_of(pilot)._visits == []


async def test_the_line_of_keys_ends_with_a_whole_word() -> None:
    titles = {command.title for command in COMMANDS} | {"percentiles", "slowest", "help", "write"}
    async with opened(size=(140, 24)) as pilot:
        await pilot.press("6")
        for columns in (140, 100, 80, 60):
            await pilot.resize_terminal(columns, 24)
            await settled(pilot)
            line = shown_lines(pilot)[-1]
            assert line.endswith(" "), columns
            assert line.split()[-1] in titles, columns


async def test_every_view_can_be_clicked_on_a_narrow_screen() -> None:
    async with opened(size=(80, 24)) as pilot:
        line = pilot.app.screen.query_one(ViewLine)

        async def click(text: str) -> None:
            await pilot.click(ViewLine, offset=(1 + str(line.render()).index(text), 0))
            await settled(pilot)

        assert str(line.render()).startswith("1exchanges 2connections ")
        await click("7errors")
        assert main_of(pilot).view.view_name == "errors"
        await click("›")
        assert main_of(pilot).view.view_name == "errors"
        assert str(line.render()).endswith("Wincidents")
        await click("0findings")
        assert main_of(pilot).view.view_name == "findings"
        await click("‹")
        await click("2connections")
        assert main_of(pilot).view.view_name == "connections"
