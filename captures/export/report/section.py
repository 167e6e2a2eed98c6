"""Common parts of a report's sections: headings, pictures and tables, each with the SQL behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from captures.export.markup import PARTS, Markup
from captures.export.report.database import Row, Statement, Tables
from captures.export.report.scales import Slices, TimeAxis
from captures.meaning import words
from captures.time_format import Clock, latency

COLOURS = 7
"""Series of a picture with a colour of their own; the others are merged."""
_NAME = 60
"""Characters of the longest name that is shown in full."""
OTHER = "other"
"""Name of the merged series, in statements and on the page."""


class Context(msgspec.Struct, frozen=True):
    """The data that all sections use.

    :ivar slices: how time is cut
    :ivar axis: how time is drawn
    :ivar clock: how times are shown
    """

    tables: Tables
    slices: Slices
    axis: TimeAxis
    clock: Clock


class Section(msgspec.Struct, frozen=True):
    """A part of the page.

    :ivar anchor: name of its anchor
    :ivar statements: it is left out if tables or columns that they need are missing; their widths do not matter
    :ivar body: returns its content
    """

    title: str
    anchor: str
    statements: tuple[Statement, ...]
    body: Callable[[Context], Sequence[Markup]]


def block(title: str, statement: Statement | Sequence[Statement], *inside: Markup, note: str = "") -> Markup:
    """Return a picture or table with its heading and the statements behind it.

    :param note: how to read it
    """
    ran = [statement] if isinstance(statement, Statement) else statement
    return PARTS.figure(title, ";\n\n".join([each.sql for each in ran]), inside, note)


class Column(NamedTuple):
    """A column of a table.

    :ivar cell: returns the content for a row
    :ivar right: whether it is aligned right, as numbers are
    """

    title: str
    cell: Callable[[Row], str | Markup]
    right: bool = False


def count(name: str, title: str | None = None, *, zero: str = "0") -> Column:
    """Return a column of counts.

    :param zero: text for zero
    """
    return Column(
        name if title is None else title,
        lambda row: f"{int(row[name]):,}" if row[name] else zero,
        right=True,
    )


def size(name: str, title: str, *, zero: str = "0 B") -> Column:
    """Return a column of bytes, with the text `zero` for none."""
    return Column(title, lambda row: words.volume(int(row[name])) if row[name] else zero, right=True)


def duration(name: str, title: str) -> Column:
    """Return a column of latencies; empty for null."""
    return Column(title, lambda row: "" if row[name] is None else latency(float(row[name])), right=True)


def share(rows: Sequence[Row], name: str, colour: str = "c0") -> Column:
    """Return a column of bars that compare each number with the largest."""
    most = max((int(row[name] or 0) for row in rows), default=0)
    return Column("", lambda row: PARTS.share(int(row[name] or 0), most, colour))


def table(rows: Sequence[Row], columns: Sequence[Column]) -> Markup:
    """Return rows as a table."""
    lines = [[each.cell(row) for each in columns] for row in rows]
    return PARTS.table(
        [each.title for each in columns], lines, {at for at, each in enumerate(columns) if each.right}
    )


def called(text: str) -> str:
    """Return a name from the wire, made printable and shortened."""
    return words.clipped(words.line(text), _NAME)


def coloured(rows: Iterable[Row], name: str, by: str) -> dict[str, str]:
    """Return the names in `rows` with their colours: the largest sums first, ``OTHER`` last."""
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[name]] = sums.get(row[name], 0) + int(row[by])
    order = sorted(sums, key=lambda each: (each == OTHER, -sums[each], each))
    return {each: "rest" if each == OTHER else f"c{at}" for at, each in enumerate(order)}


def evidence(row: Row, *, several: bool) -> str:
    """Return the numbers of the exchanges that are evidence: ``#3 #17``.

    :param several: whether there are several runs, each of which counts exchanges from 1
    """
    numbers = " ".join(f"#{number}" for number in row["evidence"])
    return f"run {row['run']}: {numbers}" if several and numbers else numbers
