"""The list of completions for a line that is being typed, placed so that it never covers the line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Offset, Region
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from captures.filters import Candidate
from dissectors.printable import printable
from kproxy.text.cells import fit, width

MOST_OFFERED = 200
"""Most candidates; to see others the user types on."""
MOST_ROWS = 10

_LONGEST_TEXT = 40
_READABLE = 72
"""Columns that the list should have, even if it has to start to the left of the completed text."""
_GAP = "  "
_MARGIN = 3  # the border, a space, and the scroll bar
_MORE = "… {:,} more: type on"


class CompletionList(OptionList, can_focus=False):
    """Candidates in columns: text, kind, and explanation.

    The focus stays in the line; its owner moves the highlight and places the list.

    :ivar candidates: the offered candidates
    """

    DEFAULT_CSS = """
    CompletionList {
        display: none;
        overlay: screen;
        position: absolute;
        constrain: inside inside;  /* without it, Textual takes the offset (0, 0) for none */
        border: none;
        border-left: solid $accent;
        padding: 0;
        max-height: 100vh;
        background: $panel;
        scrollbar-size-vertical: 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        & > .option-list--option-highlighted {
            color: $block-cursor-foreground;
            background: $block-cursor-background;
            text-style: bold;
        }
    }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.candidates: Sequence[Candidate] = ()
        self._wanted = 0
        self._placed: tuple[Offset, int, int] | None = None

    @property
    def is_open(self) -> bool:
        """Whether candidates are on the screen."""
        return self.display and bool(self.candidates)

    @property
    def chosen(self) -> Candidate | None:
        """The highlighted candidate, None if none is."""
        index = self.highlighted
        return None if index is None or index >= len(self.candidates) else self.candidates[index]

    def close(self) -> None:
        self.candidates = ()
        self.display = False

    def offer(self, candidates: Sequence[Candidate], at: int, line: Region, screen: Region) -> None:
        """Show candidates without a highlight.

        :param at: screen column of the text that they replace
        :param line: region that must not be covered
        :param screen: available region
        """
        if not candidates:
            self.close()
            return
        shown = candidates[:MOST_OFFERED]
        texts = max(min(max(width(printable(one.text)) for one in shown), _LONGEST_TEXT), 1)
        kinds = max(width(one.kind) for one in shown)
        docs = max(width(printable(one.doc)) for one in shown)
        around = 2 * len(_GAP) + _MARGIN
        self.candidates = shown
        self._wanted = max(texts + kinds + docs, len(_MORE)) + around
        room = self._width(at, screen) - texts - kinds - around
        self.set_options([Option(self._columns(one, texts, kinds, room)) for one in shown])
        if len(shown) < len(candidates):
            self.add_option(Option(Content(_MORE.format(len(candidates) - len(shown))), disabled=True))
        self.place(at, line, screen)
        self.display = True

    def _columns(self, candidate: Candidate, texts: int, kinds: int, docs: int) -> Content:
        return Content.assemble(
            fit(candidate.text, texts),
            _GAP,
            (fit(candidate.kind, kinds), "italic"),
            _GAP,
            (fit(candidate.doc, docs), "dim"),
        )

    def _width(self, at: int, screen: Region) -> int:
        return min(self._wanted, max(screen.right - at, _READABLE), screen.width)

    def place(self, at: int, line: Region, screen: Region) -> None:
        """Place the list below the line, or above it if there is more room; parameters as for :meth:`offer`."""
        wanted = min(self.option_count, MOST_ROWS)
        below, above = screen.bottom - line.bottom, line.y - screen.y
        up = below < MOST_ROWS and above > below
        height = max(min(wanted, above if up else below), 0)
        columns = self._width(at, screen)
        x = max(min(at - 1, screen.right - columns), screen.x)  # the border is left of the text
        placed = Offset(x, line.y - height if up else line.bottom), columns, height
        if placed == self._placed:
            return
        self._placed = placed
        self.absolute_offset = placed[0]
        self.styles.width, self.styles.height = columns, height
        self.refresh(layout=True)

    def move(self, by: int) -> None:
        """Move the highlight, wrapping around."""
        index = self.highlighted
        if index is None:
            index = len(self.candidates) if by < 0 else -1
        self.highlighted = (index + by) % len(self.candidates)

    def page(self, by: int) -> None:
        """Move the highlight by `by` pages, without wrapping around."""
        index = (self.highlighted or 0) + by * max(self.size.height - 1, 1)
        self.highlighted = min(max(index, 0), len(self.candidates) - 1)
