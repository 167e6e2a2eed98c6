"""HTML from templates, and SVG shape by shape: all text from a capture is made printable and escaped.

Templates are in ``captures/export/templates``. Every value printed by a template passes :func:`printable_text` and
Jinja's escaping, unless it is :class:`~markupsafe.Markup` already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dissectors.printable import printable

__all__ = ["PARTS", "Markup", "on_lines", "page", "printable_text", "source", "tag", "together"]


def printable_text(value: Any) -> Any:
    """Return a value as templates print it: text on one line, with unprintable characters marked."""
    return printable(value) if type(value) is str else value


def on_lines(texts: Iterable[str]) -> Markup:
    """Return texts as markup, one per line, for places that keep line breaks: titles and code."""
    return Markup("\n").join(map(printable_text, texts))


_ENVIRONMENT = Environment(
    loader=PackageLoader("captures.export"),
    autoescape=True,
    finalize=printable_text,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["lines"] = on_lines


class _Parts:
    """The macros of ``parts.html``; each returns markup."""

    def __init__(self) -> None:
        self._macros = _ENVIRONMENT.get_template("parts.html").module

    def __getattr__(self, name: str) -> Callable[..., Markup]:
        found: Callable[..., Markup] = getattr(self._macros, name)
        return found


PARTS = _Parts()


def page(template: str, **values: Any) -> str:
    """Return a page rendered from a template.

    :param template: file name of the template
    """
    return _ENVIRONMENT.get_template(template).render(values)


def source(name: str) -> str:
    """Return the unchanged text of a file in the templates folder."""
    return _ENVIRONMENT.loader.get_source(_ENVIRONMENT, name)[0]  # type: ignore[union-attr]


def tag(name: str, /, *inside: str, **attributes: str | float | None) -> Markup:
    """Return an SVG element.

    :param inside: text, which is escaped, or markup
    :param attributes: None omits one; in names a trailing ``_`` is dropped, and other ``_`` become ``-``
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{shown}>{together(*inside)}</{name}>")  # noqa: S704  # all of it is escaped


def together(*parts: str) -> Markup:
    """Return texts and markup, concatenated."""
    return Markup("").join(map(printable_text, parts))


def _attribute(value: str | float) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else printable_text(value)
