"""The help screen: parts, search, scrolling, leaving."""

from __future__ import annotations

import re
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.containers import Container, VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Input, Static, TabbedContent

from kproxy.tui.commands import Scope, bindings
from kproxy.tui.dialogs.help import HelpDialog, places_of
from kproxy.tui.manual import Section

pytestmark = pytest.mark.slow


class Pane(Static, can_focus=True):
    BINDINGS = bindings(Scope.BYTES)


class Around(Container):
    BINDINGS = bindings(Scope.TREE)


class HelpApp(App[None]):
    """Opens help on ``?``."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, keymap: dict[str, str] | None = None) -> None:
        super().__init__()
        self.animation_level = "none"
        self.changes = keymap or {}

    def compose(self) -> ComposeResult:
        with Around():
            yield Pane("bytes")

    def on_mount(self) -> None:
        about = [Section("about", header=("", ""), rows=(("kproxy", "1.2"),))]
        self.push_screen(HelpDialog(self.query_one(Pane), self.changes, about))


def shown(pilot: Pilot[None]) -> str:
    """Return the text on the screen."""
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


async def test_the_keys_of_the_focused_place_come_first() -> None:
    async with HelpApp({"bytes.enter": "f2"}).run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        text = shown(pilot)
        assert text.index("BYTES") < text.index("FIELD TREE")
        assert re.search("f2 +Go to the field that this byte belongs to", text)


async def test_the_places_of_what_has_the_focus() -> None:
    app = HelpApp()
    async with app.run_test(size=(80, 24)):
        assert places_of(app.screen_stack[0].query_one(Pane)) == [Scope.BYTES, Scope.TREE]
        assert places_of(None) == []


@pytest.mark.parametrize(
    ("keys", "part"),
    [(["tab"], "filter"), (["l", "right"], "about"), (["shift+tab"], "about"), (["tab", "left"], "keys")],
)
async def test_going_from_part_to_part(keys: list[str], part: str) -> None:
    async with HelpApp().run_test(size=(80, 24)) as pilot:
        await pilot.press(*keys)
        assert pilot.app.screen.query_one(TabbedContent).active == part


async def test_a_search_goes_through_all_parts() -> None:
    async with HelpApp().run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", *"rack")
        await pilot.press("enter", "tab")
        await pilot.pause()
        text = shown(pilot)
        assert "request.rack_id exists" in text
        assert "latency > 100ms" not in text
        await pilot.press("tab")
        await pilot.pause()
        assert "Nothing here has 'rack' in it." in shown(pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert "1.2" in shown(pilot)
        assert not pilot.app.screen.query_one(Input).display


async def test_scrolling() -> None:
    async with HelpApp().run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        scroll = pilot.app.screen.query_one("#keys VerticalScroll", VerticalScroll)
        for key, line in [("j", 1), ("down", 2), ("k", 1), ("G", scroll.max_scroll_y), ("g", 0)]:
            await pilot.press(key)
            assert scroll.scroll_y == line, key
        await pilot.press("space")
        assert scroll.scroll_y > 5
        assert scroll.max_scroll_y > 50


@pytest.mark.parametrize("key", ["escape", "q", "question_mark", "f1"])
async def test_leaving(key: str) -> None:
    async with HelpApp().run_test(size=(80, 24)) as pilot:
        assert isinstance(pilot.app.screen, HelpDialog)
        await pilot.press(key)
        assert not isinstance(pilot.app.screen, HelpDialog)


async def test_a_key_that_closes_is_text_while_searching() -> None:
    async with HelpApp().run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", "q", "question_mark")
        assert pilot.app.screen.query_one(Input).value == "q?"


def test_the_screen(snap_compare: Any) -> None:
    assert snap_compare(HelpApp(), terminal_size=(80, 24))
