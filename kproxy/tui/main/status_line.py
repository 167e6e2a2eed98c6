"""The line above the keys: what was told last, and what is not as usual."""

from __future__ import annotations

from time import monotonic

from rich.text import Text
from textual.widget import Widget

from dissectors.printable import printable
from kproxy.tui.safe import cut, width

_SECONDS = 6.0


class StatusLine(Widget):
    """Shows a message for some seconds on its left, and states on its right.

    States are words, such as ``following`` and ``41/s``; what is lost or held stands out.
    """

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $surface; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._message = ""
        self._until = 0.0
        self._states: tuple[str, ...] = ()
        self._loud: tuple[str, ...] = ()

    def tell(self, message: str) -> None:
        """Show a message for a while."""
        self._message, self._until = printable(message), monotonic() + _SECONDS
        self.refresh()
        self.set_timer(_SECONDS + 0.1, self.refresh)

    def show(self, states: tuple[str, ...], loud: tuple[str, ...] = ()) -> None:
        """Show states.

        :param loud: those that ask for attention
        """
        if (states, loud) != (self._states, self._loud):
            self._states, self._loud = states, loud
            self.refresh()

    def render(self) -> Text:
        """Return the line."""
        room = self.size.width
        right = "   ".join((*self._loud, *self._states))
        left = self._message if monotonic() < self._until else ""
        left = cut(left, max(room - min(width(right), room // 2) - 2, 0))
        right = cut(printable(right), max(room - width(left) - 1, 0))
        line = Text(f"{left}{' ' * max(room - width(left) - width(right), 0)}{right}", no_wrap=True, end="")
        loud = "   ".join(self._loud)
        if loud:
            begin = len(line.plain) - len(right)
            line.stylize("bold reverse", begin, min(begin + len(loud), len(line.plain)))
        return line
