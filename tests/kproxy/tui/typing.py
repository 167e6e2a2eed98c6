"""Common parts of the tests of input lines."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from kproxy.tui.widgets.completion_list import CompletionList
from kproxy.tui.widgets.typing_line import TypingLine


async def quiet(pilot: Pilot[Any]) -> None:
    """Wait until all validation, completion, reading and writing has finished."""
    for _ in range(3):
        await pilot.pause()
        await pilot.app.workers.wait_for_complete(
            [worker for worker in pilot.app.workers if not worker.is_finished]
        )
    await pilot.pause()


async def type_in(pilot: Pilot[Any], text: str, *keys: str) -> None:
    """Insert a text at the cursor, as if it were typed, then press keys; wait for the effect of each."""
    if text:
        line = pilot.app.focused
        assert isinstance(line, Input)
        line.insert_text_at_cursor(text)
    await quiet(pilot)
    for key in keys:
        await pilot.press(key)
        await quiet(pilot)


def offered(line: TypingLine) -> list[str]:
    """Return the offered texts."""
    found = line.query_one(CompletionList)
    return [one.text for one in found.candidates] if found.is_open else []


def told_by(line: TypingLine) -> str:
    """Return the text below the line."""
    return str(line.query_one("#verdict", Static).render())


def still(app: Any) -> None:
    """Stop the cursor from blinking, for snapshots."""
    for line in app.query(Input):
        line.cursor_blink = False


@pytest.fixture
def state_home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Store histories in a folder of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "kproxy" / "history"
