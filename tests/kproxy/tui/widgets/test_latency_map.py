"""The latency diagram: bars, shades, percentiles, the cursor and the filter for its cell."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from textual.app import App, ComposeResult

from captures.analysis.latency import Dimension, LatencyStats, Measure
from captures.filters import compile_filter
from kproxy.tui.widgets.latency_map import LatencyMap, Picture
from tests.captures.analysis.kit import MS, exchange

SECOND = 1_000 * MS
BEGIN = 1_795_248_000 * SECOND  # 2026-11-21 08:00:00 UTC


def picture(times: dict[int, list[int]], measure: Measure = Measure.EXCESS, title: str = "Fetch") -> Picture:
    """Create a picture of latencies in ms by the seconds in which they were measured."""
    stats = LatencyStats()
    for second, latencies in times.items():
        for latency in latencies:
            stats.add(exchange(1, 12, time=BEGIN + second * SECOND, latency=latency * MS))
    _, chosen = stats.distributions(Dimension.API, measure)
    over_time = stats.over_time(Dimension.API, measure, chosen.label, chosen.condition)
    return Picture(title, measure, chosen, over_time, "left out: 3 that only waited")


FEW = {0: [1, 1, 1, 1], 30: [1, 1, 40], 59: [1]}


class MapApp(App[None]):
    def __init__(self, shown: Picture | None) -> None:
        super().__init__()
        self.picture = shown
        self.entered: list[str] = []

    def compose(self) -> ComposeResult:
        yield LatencyMap(UTC)

    def on_mount(self) -> None:
        if self.picture is not None:
            self.map.show(self.picture)
        self.map.focus()

    @property
    def map(self) -> LatencyMap:
        return self.query_one(LatencyMap)

    def on_latency_map_entered(self, message: LatencyMap.Entered) -> None:
        self.entered.append(message.condition)

    @property
    def drawn(self) -> list[str]:
        return [self.map.render_line(y).text.rstrip() for y in range(self.map.size.height)]


def run(times: dict[int, list[int]], size: tuple[int, int] = (90, 14), **options: Any) -> tuple[MapApp, Any]:
    app = MapApp(picture(times, **options))
    return app, app.run_test(size=size)


async def test_bars_and_shades_on_one_scale() -> None:
    app, running = run(FEW)
    async with running:
        title, *rows = app.drawn
        assert title == " Fetch: latency without designed waiting  ·  denser is more  ·  1 s a column"
        slow, fast = rows[0], next(row for row in rows if "1 ms" in row)
        assert slow.split("│")[0].split() == ["40", "ms", "█▍", "1"]
        assert fast.split("│")[0].split() == ["▌", "1", "ms", "██████████", "7"]
        # one column per second
        over_time = fast.split("│")[1]
        assert [len(over_time), over_time[0], over_time[30], over_time[59]] == [60, "█", "▓", "▒"]
        assert slow.split("│")[1].strip() == "▒"
        axis = next(row for row in rows if "└" in row)
        assert "╵08:00:00" in axis
        assert axis.index("╵08:00:12") - axis.index("╵08:00:00") == 12
        assert rows[-1] == " 1 ms to 1.5 ms: 7 of 8  (87.5%)   left out: 3 that only waited"


async def test_percentiles_over_time() -> None:
    app, running = run({0: [1] * 9 + [50], 1: [20]}, (90, 20))
    async with running:
        app.map.toggle_lines()
        assert "  o p50  + p95  x p99  ^ longest" in app.drawn[0]
        rows = {row.split("│")[0][1:9].strip(): row.split("│")[1] for row in app.drawn if "│" in row}
        assert rows["40 ms"].strip() == "+"
        assert rows["15 ms"].strip() == "o"
        assert rows["1 ms"].strip() == "o"
        app.map.toggle_lines()
        assert "denser is more" in app.drawn[0]


async def test_the_cursor_and_its_filter() -> None:
    app, running = run(FEW)
    async with running:
        one = app.map
        assert one.condition == "api == Fetch and excess >= 1ms and excess < 1.5ms"
        one.move(0, 1)
        assert one.condition.endswith(" and time >= 2026-11-21T08:00:00Z and time < 2026-11-21T08:00:01Z")
        compile_filter(one.condition)
        left = app.drawn[1].index("│")
        assert next(row for row in app.drawn if "└" in row).index("▲") == left + 1
        assert app.drawn[-1].startswith(" 08:00:00 +1 s  1 ms to 1.5 ms: 4 of 4   p50 ≤1.2 ms")
        one.move(0, 1_000)
        assert "08:00:59Z" in one.condition
        one.move(0, -1_000)
        assert "time" not in one.condition
        one.move(1_000, 0)
        assert "excess >= 40ms" in one.condition
        one.move(-1_000, 0)
        assert "excess >= 1ms" in one.condition
        one.enter()
        await app.workers.wait_for_complete()
    assert app.entered == ["api == Fetch and excess >= 1ms and excess < 1.5ms"]


async def test_the_cursor_stays_where_it_is_when_more_is_counted() -> None:
    app, running = run(FEW)
    async with running:
        app.map.move(1_000, 31)
        assert app.drawn[-1].startswith(" 08:00:30 +1 s  40 ms to 60 ms: 1 of 3 ")
        app.map.show(picture({-5: [2_000], **FEW}))
        assert app.drawn[-1].startswith(" 08:00:30 +2 s  20 ms to 50 ms: 1 of 3 ")


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 6), (20, 3)])
async def test_any_size_will_do(size: tuple[int, int]) -> None:
    times = {second * 37: [1 + second % 7, 3 ** (second % 9)] for second in range(200)}
    app, running = run(times, size)
    async with running:
        for _ in range(30):
            app.map.move(1, 1)
            assert all(app.map.render_line(y).cell_length == size[0] for y in range(size[1]))
        assert sum("▌" in row for row in app.drawn) >= 1


async def test_days_are_told() -> None:
    app, running = run({0: [1], 3 * 86_400: [1]}, (100, 14))
    async with running:
        assert "h a column" in app.drawn[0]
        assert "╵11-21 08:00" in "\n".join(app.drawn)


@pytest.mark.slow
async def test_the_mouse_moves_the_cursor_and_chooses() -> None:
    app, running = run(FEW)
    async with running as pilot:
        top = next(y for y, row in enumerate(app.drawn) if "40 ms" in row)
        left = app.drawn[top].index("│") + 1
        await pilot.click(LatencyMap, offset=(left + 30, top), times=2)
        assert "excess >= 40ms" in app.map.condition
        assert "08:00:30Z" in app.map.condition
        await pilot.click(LatencyMap, offset=(3, top))
        assert "time" not in app.map.condition
    assert len(app.entered) == 1


async def test_text_that_would_do_harm_is_shown_harmlessly() -> None:
    app, running = run(FEW, title="\x1b[31m[red]日本\u202e")
    async with running:
        assert app.drawn[0].startswith(" �[31m[red]日本�: latency")


async def test_nothing_says_so() -> None:
    stats = LatencyStats()
    (nothing,) = stats.distributions(Dimension.API, Measure.EXCESS)
    empty = Picture("all", Measure.EXCESS, nothing, stats.over_time(Dimension.API, Measure.EXCESS, "all", ""))
    app = MapApp(None)
    async with app.run_test(size=(80, 10)):
        assert app.drawn[0] == " Counting …"
        app.map.show(empty)
        assert app.drawn[1] == " None of the exchanges shown has a latency."
        app.map.move(1, 1)
        app.map.enter()
    assert app.entered == []
