"""The base of dialogs: a titled box in front of the screen, closed by escape."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static

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
        #problem { height: auto; max-height: 6; color: $text-error; }
        OptionList { height: auto; padding: 0; border: none; background: transparent; }
        &:nocolor OptionList:focus > .option-list--option-highlighted { text-style: bold underline; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "close")]

    def _show_problem(self, problem: str) -> None:
        """Show a message, which may have several lines, in the static text ``problem``; an empty one clears it."""
        self.query_one("#problem", Static).update(lines(f"✗ {problem}" if problem else ""))


class Box(Vertical):
    """The box of a dialog.

    :param title: may contain text from the wire
    :param keys: in its lower border
    """

    def __init__(self, title: str, keys: str = "") -> None:
        super().__init__(classes="box")
        self.border_title = plain(title)
        self.border_subtitle = keys


class ListDialog(Dialog[Result]):
    """A dialog with one list, in which j and k move the cursor too."""

    DEFAULT_CSS = """
    ListDialog OptionList { height: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
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


class ScrollDialog(Dialog[None]):
    """A dialog of text in a scroll view, with the keys of a pager. Returns nothing."""

    DEFAULT_CSS = """
    ScrollDialog {
        & > .box { width: 124; height: 100%; }
        VerticalScroll { height: 1fr; }
        VerticalScroll Static { width: 1fr; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "dismiss", "close"),
        Binding("down,j", "scroll('down')", show=False),
        Binding("up,k", "scroll('up')", show=False),
        Binding("pagedown,space,ctrl+f", "scroll('page_down')", show=False),
        Binding("pageup,ctrl+b", "scroll('page_up')", show=False),
        Binding("home,g", "scroll('home')", show=False),
        Binding("end,G", "scroll('end')", show=False),
    ]

    @property
    def _pane(self) -> VerticalScroll:
        return self.query_one(VerticalScroll)

    def action_scroll(self, where: str) -> None:
        getattr(self._pane, f"scroll_{where}")(animate=False)


def fault_of(doing: str, error: Exception) -> str:
    """Return a dialog's message about an internal error, which ends only the failed activity."""
    return f"{doing} failed: {described(error)}; this is an internal error in kproxy"


def lines(text: str | Content) -> Content:
    """Return text from the wire, which may have several lines, as content without markup."""
    if isinstance(text, Content):
        return text
    return Content("\n").join(plain(line) for line in text.split("\n"))
