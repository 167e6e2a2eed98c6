"""A chart of the number of exchanges over time: bars above an axis, as high as fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual.strip import Strip

from captures.arrays import Int64s
from captures.meaning import words
from captures.time_format import span
from kproxy.text.cells import fit
from kproxy.tui.widgets.line_styles import DrawnLines, style_classes, style_rules
from kproxy.tui.widgets.time_axis import time_axis

LEAST_HEIGHT = 5
"""Least lines for a useful chart."""
_BARS = " ▁▂▃▄▅▆▇█"
_MARK = "▲"
_ROLES = ("title", "muted", "bar", "warning")
_FRAME = 2
"""Lines of title and axis; marks take one more."""


@dataclass(frozen=True, slots=True)
class ActivityPicture:
    """The data of a chart.

    :ivar title: description of the exchanges; may contain text from the wire
    :ivar moments: times of the exchanges, ns since the epoch, in any order
    :ivar begin: start of the axis, ns since the epoch
    :ivar end: end of the axis, ns since the epoch
    :ivar marks: times to highlight, ns since the epoch
    """

    title: str
    moments: Int64s
    begin: int
    end: int
    marks: Sequence[int] = ()


class ActivityChart(DrawnLines):
    """The chart.

    :param zone: time zone; None for local time
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = style_classes(_ROLES)
    DEFAULT_CSS = style_rules("ActivityChart", _ROLES)

    def __init__(self, zone: tzinfo | None) -> None:
        super().__init__()
        self._zone = zone
        self._picture: ActivityPicture | None = None
        self._counted: tuple[int, Int64s, Int64s] | None = None

    def show(self, picture: ActivityPicture | None) -> None:
        """Draw other data; None for nothing."""
        self._picture, self._counted = picture, None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the title, a line of the bars, the marks, or the axis."""
        room, picture = self.size.width, self._picture
        if picture is None or not room:
            return Strip.blank(room, self.rich_style)
        if self._counted is None or self._counted[0] != room:
            marks = np.array(picture.marks, np.int64)
            self._counted = room, _counts(picture.moments, picture, room), _counts(marks, picture, room)
        _, counts, marked = self._counted
        most, lines = max(int(counts.max()), 1), self.size.height - _FRAME - bool(picture.marks)
        if y == 0:
            each = span((picture.end - picture.begin) / room)
            title = (
                f" {picture.title}  ·  {each} a column  ·  at most {words.counted(most, 'exchange')} in one"
            )
            return self._strip(fit(title, room), "title")
        if y <= lines:
            # rounded up, so that every non-zero count is visible
            steps = -(-counts * lines * (len(_BARS) - 1) // most) - (lines - y) * (len(_BARS) - 1)
            return self._strip("".join(_BARS[step] for step in steps.clip(0, len(_BARS) - 1).tolist()), "bar")
        if y == lines + 1 and picture.marks:
            return self._strip("".join(_MARK if count else " " for count in marked.tolist()), "warning")
        return self._strip(fit(time_axis(picture.begin, picture.end, room, self._zone), room), "muted")

    def _strip(self, text: str, role: str) -> Strip:
        return Strip([Segment(text, self.drawn_style(role))])


def _counts(moments: Int64s, picture: ActivityPicture, cells: int) -> Int64s:
    """Return the number of times per cell; times beyond the axis count in the first and the last cell."""
    size = max(picture.end - picture.begin, 1)
    at = ((moments - picture.begin) * cells // size).clip(0, cells - 1)
    return np.bincount(at, minlength=cells)
