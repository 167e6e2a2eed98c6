"""The conversation view: its keys, windows, drilling down, and following."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from captures.filters import compile_filter
from captures.filters.regex import TextRegex
from kproxy.session import Session
from kproxy.tui.dialogs.participants import ParticipantsDialog
from kproxy.tui.views import conversation
from kproxy.tui.views.conversation import ConversationView
from kproxy.tui.widgets.sequence import SequenceDiagram
from kproxy.tui.widgets.sequence_lines import LineKind
from tests.kproxy.tui.kit import read_session, session_of, settled
from tests.kproxy.tui.views.hosting import ViewApp, press

pytestmark = pytest.mark.slow


class ConversationApp(ViewApp):
    def __init__(self, session: Session) -> None:
        super().__init__(session, ConversationView)

    async def on_mount(self) -> None:
        self.view.on_shown()
        self.view.take_focus()
        await self.view.refresh_data()

    @property
    def diagram(self) -> SequenceDiagram:
        return self.query_one(SequenceDiagram)

    @property
    def drawn(self) -> list[str]:
        return [self.diagram.render_line(y).text.rstrip() for y in range(self.diagram.size.height)]


@asynccontextmanager
async def shown(
    size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[tuple[ConversationApp, Pilot[None]]]:
    async with read_session(**options) as session:
        app = ConversationApp(session)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            yield app, pilot


async def test_it_begins_at_the_beginning() -> None:
    async with shown() as (app, _):
        assert app.drawn[0] == " 402 exchanges  ·  #1 to #402"
        assert "TCP connect from port 41046" in app.drawn[3]
        assert "ApiVersions v3" in app.drawn[4]


async def test_live_it_begins_at_the_end_and_follows() -> None:
    async with shown(live=True) as (app, pilot):
        assert app.drawn[0].endswith("following")
        assert app.drawn[-1].startswith("▌")
        await press(pilot, "up")
        assert "following" not in app.drawn[0]
        await press(pilot, "F")
        assert app.drawn[0].endswith("following")


async def test_enter_goes_to_the_exchange_and_unfolds_repeats() -> None:
    async with shown() as (app, pilot):
        await press(pilot, "down", "enter")
        assert app.met == [1]
        app.diagram.action_move(
            next(at for at, line in enumerate(app.diagram._lines) if line.margin == "▸") - 1
        )
        assert app.diagram.current is not None
        times = app.diagram.current.text
        await press(pilot, "enter")
        assert app.met == [1]
        assert app.diagram.current.margin == "▾"
        await press(pilot, "down", "enter")
        assert len(app.met) == 2
        await press(pilot, "u")
        assert app.diagram.current.text == times


async def test_everything_unfolds_at_once() -> None:
    async with shown() as (app, pilot):
        before = app.diagram.virtual_size.height
        await press(pilot, "asterisk")
        unfolded = app.diagram.virtual_size.height
        assert unfolded > before
        assert unfolded > 2 * 402
        await press(pilot, "asterisk")
        assert app.diagram.virtual_size.height == before


async def test_only_one_connection() -> None:
    async with shown() as (app, pilot):
        await press(pilot, "G")
        await press(pilot, "s")
        assert "only connection" in app.drawn[0]
        (connection,) = {line.step.connection for line in app.diagram._lines if line.step is not None}
        assert f"only connection {connection} " in app.drawn[0]
        await press(pilot, "s")
        assert app.drawn[0].startswith(" 402 exchanges")


async def test_who_is_shown_can_be_chosen() -> None:
    async with shown() as (app, pilot):
        await press(pilot, "p")
        assert isinstance(app.screen, ParticipantsDialog)
        await press(pilot, "a", "a")  # all are ticked at first: none, then all again
        await press(pilot, "space", "enter")  # all but the first
        assert "6 of 7 clients and brokers" in app.drawn[0]
        names = [each.name for each in app.diagram.participants]
        assert names == ["pump", "m1", "m2", "m3", "m4", "127.0.0.1:10101"]
        await press(pilot, "p", "escape")
        assert "6 of 7" in app.drawn[0]
        await press(pilot, "p", "space", "enter")
        assert app.drawn[0].startswith(" 402 exchanges")


async def test_long_captures_are_gone_through_window_by_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MOST", 100)
    async with shown() as (app, pilot):
        assert app.drawn[0].startswith(" 100 of 402 exchanges  ·  #1 to #100")
        assert app.diagram._lines[-1].kind is LineKind.LATER
        app.diagram.action_move_to_last()
        await press(pilot, "enter")
        assert app.drawn[0].startswith(" 100 of 402 exchanges  ·  #90 to #189")
        assert app.diagram.current is not None
        assert app.diagram.current.step is not None
        assert app.diagram.current.step.number in range(95, 101)  # it continues at the same place
        await press(pilot, "G")
        assert "#303 to #402" in app.drawn[0]
        assert app.drawn[-1].startswith("▌")
        await press(pilot, "g")
        assert "#1 to #100" in app.drawn[0]
        assert app.drawn[3].startswith("▌")


async def test_it_can_be_pointed_to_an_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MOST", 100)
    async with shown() as (app, pilot):
        app.view.look_at(250)
        await app.view.refresh_data()
        await settled(pilot)
        current = app.diagram.current
        assert current is not None
        assert current.step is not None
        assert current.step.number <= 250 < current.step.number + 8


async def test_filters_hold() -> None:
    async with shown() as (app, pilot):
        await app.session.set_filter(compile_filter("api == JoinGroup"))
        await app.view.refresh_data()
        assert app.drawn[0].startswith(" 16 exchanges")
        await app.session.set_filter(compile_filter("api == Vote"))
        await app.view.refresh_data()
        assert app.drawn[3] == " No exchanges to show."
        await press(pilot, "enter", "u", "s", "down", "G", "g")
        assert app.met == []


async def test_search() -> None:
    async with shown() as (app, _):
        assert app.view.search(TextRegex("REBALANCE_IN_PROGRESS", any_case=False), forward=True)
        assert app.diagram.current is not None
        assert "REBALANCE_IN_PROGRESS" in app.diagram.current.text


@pytest.mark.parametrize("size", [(80, 24), (160, 24)], ids=["narrow", "wide"])
def test_how_it_looks(size: tuple[int, int], snap_compare: Any) -> None:
    class ShownConversation(ConversationApp):
        async def on_mount(self) -> None:
            self.session.start()
            await self.session.idle()
            await super().on_mount()

        def on_unmount(self) -> None:
            self.session.close()

    app = ShownConversation(session_of())

    async def before(pilot: Pilot[None]) -> None:
        await settled(pilot)
        app.view.search(TextRegex("REBALANCE_IN_PROGRESS", any_case=False), forward=True)
        await settled(pilot)

    assert snap_compare(app, terminal_size=size, run_before=before)
