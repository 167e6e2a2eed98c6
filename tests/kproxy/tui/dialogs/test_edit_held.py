from __future__ import annotations

from time import time_ns
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea

from dissectors.frames import decode_request
from kproxy.proxy.verdicts import Frame
from kproxy.session.published import HeldMessage
from kproxy.tui.dialogs import edit_held as module
from kproxy.tui.dialogs.edit_held import EditHeld
from kproxy.tui.live.draft import Draft
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.proxy.rules.frames import FETCH, START, request
from tests.kproxy.tui.live.proxied import shown
from tests.kproxy.tui.live.test_draft import answer, held
from tests.waiting import until

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000


class EditApp(App[None]):
    """Shows only the dialog."""

    def __init__(self, frame: Frame | None = None) -> None:
        super().__init__()
        frame = frame or request("Fetch", 4, FETCH, time=time_ns())
        self.held: HeldMessage | None = held(frame)
        self.dialog = EditHeld(held(frame), Draft(held(frame), answer(frame)), lambda: self.held)
        self.done = False
        self.returned: bytes | None = None

    def on_mount(self) -> None:
        self.push_screen(self.dialog, self._returned)

    def _returned(self, data: bytes | None) -> None:
        self.done, self.returned = True, data

    @property
    def outcome(self) -> str:
        return str(self.dialog.query_one("#outcome", Static).visual)

    @property
    def about(self) -> str:
        return str(self.dialog.query_one("#about", Static).visual)


async def begun(app: EditApp) -> None:
    await until(lambda: shown(app, EditHeld)() and "nothing changed" in app.outcome)


async def test_a_field_is_changed_and_the_difference_shown_before_it_is_sent() -> None:
    app = EditApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await begun(app)
        table = app.dialog.query_one(RowTable)
        assert table.select("max_wait_ms")
        await pilot.press("enter")
        field = app.dialog.query_one(Input)
        assert field.has_focus
        assert field.value == "500"
        assert "ms" in app.about
        await pilot.press(*"soon")
        assert "write a number" in app.about
        await pilot.press("enter")
        assert field.has_focus
        await pilot.press("ctrl+u", *"250", "enter")
        await until(lambda: "max_wait_ms" in app.outcome)
        assert "500 → 250" in app.outcome
        assert table.has_focus
        await pilot.press("ctrl+s")
        await until(lambda: app.done)
    assert app.returned is not None
    body = decode_request(app.returned[4:])
    assert body.value is not None
    assert body.value["max_wait_ms"] == 250


def test_it_looks_as_it_should(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time_ns", lambda: START + 6 * SECOND)
    app = EditApp(request("Fetch", 4, FETCH))

    async def change_something(pilot: Pilot[None]) -> None:
        await begun(app)
        app.dialog.query_one(RowTable).select("isolation_level")
        app.dialog.query_one(Input).cursor_blink = False
        await pilot.press("enter", "1", "enter")
        await until(lambda: "isolation_level" in app.outcome)
        await pilot.press("down")

    assert snap_compare(app, run_before=change_something, terminal_size=(100, 26))


async def test_all_of_it_is_edited_as_json() -> None:
    app = EditApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(app)
        await pilot.press("ctrl+t")
        area = app.dialog.query_one(TextArea)
        await until(lambda: area.has_focus and '"max_wait_ms": 500' in area.text)
        area.text = area.text.replace('"max_wait_ms": 500', '"max_wait_ms": 7,')
        await until(lambda: "cannot be sent" in app.outcome)
        assert "line 3" in app.outcome
        await pilot.press("ctrl+s")
        assert not app.done
        area.text = area.text.replace('"max_wait_ms": 7,,', '"max_wait_ms": "x",')
        await until(lambda: "max_wait_ms" in app.outcome)
        assert "cannot be sent" in app.outcome
        area.text = area.text.replace('"x"', "7")
        await until(lambda: "500 → 7" in app.outcome)
        await pilot.press("ctrl+t")
        table = app.dialog.query_one(RowTable)
        await until(lambda: table.select("max_wait_ms") and "* 7" in table.selected.text())  # type: ignore[union-attr]
        assert table.has_focus
        await pilot.press("ctrl+s")
        await until(lambda: app.done)
    assert app.returned is not None


async def test_escape_leaves_a_field_then_the_dialog() -> None:
    app = EditApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await begun(app)
        await pilot.press("enter")
        assert app.dialog.query_one(Input).has_focus
        await pilot.press("9", "escape")
        assert app.dialog.query_one(RowTable).has_focus
        assert not app.done
        await pilot.press("escape")
        await until(lambda: app.done)
    assert app.returned is None


async def test_what_has_gone_on_cannot_be_sent() -> None:
    app = EditApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await begun(app)
        app.held = None
        await until(lambda: "no longer held" in str(app.dialog.query_one("#left", Static).visual))
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert not app.done


async def test_secrets_are_not_shown() -> None:
    app = EditApp(request("SaslAuthenticate", 0, {"auth_bytes": b"\0user\0password"}, time=time_ns()))
    async with app.run_test(size=(100, 30)) as pilot:
        await begun(app)
        assert app.dialog.query_one(Input).disabled
        await pilot.press("ctrl+t")
        area = app.dialog.query_one(TextArea)
        await until(lambda: "holds secrets" in area.text)
        assert area.read_only
        await pilot.press("ctrl+s")
        await until(lambda: app.done)
