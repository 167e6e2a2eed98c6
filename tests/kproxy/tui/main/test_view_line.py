"""The line of views, and where escape leads."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from kproxy.tui.commands import COMMANDS
from kproxy.tui.main.view_line import ViewLine
from tests.kproxy.tui.kit import main_of, opened, settled, shown_lines

pytestmark = pytest.mark.slow


async def test_escape_leads_back_to_the_view_the_filter_and_the_cursor() -> None:
    async with opened(size=(200, 30)) as pilot:
        main = main_of(pilot)
        main.list.use_filter("client == m1")
        await settled(pilot)
        main.go_to(52)
        before = main.number
        await pilot.press("7", "enter")
        await settled(pilot)
        narrowed = main.session.status.filter
        assert narrowed is not None
        assert narrowed.text.startswith("client == m1 and ")
        assert "esc: back to errors client == m1" in shown_lines(pilot)[1]
        await pilot.press("escape")
        await settled(pilot)
        assert main.view.view_name == "errors"
        assert main.session.status.filter is not None
        assert main.session.status.filter.text == "client == m1"
        await pilot.press("escape")
        await settled(pilot)
        assert main.view.view_name == "exchanges"
        assert main.number == before
        assert "esc:" not in shown_lines(pilot)[1]


async def test_an_order_by_what_is_no_field_is_refused_while_it_is_typed() -> None:
    async with opened() as pilot:
        await pilot.press(*":order foo", "enter")
        await settled(pilot)
        assert any("this is not the name of a field" in line for line in shown_lines(pilot))
        assert isinstance(pilot.app.focused, Input)


async def test_no_name_is_cut_where_narrow_gaps_make_room() -> None:
    async with opened(size=(140, 24)) as pilot:
        names = str(pilot.app.screen.query_one(ViewLine).render())
        assert {"connections", "conversation"} <= set(names.split())


async def test_every_view_is_named_and_can_be_clicked() -> None:
    async with opened(size=(80, 24)) as pilot:
        line = pilot.app.screen.query_one(ViewLine)
        names = str(line.render())
        assert names.startswith("1 exchanges 2 ")
        assert len(names.split()) == 2 * sum(command.group == "view" for command in COMMANDS)
        await pilot.click(ViewLine, offset=(1 + names.index("7 "), 0))
        await settled(pilot)
        assert main_of(pilot).view.view_name == "errors"
        assert "7 errors" in str(line.render())
