"""Blocks as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kproxy.text.blocks import BLANK, WIDE, Block, Fact

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
