"""Rows of a table: texts, sort keys and folds.

Independent of widgets and terminals: rows are made where the data is, such as in the engine thread of a session. Texts
are as on the wire; drawing escapes them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum
from typing import NamedTuple

from captures.meaning import words
from captures.time_format import clock
from dissectors.printable import printable
from kproxy.text.cells import width

MOST_WIDTH = 120
"""Most cells of a column, however long its texts are."""
INDENT = 2
"""Cells per level of rows."""


class Role(StrEnum):
    """The role of a text, which determines its colour. Words or signs have to express it too."""

    PLAIN = "plain"
    STRONG = "strong"
    MUTED = "muted"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"


class Cell(NamedTuple):
    """A cell with a role, a sort key or a reference.

    :ivar value: sort key, if not the text
    :ivar incident: ID of the incident that a mention of it in the text leads to; empty for none
    """

    text: str
    role: Role = Role.PLAIN
    value: float | None = None
    incident: str = ""


AnyCell = str | Cell


def counted(count: int, role: Role = Role.PLAIN) -> Cell:
    """Return a cell with a number, empty for 0."""
    return Cell(f"{count:,}", role, count) if count else Cell("", role, 0)


def numbered(number: int | None) -> AnyCell:
    """Return a cell with the number of an exchange, empty for None."""
    return "" if number is None else Cell(f"#{number}", value=number)


def moment(time: int, zone: tzinfo | None) -> Cell:
    """Return a cell with a time of day."""
    return Cell(clock(time, zone), value=time)


def sized(count: int, role: Role = Role.PLAIN) -> Cell:
    """Return a cell with a number of bytes, empty for 0."""
    return Cell(words.size(count), role, count) if count else Cell("", role, 0)


@dataclass(frozen=True, slots=True)
class Row:
    """A row.

    :ivar key: identifies it among all rows of its table, including children, also when rows are rebuilt
    :ivar cells: one per column
    :ivar children: rows shown below it once it is unfolded
    :ivar leads_to: target of choosing it: a filter for exchanges, or the number of one
    :ivar widths: cells of the text of each cell; measured where the row is made, not where it is drawn
    """

    key: Hashable
    cells: tuple[AnyCell, ...]
    children: tuple[Row, ...] = ()
    leads_to: str | int | None = None
    widths: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(map(_width, self.cells)))

    def text(self) -> str:
        """Return all its texts, for searching."""
        return "  ".join(map(text_of, self.cells))


class Order(NamedTuple):
    """A sort order of rows.

    :ivar column: index of the column
    """

    column: int
    descending: bool = False


class Line(NamedTuple):
    """A row with its nesting.

    :ivar depth: 0, or 1 for a child
    """

    row: Row
    depth: int


class Lines:
    """The lines of a table: its rows in order, with the children of unfolded ones.

    :param order: None keeps the given order; rows with an empty cell in the column come last
    :param unfolded: keys of unfolded rows
    """

    def __init__(self, rows: Sequence[Row], order: Order | None, unfolded: AbstractSet[Hashable]) -> None:
        self._lines: list[Line] = []
        self.foldable = any(row.children for row in rows)
        for row in _sorted(rows, order):
            self._lines.append(Line(row, 0))
            if row.children and row.key in unfolded:
                self._lines += [Line(child, 1) for child in _sorted(row.children, order)]
        self._places = {line.row.key: index for index, line in enumerate(self._lines)}

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Line:
        return self._lines[index]

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines)

    def index_of(self, key: Hashable) -> int | None:
        """Return the line of a row, None if it has none."""
        return self._places.get(key)

    def longest(self, columns: int) -> list[int]:
        """Return the width of the widest text of each column, in cells."""
        if not self._lines:
            return [0] * columns
        found = [max(each) for each in zip(*(line.row.widths for line in self._lines), strict=True)]
        if self.foldable:
            found[0] = max(line.row.widths[0] + self.indent(line) for line in self._lines)
        return found

    def indent(self, line: Line) -> int:
        """Return the number of cells before the first text of a line, which contain the sign for unfolding."""
        return INDENT * (1 + line.depth) if self.foldable else 0


def text_of(cell: AnyCell) -> str:
    """Return the text of a cell."""
    return cell if isinstance(cell, str) else cell.text


def role_of(cell: AnyCell) -> Role:
    """Return the role of a cell."""
    return Role.PLAIN if isinstance(cell, str) else cell.role


def _width(cell: AnyCell) -> int:
    text = cell if isinstance(cell, str) else cell.text
    size = len(text) if text.isascii() else width(printable(text[:MOST_WIDTH]))
    return min(size, MOST_WIDTH)


def _sorted(rows: Sequence[Row], order: Order | None) -> Sequence[Row]:
    if order is None:
        return rows
    column = order.column
    filled = [row for row in rows if text_of(row.cells[column])]
    empty = [row for row in rows if not text_of(row.cells[column])]
    filled.sort(key=lambda row: _key(row.cells[column]), reverse=order.descending)
    return filled + empty


def _key(cell: AnyCell) -> tuple[float, str]:
    """Return the sort key of a cell: numbers before texts, texts case-insensitively."""
    if isinstance(cell, Cell) and cell.value is not None:
        return cell.value, ""
    return float("inf"), text_of(cell).casefold()
