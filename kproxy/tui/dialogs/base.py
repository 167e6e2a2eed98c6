"""What the dialogs of the UI have in common: a titled box in front of the screen, which escape closes."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import BindingType
from textual.content import Content
from textual.screen import ModalScreen

from captures.faults import described
from kproxy.tui.safe import plain

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A modal screen with one box, which has the class ``box``. Escape closes it with None.

    Nothing in it is larger than the terminal: what may grow has to scroll inside the box.
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


def fault_of(doing: str, error: Exception) -> str:
    """Return what a dialog says of an error of kproxy's own, which ends what it was doing and nothing else."""
    return f"{doing} failed: {described(error)}; this is a fault of kproxy"


def lines(text: str | Content) -> Content:
    """Return text from the wire, which may have several lines, as content that is shown as it is."""
    if isinstance(text, Content):
        return text
    return Content("\n").join(plain(line) for line in text.split("\n"))
