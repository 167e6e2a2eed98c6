"""Painting lines of the list of exchanges: texts of the columns, with styles.

A painted line is cached until something it depends on changes: that is either part of the cache key, or leads to
:meth:`LinePainter.forget`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip

from dissectors.printable import printable
from kproxy.session.published import Summary
from kproxy.text.cells import fit, width
from kproxy.tui.column_layout import Layout, PlacedColumn
from kproxy.tui.columns import Clock, Column
from kproxy.tui.columns import running as running_time
from kproxy.tui.states import COMMENTED, CURSOR, LOOKS, MARKED

MARGIN = 3
"""Cells before the first column: cursor, mark, comment."""
RISING, FALLING = "▲", "▼"

_KEPT = 512  # lines: a few screens

_Key = tuple[int, bool, tuple[bool, ...], str, int | None]


@dataclass(frozen=True, slots=True)
class LineStyles:
    """Styles of the parts of a line.

    :ivar roles: of cells, by role
    :ivar rows: of lines coloured by a rule, by name of the colour
    :ivar accent: of the signs for marks and comments
    :ivar cursor: of the whole line under the cursor
    """

    plain: Style
    repeated: Style
    roles: Mapping[str, Style]
    rows: Mapping[str, Style]
    accent: Style
    cursor: Style
    header: Style
    sorted_header: Style


class LinePainter:
    """Paints lines.

    :ivar layout: places of the columns
    :ivar room: minimum width of a line in cells
    :ivar longest: cells of the longest measured text, by column ID
    :ivar outgrown: whether a measured text was longer than any before
    """

    def __init__(self, styles: LineStyles, layout: Layout, room: int) -> None:
        self.styles = styles
        self.layout = layout
        self.room = room
        self.longest: dict[str, int] = {}
        self.outgrown = False
        self._kept: LRUCache[_Key, tuple[Summary, Strip]] = LRUCache(_KEPT)

    @property
    def _deltas(self) -> bool:
        return any(each.column.id == "delta" for each in self.layout.columns)

    def forget(self) -> None:
        """Clear the cache, because styles, columns or times have changed."""
        self._kept.clear()

    def line(self, summary: Summary, above: Summary | None, at: Clock, *, selected: bool) -> Strip:
        """Return the line of an exchange.

        :param above: exchange on the line above, None if unknown; texts that repeat it are dimmed
        :param selected: whether the cursor is on the line
        """
        if self._deltas:
            at = replace(at, above=None if above is None else above.time)
        repeats = tuple(
            above is not None and each.column.repeats and _same(each, summary, above, at)
            for each in self.layout.columns
        )
        since = summary.running_since
        key = (
            summary.number,
            selected,
            repeats,
            "" if since is None else running_time(at.now - since),
            at.above,
        )
        kept = self._kept.get(key)
        if kept is not None and kept[0] is summary:
            return kept[1]
        strip = self._paint(summary, repeats, at, selected=selected)
        self._kept[key] = summary, strip
        return strip

    def unknown(self, number: int, *, selected: bool) -> Strip:
        """Return the line of an exchange that is still being read."""
        style = self.styles.cursor if selected else self.styles.repeated
        text = f"{CURSOR if selected else ' '}{' ' * (MARGIN - 1)}"
        if self.layout.columns:
            text += fit(str(number), self.layout.columns[0].width, right=True) + " …"
        return Strip([Segment(fit(text, max(self.layout.width, MARGIN)), style)])

    def header(self, order: str, *, descending: bool) -> Strip:
        """Return the line of titles.

        :param order: current order of the list, empty for by number
        """
        segments = [Segment(" " * MARGIN, self.styles.header)]
        gap = Segment(" " * self.layout.gap, self.styles.header)
        for placed in self.layout.columns:
            column = placed.column
            if order and column.order == order:
                arrow = FALLING if descending else RISING
                title = fit(column.title, placed.width - 1, right=column.right) + arrow
                segments.append(Segment(title, self.styles.sorted_header))
            else:
                segments.append(
                    Segment(fit(column.title, placed.width, right=column.right), self.styles.header)
                )
            segments.append(gap)
        return Strip(segments)

    def _paint(self, summary: Summary, repeats: tuple[bool, ...], at: Clock, *, selected: bool) -> Strip:
        styles, role = self.styles, self.styles.roles[LOOKS[summary.state].role]
        plain = styles.rows.get(summary.color, styles.plain)
        runs = [
            (CURSOR if selected else " ", styles.plain),
            (MARKED if summary.marked else " ", styles.accent),
            (COMMENTED if summary.comment else " ", styles.accent),
        ]
        last = len(repeats) - 1
        for index, (placed, repeated) in enumerate(zip(self.layout.columns, repeats, strict=True)):
            column = placed.column
            gap = " " * (self.layout.gap if index < last else max(self.room - self.layout.width, 0))
            text = column.text(summary, at, placed.width)
            if column.firm:
                self._measure(column, text)
            colour = role if summary.state in column.states else plain
            style = styles.repeated if repeated else colour
            runs.append((fit(text, placed.width, right=column.right) + gap, style))
        if selected:
            runs = [("".join(text for text, _ in runs), styles.cursor)]
        return Strip(_joined(runs), max(self.room, self.layout.width))

    def measure(self, summaries: Iterable[Summary], at: Clock) -> None:
        """Measure the texts of some exchanges; painting measures only texts that must not be cut."""
        for summary in summaries:
            for placed in self.layout.columns:
                self._measure(placed.column, placed.column.text(summary, at, placed.width))

    def _measure(self, column: Column, text: str) -> None:
        taken = len(text) if text.isascii() else width(printable(text))
        if taken > self.longest.get(column.id, 0):
            self.longest[column.id] = taken
            self.outgrown = True


def _same(placed: PlacedColumn, one: Summary, other: Summary, at: Clock) -> bool:
    text = placed.column.text
    return text(one, at, placed.width) == text(other, at, placed.width)


def _joined(runs: list[tuple[str, Style]]) -> list[Segment]:
    """Return as few segments as possible: each takes time whenever it is painted, scrolled or selected."""
    segments: list[Segment] = []
    texts: list[str] = []
    current = runs[0][1]
    for text, style in runs:
        if style is not current and text.strip():
            segments.append(Segment("".join(texts), current))
            texts, current = [], style
        texts.append(text)
    segments.append(Segment("".join(texts), current))
    return segments
