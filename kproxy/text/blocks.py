"""Blocks of a command's output: headings, paragraphs and facts; and all blocks as lines of text or of Markdown.

Tables are in :mod:`kproxy.text.tables`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from dissectors.printable import printable
from kproxy.output import style, unstyled
from kproxy.text.cells import width as width_of

INDENT = "  "
GAP = "  "
LEAST = 20
"""Minimum width of text in columns, however narrow the terminal is."""
_LEAST_BESIDE = 40
"""Minimum width of text beside a wide label."""
WIDE = 100
"""Columns of prose if the width of the terminal is unknown."""


class Line(str):
    """A line of text with the exchange that it is about, so that the UI can link to it.

    :ivar number: number of the first exchange that it names, None if it names none
    """

    __slots__ = ("number",)
    number: int | None

    def __new__(cls, text: str, number: int | None = None) -> Self:
        made = super().__new__(cls, text)
        made.number = number
        return made


def wrapped(
    text: str, width: int | None, indent: str = "", *, first: str | None = None, cuts_words: bool = False
) -> list[str]:
    """Return a text wrapped into lines.

    :param width: columns; None for one line of any length
    :param indent: before each line
    :param first: before the first line, if different
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


class Block(Protocol):
    """A part of a command's output."""

    def lines(self, width: int | None) -> Iterator[str]:
        """Yield it as text.

        :param width: available columns; None if lines may have any length
        """

    def markdown(self) -> Iterator[str]:
        """Yield it as lines of Markdown, without empty lines around it."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of the blocks after it.

    :ivar parts: texts side by side; those without room continue below the first
    :ivar level: heading level in Markdown
    :ivar indent: columns before the first line, and before continuation lines
    """

    parts: Sequence[str]
    level: int = 2
    indent: tuple[int, int] = (0, 4)
    number: int | None = None

    def lines(self, width: int | None) -> Iterator[str]:
        line, begin = "", " " * self.indent[0]
        for part in filter(None, self.parts):
            together = f"{line}{GAP}{part}" if line else f"{begin}{part}"
            if line and width is not None and width_of(unstyled(together)) > width:
                yield Line(line, self.number)
                together = f"{' ' * self.indent[1]}{part}"
            line = together
        yield Line(line, self.number)

    def markdown(self) -> Iterator[str]:
        yield f"{'#' * self.level} {', '.join(map(inline, filter(None, self.parts)))}"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text.

    :ivar level: heading level in Markdown, 0 for none
    :ivar indent: columns before its first line, and before the others
    :ivar whole: whether it stays on one line
    """

    text: str
    level: int = 0
    indent: tuple[int, int] = (0, 0)
    color: str | None = None
    bold: bool = False
    dim: bool = False
    whole: bool = False
    number: int | None = None

    def lines(self, width: int | None) -> Iterator[str]:
        first, rest = (" " * each for each in self.indent)
        room = None if self.whole else width
        for line in wrapped(printable(self.text), room, rest, first=first):
            yield Line(style(line, fg=self.color, bold=self.bold, dim=self.dim), self.number)

    def markdown(self) -> Iterator[str]:
        yield f"{'#' * self.level} {inline(self.text)}" if self.level else escaped(self.text)


@dataclass(frozen=True, slots=True)
class Fact:
    """A text after a label or a time.

    :ivar indent: columns before the label
    :ivar room: columns of the label and the gap after it
    :ivar code: whether it is for copying, and stays on one line
    :ivar color: colour of the text
    :ivar dim: whether the label is dim
    """

    label: str
    text: str
    indent: int = 4
    room: int = 12
    color: str | None = None
    code: bool = False
    number: int | None = None
    dim: bool = True

    def lines(self, width: int | None) -> Iterator[str]:
        begin = f"{' ' * self.indent}{self.label}"
        begin += " " * (self.indent + self.room - width_of(begin))
        rest = " " * width_of(begin)
        least = max(LEAST, min(len(rest), _LEAST_BESIDE))
        room = None if width is None or self.code else max(width - len(rest), least)
        for index, part in enumerate(wrapped(printable(self.text), room)):
            lead = rest if index else style(begin, dim=self.dim)
            yield Line(f"{lead}{style(part, fg=self.color)}".rstrip(), self.number)

    def markdown(self) -> Iterator[str]:
        text = code(self.text) if self.code else inline(self.text)
        label = " ".join(self.label.split())
        yield f"- {inline(label)}: {text}" if label else f"- {text}"


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that stay unchanged, such as those of a file."""

    content: Sequence[str]

    def lines(self, width: int | None) -> Iterator[str]:
        yield from self.content

    def markdown(self) -> Iterator[str]:
        fence = "`" * max(3, 1 + max(map(_longest_fence, self.content), default=0))
        yield from (fence, *map(printable, self.content), fence)


BLANK = Paragraph("")
"""An empty line."""


# ---------------------------------------------------------------- Markdown
def inline(text: str) -> str:
    """Return text that Markdown shows literally within a line: names in it come from the wire."""
    return _SPECIAL.sub(r"\\\g<0>", printable(text).strip())


def escaped(text: str) -> str:
    """Return text that Markdown shows literally as a line, even if it starts like a list item."""
    return _LIST.sub(r"\1\\\2", inline(text))


def code(text: str) -> str:
    """Return text as code; text with backticks gets a longer fence (CommonMark, 6.1)."""
    plain, longest = printable(text), _longest_fence(text)
    fence = "`" * (longest + 1)
    return f"{fence} {plain} {fence}" if longest else f"{fence}{plain}{fence}"


def _longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


_SPECIAL = re.compile(r"[\\`*\[\]<>|~&#$]|(?<!\w)_|_(?!\w)")
"""Markup of CommonMark and GitHub's dialect."""
_LIST = re.compile(r"\A(\d*)((?<=\d)[.)]|(?<!\d)[+-])(?=\s|\Z)")


_WIDEST = 110  # columns; longer lines are hard to read
_NARROWEST = 40


def text_lines(blocks: Iterable[Block], width: int | None, *, prose: bool = False) -> Iterator[str]:
    """Yield blocks as lines of text.

    :param width: columns of the terminal; None for a pipe
    :param prose: whether to keep lines short enough for reading, also in a pipe
    """
    if prose:
        width = WIDE if width is None else max(min(width, _WIDEST), _NARROWEST)
    for each in blocks:
        yield from each.lines(width)


def spaced(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks separated by empty lines."""
    for index, each in enumerate(blocks):
        if index:
            yield BLANK
        yield each


def markdown_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield blocks as lines of Markdown (CommonMark with GitHub's tables); consecutive facts form one list."""
    before: Block | None = None
    for each in blocks:
        if each is BLANK:
            continue
        if before is not None and not (isinstance(before, Fact) and isinstance(each, Fact)):
            yield ""
        yield from each.markdown()
        before = each
