"""Every command of the table, with its key, in the whole application."""

from __future__ import annotations

from typing import Any

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from kproxy.tui.commands import COMMANDS, Command, Scope
from kproxy.tui.widgets.command_line import CommandLine
from tests.kproxy.tui.kit import main_of, opened, settled, shown_lines

pytestmark = pytest.mark.slow

WAYS = {
    Scope.SCREEN: [],
    Scope.LIST: [],
    Scope.TREE: ["tab"],
    Scope.BYTES: ["tab", "tab", "tab"],
    Scope.TABLE: ["2"],
    Scope.CONVERSATION: ["8"],
    Scope.LATENCY: ["6"],
    Scope.TYPING: ["f", "a"],
    Scope.SEARCHING: ["slash", "a"],
}
"""Keys that lead to each place; holds and faults are available only with a proxy (test_live)."""

LEAVING = {"app.quit", "app.quit_now"}
BY_PLACE = {
    place: [command for command in COMMANDS if command.scope is place and command.keys] for place in Scope
}


@pytest.mark.parametrize("place", WAYS, ids=lambda place: place.name.lower())
async def test_every_key_of_a_place_does_something_and_breaks_nothing(
    place: Scope, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("written"))
    async with opened() as pilot:
        for command in BY_PLACE[place]:
            if command.name in LEAVING:
                continue
            if not _is_there(pilot, command):
                await pilot.press("1", *WAYS[place])
            assert _is_there(pilot, command), f"nothing carries out {command.name}"
            await pilot.press(command.keys.split(",")[0])
            await _close_dialogs(pilot)
            main_of(pilot).minimize()
        await pilot.press("escape", "escape", "c")  # undo the narrowing
        await settled(pilot)
        assert any("402 exchanges" in line for line in shown_lines(pilot))


def _is_there(pilot: Pilot[Any], command: Command) -> bool:
    focused = pilot.app.focused
    ancestors = () if focused is None else focused.ancestors_with_self
    bindings = (binding for each in ancestors for binding in getattr(each, "BINDINGS", ()))
    bound = {binding.id for binding in bindings if isinstance(binding, Binding)}
    return command.name in bound


async def _close_dialogs(pilot: Pilot[Any]) -> None:
    while len(pilot.app.screen_stack) > 1:
        await pilot.press("escape")


async def test_every_command_without_an_argument_can_be_typed() -> None:
    async with opened(size=(80, 24)) as pilot:
        for command in COMMANDS:
            if not command.line or command.argument or command.name in LEAVING:
                continue
            main_of(pilot).query_one(CommandLine).open(command.line)
            await pilot.press("enter")
            await _close_dialogs(pilot)
        await settled(pilot)
        assert pilot.app.is_running
