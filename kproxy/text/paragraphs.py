"""Paragraphs that fit the terminal, with a label before them where they have one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from dissectors.printable import printable
from kproxy.printing import style

INDENT = "  "
LEAST = 20
"""Columns of text that are left however narrow the terminal is."""
WIDE = 100
"""Columns of a paragraph where nothing says how wide the terminal is."""
_LABEL = 10
_WIDEST = 110  # columns; longer lines are hard to read
_NARROWEST = 40


def wrapped(
    text: str, width: int | None, indent: str = "", *, first: str | None = None, cuts_words: bool = False
) -> list[str]:
    """Return a text in lines of some columns.

    :param width: None for one line, however long
    :param indent: before each line
    :param first: before the first line, if not the same
    :param cuts_words: whether to cut words that are too long, instead of leaving topics and commands whole
    """
    first = indent if first is None else first
    if width is None:
        return [f"{first}{text}"]
    return textwrap.wrap(
        text,
        max(width, len(indent) + LEAST),
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=cuts_words,
    ) or [first]


class Paragraphs:
    """Puts sentences into paragraphs that are easy to read.

    :param width: columns of the terminal; None for a pipe
    """

    def __init__(self, width: int | None, *, color: bool) -> None:
        self._width = WIDE if width is None else max(min(width, _WIDEST), _NARROWEST)
        self._color = color

    def wrapped(self, text: str, indent: str) -> list[str]:
        """Return a text in lines."""
        return wrapped(printable(text), self._width, indent)

    def labelled(self, label: str, text: str) -> Iterator[str]:
        """Yield a text in lines, the first behind a label."""
        first, *more = self.wrapped(text, f"{INDENT * 2}{' ' * _LABEL}")
        yield self.whole(label, first.strip())
        yield from more

    def whole(self, label: str, text: str) -> str:
        """Return a text behind a label on one line, so that it can be copied."""
        return f"{INDENT * 2}{self.styled(label.ljust(_LABEL), dim=True)}{text}"

    def styled(self, text: str, **how: object) -> str:
        """Return a text in a style, if there are colours."""
        return style(text, **how) if self._color else text  # type: ignore[arg-type]
