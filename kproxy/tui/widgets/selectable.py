"""Lines that are drawn on demand, with text that can be selected by mouse."""

from __future__ import annotations

from collections.abc import Hashable

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

_KEPT = 256
"""Drawn lines that are kept."""
_MOST_LINES = 20_000
"""Most lines that are copied; the hexadecimal text of a hundred megabytes would only fill the clipboard."""


class SelectableLines(ScrollView):
    """A scroll view of lines with selectable text, which are drawn once.

    Subclasses pass the lines they draw through :meth:`selectable`; :meth:`line_text` returns the text of a line. They
    call :meth:`forget_lines` when the lines change.
    """

    ALLOW_SELECT = True

    _plain: Style | None = None

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  # as in Textual
        super().__init__(id=id, classes=classes)
        self._drawn: LRUCache[Hashable, Strip] = LRUCache(_KEPT)

    @property
    def rich_style(self) -> Style:
        """The style of the widget; Textual derives it from all ancestors for each line."""
        if self._plain is None:
            self._plain = super().rich_style
        return self._plain

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._plain = None
        self.forget_lines()

    def watch_has_focus(self, _has_focus: bool) -> None:
        self.forget_lines()
        super().watch_has_focus(_has_focus)

    def forget_lines(self) -> None:
        """Draw all lines anew."""
        self._drawn.clear()

    def segments(self, y: int) -> list[Segment]:
        """Return the segments of a line."""
        raise NotImplementedError

    def line_text(self, y: int) -> str:
        return "".join(segment.text for segment in self.segments(y))

    def drawn(self, y: int, *depends: Hashable) -> Strip:
        """Return a line cropped or extended to the width of the view.

        :param depends: what else it depends on and that changes often
        """
        strip = self._drawn.get((y, depends))
        if strip is None:
            strip = Strip(self.segments(y))
            strip = strip.crop_extend(0, self.scrollable_content_region.width, self.rich_style)
            self._drawn[y, depends] = strip
        return strip

    def line_count(self) -> int:
        """Return the number of lines."""
        raise NotImplementedError

    def measure(self) -> None:
        """Fit the scrollable area to changed lines; scroll bars at once, or they would need a second layout."""
        self.forget_lines()
        self.virtual_size = Size(self.scrollable_content_region.width, self.line_count())
        self._refresh_scrollbars()

    def selectable(self, strip: Strip, y: int) -> Strip:
        """Return a line with its selected text highlighted, and with the offsets that selection needs."""
        selection = self.text_selection
        span = None if selection is None else selection.get_span(y)
        if span is not None:
            strip = self.highlighted(strip, *span)
        return strip.apply_offsets(0, y)

    def highlighted(self, strip: Strip, start: int, end: int) -> Strip:
        """Return a line with some characters highlighted; a negative end is that of the line."""
        text = strip.text
        begin, stop = cell_len(text[:start]), strip.cell_length if end < 0 else cell_len(text[:end])
        before, chosen, after = (strip.crop(0, begin), strip.crop(begin, stop), strip.crop(stop))
        style = self.screen.get_component_rich_style("screen--selection")
        marked = Strip(Segment.apply_style(list(chosen), post_style=style), chosen.cell_length)
        return Strip.join([before, marked, after])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, and the separator to the text of other widgets."""
        first = 0 if selection.start is None else selection.start.y
        last = self.line_count() - 1 if selection.end is None else min(selection.end.y, self.line_count() - 1)
        found = []
        for y in range(first, min(last + 1, first + _MOST_LINES)):
            span = selection.get_span(y)
            if span is not None:
                text = self.line_text(y)
                found.append(text[span[0] : None if span[1] < 0 else span[1]].rstrip())
        return "\n".join(found), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Redraw with the new selection."""
        self.refresh()
