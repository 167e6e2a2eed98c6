"""The dialog of quick filters."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App
from textual.widgets import Static

from kproxy.tui.dialogs.quick_filter import QuickFilterDialog
from kproxy.tui.quick_filters import QuickFilter, Use

OFFERS = [
    QuickFilter("topic: orders", "topic == orders"),
    QuickFilter("client: [red]au\x1bdit[/red]", 'client_id ~ "(?-i:\\Aau\\x1bdit\\Z)"'),
    QuickFilter("API: Fetch", "api == Fetch"),
]


class DialogApp(App[None]):
    def __init__(self, present: str = "", offers: list[QuickFilter] | None = None) -> None:
        super().__init__()
        self.present = present
        self.offers = OFFERS if offers is None else offers
        self.result: Any = "nothing yet"

    def on_mount(self) -> None:
        self.push_screen(QuickFilterDialog(self.offers, self.present), self.take)

    def take(self, result: Any) -> None:
        self.result = result


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "result"),
    [
        (["enter"], (OFFERS[0], Use.ONLY)),
        (["o"], (OFFERS[0], Use.ONLY)),
        (["down", "h"], (OFFERS[1], Use.HIDE)),
        (["j", "j", "exclamation_mark"], (OFFERS[2], Use.HIDE)),
        (["k", "a"], (OFFERS[2], Use.ALSO)),
        (["r"], (OFFERS[0], Use.REPLACE)),
        (["escape"], None),
    ],
)
async def test_keys_choose_a_filter_and_its_use(keys: list[str], result: Any) -> None:
    app = DialogApp("topic == a")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        assert app.result == result


@pytest.mark.slow
async def test_without_a_present_filter_there_is_nothing_to_add_to() -> None:
    app = DialogApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a", "r")
        await pilot.pause()
        assert app.result == "nothing yet"
        await pilot.press("o")
        await pilot.pause()
        assert app.result == (OFFERS[0], Use.ONLY)


@pytest.mark.slow
async def test_what_the_filter_would_be_is_shown() -> None:
    app = DialogApp("topic == a or ~e")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "down")
        await pilot.pause()
        shown = str(app.screen.query_one("#result", Static).render())
        assert shown == "(topic == a or ~e) and api == Fetch"


@pytest.mark.slow
async def test_nothing_to_offer_is_said() -> None:
    app = DialogApp(offers=[])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "h")
        await pilot.pause()
        assert app.result == "nothing yet"
        assert "no filter can be made" in str(app.screen.query_one("#result", Static).render())


@pytest.mark.slow
def test_snapshot(snap_compare: Any) -> None:
    assert snap_compare(DialogApp("group == audit"), terminal_size=(80, 16))
