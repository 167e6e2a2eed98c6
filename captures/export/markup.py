"""HTML from templates, and SVG shape by shape: all text of a capture is printable and escaped.

Templates are in ``captures/export/templates``. Every value that one prints goes through :func:`printable_text` and
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
    """Return a value as it is printed: text on one line, marked where it cannot be printed."""
    return printable(value) if type(value) is str else value


def on_lines(texts: Iterable[str]) -> Markup:
    """Return texts as markup, each on a line of its own where lines are kept: in titles and in code."""
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
    """Return a page.

    :param template: name of the file
    """
    return _ENVIRONMENT.get_template(template).render(values)


def source(name: str) -> str:
    """Return the text of a file among the templates as it is."""
    return _ENVIRONMENT.loader.get_source(_ENVIRONMENT, name)[0]  # type: ignore[union-attr]


def tag(name: str, /, *inside: str, **attributes: str | float | None) -> Markup:
    """Return a shape of an SVG.

    :param inside: text, which is escaped, or markup
    :param attributes: without those that are None; ``_`` at the end of a name is left out, and within is ``-``
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>{together(*inside)}</{name}>")  # noqa: S704  # all of it is escaped


def together(*parts: str) -> Markup:
    """Return texts and markup one behind the other."""
    return Markup("").join(map(printable_text, parts))


def _attribute(value: str | float) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else printable_text(value)
