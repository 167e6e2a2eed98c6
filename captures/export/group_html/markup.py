"""HTML and SVG put together so that no text of a capture can become markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from dissectors.printable import printable

_VOID = frozenset({"meta", "br"})


class Markup(str):
    """Text that is markup already; all other text is escaped."""

    __slots__ = ()


def tag(name: str, /, *inside: str | Markup, **attributes: str | float | None) -> Markup:
    """Return an element.

    :param inside: text, which is escaped, or markup
    :param attributes: without those that are None; ``_`` at the end of a name is left out, and within is ``-``
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{said}>")
    return Markup(f"<{name}{said}>{together(*inside)}</{name}>")


def together(*parts: str | Markup) -> Markup:
    """Return texts and markup one behind the other."""
    return Markup("".join(part if isinstance(part, Markup) else escaped(part) for part in parts))


def escaped(text: str) -> Markup:
    """Return text as markup that says it; what cannot be printed, or turns the direction of writing, is marked."""
    return Markup(escape("\n".join(map(printable, text.split("\n")))))


def table(
    head: Sequence[str], rows: Iterable[Sequence[str | Markup]], right: set[int] | None = None
) -> Markup:
    """Return a table; columns that are empty all the way down are left out.

    :param right: columns that are set flush right, as numbers are
    """
    every = list(rows)
    kept = [at for at in range(len(head)) if any(row[at] for row in every)]
    side = {at: "right" if right and at in right else None for at in kept}
    first = tag("tr", *[tag("th", head[at], class_=side[at]) for at in kept])
    lines = [tag("tr", *[tag("td", row[at], class_=side[at]) for at in kept]) for row in every]
    return tag("div", tag("table", tag("thead", first), tag("tbody", *lines)), class_="wide")


def document(title: str, body: Markup, style: str, *, more: Sequence[Markup] = ()) -> str:
    """Return a page that stands by itself.

    :param more: what else its head has
    """
    head = together(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        *more,
        tag("title", title),
        tag("style", Markup(style)),
    )
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _attribute(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escaped(str(value))
