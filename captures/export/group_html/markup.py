"""HTML and SVG put together so that no text of a capture can become markup."""

from __future__ import annotations

from html import escape

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
    return Markup(
        escape("".join([each if each.isprintable() or each == "\n" else "\ufffd" for each in text]))
    )


def _attribute(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escaped(str(value))
