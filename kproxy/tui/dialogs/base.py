"""The base of dialogs: a titled box in front of the screen, closed by escape."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList

from captures.faults import described
from kproxy.tui.safe import plain

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A modal screen with one box, which has the class ``box``. Escape closes it with None.

    Its box is never larger than the terminal: content that may grow must scroll inside the box.
    """

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > .box {
            width: auto;
            max-width: 100%;
            height: auto;
            max-height: 100%;
            padding: 0 1;
            background: $background;
            border: round $primary;
            border-title-style: bold;
            border-subtitle-color: $text-muted;
        }
        &:nocolor OptionList:focus > .option-list--option-highlighted { text-style: bold underline; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "close")]


class ListDialog(Dialog[Result]):
    """A dialog with one list, in which j and k move the cursor too."""

    DEFAULT_CSS = """
    ListDialog OptionList {
        height: 1fr; padding: 0; border: none; background: transparent;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor(1)", "down", show=False),
        Binding("k", "cursor(-1)", "up", show=False),
    ]

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    @property
    def _index(self) -> int:
        return self._list.highlighted or 0

    def action_cursor(self, by: int) -> None:
        """Move the cursor to the next or the previous line."""
        if by > 0:
            self._list.action_cursor_down()
        else:
            self._list.action_cursor_up()


def fault_of(doing: str, error: Exception) -> str:
    """Return a dialog's message about an internal error, which ends only the failed activity."""
    return f"{doing} failed: {described(error)}; this is an internal error in kproxy"


def lines(text: str | Content) -> Content:
    """Return text from the wire, which may have several lines, as content without markup."""
    if isinstance(text, Content):
        return text
    return Content("\n").join(plain(line) for line in text.split("\n"))
