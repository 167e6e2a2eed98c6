"""Exchanges over time as bars."""

from __future__ import annotations

from datetime import UTC

import numpy as np
from textual.app import App, ComposeResult

from dissectors.units import SECOND
from kproxy.tui.widgets.activity_chart import ActivityChart, ActivityPicture
from kproxy.tui.widgets.time_axis import time_axis

BEGIN = 1_700_000_000 * SECOND


class ChartApp(App[None]):
    def compose(self) -> ComposeResult:
        yield ActivityChart(UTC)


async def drawn(picture: ActivityPicture, size: tuple[int, int]) -> list[str]:
    """Return the lines of a picture."""
    app = ChartApp()
    async with app.run_test(size=size) as pilot:
        chart = app.query_one(ActivityChart)
        chart.show(picture)
        await pilot.pause()
        return [chart.render_line(y).text for y in range(size[1])]


def picture(seconds: list[float], marks: tuple[float, ...] = ()) -> ActivityPicture:
    moments = np.array([BEGIN + int(each * SECOND) for each in seconds], np.int64)
    marked = tuple(BEGIN + int(each * SECOND) for each in marks)
    return ActivityPicture("fetches", moments, BEGIN, BEGIN + 40 * SECOND, marked)


async def test_bars_are_as_high_as_there_is_room_and_stand_where_exchanges_were() -> None:
    lines = await drawn(picture([0.5] * 8 + [10.5] * 2 + [39.9]), (40, 6))
    assert lines[0].startswith(" fetches  ·  1 s a column  ·  at most 8")
    heights = ["".join(line[cell] for line in lines[1:-1]) for cell in range(40)]
    assert heights[0] == "████"
    assert heights[10] == "   █"
    assert heights[39] == "   ▄"
    assert {heights[cell] for cell in range(40) if cell not in (0, 10, 39)} == {"    "}
    assert lines[-1].startswith("╵22:13:20.000─")


async def test_one_exchange_among_thousands_is_seen() -> None:
    lines = await drawn(picture([1.5] * 10_000 + [20.5]), (40, 8))
    assert lines[-2][20] == "▁"


async def test_marks_stand_above_the_axis_also_at_its_ends() -> None:
    lines = await drawn(picture([5.5], (-1, 20, 40)), (40, 7))
    assert lines[-2] == "▲" + " " * 19 + "▲" + " " * 18 + "▲"


async def test_nothing_and_one_moment_can_be_drawn() -> None:
    assert (await drawn(ActivityPicture("none", np.empty(0, np.int64), BEGIN, BEGIN), (20, 5)))[
        1
    ].strip() == ""
    one = ActivityPicture("one", np.array([BEGIN]), BEGIN, BEGIN)
    assert "█" in (await drawn(one, (20, 5)))[1]


def test_an_axis_has_times_only_where_they_fit() -> None:
    assert time_axis(BEGIN, BEGIN + SECOND, 12, UTC) == "╵22:13:20.000"
    text = time_axis(BEGIN, BEGIN + 40 * SECOND, 40, UTC)
    assert text == "╵22:13:20.000─────╵22:13:38.000─────────"
