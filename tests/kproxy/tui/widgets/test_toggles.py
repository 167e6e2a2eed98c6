"""Boxes and buttons that show their state with a character."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import RadioSet

from kproxy.tui.widgets.toggles import Check, Radio, Ticks

pytestmark = pytest.mark.slow


class Toggles(App[None]):
    def compose(self) -> ComposeResult:
        yield Check("a", id="a")
        with RadioSet():
            yield Radio("b", value=True, id="b")
            yield Radio("c", id="c")


async def test_the_character_tells_without_colour() -> None:
    app = Toggles()
    async with app.run_test() as pilot:

        def shown() -> list[str]:
            return [app.query_one(f"#{name}", kind).render().plain.strip() for name, kind in kinds]

        kinds = [("a", Check), ("b", Radio), ("c", Radio)]
        assert shown() == ["▐ ▌ a", "▐●▌ b", "▐○▌ c"]
        await pilot.click("#a")
        await pilot.click("#c")
        assert shown() == ["▐X▌ a", "▐○▌ b", "▐●▌ c"]


class TickList(App[None]):
    def compose(self) -> ComposeResult:
        yield Ticks[str](("a", "a", True), ("b", "b", False))


async def test_lists_do_so_too() -> None:
    app = TickList()
    async with app.run_test(size=(20, 6)) as pilot:

        def shown() -> list[str]:
            ticks = app.query_one(Ticks)
            return [ticks.render_line(y).text.strip() for y in range(3)]

        assert shown() == ["▐X▌ a", "▐ ▌ b", ""]
        await pilot.press("space", "down", "space")
        assert shown() == ["▐ ▌ a", "▐X▌ b", ""]
