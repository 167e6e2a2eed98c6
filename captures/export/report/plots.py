"""Pictures over time as SVG: stacked amounts, lines and heat maps on a logarithmic scale, lanes.

All have the same frame: time across, labelled ticks below, the scale at the left. Lengths are in units of the SVG,
which is as wide as the page allows. Colours are classes of the style sheet; hovering shows figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log10

import msgspec

from captures.export.group_html.axis import WIDTH
from captures.export.markup import Markup, on_lines, tag
from captures.export.report.scales import Slices, TimeAxis, amount, logarithmic_ticks, rounded_up
from captures.time_format import latency

LEFT = 150.0
"""Where time begins: the same in all pictures, so that they can be compared."""
_RIGHT = 24.0
FULL = LEFT + WIDTH + _RIGHT
"""Width of all pictures."""
LABEL = 21
"""Characters of a lane's label."""
_TOP = 10.0
_BOTTOM = 34.0
_HEIGHT = 180.0
_HEAT_HEIGHT = 240.0
_LANE = 20.0
_BAR = 12.0
_LEAST = 3.0
"""Least width of a bar, so that short ones are visible."""
_LINE = 1.5
_WIDER = 1.2
"""Width of the topmost line, and by how much each line below is wider."""
HEATS = 7
"""Number of shades of a heat map."""


class Series(msgspec.Struct, frozen=True):
    """Amounts over time.

    :ivar name: what they count
    :ivar colour: CSS class of its colour
    :ivar values: amount by start of slice, in ns since the epoch
    """

    name: str
    colour: str
    values: Mapping[int, float]


class Bar(msgspec.Struct, frozen=True):
    """Something with a duration.

    :ivar begin: ns since the epoch
    :ivar end: ns since the epoch
    :ivar colour: CSS classes
    :ivar title: tooltip
    """

    begin: int
    end: int
    colour: str
    title: str


class BarRow(msgspec.Struct, frozen=True):
    """A labelled lane of bars."""

    label: str
    bars: Sequence[Bar] = ()


def stacked(
    axis: TimeAxis, slices: Slices, series: Sequence[Series], shown: Callable[[float], str], *, about: str
) -> Markup:
    """Return amounts per slice, stacked, with the first series at the bottom.

    :param shown: formats an amount with its unit
    :param about: text alternative of the picture
    """
    begins = [each for each in slices.begins if any(each in one.values for one in series)]
    highest = max((sum(one.values.get(each, 0.0) for one in series) for each in begins), default=0.0)
    top, step = rounded_up(highest, 1.0 if shown is whole else 0.0)

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (1 - value / top)

    low = dict.fromkeys(begins, 0.0)
    shapes: list[Markup] = []
    for one in series:
        high = {each: low[each] + one.values.get(each, 0.0) for each in begins}
        path = "".join(
            _box(axis, slices.covered(each), y(high[each]), y(low[each]))
            for each in begins
            if high[each] > low[each]
        )
        shapes.append(tag("path", d=path, class_=one.colour))
        low = high
    hover = []
    for each in begins:
        figures = [(one.name, shown(one.values[each])) for one in reversed(series) if each in one.values]
        hover.append(_hover(axis, each, slices.covered(each), _HEIGHT, figures))
    ticks = [(y(at * step), shown(at * step)) for at in range(round(top / step) + 1)]
    return _framed(axis, _HEIGHT, ticks, [*shapes, *hover], about)


def whole(value: float) -> str:
    """Return a count as text. Pass it as `shown` for scales without ticks between whole numbers."""
    return f"{value:,.0f}" if value < 100_000 else amount(value)


def lines(axis: TimeAxis, slices: Slices, series: Sequence[Series], *, about: str) -> Markup:
    """Return durations per slice as lines on a logarithmic scale; a line breaks at slices without a value.

    The first lines are wider, so that they remain visible beneath others.
    """
    every = [value for one in series for value in one.values.values()]
    low, high = _bounds(every)
    y = _logarithmic(low, high, _HEIGHT)
    shapes = [
        tag(
            "path",
            d=_line(axis, slices, one.values, y),
            class_=f"line {one.colour}",
            stroke_width=_LINE + _WIDER * (len(series) - 1 - at),
        )
        for at, one in enumerate(series)
    ]
    begins = [each for each in slices.begins if any(each in one.values for one in series)]
    hover = []
    for each in begins:
        figures = [(one.name, latency(one.values[each])) for one in series if each in one.values]
        hover.append(_hover(axis, each, (each, each + slices.width), _HEIGHT, figures))
    ticks = [(y(each), latency(each)) for each in logarithmic_ticks(low, high)]
    return _framed(axis, _HEIGHT, ticks, [*shapes, *hover], about)


def heat(
    axis: TimeAxis,
    slices: Slices,
    cells: Mapping[tuple[int, int], int],
    bounds: Callable[[int], tuple[float, float]],
    *,
    about: str,
) -> Markup:
    """Return a heat map of counts by slice and step of duration.

    :param cells: (start of the slice, step) -> count
    :param bounds: returns the lower and upper bound of a step, in ns
    """
    steps = {step for _, step in cells}
    low, high = bounds(min(steps))[0], bounds(max(steps))[1]
    y = _logarithmic(low, high, _HEAT_HEIGHT)
    most = max(cells.values())
    boxes: dict[int, list[str]] = {}
    columns: dict[int, int] = {}
    for (begin, step), count in cells.items():
        bottom, top = (y(each) for each in bounds(step))
        covered = slices.covered(begin)
        boxes.setdefault(shade(count, most), []).append(_box(axis, covered, top, bottom))
        columns[begin] = columns.get(begin, 0) + count
    shapes = [tag("path", d="".join(boxes[at]), class_=f"heat{at}") for at in sorted(boxes)]
    hover = [
        _hover(axis, each, slices.covered(each), _HEAT_HEIGHT, [("exchanges", f"{count:,}")])
        for each, count in sorted(columns.items())
    ]
    ticks = [(y(each), latency(each)) for each in logarithmic_ticks(low, high)]
    return _framed(axis, _HEAT_HEIGHT, ticks, [*shapes, *hover], about)


def shade(count: int, most: int) -> int:
    """Return the shade of a count, from 0 to ``HEATS - 1``, on a logarithmic scale."""
    if most <= 1:
        return HEATS - 1
    return min(int(log10(count) / log10(most) * HEATS), HEATS - 1)


def shade_from(at: int, most: int) -> int:
    """Return the smallest count with shade `at` or a darker one."""
    count = max(int(most ** (at / HEATS)) - 1, 1)
    while count < most and shade(count, most) < at:
        count += 1
    return count


def lanes(axis: TimeAxis, found: Sequence[BarRow], *, about: str) -> Markup:
    """Return labelled lanes with their bars."""
    height = _LANE * len(found)
    shapes: list[Markup] = []
    for at, lane in enumerate(found):
        top = _TOP + at * _LANE
        middle = top + _LANE / 2
        shapes.append(tag("line", x1=LEFT, y1=middle, x2=LEFT + WIDTH, y2=middle, class_="lane"))
        shapes.append(tag("text", lane.label, x=LEFT - 8, y=middle + 4, class_="label"))
        for bar in lane.bars:
            x = LEFT + axis.x(bar.begin)
            width = max(LEFT + axis.x(bar.end) - x, _LEAST)
            shapes.append(
                tag(
                    "rect",
                    tag("title", bar.title),
                    x=min(x, LEFT + WIDTH - width),
                    y=middle - _BAR / 2,
                    width=width,
                    height=_BAR,
                    class_=bar.colour,
                )
            )
    return _framed(axis, height, [], shapes, about)


# ---------------------------------------------------------------- the frame
def _framed(
    axis: TimeAxis,
    height: float,
    ticks: Iterable[tuple[float, str]],
    shapes: Sequence[Markup],
    about: str,
) -> Markup:
    bottom = _TOP + height
    parts: list[Markup] = []
    for y, name in ticks:
        parts.append(tag("line", x1=LEFT, y1=y, x2=LEFT + WIDTH, y2=y, class_="grid"))
        parts.append(tag("text", name, x=LEFT - 6, y=y + 3.5, class_="scale"))
    below: list[Markup] = []
    for at, name, date in axis.ticks():
        x = LEFT + at
        below.append(tag("line", x1=x, y1=bottom, x2=x, y2=bottom + 4, class_="edge"))
        middle = min(x, FULL - len(name) * 3.0)
        below.append(tag("text", name, x=middle, y=bottom + 15, class_="time"))
        if date:
            below.append(tag("text", date, x=middle, y=bottom + 27, class_="time"))
    below.append(tag("line", x1=LEFT, y1=bottom, x2=LEFT + WIDTH, y2=bottom, class_="edge"))
    return picture([*parts, *shapes, *below], bottom + _BOTTOM, about)


def picture(parts: Iterable[Markup], height: float, about: str) -> Markup:
    """Return a picture as wide as the page.

    :param about: its tooltip and its text alternative
    """
    box = f"0 0 {FULL:.0f} {height:.0f}"
    return tag("svg", tag("title", about), *parts, viewBox=box, role="img", aria_label=about)


def _box(axis: TimeAxis, covered: tuple[int, int], top: float, bottom: float) -> str:
    x, right = (LEFT + axis.x(each) for each in covered)
    return f"M{x:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{x:.1f}z"


def _hover(
    axis: TimeAxis,
    begin: int,
    covered: tuple[int, int],
    height: float,
    figures: Iterable[tuple[str, str]],
) -> Markup:
    """Return a transparent box that shows the figures of the slice that starts at `begin`."""
    x, right = (LEFT + axis.x(each) for each in covered)
    title = on_lines([axis.named(begin), *[f"{name}: {figure}" for name, figure in figures]])
    width = max(right - x, 0.1)
    return tag("rect", tag("title", title), x=x, y=_TOP, width=width, height=height, class_="hover")


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """Return the powers of ten around the values: at least one decade."""
    low, high = 10.0 ** int(log10(max(min(values), 1.0))), 10.0
    while high < max(values) or high <= low:
        high *= 10
    return low, high


def _logarithmic(low: float, high: float, height: float) -> Callable[[float], float]:
    decades = log10(high / low)

    def y(value: float) -> float:
        return _TOP + height * (1 - log10(max(value, low) / low) / decades)

    return y


def _line(axis: TimeAxis, slices: Slices, values: Mapping[int, float], y: Callable[[float], float]) -> str:
    """Return a path through the middles of slices; an isolated slice is a short stroke."""
    out: list[str] = []
    before: int | None = None
    for begin in slices.begins:
        if begin not in values:
            continue
        low, high = slices.covered(begin)
        x, at = LEFT + axis.x((low + high) // 2), y(values[begin])
        if before == begin - slices.width:
            out.append(f"L{x:.1f} {at:.1f}")
        elif begin + slices.width in values:
            out.append(f"M{x:.1f} {at:.1f}")
        else:
            out.append(f"M{x - _LEAST / 2:.1f} {at:.1f}h{_LEAST}")
        before = begin
    return "".join(out)
