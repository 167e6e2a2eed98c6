"""The comment of an exchange."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App
from textual.widgets import TextArea

from kproxy.tui.dialogs.comment import CommentDialog

pytestmark = pytest.mark.quick


class CommentApp(App[None]):
    """Shows the dialog and stores its result."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.answers: list[str | None] = []
        self._text = text

    def on_mount(self) -> None:
        self.push_screen(CommentDialog(1_042, self._text), self.answers.append)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "keys", "kept"),
    [
        ("", ["l", "o", "o", "k", "enter", "h", "f2"], "look\nh"),
        ("before", ["!", "ctrl+s"], "before!"),
        ("before", ["ctrl+a", "f7", "delete", "f2"], ""),
        ("before", ["x", "escape"], None),
        ("  [red]\x1b ", ["f2"], "[red]\x1b"),
    ],
)
async def test_a_comment_is_kept_or_left(text: str, keys: list[str], kept: str | None) -> None:
    app = CommentApp(text)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*keys)
    assert app.answers == [kept]


@pytest.mark.slow
def test_looks_right(snap_compare: Any) -> None:
    async def run_before(pilot: Any) -> None:
        pilot.app.screen.query_one(TextArea).cursor_blink = False
        await pilot.pause()

    app = CommentApp("The broker answers late.\nSee 1,043.")
    assert snap_compare(app, run_before=run_before, terminal_size=(80, 24))
