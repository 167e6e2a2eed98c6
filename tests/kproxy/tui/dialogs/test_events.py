"""The log of messages."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from textual.app import App
from textual.containers import VerticalScroll

from kproxy.tui.app import Event
from kproxy.tui.dialogs.events import EventsDialog


class EventsApp(App[None]):
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        self.events = events

    def on_mount(self) -> None:
        self.push_screen(EventsDialog(self.events, UTC))


def text(app: App[Any]) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def test_events_have_a_time_a_word_and_their_text() -> None:
    app = EventsApp(
        [
            Event(1_500_000_000, "written", "information"),
            Event(2_000_000_000, "[b]x[/]\x1b[2J\nmore", "warning"),
            Event(3_000_000_000, "gone", "error"),
        ]
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        shown = text(app)
    assert "00:00:01.500  · notice   written" in shown
    assert "00:00:02.000  ! warning  [b]x[/]�[2J" in shown
    assert "more" in shown
    assert "00:00:03.000  ✗ error    gone" in shown


@pytest.mark.slow
async def test_the_latest_is_shown_and_the_others_can_be_reached() -> None:
    app = EventsApp([Event(0, f"number {n}", "information") for n in range(100)])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.pause()
        assert "number 99" in text(app)
        scroll = app.screen.query_one(VerticalScroll)
        for key, wanted in [("g", "number 0 "), ("G", "number 99"), ("home", "number 0 ")]:
            await pilot.press(key)
            await pilot.wait_for_scheduled_animations()
            await pilot.pause()
            assert wanted in f"{text(app)} "
        await pilot.press("j", "space")
        assert scroll.scroll_y > 5
        await pilot.press("q")
        assert not isinstance(app.screen, EventsDialog)


async def test_nothing_was_told() -> None:
    app = EventsApp([])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "No notices so far." in text(app)
