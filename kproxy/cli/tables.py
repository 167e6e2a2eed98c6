"""Tables in text: aligned columns that fit the terminal.

On a terminal, texts are cut where there is no room, then the least important columns are left out, and what would be
empty all the way down is not shown. In a pipe nothing is cut but what is endless. Cells hold names from the wire, so
they are made printable before they are measured.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kproxy.cli.printing import style

GAP = "  "
INDENT = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    :ivar title: what it is called
    :ivar right: aligned to the right, as numbers are
    :ivar least: characters that it can be cut to; 0 if it cannot be cut
    :ivar rank: the columns with the highest rank are left out first where there is no room; 0 never
    """

    title: str
    right: bool = False
    least: int = 0
    rank: int = 0


@dataclass(slots=True)
class Row:
    """One line, and lines below it that belong to it.

    :ivar more: further lines in the same columns
    :ivar below: text below them, across the columns
    :ivar color: colour of the first line, or None
    """

    cells: list[str]
    more: list[list[str]] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    color: str | None = None

    def printable(self) -> Row:
        """Return the row with its cells as they are printed."""
        from captures.meaning import words

        cells, *more = ([words.line(cell) for cell in cells] for cells in (self.cells, *self.more))
        return Row(cells, more, self.below, self.color)


@dataclass(slots=True)
class Table:
    """A title, columns, and rows.

    :ivar about: what the columns count, beside the title
    """

    title: str
    columns: list[Column]
    rows: list[Row]
    about: str = ""

    def lines(self, width: int | None, limit: int | None, *, color: bool) -> Iterator[str]:
        """Yield the table line by line.

        :param width: columns of the terminal, or None for a pipe
        :param limit: rows shown at most, or None for all
        """
        from captures.meaning import words

        title = style(self.title, bold=True) if color else self.title
        about = _cut(words.line(self.about), None if width is None else width - len(self.title) - len(GAP))
        yield f"{title}{GAP}{style(about, dim=True) if color else about}" if about else title
        shown = [row.printable() for row in self.rows[:limit]]
        kept, widths = self._fit(shown, None if width is None else width - len(INDENT))
        head = self._line([column.title for column in self.columns], kept, widths)
        yield style(head, dim=True) if color else head
        for row in shown:
            line = self._line(row.cells, kept, widths)
            yield style(line, fg=row.color) if color and row.color else line
            for cells in row.more:
                yield self._line(cells, kept, widths)
            for text in row.below:
                for part in _wrapped(text, width):
                    yield style(part, dim=True) if color else part
        if len(self.rows) > len(shown):
            yield f"{INDENT}… {len(self.rows) - len(shown):,} more, --all shows them"

    def _line(self, cells: list[str], kept: list[int], widths: dict[int, int]) -> str:
        out = []
        for index in kept:
            text, room = _cut(cells[index], widths[index]), widths[index]
            out.append(f"{text:>{room}}" if self.columns[index].right else f"{text:<{room}}")
        return f"{INDENT}{GAP.join(out)}".rstrip()

    def _fit(self, rows: list[Row], room: int | None) -> tuple[list[int], dict[int, int]]:
        """Choose the columns that are shown, and their widths."""
        longest = [
            max((len(cells[index]) for row in rows for cells in (row.cells, *row.more)), default=0)
            for index in range(len(self.columns))
        ]
        widths = fitted(self.columns, longest, room)
        return list(widths), widths


def fitted(columns: Sequence[Column], longest: Sequence[int], room: int | None) -> dict[int, int]:
    """Choose the columns that are shown: index -> width, in order.

    What does not fit is cut where columns can be cut, and left out by rank. It may be too wide all the same.

    :param longest: characters of the longest cell of each column; an empty column is left out, but for the first
    :param room: characters there are for all of them and the gaps between; None if there is no end to them
    """
    widths = {
        index: max(size, len(columns[index].title)) for index, size in enumerate(longest) if size or not index
    }
    while room is not None:
        over = sum(widths.values()) + len(GAP) * (len(widths) - 1) - room
        if over <= 0:
            break
        slack = {
            index: size - least
            for index, size in widths.items()
            if 0 < (least := columns[index].least) < size
        }
        droppable = [index for index in widths if columns[index].rank]
        if sum(slack.values()) >= over or (slack and not droppable):
            _shrink(widths, slack, over)
            break
        if not droppable:
            break
        del widths[max(droppable, key=lambda index: columns[index].rank)]
    return widths


def _shrink(widths: dict[int, int], slack: dict[int, int], over: int) -> None:
    """Take characters from the widest of the columns that have some to spare."""
    for _ in range(min(over, sum(slack.values()))):
        index = max((index for index in slack if slack[index]), key=lambda index: widths[index])
        widths[index] -= 1
        slack[index] -= 1


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [f"{INDENT * 2}{text}"]
    return textwrap.wrap(
        text, max(width, 20), initial_indent=INDENT * 2, subsequent_indent=INDENT * 2, break_on_hyphens=False
    )


def _cut(text: str, width: int | None) -> str:
    if width is None or len(text) <= width:
        return text
    return f"{text[: max(width - 1, 0)]}…"
