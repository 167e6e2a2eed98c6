"""A table of rows with a cursor, sorting by any column, unfolding, search and scrolling; only visible rows are drawn.

To use it, give it columns once, and rows whenever they change::

    table = RowTable([Column("topic", least=12), Column("records", right=True, rank=1)], empty="No topics yet.")
    table.set_rows([Row("orders", ("orders", counted(1200)), children=(Row(("orders", 0), ("0", counted(1200))),))])

Keys identify rows: cursor and folds stay with them when rows are replaced. Columns are those of
:mod:`kproxy.text.tables`: without enough room, they are cut to ``least`` and left out by ``rank``. Columns without any
text are hidden. A row takes several screen lines if a text is wrapped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import is_
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from captures.filters.regex import TextRegex
from dissectors.printable import printable
from kproxy.text.blocks import GAP
from kproxy.text.cells import fit
from kproxy.text.tables import Column, fitted
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.widgets.cursor_lines import CursorLines
from kproxy.tui.widgets.line_styles import style_classes, style_rules
from kproxy.tui.widgets.selectable import SelectableLines
from kproxy.tui.widgets.table_rows import INDENT, Line, Lines, Order, Role, Row, role_of, text_of

_CURSOR = "▌"
_FOLDED, _UNFOLDED = "▸", "▾"
_RISING, _FALLING = "▲", "▼"
_SCROLLED = 8  # cells per key press


@dataclass(frozen=True, slots=True)
class TablePosition:
    """A user's place in a table.

    :ivar key: of the row under the cursor
    :ivar top: index of the top line
    """

    table: RowTable
    key: Hashable
    top: int


class RowTable(SelectableLines, CursorLines, can_focus=True, inherit_bindings=False):
    """A virtual table.

    :param empty: text shown if there are no rows
    :param order: initial order; None keeps the given order
    """

    HEADER = 1
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TABLE)]

    COMPONENT_CLASSES: ClassVar[set[str]] = style_classes(("title", "cursor", *Role))
    DEFAULT_CSS = style_rules("RowTable", ("title", "cursor", *Role))

    @dataclass
    class _About(Message):
        """A message about a row.

        :ivar table: the table of the row
        :ivar key: of the row
        """

        table: RowTable
        key: Hashable

        @property
        def control(self) -> RowTable:
            """The table, for ``@on(RowTable.RowEntered, "#id")``."""
            return self.table

    class RowSelected(_About):
        """Another row is under the cursor."""

    class RowEntered(_About):
        """A row was chosen, by Enter or a double click."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        empty: str = "Nothing to show.",
        order: Order | None = None,
        id: str | None = None,  # noqa: A002  # as all widgets call it
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.columns = tuple(columns)
        self.empty = empty
        self.order = order
        self._rows: Sequence[Row] = ()
        self._unfolded: set[Hashable] = set()
        self._lines = Lines((), None, self._unfolded)
        self._longest = [0] * len(columns)
        self._widths: dict[int, int] = {}
        self._tops: Sequence[int] = range(1)
        self._everything = False
        self._moved = False
        self._returning: int | None = None
        self._selected: Hashable | None = None

    # ------------------------------------------------------------ rows
    @property
    def rows(self) -> Sequence[Row]:
        """The rows as set, without unfolded children."""
        return self._rows

    @property
    def selected(self) -> Row | None:
        """The row under the cursor, None if there are no rows."""
        return self._lines[self.cursor].row if len(self._lines) else None

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows; the cursor stays on its row and the row on its screen line, if possible.

        Until the user moves the cursor it stays on the first line.
        """
        same = len(rows) == len(self._rows) and all(map(is_, rows, self._rows))
        self._rows = rows
        if not same:
            self._arrange()

    def select(self, key: Hashable) -> bool:
        """Move the cursor to a row; return whether it exists."""
        index = self._lines.index_of(key)
        if index is not None:
            self.move_to(index)
        return index is not None

    @property
    def position(self) -> TablePosition | None:
        """The user's place, None if there are no rows."""
        row = self.selected
        return None if row is None else TablePosition(self, row.key, self.scroll_offset.y)

    def come_back(self, position: TablePosition) -> None:
        """Restore cursor and scroll position, if the row exists."""
        if self.select(position.key):
            self._returning = position.top
            self._scroll_back()

    def _scroll_back(self) -> None:
        """Scroll to where the user comes back to, and again when a table of more rows has grown."""
        if self._returning is None:
            return
        top = self._returning
        self.scroll_to(y=top, animate=False, force=True)
        if top <= self.top_of(self.cursor) < top + self.page:
            self._returning = None
        else:
            self.show_cursor()

    def sort_by(self, column: int | None, *, descending: bool = False) -> None:
        """Sort by a column; None restores the given order."""
        self.order = None if column is None else Order(column, descending)
        self._arrange()
        self.show_cursor()

    def search(self, pattern: TextRegex, *, forward: bool) -> bool:
        """Move to the next row that matches, unfolding its parent; return whether there is one."""
        every = Lines(self._rows, self.order, {row.key for row in self._rows})
        count = len(every)
        if not count:
            return False
        here = every.index_of(self._selected) or 0
        step = 1 if forward else -1
        for distance in range(1, count + 1):
            index = (here + step * distance) % count
            line = every[index]
            if pattern.found(line.row.text()):
                if line.depth:
                    self._unfolded.add(
                        next(each.row.key for each in _upwards(every, index) if not each.depth)
                    )
                    self._arrange()
                return self.select(line.row.key)
        return False

    def _arrange(self) -> None:
        on_screen = self.top_of(self.cursor) - self.scroll_offset.y
        self._lines = Lines(self._rows, self.order, self._unfolded)
        self._longest = self._lines.longest(len(self.columns))
        self._lay_out()
        index = self._lines.index_of(self._selected) if self._moved else None
        self.cursor = index if index is not None else max(min(self.cursor, len(self._lines) - 1), 0)
        if 0 <= on_screen < self.page:
            if index is not None:
                self.scroll_to(y=self.top_of(self.cursor) - on_screen, animate=False, force=True)
            self.show_cursor()
        elif self.scroll_offset.y > self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        self._post_selection()
        self.refresh()

    def _post_selection(self) -> None:
        """Post :class:`RowSelected` if another row is selected."""
        row = self.selected
        key = None if row is None else row.key
        if key != self._selected:
            self._selected = key
            if row is not None:
                self.post_message(self.RowSelected(self, row.key))

    # ------------------------------------------------------------ layout
    @property
    def _room(self) -> int:
        return self.scrollable_content_region.width

    @property
    def cursor_lines(self) -> int:
        return len(self._lines)

    def top_of(self, line: int) -> int:
        return self._tops[max(min(line, len(self._lines)), 0)]

    def line_at(self, y: int) -> int:
        return bisect_right(self._tops, y) - 1

    def _parts(self, line: Line, index: int) -> tuple[str, ...]:
        """Return the text of a cell as it is on its screen lines."""
        text = text_of(line.row.cells[index])
        return _wrapped(text, self._widths[index]) if self.columns[index].wraps else (text,)

    def _lay_out(self) -> None:
        room = None if self._everything else max(self._room - len(_CURSOR), 1)
        self._widths = fitted(self.columns, self._longest, room)
        wrapping = [index for index in self._widths if self.columns[index].wraps]
        self._tops = range(len(self._lines) + 1)
        if wrapping:
            heights = (max(len(self._parts(line, index)) for index in wrapping) for line in self._lines)
            self._tops = [0, *accumulate(heights)]
        total = len(_CURSOR) + sum(self._widths.values()) + len(GAP) * (len(self._widths) - 1)
        self.virtual_size = Size(total, self.line_count())

    def on_resize(self, _: events.Resize) -> None:
        """Lay out the columns for the new width."""
        self._lay_out()
        self.show_cursor()
        self._scroll_back()
        self.refresh()

    def move_to(self, line: int) -> None:
        self._moved, self._returning = True, None
        self.put_cursor(line)
        self._post_selection()

    # ------------------------------------------------------------ drawing
    def render_line(self, y: int) -> Strip:
        """Return one line of the widget: the titles, then rows."""
        left, top = self.scroll_offset
        room, style = self._room, self.rich_style
        index = self.line_at(top + y - 1)
        if y == 0:
            strip, at = self._titles(), 0
        elif index < len(self._lines):
            strip, at = self._line(top + y - 1), top + y
        elif y == 1:
            strip, at = Strip([Segment(f" {printable(self.empty)}", self.drawn_style(Role.MUTED))]), 1
        else:
            return Strip.blank(self.size.width, style)
        strip = self.selectable(strip, at)
        filling = self.drawn_style("title") if y == 0 else style
        if index == self.cursor and len(self._lines) and y:
            filling = self.drawn_style("cursor")
        return strip.crop_extend(left, left + room, filling)

    def _titles(self) -> Strip:
        style = self.drawn_style("title")
        parts = []
        for index, size in self._widths.items():
            column, sign = self.columns[index], ""
            if self.order is not None and self.order.column == index:
                sign = _FALLING if self.order.descending else _RISING
            # the sign is in the gap after the title, so that columns do not move
            parts.append(f"{fit(column.title, size, right=column.right)}{fit(sign, len(GAP))}")
        return Strip([Segment(f" {''.join(parts)}", style)])

    def _line(self, y: int) -> Strip:
        """Return screen line `y`, counted from the first row."""
        position = self.line_at(y)
        line, part, current = self._lines[position], y - self.top_of(position), position == self.cursor
        cursor = self.drawn_style("cursor") if current else None
        segments = [Segment(_CURSOR if current else " ", cursor or self.rich_style)]
        for index, size in self._widths.items():
            cell = line.row.cells[index]
            lead = self._lead(line) if not index and not part else ""
            text = "".join(self._parts(line, index)[part : part + 1])
            text = lead + fit(text, size - len(lead), right=self.columns[index].right)
            segments.append(Segment(text + GAP, cursor or self.drawn_style(role_of(cell))))
        return Strip(segments)

    def _lead(self, line: Line) -> str:
        """Return the indent before the first text, with the sign of a row that can be unfolded."""
        sign = ""
        if line.row.children:
            sign = _UNFOLDED if line.row.key in self._unfolded else _FOLDED
        return f"{sign:<{self._lines.indent(line)}}"

    def line_text(self, y: int) -> str:
        return (self._line(y - 1) if y else self._titles()).text

    def line_count(self) -> int:
        return self.HEADER + self._tops[-1]

    # ------------------------------------------------------------ keys and mouse
    def action_table_right(self) -> None:
        """Scroll to the right, which shows omitted columns again."""
        if not self._everything:
            self._everything = True
            self._lay_out()
        self.scroll_to(x=self.scroll_offset.x + _SCROLLED, animate=False, force=True)
        self.refresh()

    def action_table_left(self) -> None:
        """Scroll to the left; at the left end, fit the columns again."""
        if self.scroll_offset.x:
            self.scroll_to(x=self.scroll_offset.x - _SCROLLED, animate=False, force=True)
        elif self._everything:
            self._everything = False
            self._lay_out()
        self.refresh()

    def action_table_enter(self) -> None:
        row = self.selected
        if row is not None:
            self.post_message(self.RowEntered(self, row.key))

    def action_table_unfold(self) -> None:
        """Unfold or fold the row; on a child row, fold its parent."""
        if not len(self._lines):
            return
        parent = next(line for line in _upwards(self._lines, self.cursor) if not line.depth)
        if not parent.row.children:
            return
        self._unfolded ^= {parent.row.key}
        self._arrange()
        if parent.row.key not in self._unfolded:
            self.select(parent.row.key)

    def action_table_reverse(self) -> None:
        if self.order is not None:
            self.sort_by(self.order.column, descending=not self.order.descending)

    def action_sort(self, step: int) -> None:
        """Sort by the next or previous shown column; the given order comes after the last."""
        choices: list[int | None] = [None, *self._widths]
        now = None if self.order is None else self.order.column
        at = choices.index(now) if now in choices else 0
        self._sort_first(choices[(at + step) % len(choices)])

    def _sort_first(self, column: int | None) -> None:
        """Sort by a column in its natural direction: numbers descending, texts ascending."""
        self.sort_by(column, descending=column is not None and self.columns[column].right)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor, sort by the clicked title, or unfold by the sign; a double click chooses the row."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        x = self.scroll_offset.x + offset.x - len(_CURSOR)
        index = self.line_of_click(event)
        if offset.y == 0:
            self._click_title(x)
        elif index is not None:
            self.move_to(index)
            if self._lines[index].row.children and 0 <= x < INDENT:
                self.action_table_unfold()
            elif event.chain == 2:
                self.action_table_enter()

    def _click_title(self, x: int) -> None:
        begin = 0
        for index, size in self._widths.items():
            if begin <= x < begin + size + len(GAP):
                first = self.columns[index].right
                if self.order is None or self.order.column != index:
                    self._sort_first(index)
                elif self.order.descending is first:
                    self.sort_by(index, descending=not first)
                else:
                    self.sort_by(None)
                return
            begin += size + len(GAP)


@lru_cache(maxsize=4096)
def _wrapped(text: str, width: int) -> tuple[str, ...]:
    return tuple(part.plain for part in Content(printable(text)).wrap(max(width, 1)))


def _upwards(lines: Lines, index: int) -> Iterator[Line]:
    """Yield a line, then those above it."""
    return (lines[above] for above in range(index, -1, -1))
