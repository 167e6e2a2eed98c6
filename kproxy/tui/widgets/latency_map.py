"""A picture of latencies: a horizontal histogram, and beside it, on the same scale, their course over time.

Rows are ranges of latency, the slowest on top; columns are slices of time. The cursor is on a row, and on a slice or
the whole time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from captures.analysis.latency import SCALE, Counts, Distribution, Measure, OverTime, percentile
from captures.exchanges import rfc3339
from captures.time_format import span
from dissectors.units import SECOND
from kproxy.text.cells import fit
from kproxy.tui.widgets.latency_scale import Scale, bound_text, fitting
from kproxy.tui.widgets.line_styles import DrawnLines, style_classes, style_rules

_SHADES = " ·░▒▓█"
_BARS = "▏▎▍▌▋▊▉█"
_LINES = ((50, "o"), (95, "+"), (99, "x"), (100, "^"))
"""Percentiles drawn over time, and their signs; in a shared cell the lowest is drawn."""
_CURSOR, _MARK, _TICK = "▌", "▲", "╵"
_LABEL = 8
_COUNT = 9
_NARROW = 110
_BAR = (10, 28)
_AXIS = "│"
_LEGEND = "  ".join(f"{sign} p{rank}" if rank < 100 else f"{sign} longest" for rank, sign in _LINES)
_DAY = 86_400 * SECOND
_ROLES = ("title", "muted", "bar", "heat", "cursor")


@dataclass(frozen=True, slots=True)
class Picture:
    """The data of a picture.

    :ivar title: subject of the latencies; may contain text from the wire
    :ivar remark: shown below the picture while the cursor is on the whole time
    """

    title: str
    measure: Measure
    distribution: Distribution
    over_time: OverTime
    remark: str = ""


@dataclass(frozen=True, slots=True)
class _Layout:
    """A picture laid out for a size.

    :ivar bars: counts by row
    :ivar over_time: merged to as many slices as fit
    :ivar cells: counts by slice and row
    :ivar stretch: width of a slice in cells
    :ivar bar: width of the longest bar in cells
    """

    scale: Scale
    bars: Counts
    over_time: OverTime
    cells: Counts
    stretch: int
    bar: int


class LatencyMap(DrawnLines, can_focus=True):
    """The picture. The view that contains it binds the keys.

    :param zone: time zone; None for local time
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = style_classes(_ROLES)
    DEFAULT_CSS = style_rules("LatencyMap", _ROLES)

    @dataclass
    class Entered(Message):
        """The range and time under the cursor were chosen.

        :ivar condition: filter for them
        """

        condition: str

    def __init__(self, zone: tzinfo | None) -> None:
        super().__init__()
        self._zone = zone
        self._picture: Picture | None = None
        self._layout: _Layout | None = None
        self._lines = False
        # the cursor, in units that stay the same when the data changes
        self._latency: int | None = None
        self._time: int | None = None

    # ------------------------------------------------------------ content
    def show(self, picture: Picture) -> None:
        """Draw other data; the cursor keeps its latency and time."""
        self._picture = picture
        self._lay_out()

    def toggle_lines(self) -> None:
        """Switch between percentiles over time and a heat map."""
        self._lines = not self._lines
        self.refresh()

    @property
    def condition(self) -> str:
        """The filter for the range and time under the cursor; empty if there is nothing."""
        layout, picture = self._layout, self._picture
        if layout is None or picture is None:
            return ""
        parts = [picture.distribution.condition, layout.scale.ranges[self._row].condition(picture.measure)]
        at = self._slice
        if at is not None:
            begin = layout.over_time.begin + at * layout.over_time.width
            parts.append(f"time >= {_moment(begin)} and time < {_moment(begin + layout.over_time.width)}")
        return " and ".join(filter(None, parts))

    # ------------------------------------------------------------ the cursor
    def move(self, rows: int, slices: int) -> None:
        """Move the cursor towards slower rows and later slices; the whole time precedes the first slice."""
        layout = self._layout
        if layout is None:
            return
        if rows:
            row = min(max(self._row + rows, 0), len(layout.scale) - 1)
            self._latency = layout.scale.ranges[row].low or 0
        if slices:
            at = self._slice
            at = (-1 if at is None else at) + slices
            self._at_slice(min(at, len(layout.over_time) - 1) if at >= 0 else None)
        self.refresh()

    def _at_slice(self, at: int | None) -> None:
        assert self._layout is not None
        over_time = self._layout.over_time
        self._time = None if at is None else over_time.begin + at * over_time.width

    @property
    def _row(self) -> int:
        assert self._layout is not None
        layout = self._layout
        return int(np.argmax(layout.bars)) if self._latency is None else layout.scale.row_at(self._latency)

    @property
    def _slice(self) -> int | None:
        assert self._layout is not None
        over_time = self._layout.over_time
        if self._time is None or not len(over_time):
            return None
        return min(max((self._time - over_time.begin) // over_time.width, 0), len(over_time) - 1)

    def enter(self) -> None:
        if self.condition:
            self.post_message(self.Entered(self.condition))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to a row, and to a slice or the whole time; a double click chooses them."""
        offset, layout = event.get_content_offset(self), self._layout
        if offset is None or layout is None:
            return
        row = self._row_on_line(offset.y)
        if row is None:
            return
        self._latency = layout.scale.ranges[row].low or 0
        at = (offset.x - self._left) // layout.stretch
        self._at_slice(min(at, len(layout.over_time) - 1) if at >= 0 and len(layout.over_time) else None)
        self.refresh()
        if event.chain == 2:
            self.enter()

    # ------------------------------------------------------------ layout
    @property
    def _room(self) -> int:
        """Number of lines for rows, without title, time axis and the line about the cursor."""
        return max(self.size.height - 3, 1)

    @property
    def _left(self) -> int:
        """Cells before the first slice."""
        assert self._layout is not None
        return len(_CURSOR) + _LABEL + 1 + self._layout.bar + _COUNT + 1

    def _lay_out(self) -> None:
        self._layout = None
        self.refresh()
        picture = self._picture
        scale = None if picture is None else fitting(picture.distribution.counts, self._room)
        if picture is None or scale is None or not self.size.width:
            return
        bar = _BAR[self.size.width >= _NARROW]
        room = max(self.size.width - len(_CURSOR) - _LABEL - bar - _COUNT - 2, 1)
        over_time = picture.over_time.merged(room)
        self._layout = _Layout(
            scale,
            scale.counts(picture.distribution.counts),
            over_time,
            scale.counts(over_time.counts),
            max(room // max(len(over_time), 1), 1),
            bar,
        )

    def on_resize(self, _: events.Resize) -> None:
        """Choose rows and slices for the new size."""
        self._lay_out()

    def _row_on_line(self, y: int) -> int | None:
        """Return the row on a line, None if there is none; if rows do not fit, those around the cursor are shown."""
        assert self._layout is not None
        count = len(self._layout.scale)
        shown = min(self._room, count)
        top = count - 1
        if count > shown:
            top = min(max(self._row + shown // 2, shown - 1), count - 1)
        return top - (y - 1) if 1 <= y <= shown else None

    # ------------------------------------------------------------ drawing
    def render_line(self, y: int) -> Strip:
        """Return the title, a row, the time axis, or the line about the cursor."""
        width, style = self.size.width, self.rich_style
        if y == 0:
            return Strip([Segment(fit(self._title(), width), self.drawn_style("title"))])
        if self._layout is None:
            text = (
                " None of the exchanges shown has a latency." if y == 1 and self._picture is not None else ""
            )
            return Strip([Segment(fit(text, width), self.drawn_style("muted"))])
        row = self._row_on_line(y)
        if row is not None:
            return Strip(self._row_segments(row)).crop_extend(0, width, style)
        if y == min(self._room, len(self._layout.scale)) + 1:
            return Strip([Segment(fit(self._axis(), width), self.drawn_style("muted"))])
        if y == self.size.height - 1:
            return Strip([Segment(fit(self._about_cursor(), width), style)])
        return Strip.blank(width, style)

    def _title(self) -> str:
        picture = self._picture
        if picture is None:
            return " Counting …"
        what = "without designed waiting" if picture.measure is Measure.EXCESS else "as measured"
        text = f" {picture.title}: latency {what}"
        if self._layout is not None and len(self._layout.over_time):
            width = span(self._layout.over_time.width)
            text += f"  ·  {_LEGEND if self._lines else 'denser is more'}  ·  {width} a column"
        return text

    def _row_segments(self, row: int) -> list[Segment]:
        layout = self._layout
        assert layout is not None
        current = row == self._row
        cursor = self.drawn_style("cursor")
        muted = self.drawn_style("muted")
        count = int(layout.bars[row])
        label = f"{layout.scale.ranges[row].label:>{_LABEL}} "
        segments = [Segment((_CURSOR if current else " ") + label, cursor if current else muted)]
        segments.append(
            Segment(_bar(count / max(int(layout.bars.max()), 1), layout.bar), self.drawn_style("bar"))
        )
        number = f"{count:>{_COUNT},}" if count else " " * _COUNT
        segments.append(Segment(number, cursor if current else self.rich_style))
        segments.append(Segment(_AXIS, muted))
        return segments + self._over_time(row, current)

    def _over_time(self, row: int, current: bool) -> list[Segment]:
        layout = self._layout
        assert layout is not None
        signs = self._percentile_signs(row) if self._lines else self._shades(row)
        at = self._slice
        heat = self.drawn_style("heat")
        text = "".join(
            f"{sign:^{layout.stretch}}" if self._lines else sign * layout.stretch for sign in signs
        )
        if at is None:
            return [Segment(text, heat)]
        begin, end = at * layout.stretch, (at + 1) * layout.stretch
        chosen = Segment(
            text[begin:end], self.drawn_style("cursor") if current else heat + Style(underline=True)
        )
        return [Segment(text[:begin], heat), chosen, Segment(text[end:], heat)]

    def _shades(self, row: int) -> Sequence[str]:
        assert self._layout is not None
        cells = self._layout.cells
        most = max(int(cells.max(initial=0)), 1)
        steps = len(_SHADES) - 1
        # logarithmic, so that one exchange among thousands is visible
        share = np.log1p(cells[:, row]) / np.log1p(most)
        return [_SHADES[step] for step in np.ceil(share * steps).astype(int).tolist()]

    def _percentile_signs(self, row: int) -> Sequence[str]:
        assert self._layout is not None
        signs = [" "] * len(self._layout.over_time)
        for at, counts in enumerate(self._layout.over_time.counts):
            for rank, sign in reversed(_LINES):
                bucket = percentile(counts, rank)
                if bucket is not None and self._layout.scale.row_of(bucket) == row:
                    signs[at] = sign
        return signs

    def _axis(self) -> str:
        """Return the time axis: clock times, or only that of the slice under the cursor."""
        layout = self._layout
        assert layout is not None
        over_time, left = layout.over_time, self._left
        text = f"{'└':>{left}}"
        if not len(over_time):
            return text
        days = over_time.width * len(over_time) >= _DAY
        size = 11 if days else 12 if over_time.width < SECOND else 8
        # the cursor must be recognisable without colour
        chosen = self._slice
        marked = range(0, len(over_time), -(-(size + 4) // layout.stretch)) if chosen is None else [chosen]
        for at in marked:
            begin = over_time.begin + at * over_time.width
            clock = _date(begin, self._zone) if days else _clock(begin, self._zone)
            index = left + at * layout.stretch
            if index + 1 + size <= self.size.width:
                text += "─" * (index - len(text)) + (_TICK if chosen is None else _MARK) + clock
            elif chosen is not None:
                text += "─" * (index - size - len(text)) + clock + _MARK
        return text + "─" * max(left + len(over_time) * layout.stretch - len(text), 0)

    def _about_cursor(self) -> str:
        """Return a description of the range and time under the cursor."""
        layout, picture = self._layout, self._picture
        assert layout is not None
        assert picture is not None
        row, at, whole = self._row, self._slice, picture.distribution
        if at is None:
            text = f" {layout.scale.ranges[row].text}: {_of(int(layout.bars[row]), whole.count)}"
            return f"{text}   {picture.remark}"
        over_time = layout.over_time
        begin = over_time.begin + at * over_time.width
        counts = over_time.counts[at]
        text = (
            f" {_clock(begin, self._zone)} +{span(layout.over_time.width)}  {layout.scale.ranges[row].text}:"
        )
        text += f" {int(layout.cells[at, row]):,} of {int(counts.sum()):,}"
        if counts.any():
            p50, p95, p99, longest = (_upper(percentile(counts, rank)) for rank, _ in _LINES)
            text += f"   p50 {p50}  p95 {p95}  p99 {p99}  all {longest}"
        return text


def _of(count: int, total: int) -> str:
    share = f"  ({100 * count / total:.1f}%)" if total else ""
    return f"{count:,} of {total:,}{share}"


def _upper(bucket: int | None) -> str:
    """Return the upper bound of a bucket as text."""
    if bucket is None:
        return "-"
    return f"≤{bound_text(SCALE[bucket])}" if bucket < len(SCALE) else f">{bound_text(SCALE[-1])}"


def _bar(share: float, room: int) -> str:
    """Return a bar in eighths of cells; any non-zero share is visible."""
    eighths = max(round(share * room * len(_BARS)), 1) if share else 0
    whole, rest = divmod(eighths, len(_BARS))
    return f"{_BARS[-1] * whole}{_BARS[rest - 1] if rest else ''}".ljust(room)


def _moment(time: int) -> str:
    """Return a time in the filter language."""
    text = rfc3339(time).removesuffix("Z").rstrip("0").removesuffix(".")
    return f"{text}Z"


def _date(time: int, zone: tzinfo | None) -> str:
    return f"{datetime.fromtimestamp(time // SECOND, zone):%m-%d %H:%M}"


def _clock(time: int, zone: tzinfo | None) -> str:
    seconds, rest = divmod(time, SECOND)
    text = f"{datetime.fromtimestamp(seconds, zone):%H:%M:%S}"
    return f"{text}.{rest // 1_000_000:03d}" if rest else text
