"""The dialog for choosing the participants to show."""

from __future__ import annotations

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import SelectionList

from captures.analysis.conversation import Participant
from kproxy.tui.dialogs.participants import ParticipantsDialog

EVIL = Participant(True, "[red]\x1b[31mevil", "10.0.0.9")
APP = Participant(True, "10.0.0.7", "10.0.0.7")
BROKER = Participant(False, "b1:9092", "b1:9092")
ALL = (EVIL, APP, BROKER)


async def chosen(pilot: Pilot[None], *keys: str) -> frozenset[Participant] | None:
    found: list[frozenset[Participant] | None] = []
    await pilot.app.push_screen(ParticipantsDialog(ALL, {EVIL, BROKER}), found.append)
    await pilot.press(*keys)
    await pilot.pause()
    (result,) = found
    return result


@pytest.mark.slow
async def test_what_is_ticked_is_returned() -> None:
    async with App[None]().run_test() as pilot:
        assert await chosen(pilot, "enter") == {EVIL, BROKER}
        assert await chosen(pilot, "down", "space", "enter") == set(ALL)
        assert await chosen(pilot, "a", "enter") == set(ALL)
        assert await chosen(pilot, "a", "a", "enter") == set()
        assert await chosen(pilot, "space", "escape") is None


async def test_names_are_shown_as_they_are() -> None:
    app = App[None]()
    async with app.run_test(size=(50, 10)) as pilot:
        await app.push_screen(ParticipantsDialog(ALL, set()))
        await pilot.pause()
        prompts = [str(option.prompt) for option in app.screen.query_one(SelectionList).options]
        assert "client  [red]�[31mevil  10.0.0.9" in prompts[0]
        assert prompts[1].endswith("client  10.0.0.7")
        assert app.screen.query_one(SelectionList).region.right <= 50
