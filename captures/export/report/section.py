"""What the sections of a report have in common: a heading, pictures and tables, and under each the SQL that made it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from captures.export.group_html.markup import Markup, on_lines, tag, together
from captures.export.report.database import Row, Statement, Tables
from captures.export.report.scales import Slices, TimeAxis
from captures.moments import Clock

COLOURS = 7
"""Series of a picture that have a colour of their own; the others are put together."""
OTHER = "other"
"""What they are called, in statements and on the page."""


@dataclass(frozen=True, slots=True)
class Context:
    """What all sections are made from.

    :ivar slices: how time is cut; None where no table tells a time
    :ivar axis: how it is drawn
    :ivar clock: how moments are told
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
    return tag(
        "figure",
        tag("h3", title),
        *([tag("p", note, class_="dim")] if note else []),
        *inside,
        shown_sql(";\n\n".join([each.sql for each in ran])),
    )


def shown_sql(text: str, name: str = "SQL") -> Markup:
    """Return a statement folded away, with a button that copies it."""
    button = tag("button", "Copy", type="button", class_="copy", hidden="")
    return tag(
        "details",
        tag("summary", name),
        button,
        tag("pre", tag("code", on_lines(text.split("\n")))),
        class_="sql",
    )


def nothing(text: str) -> Markup:
    """Return a sentence that says that there is nothing to show."""
    return tag("p", text, class_="dim")


def not_shown(rows: Sequence[Row], what: str = "more are not shown.") -> list[Markup]:
    """Return a sentence that says how many rows there are beyond those that a statement returned, if there are.

    :param rows: with ``of_all``, how many there are
    """
    more = rows[0]["of_all"] - len(rows) if rows else 0
    return [nothing(f"{more:,} {what}")] if more > 0 else []


def legend(keys: Iterable[tuple[str, str]]) -> Markup:
    """Return what colours mean.

    :param keys: class of a colour, and what it stands for
    """
    items = [
        tag("span", tag("span", class_=f"swatch {colour}"), " ", name, class_="key") for colour, name in keys
    ]
    return tag("p", *items, class_="legend")


def coloured(rows: Iterable[Row], name: str, by: str) -> dict[str, str]:
    """Return the names in some rows with their colours: those with the most first, what is put together last."""
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[name]] = sums.get(row[name], 0) + int(row[by])
    order = sorted(sums, key=lambda each: (each == OTHER, -sums[each], each))
    return {each: "rest" if each == OTHER else f"c{at}" for at, each in enumerate(order)}


def share(value: float, most: float, colour: str = "c0") -> Markup:
    """Return a bar that shows how a number compares with the largest of its column."""
    percent = 100 * value / most if most else 0.0
    return tag("span", tag("span", class_=f"fill {colour}", style=f"width:{percent:.1f}%"), class_="bar")


def evidence(row: Row, *, several: bool) -> str:
    """Return the numbers of the exchanges that show something: ``#3 #17``.

    :param several: whether there are several runs, which count exchanges anew
    """
    numbers = " ".join(f"#{number}" for number in row["evidence"])
    return f"run {row['run']}: {numbers}" if several and numbers else numbers


def joined(*parts: str | Markup) -> Markup:
    """Return lines of a cell one below the other."""
    out: list[str | Markup] = []
    for part in parts:
        if part:
            out += [tag("br"), part] if out else [part]
    return together(*out)
