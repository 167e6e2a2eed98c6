"""The actions of a user on a proxy: a real proxy in the event loop, a broker behind it, and an empty screen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Static

from kproxy.tui.dialogs.ask import Ask, Prompt
from kproxy.tui.dialogs.edit_held import EditHeld
from kproxy.tui.dialogs.leave import Leave
from kproxy.tui.live.actions import NOT_LIVE, ONLY_LOOKS, LiveActions, condition_problem, rule_problem
from kproxy.tui.live.link import Link
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.proxy.planes import Client, RunningPlane
from tests.kproxy.proxy.talk import heartbeat
from tests.kproxy.tui.live.proxied import linked, shown
from tests.waiting import until


class ActionsApp(App[None]):
    """Performs commands, and stores the messages."""

    def __init__(self, link: Link | None) -> None:
        super().__init__()
        self.link = link
        self.told: list[str] = []
        self.selected: int | None = None
        self.results: list[Any] = []
        self.actions = LiveActions(self, link, lambda text, _: self.told.append(text), lambda: self.selected)

    def do(self, doing: Awaitable[Any]) -> None:
        async def run() -> None:
            self.results.append(await doing)

        self.run_worker(run())

    async def done(self, doing: Awaitable[Any]) -> Any:
        """Perform an action that asks no question."""
        count = len(self.results)
        self.do(doing)
        await until(lambda: len(self.results) > count)
        return self.results[-1]


@asynccontextmanager
async def acting(
    folder: Path, **options: Any
) -> AsyncIterator[tuple[RunningPlane, Link, ActionsApp, Pilot[None]]]:
    async with linked(folder, **options) as (proxy, link):
        app = ActionsApp(link)
        async with app.run_test(size=(100, 30)) as pilot:
            yield proxy, link, app, pilot


@pytest.mark.slow
async def test_a_hold_filter_is_asked_for_and_checked_while_it_is_typed(tmp_path: Path) -> None:
    async with acting(tmp_path) as (_, link, app, pilot):
        app.do(app.actions.hold_filter())
        await until(shown(app, Prompt))
        await pilot.press(*"api == Heartbaet")
        await pilot.press("enter")
        problem = str(app.screen.query_one("#problem", Static).visual)
        assert "Heartbeat" in problem
        app.screen.query_one(Input).value = "api == Heartbeat"
        await pilot.press("enter")
        await until(lambda: app.told)
        assert link.state.hold_filters == {"request": "api == Heartbeat"}
        assert "api == Heartbeat" in app.told[0]
        await app.done(app.actions.hold_filter(""))
        assert link.state.hold_filters == {}


async def test_holding_is_switched_off_and_on_again(tmp_path: Path) -> None:
    async with acting(tmp_path) as (_, link, app, _):
        await app.done(app.actions.hold_toggle())
        assert app.told == ["No hold filter yet: i sets one."]
        await app.done(app.actions.hold_filter("api == Heartbeat"))
        await app.done(app.actions.hold_filter("response: api == Fetch"))
        before = dict(link.state.hold_filters)
        await app.done(app.actions.hold_toggle())
        assert link.state.hold_filters == {}
        await app.done(app.actions.hold_toggle())
        assert (
            link.state.hold_filters == before == {"request": "api == Heartbeat", "response": "api == Fetch"}
        )


@pytest.mark.slow
async def test_held_messages_are_let_go_edited_and_killed(tmp_path: Path) -> None:
    async with acting(tmp_path) as (proxy, link, app, pilot):
        await app.done(app.actions.release())
        assert app.told == ["Nothing is held."]
        await app.done(app.actions.hold_filter("api == Heartbeat"))
        async with await Client.connect(proxy.address) as client:
            client.send(heartbeat(1), heartbeat(2), heartbeat(3), heartbeat(4))
            await until(lambda: len(link.state.held) == 4)
            await app.done(app.actions.release())
            assert app.told[-1] == "Select one of the held messages first."
            app.selected = 1
            await app.done(app.actions.release())
            await client.frame()
            app.selected = 2
            app.do(app.actions.edit())
            await until(shown(app, EditHeld))
            dialog = app.screen
            await until(lambda: dialog.query_one(RowTable).select("generation_id"))
            await pilot.press("enter", "ctrl+u", "9", "enter")
            await until(lambda: "1 → 9" in str(dialog.query_one("#outcome", Static).visual))
            await pilot.press("ctrl+s")
            await client.frame()
            await until(lambda: app.told[-1] == "Released with 1 value changed.")
            app.selected = 3
            app.do(app.actions.edit())
            await until(lambda: shown(app, EditHeld)() and app.screen is not dialog)
            await until(lambda: "nothing changed" in str(app.screen.query_one("#outcome", Static).visual))
            await pilot.press("ctrl+s")
            await client.frame()
            await until(lambda: len(link.state.held) == 1)
            await app.done(app.actions.kill())
            assert await client.ended() == b""
            assert "Heartbeat v4 of app" in app.told[-1]
        await app.done(app.actions.release_all())
        assert app.told[-1] == "Nothing is held."


@pytest.mark.slow
async def test_what_touches_several_connections_is_asked_about(tmp_path: Path) -> None:
    async with acting(tmp_path) as (proxy, link, app, pilot):
        async with await Client.connect(proxy.address) as one, await Client.connect(proxy.address) as other:
            one.send(heartbeat(1))
            other.send(heartbeat(1))
            await one.frame()
            await other.frame()
            app.do(app.actions.pause())
            await until(shown(app, Ask))
            assert "on 2 connections?" in str(app.screen.query_one("#question", Static).visual)
            await pilot.press("enter")
            await until(lambda: app.results)
            assert link.state.hold_filters == {}
            app.do(app.actions.pause())
            await until(shown(app, Ask))
            await pilot.press("y")
            await until(lambda: link.state.hold_filters)
            one.send(heartbeat(2))
            other.send(heartbeat(2))
            await until(lambda: len(link.state.held) == 2)
            app.do(app.actions.release_all())
            await until(shown(app, Ask))
            assert "2 messages of 2 connections" in str(app.screen.query_one("#question", Static).visual)
            await pilot.press("y")
            await one.frame()
            await other.frame()
            await app.done(app.actions.pause())  # resuming needs no confirmation
            app.do(app.actions.forward_toggle())
            await until(shown(app, Ask))
            await pilot.press("n")
            await until(lambda: not isinstance(app.screen, Ask))
            assert link.state.forwarding


async def test_what_has_gone_on_is_told(tmp_path: Path) -> None:
    async with acting(tmp_path) as (proxy, link, app, _):
        await app.done(app.actions.hold_filter("api == Heartbeat"))
        async with await Client.connect(proxy.address) as client:
            client.send(heartbeat(1))
            await until(lambda: link.state.held)
            proxy.plane.inspection.holds.release(1)
            await app.done(app.actions.release())
            assert app.told[-1] in ("The message was already released.", "Nothing is held.")


@pytest.mark.slow
async def test_pausing_holds_every_request_and_goes_back_to_what_was(tmp_path: Path) -> None:
    async with acting(tmp_path) as (proxy, link, app, pilot):
        await app.done(app.actions.hold_filter("correlation_id == 1"))
        async with (
            await Client.connect(proxy.address) as other,
            await Client.connect(proxy.address) as client,
        ):
            other.send(heartbeat(1))
            await until(lambda: link.state.held)
            app.do(app.actions.pause())
            await until(shown(app, Ask))
            await pilot.press("y")
            await until(lambda: link.state.hold_filters == {"request": "@all"})
            client.send(heartbeat(2), heartbeat(3))
            await until(lambda: len(link.state.held) == 3)
            await app.done(app.actions.pause())
            await client.frame()
            await client.frame()
            assert link.state.hold_filters == {"request": "correlation_id == 1"}
            assert app.told[-1] == "Resumed; 2 requests waited."
            assert [held.correlation_id for held in link.state.held] == [1]


async def test_forwarding_and_keeping(tmp_path: Path) -> None:
    async with acting(tmp_path) as (proxy, link, app, _):
        await app.done(app.actions.forward_toggle())
        assert not link.state.forwarding
        assert "off" in app.told[-1]
        await app.done(app.actions.forward_toggle())
        assert link.state.forwarding
        await app.done(app.actions.keep())
        assert proxy.told.of("keep")


@pytest.mark.slow
async def test_rules_are_added_and_removed(tmp_path: Path) -> None:
    async with acting(tmp_path) as (_, link, app, pilot):
        await app.done(app.actions.rule_add("api == Heartbeat => delay 1ms"))
        # an answer in transit may be shown before
        await until(lambda: [rule.text for rule in link.state.rules] == ["api == Heartbeat => delay 1ms"])
        app.do(app.actions.rule_add())
        await until(shown(app, Prompt))
        app.screen.query_one(Input).value = "=> drop, p=1%"
        await pilot.press("enter")
        await until(shown(app, Ask))
        await pilot.press("y")
        await until(lambda: len(link.state.rules) == 2)
        await app.done(app.actions.rule_add("api == Fetch => dorp"))
        assert "did you mean drop" in app.told[-1]
        await app.done(app.actions.rule_remove(1))
        await app.done(app.actions.rule_remove(None))
        assert app.told[-1] == "Select a fault rule first."
        await app.done(app.actions.rule_remove(9))
        assert app.told[-1] == "there is no rule 9"
        assert [rule.number for rule in link.state.rules] == [2]


@pytest.mark.slow
async def test_leaving_names_the_connections_that_would_end(tmp_path: Path) -> None:
    async with acting(tmp_path) as (proxy, link, app, pilot):
        assert await app.done(app.actions.leave(ends=True)) == "end"
        assert await app.done(app.actions.leave(ends=False)) == "background"
        await app.done(app.actions.hold_filter("api == Heartbeat"))
        async with await Client.connect(proxy.address) as client:
            client.send(heartbeat(1))
            await until(lambda: link.state.held)
            app.do(app.actions.leave(ends=True, run="2026-9092"))
            await until(lambda: shown(app, Leave)() and app.screen.query_one(RowTable).rows)
            assert "1 message held" in str(app.screen.query_one("#question", Static).visual)
            (row,) = app.screen.query_one(RowTable).rows
            assert "app" in row.text()
            await pilot.press("enter")
            await until(lambda: len(app.results) == 4)
            assert app.results[-1] is None
            app.do(app.actions.leave(ends=True))
            await until(shown(app, Leave))
            await pilot.press("up", "enter")
            await until(lambda: len(app.results) == 5)
            assert app.results[-1] == "background"
            assert proxy.plane.detached
            app.do(app.actions.leave(ends=False))
            await until(shown(app, Ask))
            await pilot.press("n")
            await until(lambda: len(app.results) == 6)
            assert app.results[-1] is None
            await app.done(app.actions.release_all())
            await client.frame()


@pytest.mark.parametrize(
    "name",
    [
        "hold_filter",
        "hold_toggle",
        "release",
        "release_all",
        "kill",
        "edit",
        "pause",
        "forward_toggle",
        "keep",
    ],
)
async def test_without_a_proxy_it_is_said_how_to_get_one(name: str) -> None:
    app = ActionsApp(None)
    async with app.run_test():
        await app.done(getattr(app.actions, name)())
        assert app.told == [NOT_LIVE]


async def test_who_only_looks_is_told(tmp_path: Path) -> None:
    async with acting(tmp_path, control=False) as (_, _, app, _):
        doing: Callable[[], Awaitable[None]]
        for doing in (app.actions.release_all, app.actions.rule_add):
            await app.done(doing())
        assert app.told == [ONLY_LOOKS, ONLY_LOOKS]


def test_what_is_typed_is_checked() -> None:
    assert condition_problem("") == rule_problem(" ") == ""
    assert "no field" in condition_problem("nothing == 3")
    assert "the => is missing" in rule_problem("api == Fetch")
    assert rule_problem("api == Fetch => drop") == ""
