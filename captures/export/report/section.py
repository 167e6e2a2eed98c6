"""What the sections of a report have in common: a heading, pictures and tables, and under each the SQL that made it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from captures.export.markup import PARTS, Markup
from captures.export.report.database import Row, Statement, Tables
from captures.export.report.scales import Slices, TimeAxis
from captures.meaning import words
from captures.time_format import Clock, latency

COLOURS = 7
"""Series of a picture that have a colour of their own; the others are put together."""
_NAME = 60
"""Characters of a name that are shown."""
OTHER = "other"
"""What they are called, in statements and on the page."""


@dataclass(frozen=True, slots=True)
class Context:
    """What all sections are made from.

    :ivar slices: how time is cut; None where no table tells a time
    :ivar axis: how it is drawn
    :ivar clock: how times are shown
    """

    tables: Tables
    slices: Slices
    axis: TimeAxis
    clock: Clock


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    :ivar anchor: name of its place
    :ivar needs: tables without which it is left out
    :ivar body: makes what is in it
    """

    title: str
    anchor: str
    needs: Mapping[str, tuple[str, ...]]
    body: Callable[[Context], Sequence[Markup]]


def block(title: str, statement: Statement | Sequence[Statement], *inside: Markup, note: str = "") -> Markup:
    """Return a picture or table with its heading, and the statements that made it.

    :param note: how it is to be read
    """
    ran = [statement] if isinstance(statement, Statement) else statement
    return PARTS.figure(title, ";\n\n".join([each.sql for each in ran]), inside, note)


class Column(NamedTuple):
    """A column of a table.

    :ivar cell: returns what is in it for a row
    :ivar right: whether it is set flush right, as numbers are
    """

    title: str
    cell: Callable[[Row], str | Markup]
    right: bool = False


def count(name: str, title: str | None = None, *, zero: str = "0") -> Column:
    """Return a column of counts.

    :param zero: what stands for none
    """
    return Column(
        name if title is None else title,
        lambda row: f"{int(row[name]):,}" if row[name] else zero,
        right=True,
    )


def size(name: str, title: str, *, zero: str = "0 B") -> Column:
    """Return a column of bytes; ``zero`` stands for none."""
    return Column(title, lambda row: words.volume(int(row[name])) if row[name] else zero, right=True)


def duration(name: str, title: str) -> Column:
    """Return a column of latencies; empty where there is none."""
    return Column(title, lambda row: "" if row[name] is None else latency(float(row[name])), right=True)


def share(rows: Sequence[Row], name: str, colour: str = "c0") -> Column:
    """Return a column of bars, which compare a number with the largest one."""
    most = max((int(row[name] or 0) for row in rows), default=0)
    return Column("", lambda row: PARTS.share(int(row[name] or 0), most, colour))


def table(rows: Sequence[Row], columns: Sequence[Column]) -> Markup:
    """Return rows as a table."""
    lines = [[each.cell(row) for each in columns] for row in rows]
    return PARTS.table(
        [each.title for each in columns], lines, {at for at, each in enumerate(columns) if each.right}
    )


def called(text: str) -> str:
    """Return a name from the wire as it is shown."""
    return words.clipped(words.line(text), _NAME)


def coloured(rows: Iterable[Row], name: str, by: str) -> dict[str, str]:
    """Return the names in some rows with their colours: those with the most first, what is put together last."""
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[name]] = sums.get(row[name], 0) + int(row[by])
    order = sorted(sums, key=lambda each: (each == OTHER, -sums[each], each))
    return {each: "rest" if each == OTHER else f"c{at}" for at, each in enumerate(order)}


def evidence(row: Row, *, several: bool) -> str:
    """Return the numbers of the exchanges that show something: ``#3 #17``.

    :param several: whether there are several runs, which count exchanges again
    """
    numbers = " ".join(f"#{number}" for number in row["evidence"])
    return f"run {row['run']}: {numbers}" if several and numbers else numbers
