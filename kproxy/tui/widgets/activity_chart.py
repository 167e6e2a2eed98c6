"""How many exchanges there were over time: bars above an axis, as high as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from captures.arrays import Int64s
from captures.meaning import words
from captures.time_format import span
from kproxy.text.cells import fit
from kproxy.tui.widgets.time_axis import time_axis

LEAST_HEIGHT = 5
"""Lines with which it tells something."""
_BARS = " ▁▂▃▄▅▆▇█"
_MARK = "▲"
_FRAME = 2
"""Lines without bars: the title and the axis; marks, if there are any, have one more."""


@dataclass(frozen=True, slots=True)
class ActivityPicture:
    """What is drawn.

    :ivar title: what the exchanges are; it may come from the wire
    :ivar moments: theirs, ns since the epoch, in any order
    :ivar begin: of the axis
    :ivar end: likewise
    :ivar marks: moments that stand out
    """

    title: str
    moments: Int64s
    begin: int
    end: int
    marks: Sequence[int] = ()


class ActivityChart(Widget):
    """The drawing.

    :param zone: of the times shown; None is the local one
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "activity-chart--title",
        "activity-chart--muted",
        "activity-chart--bar",
        "activity-chart--mark",
    }
    """
    | Class | What it is |
    |---|---|
    | `activity-chart--title` | What is shown. |
    | `activity-chart--muted` | The axis. |
    | `activity-chart--bar` | How many there were. |
    | `activity-chart--mark` | Moments that stand out. |
    """

    DEFAULT_CSS = """
    ActivityChart {
        height: 1fr;
        background: $background;
        color: $foreground;
        & > .activity-chart--title { text-style: bold; background: $panel; color: $foreground; }
        & > .activity-chart--muted { color: $text-muted; }
        & > .activity-chart--bar { color: $primary; }
        & > .activity-chart--mark { color: $text-warning; text-style: bold; }
        &:ansi > .activity-chart--title { background: ansi_default; color: ansi_default; text-style: bold underline; }
    }
    """

    def __init__(self, zone: tzinfo | None) -> None:
        super().__init__()
        self._zone = zone
        self._picture: ActivityPicture | None = None
        self._counted: tuple[int, Int64s, Int64s] | None = None

    def show(self, picture: ActivityPicture | None) -> None:
        """Draw something else."""
        self._picture, self._counted = picture, None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the title, a part of the bars, the marks, or the axis."""
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
            # what is there at all is seen
            steps = -(-counts * lines * (len(_BARS) - 1) // most) - (lines - y) * (len(_BARS) - 1)
            return self._strip("".join(_BARS[step] for step in steps.clip(0, len(_BARS) - 1).tolist()), "bar")
        if y == lines + 1 and picture.marks:
            return self._strip("".join(_MARK if count else " " for count in marked.tolist()), "mark")
        return self._strip(fit(time_axis(picture.begin, picture.end, room, self._zone), room), "muted")

    def _strip(self, text: str, role: str) -> Strip:
        style: Style = self.get_component_rich_style(f"activity-chart--{role}")
        return Strip([Segment(text, style)])


def _counts(moments: Int64s, picture: ActivityPicture, cells: int) -> Int64s:
    """Return how many moments lie in each cell; those before and after belong to the first and the last."""
    size = max(picture.end - picture.begin, 1)
    at = ((moments - picture.begin) * cells // size).clip(0, cells - 1)
    return np.bincount(at, minlength=cells)
