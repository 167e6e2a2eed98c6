"""Text tables: aligned columns that fit the terminal.

On a terminal, texts are cut if there is no room, then the least important columns are left out, and empty columns are
not shown. In a pipe nothing is cut except endless text. Cells contain names from the wire, so they are made printable
before they are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from kproxy.output import style
from kproxy.text.blocks import GAP, INDENT, Line, escaped, inline, wrapped
from kproxy.text.cells import cut, fit
from kproxy.text.cells import width as width_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    :ivar title: its heading
    :ivar right: whether it is aligned right, as numbers are
    :ivar least: characters that it can be cut to; 0 if it cannot be cut
    :ivar rank: the columns with the highest rank are left out first if there is no room; 0 never
    :ivar wraps: whether the UI wraps its texts instead of cutting them
    """

    title: str
    right: bool = False
    least: int = 0
    rank: int = 0
    wraps: bool = False


@dataclass(slots=True)
class Row:
    """One line, and the lines below it that belong to it.

    :ivar more: further lines in the same columns
    :ivar below: text below them, across the columns
    :ivar color: colour of the first line, or None
    :ivar number: number of the exchange that it is about, None if it is about none
    """

    cells: list[str]
    more: list[list[str]] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    color: str | None = None
    number: int | None = None

    def printable(self) -> Row:
        from captures.meaning import words

        cells, *more = ([words.line(cell) for cell in cells] for cells in (self.cells, *self.more))
        return Row(cells, more, self.below, self.color, self.number)


class _Rows(Sequence[Row]):
    """Rows that are made when they are shown: a capture may have ten thousand, of which ten are.

    :param make: makes the row of an item
    """

    def __init__(self, items: Sequence[Any], make: Callable[[Any], Row]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self._make(each) for each in self._items[index]]
        return self._make(self._items[index])


@dataclass(slots=True)
class Table:
    """A title, columns, and rows.

    :ivar about: explanation beside the title
    :ivar most: most rows shown, the others are counted; None for all
    """

    title: str
    columns: list[Column]
    rows: Sequence[Row]
    about: str = ""
    most: int | None = None

    @classmethod
    def of(
        cls,
        title: str,
        items: Iterable[T],
        columns: Sequence[tuple[Column, Callable[[T], str]]],
        *,
        about: str = "",
        most: int | None = None,
        color: Callable[[T], str | None] = lambda _: None,
        more: Callable[[T], list[list[str]]] = lambda _: [],
        below: Callable[[T], list[str]] = lambda _: [],
        number: Callable[[T], int | None] = lambda _: None,
    ) -> Table:
        """Return a table with a row for each item.

        :param columns: columns, each with the function that returns its cells
        :param color: returns the colour of a row, as in :class:`Row`; likewise the others
        """

        def row(item: T) -> Row:
            return Row(
                [cell(item) for _, cell in columns], more(item), below(item), color(item), number(item)
            )

        return cls(title, [column for column, _ in columns], _Rows([*items], row), about, most)

    def lines(self, width: int | None) -> Iterator[str]:
        """Yield the table line by line.

        :param width: columns of the terminal, or None for a pipe
        """
        from captures.meaning import words

        about = words.line(self.about)
        if width is not None:
            about = cut(about, width - width_of(self.title) - len(GAP))
        title = style(self.title, bold=True)
        yield f"{title}{GAP}{style(about, dim=True)}" if about else title
        shown = self.rows[: self.most]
        kept, widths = self._fit(shown, None if width is None else width - len(INDENT))
        yield style(self._line([column.title for column in self.columns], kept, widths), dim=True)
        for row in map(Row.printable, shown):
            yield Line(style(self._line(row.cells, kept, widths), fg=row.color), row.number)
            for cells in row.more:
                yield self._line(cells, kept, widths)
            for text in row.below:
                for part in wrapped(text, width, INDENT * 2, cuts_words=True):
                    yield style(part, dim=True)
        if len(self.rows) > len(shown):
            yield f"{INDENT}… {len(self.rows) - len(shown):,} more, --all shows them"

    def markdown(self) -> Iterator[str]:
        """Yield the table as lines of Markdown: a heading, the table in GitHub's form, and the texts below rows."""
        yield from (f"### {inline(self.title)}", "")
        if self.about:
            yield from (escaped(self.about), "")
        shown = self.rows[: self.most]
        kept = [
            index
            for index in range(len(self.columns))
            if not index or any(cells[index] for row in shown for cells in (row.cells, *row.more))
        ]
        yield _table_row(self.columns[index].title for index in kept)
        yield _table_row(("---:" if self.columns[index].right else "---" for index in kept), plain=True)
        for row in shown:
            for cells in (row.cells, *row.more):
                yield _table_row(cells[index] for index in kept)
        below = [f"- {inline(row.cells[0])}: {inline(text)}" for row in shown for text in row.below]
        yield from ("", *below) if below else ()
        if len(self.rows) > len(shown):
            yield from ("", f"… {len(self.rows) - len(shown):,} more, --all shows them")

    def _line(self, cells: list[str], kept: list[int], widths: dict[int, int]) -> str:
        out = [fit(cells[index], widths[index], right=self.columns[index].right) for index in kept]
        return f"{INDENT}{GAP.join(out)}".rstrip()

    def _fit(self, rows: Sequence[Row], room: int | None) -> tuple[list[int], dict[int, int]]:
        """Choose the columns to show, and their widths."""
        longest = [0] * len(self.columns)
        for row in map(Row.printable, rows):
            for cells in (row.cells, *row.more):
                longest = list(map(max, longest, map(width_of, cells)))
        widths = fitted(self.columns, longest, room)
        return list(widths), widths


def _table_row(cells: Iterable[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(cells if plain else map(inline, cells))} |"


def fitted(columns: Sequence[Column], longest: Sequence[int], room: int | None) -> dict[int, int]:
    """Choose the columns to show: index -> width, in order.

    If there is no room, columns are cut where possible, and left out by rank. The result may still be too wide.

    :param longest: width of the longest cell of each column; an empty column is left out, except the first
    :param room: width available for all of them and the gaps between; None for no limit
    """
    widths = {
        index: max(size, width_of(columns[index].title))
        for index, size in enumerate(longest)
        if size or not index
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
    """Take characters from the widest of the columns that can be cut."""
    for _ in range(min(over, sum(slack.values()))):
        index = max((index for index in slack if slack[index]), key=lambda index: widths[index])
        widths[index] -= 1
        slack[index] -= 1
