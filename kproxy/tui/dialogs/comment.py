"""The editor for the comment of an exchange."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static, TextArea

from kproxy.tui.dialogs.base import Box, Dialog


class CommentDialog(Dialog[str | None]):
    """A dialog for editing a comment. Returns its text, empty to delete it, None to leave it unchanged.

    Enter inserts a line break, so F2 or ctrl+s saves: not every terminal distinguishes ctrl+enter from Enter.

    :param number: of the exchange
    :param text: current comment
    """

    DEFAULT_CSS = """
    CommentDialog {
        & > .box { width: 76; max-width: 100%; }
        TextArea {
            height: 10; max-height: 60vh; padding: 0;
            border: none; background: $boost;
            &:focus { border: none; }
        }
        #hint { color: $text-muted; height: auto; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2,ctrl+s", "keep", "keep", priority=True),
    ]

    def __init__(self, number: int, text: str = "") -> None:
        super().__init__()
        self._number = number
        self._text = text

    def compose(self) -> ComposeResult:
        with Box(f"comment on exchange {self._number:,}", "F2 or ctrl+s: save   escape: cancel"):
            yield TextArea(self._text, soft_wrap=True, compact=True, tab_behavior="focus")
            yield Static("Comments are saved in pcapng files, as packet comments.", id="hint")

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    def action_keep(self) -> None:
        text = self.query_one(TextArea).text.strip()
        self.dismiss(text)
