"""The latency view: its table, its diagram, its keys, and the exchanges opened from it are those counted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from captures.filters import compile_filter
from captures.filters.regex import TextRegex
from kproxy.session import Session
from kproxy.tui.views.latency import LatencyView
from kproxy.tui.widgets.latency_map import LatencyMap
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import text_of
from tests.kproxy.tui.kit import read_session, session_of, settled
from tests.kproxy.tui.views.hosting import ViewApp, press

pytestmark = pytest.mark.slow


class LatencyApp(ViewApp):
    def __init__(self, session: Session) -> None:
        super().__init__(session, LatencyView)

    async def on_mount(self) -> None:
        self.view.on_shown()
        self.view.take_focus()
        await self.session.idle()
        await self.view.refresh_data()

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def map(self) -> LatencyMap:
        return self.query_one(LatencyMap)

    @property
    def drawn(self) -> list[str]:
        return [self.map.render_line(y).text.rstrip() for y in range(self.map.size.height)]


@asynccontextmanager
async def shown(size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[LatencyApp, Pilot[None]]]:
    async with read_session() as session:
        app = LatencyApp(session)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            yield app, pilot


async def matches(session: Session, condition: str) -> int:
    await session.set_filter(compile_filter(condition))
    return session.status.shown


def names(app: LatencyApp) -> list[str]:
    return [text_of(row.cells[0]) for row in app.table.rows]


async def test_apis_and_all_of_them() -> None:
    async with shown() as (app, _):
        assert names(app)[:4] == ["all", "Fetch", "Produce", "OffsetCommit"]
        assert [text_of(cell) for cell in app.table.rows[0].cells[1:2]] == ["335"]
        assert app.drawn[-1].endswith("left out: 67 that only waited")
        strip = text_of(app.table.rows[0].cells[-1])
        assert set(strip) <= set(" ▁▂▃▄▅▆▇█")
        assert "█" in strip
        assert "1ms" in app.table.columns[-1].title


async def test_the_selected_one_is_drawn() -> None:
    async with shown() as (app, pilot):
        await press(pilot, "down")
        before = names(app)
        assert app.drawn[0].startswith(" API Fetch: latency without designed waiting")
        await press(pilot, "d")
        assert app.drawn[0].startswith(" API Fetch: latency as measured")
        assert names(app) == before


async def test_by_broker_and_by_client() -> None:
    async with shown() as (app, pilot):
        await press(pilot, "b")
        assert names(app) == ["all", "127.0.0.1:10101"]
        await press(pilot, "b")
        assert sorted(names(app)) == ["all", "m1", "m2", "m3", "m4", "mk", "pump"]
        assert app.table.columns[0].title == "client"
        await press(pilot, "b")
        assert "Fetch" in names(app)


async def test_entering_a_group_shows_its_exchanges() -> None:
    async with shown() as (app, pilot):
        await press(pilot, "d", "enter")
        assert app.met == []  # there is no filter for all
        await press(pilot, "down", "enter")
        (condition,) = app.met
        assert condition == "api == Fetch"
        assert str(await matches(app.session, condition)) == text_of(app.table.rows[1].cells[1])


@pytest.mark.parametrize("waiting", [False, True])
async def test_entering_a_range_shows_exactly_what_it_counts(waiting: bool) -> None:
    async with shown() as (app, pilot):
        await press(pilot, *["d"] * waiting, "down", "tab", "home")
        assert app.map.has_focus
        told: list[tuple[str, str]] = []
        for _ in range(40):
            told.append((app.drawn[-1], app.map.condition))
            await pilot.press("j")
        for line, condition in dict.fromkeys(told):
            count = re.search(r": ([\d,]+) of", line)
            assert count is not None
            assert await matches(app.session, condition) == int(count[1].replace(",", "")), condition


async def test_entering_a_slice_of_time() -> None:
    async with shown() as (app, pilot):
        await press(pilot, "tab", "l", "pagedown", "pageup", "right", "h", "enter")
        (condition,) = app.met
        assert re.search(r"time >= 2026-11-21T09:50:5\d(\.\d+)?Z and time < ", condition)
        count = re.search(r": (\d+) of", app.drawn[-1])
        assert count is not None
        assert await matches(app.session, condition) == int(count[1]) > 0


async def test_keys_of_the_drawing() -> None:
    async with shown() as (app, pilot):
        await press(pilot, "tab", "g")
        slowest = app.map.condition
        await press(pilot, "G")
        fastest = app.map.condition
        assert slowest != fastest
        await press(pilot, "k", "j")
        assert app.map.condition == fastest
        await press(pilot, "p")
        assert "^ longest" in app.drawn[0]


async def test_filters_hold() -> None:
    async with shown() as (app, _):
        await app.session.set_filter(compile_filter("client_id == pump"))
        await app.session.idle()
        assert app.view.state() != ()
        await app.view.refresh_data()
        assert text_of(app.table.rows[0].cells[1]) == "78"
        await app.session.set_filter(compile_filter("api == Vote"))
        await app.session.idle()
        await app.view.refresh_data()
        assert app.table.rows == []
        assert app.drawn[1] == " None of the exchanges shown has a latency."


async def test_search_goes_to_a_name() -> None:
    async with shown() as (app, pilot):
        assert app.view.search(TextRegex("join"), forward=True)
        await settled(pilot)
        assert app.drawn[0].startswith(" API JoinGroup")


@pytest.mark.parametrize("size", [(80, 24), (160, 40)], ids=["narrow", "wide"])
def test_how_it_looks(size: tuple[int, int], snap_compare: Any) -> None:
    class ShownLatency(LatencyApp):
        async def on_mount(self) -> None:
            self.session.start()
            await self.session.idle()
            await super().on_mount()

        def on_unmount(self) -> None:
            self.session.close()

    async def before(pilot: Pilot[None]) -> None:
        await settled(pilot)
        await press(pilot, "tab", "k", *["l"] * 6)

    assert snap_compare(ShownLatency(session_of()), terminal_size=size, run_before=before)
