"""The cursor and the top line of the list, while its content changes.

Both are tied to exchanges, not to lines: exchanges may appear and disappear above them, and be sorted anew. The
exchange that the user went to is remembered, so that the cursor returns to it after a filter that hid it. Held messages
follow the exchanges and have lines of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from kproxy.session.published import HeldMessage, ShownExchanges


@dataclass(frozen=True, slots=True)
class Window:
    """The visible part of the list: a line of titles, exchanges, then some of the held messages.

    :ivar width: cells
    :ivar height: lines, at least one
    :ivar left: cells scrolled out of sight on the left
    :ivar top: line of the list below the titles
    :ivar exchanges: number of exchanges in the list
    :ivar held: number of held messages
    :ivar held_top: index of the first visible held message
    """

    width: int
    height: int
    left: int
    top: int
    exchanges: int
    held: int
    held_top: int

    @property
    def pinned(self) -> int:
        """Number of lines for held messages, about a third of the screen at most."""
        return min(self.held, max((self.height - 1) // 3, 1))

    @property
    def body(self) -> int:
        """Number of lines for exchanges, at least one."""
        return max(self.height - 1 - self.pinned, 1)

    def row_at(self, y: int) -> int | None:
        """Return the row of the list on screen line `y`, None if there is none."""
        if not 0 < y < self.height:
            return None
        below = y - 1 - self.body
        if below < 0:
            return self.top + y - 1 if self.top + y - 1 < self.exchanges else None
        return self.exchanges + self.held_top + below if self.held_top + below < self.held else None

    def y_of(self, row: int) -> int | None:
        """Return the screen line of a row of the list, None if it is out of sight."""
        held = row - self.exchanges
        if held >= 0:
            return 1 + self.body + held - self.held_top if 0 <= held - self.held_top < self.pinned else None
        return 1 + row - self.top if 0 <= row - self.top < self.body else None


@dataclass(frozen=True, slots=True)
class ListPosition:
    """A user's place in the list.

    :ivar number: the exchange under the cursor
    :ivar top: the exchange in the top line
    """

    number: int
    top: int


class Position:
    """The cursor and the top line.

    :ivar shown: the exchanges in the list
    :ivar held: the held messages after them
    :ivar row: the cursor's row, from 0; 0 too if the list is empty
    """

    def __init__(self) -> None:
        self.shown = ShownExchanges(0, 0)
        self.held: tuple[HeldMessage, ...] = ()
        self.row = 0
        self._wanted: int | None = None
        self._wanted_held: int | None = None

    @property
    def rows(self) -> int:
        return len(self.shown) + len(self.held)

    @property
    def number(self) -> int | None:
        """Number of the exchange under the cursor, None if there is none."""
        return self.shown.number(self.row) if self.row < len(self.shown) else None

    @property
    def held_message(self) -> HeldMessage | None:
        """The held message under the cursor, None if there is none."""
        index = self.row - len(self.shown)
        return self.held[index] if 0 <= index < len(self.held) else None

    def go(self, row: int) -> None:
        """Move the cursor to a row, or to the nearest that exists."""
        self.row = min(max(row, 0), max(self.rows - 1, 0))
        held = self.held_message
        self._wanted_held = None if held is None else held.number
        if self.number is not None:
            self._wanted = self.number

    def take(
        self,
        shown: ShownExchanges,
        held: tuple[HeldMessage, ...],
        *,
        top: int,
        height: int,
        ordered: bool,
        following: bool,
    ) -> int:
        """Replace the list's content; return the new top row.

        The row under the cursor keeps its screen line if it was visible; otherwise the top row does.

        :param top: the top row before
        :param height: screen lines for exchanges
        :param ordered: whether the list is sorted by something else than exchange numbers
        :param following: whether the cursor stays on the last exchange
        """
        before, row = self.shown, self.row
        by_cursor = top <= row < top + height and row < len(before)
        anchor = row if by_cursor else top
        anchored = before.number(anchor) if anchor < len(before) else None
        self.shown = shown
        self._find_held(held)
        if self._wanted_held is None:
            if following:
                self.go(len(shown) - 1)
            else:
                self._find(row, ordered=ordered)
        last = max(len(shown) - height, 0)
        if following:
            return last
        if anchored is None:
            return min(top, last)
        index = self.row if by_cursor else self._line(anchored, anchor, ordered=ordered)
        return min(max(index - (anchor - top), 0), last)

    def _find(self, row: int, *, ordered: bool) -> None:
        if not len(self.shown):
            self.row = 0
        elif self._wanted is None:
            self.go(0)
        else:
            self.row = self._line(self._wanted, row, ordered=ordered)

    def _find_held(self, held: tuple[HeldMessage, ...]) -> None:
        """Keep the cursor on its held message, or on the one that takes its place."""
        if self._wanted_held is None:
            self.held = held
            return
        index = next((at for at, each in enumerate(self.held) if each.number == self._wanted_held), 0)
        numbers = [each.number for each in held]
        self.held = held
        if not held:
            self._wanted_held = None
            return
        index = (
            numbers.index(self._wanted_held) if self._wanted_held in numbers else min(index, len(held) - 1)
        )
        self._wanted_held = numbers[index]
        self.row = len(self.shown) + index

    def _line(self, number: int, line: int, *, ordered: bool) -> int:
        """Return the row of an exchange; if it is hidden, the row nearest by number, or by row if `ordered`."""
        found = self.shown.index_of(number)
        if found is not None:
            return found
        return min(line, max(len(self.shown) - 1, 0)) if ordered else self.shown.nearest(number)
