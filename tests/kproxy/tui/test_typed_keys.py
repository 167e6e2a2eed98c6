"""Keys that arrive faster than they are handled: text, and the key that opens its line, in one write to a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key
from textual.widgets import Input

from captures.filters import compile_filter
from kproxy.tui import typed_keys
from kproxy.tui.live.actions import NOT_LIVE
from tests.kproxy.cli.terminal import Terminal
from tests.kproxy.tui.kit import REBALANCE, main_of, opened, settled, shown_lines

TEXT = "POXAaIrwmcq"
"""Each of these keys is a command while no input line is open."""
LINES = (
    ("fapi == Fetch\r", "filter: api == Fetch"),
    (f"/{TEXT}\r", f"{TEXT} is in no exchange"),
    (f":comment {TEXT}1\r;\x13f\x15comment == {TEXT}2\r", f"filter: comment == {TEXT}2"),
    ("\x1b[200~f\x1b[201~f\x15\x1b[200~api ==\x1b[201~ Produce\r", "filter: api == Produce"),
)
# no escape among them: together with the next key in one write, it is a key with alt
DIALOGS = (
    ("\x07188\r/Heartbeat v4\r", "Heartbeat v4"),
    (f"fapi == Heartbeat\r:save\r{TEXT}\r", f"saved as @{TEXT}"),
    (f";{TEXT}\x13!\r:filter comment == {TEXT}\r", f"filter: comment == {TEXT}"),
    (f"c:diff {TEXT}\r", f"there is no file {TEXT}"),
)
# its dialog stays open
REFUSED = ((f"J{TEXT}\r", f"'{TEXT}' is not a record"),)
LIVE = (
    (f"234567801f{TEXT}\x15api == Produce\r", "filter: api == Produce"),
    (f"i{TEXT}\x15api == Heartbeat\r", "Holding requests that match: api == Heartbeat"),
    (f"9+{TEXT}\x15api == Fetch => delay 1ms\r", " added: "),
)


def _typed(terminal: Terminal, steps: Sequence[tuple[str, str]]) -> None:
    """Send each text in one write, and wait until its effect is on the screen."""
    for written, shown in steps:
        terminal.said = b""
        terminal.type(written)
        terminal.shows(shown)
        for command in (NOT_LIVE.split(":")[0], "Paused", "Pause", "orwarding is off", "nothing is marked"):
            assert command not in terminal.text
    assert terminal.process.poll() is None


@pytest.mark.slow
@pytest.mark.parametrize("steps", [LINES, DIALOGS, REFUSED], ids=["lines", "dialogs", "refused"])
def test_text_in_one_write_ends_in_the_line_or_dialog(
    steps: Sequence[tuple[str, str]], tmp_path: Path
) -> None:
    with Terminal(["open", str(REBALANCE)], tmp_path, size=(150, 30)) as terminal:
        terminal.until("402 exchanges")
        terminal.until("confluent-python")
        _typed(terminal, steps)


@pytest.mark.slow
def test_text_in_one_write_does_nothing_to_live_traffic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    arguments = ["proxy", "-b", "127.0.0.1:1", "--listen", "127.0.0.1:0"]
    with Terminal(arguments, tmp_path, size=(150, 30)) as terminal:
        terminal.until("0 exchanges")
        _typed(terminal, LIVE)
        terminal.type("Q")
        assert terminal.end() == 0


async def test_a_key_for_live_traffic_is_not_heeded_just_after_a_line_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typed_keys, "_OPENING", 60.0)
    async with opened() as pilot:
        await pilot.press("f", "escape", "P")
        await settled(pilot)
        assert any("pause: a line or dialog had just opened" in line for line in shown_lines(pilot))
        await pilot.press("f", "P")
        assert isinstance(pilot.app.focused, Input)
        assert pilot.app.focused.value == "P"
        await pilot.press("escape", "escape", "j")
        await settled(pilot)
        assert main_of(pilot).number == 2
        monkeypatch.setattr(typed_keys, "_OPENING", 0.0)
        await pilot.press("P")
        await settled(pilot)
        assert main_of(pilot).kproxy.events[-1].text == NOT_LIVE


async def test_what_was_typed_for_a_dialog_that_does_not_come_does_nothing() -> None:
    async with opened() as pilot:
        app: Any = pilot.app
        await app.session.set_filter(compile_filter("api == Produce and api == Fetch"))
        await settled(pilot)
        for key in ("exclamation_mark", "7", "w"):  # as in one write: no key waits for the one before
            app.post_message(Key(key, None))
        await settled(pilot)
        assert main_of(pilot).view.view_name == "exchanges"
        assert len(app.screen_stack) == 1
        assert any("no exchange" in line for line in shown_lines(pilot))
