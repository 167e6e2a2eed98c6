"""The whole application in common terminal sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from kproxy.tui.app import KproxyApp
from kproxy.tui.settings import Settings
from kproxy.tui.widgets.activity_chart import ActivityChart
from tests.kproxy.tui.kit import main_of, opened, session_of, settled, shown_lines
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def app() -> Iterator[KproxyApp]:
    made = KproxyApp(session_of(), Settings())
    yield made
    made.session.close()


def _at(number: int, *keys: str) -> Any:
    async def go(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        app: Any = pilot.app
        app.main.exchanges.list.go_to(number)
        await settled(pilot)
        await pilot.press(*keys)
        await settled(pilot)

    return go


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=["80x24", "120x36", "200x50"])
def test_the_exchanges(size: tuple[int, int], app: KproxyApp, snap_compare: Any) -> None:
    assert snap_compare(app, terminal_size=size, run_before=_at(52))


def test_details_beside_the_list(app: KproxyApp, snap_compare: Any) -> None:
    assert snap_compare(app, terminal_size=(200, 50), run_before=_at(52, "minus"))


def test_a_filter_is_typed(app: KproxyApp, snap_compare: Any) -> None:
    assert snap_compare(app, terminal_size=(100, 30), run_before=_at(52, "f", *"lat"))


@pytest.mark.parametrize("key", ["2", "3", "4", "R", "5", "6", "7", "8", "0", "W"])
async def test_no_view_leaves_its_lower_half_empty(key: str) -> None:
    async with opened(size=(140, 40)) as pilot:
        await pilot.press(key)
        await until(lambda: _longest_gap(pilot) <= 7)


def _longest_gap(pilot: Pilot[Any]) -> int:
    """Return the largest number of consecutive empty lines on the screen."""
    runs = "".join(" "[: not line.strip()] or "x" for line in shown_lines(pilot)).split("x")
    return max(map(len, runs))


async def test_what_is_drawn_over_time_follows_the_row_and_the_filter() -> None:
    async with opened(size=(140, 40)) as pilot:

        async def drawn(*keys: str) -> int:
            for key in keys:
                await pilot.press(key)
                await settled(pilot)
            picture = main_of(pilot).view.query_one(ActivityChart)._picture
            assert picture is not None
            return len(picture.moments)

        assert await drawn("3") == 167
        assert await drawn("j") == 78
        assert await drawn("k", "f", *"fetch", "enter") == 71


async def test_a_picture_goes_where_there_is_no_room_for_it() -> None:
    async with opened(size=(140, 40)) as pilot:
        await pilot.press("4")
        await settled(pilot)
        chart = main_of(pilot).view.query_one(ActivityChart)
        assert chart.size.height > 10
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert chart.size.height == 0
