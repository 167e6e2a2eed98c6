"""The first line of the screen: what is looked at, how much of it, and what of that is shown."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from captures.meaning import words
from dissectors.printable import printable
from kproxy.tui.safe import cut, width
from kproxy.tui.session import Status

_GAP = "   "


class Headline(Widget):
    """Shows the state of a session in one line.

    :param title: what is looked at
    """

    DEFAULT_CSS = """
    Headline { height: 1; dock: top; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = printable(title)
        self._status = Status()
        self._filter_off = ""

    def show(self, status: Status, filter_off: str = "") -> None:
        """Show a state.

        :param filter_off: a filter that was switched off, to be switched on again
        """
        self._status, self._filter_off = status, filter_off
        self.refresh()

    def render(self) -> Text:
        """Return the line."""
        room = self.size.width
        left = f"kproxy{_GAP}{self._title}"
        right = _GAP.join(self._parts())
        left = cut(left, max(room - width(right) - len(_GAP), 12))
        right = cut(right, max(room - width(left) - 1, 0))
        line = Text(f"{left}{' ' * max(room - width(left) - width(right), 1)}{right}", no_wrap=True, end="")
        line.stylize("bold", 0, len("kproxy"))
        return line

    def _parts(self) -> list[str]:
        status = self._status
        parts = [words.counted(status.exchanges, "exchange")]
        if status.first > 1:
            parts.append(f"from {status.first:,} on")
        if not status.finished and status.size:
            parts.append(f"reading {min(99, 100 * status.read // status.size)} %")
        if status.filter is not None:
            parts.append(f"filter: {printable(status.filter.text)}")
        elif self._filter_off:
            parts.append(f"filter off: {printable(self._filter_off)}")
        if status.filtering is not None:
            parts.append(f"{status.filtering:.0%} looked at")
        if status.marked_only:
            parts.append("marked only")
        if status.filter is not None or status.marked_only:
            parts.append(f"{status.shown:,} shown")
        return parts
