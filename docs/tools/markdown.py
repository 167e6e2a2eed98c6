"""GitHub's Markdown: pages as HTML, their links and their anchors.

CommonMark with tables, parsed by the library that Textual depends on. Anchors are GitHub's: the heading in lower case,
without punctuation, blanks replaced by dashes; a second equal one gets ``-1``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin

FENCE = "fence"
INDENTED = "code_block"


def slug(title: str) -> str:
    """Return the anchor of the first heading with a text on a page."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def linked(text: str) -> str:
    """Return a text with paths of pages, such as ``docs/json.md#flags``, turned into links."""
    return re.sub(r"\bdocs/(([\w-]+\.md)(?:#[\w-]+)?)", r"[\2](\1)", text)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code.

    :ivar language: the word after the fence; empty for indented blocks
    :ivar line: its first line in the page, from 1
    """

    language: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `level` is 1 for the title of a page."""

    level: int
    title: str
    anchor: str


class Page:
    """A parsed page."""

    def __init__(self, text: str) -> None:
        self._reader = _reader()
        self._tokens = self._reader.parse(text)

    @property
    def title(self) -> str:
        """The text of the first heading; empty if there is none."""
        return next((heading.title for heading in self.headings()), "")

    def headings(self) -> Iterator[Heading]:
        """Yield the headings in order."""
        for token, inline in zip(self._tokens, self._tokens[1:], strict=False):
            if token.type == "heading_open":
                title = "".join(
                    each.content for each in inline.children or () if each.type in ("text", "code_inline")
                )
                yield Heading(int(token.tag[1:]), title, str(token.attrGet("id")))

    def links(self) -> Iterator[str]:
        """Yield the targets of links and the sources of pictures."""
        for token in self._inline():
            target = token.attrGet("href") if token.type == "link_open" else token.attrGet("src")
            if target is not None:
                yield str(target)

    def prose(self) -> Iterator[str]:
        """Yield the texts outside code and links."""
        inside = 0
        for token in self._inline():
            inside += token.nesting if token.type in ("link_open", "link_close") else 0
            if token.type == "text" and not inside:
                yield token.content

    def inline_code(self) -> Iterator[str]:
        """Yield the texts between backticks."""
        return (token.content for token in self._inline() if token.type == "code_inline")

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of code in order."""
        for token in self._tokens:
            if token.type in (FENCE, INDENTED):
                yield Block(token.info.strip(), token.content, (token.map or [0])[0] + 1)

    def html(self, moved: Callable[[str], str]) -> str:
        """Return the page as HTML.

        :param moved: maps links of the page to links in the HTML
        """
        for token in self._inline():
            for name in ("href", "src"):
                if (target := token.attrGet(name)) is not None:
                    token.attrSet(name, moved(str(target)))
        return str(self._reader.renderer.render(self._tokens, self._reader.options, {}))

    def _inline(self) -> Iterator[Token]:
        for token in self._tokens:
            yield from _all(token.children or ())


def _all(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    return reader.use(anchors_plugin, max_level=6, slug_func=slug)
