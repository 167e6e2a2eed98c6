"""Where the columns of the list stand, for the room there is and the texts there are.

Columns whose width was chosen keep it. The others are as wide as the longest text met so far, between their limits.
Where that is too much for the room they shrink together, then those that can be spared are left out; if it still does
not fit the list is scrolled sideways. What is left over goes to those that have most to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kproxy.tui.columns import Column, column
from kproxy.tui.profiles import Profile

_WIDE = 130
_MODEST = 3  # a column that needs all or nothing gets it where others have at least twice as much


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column at its place.

    :ivar x: cells from the left end of the line
    :ivar width: in cells
    """

    column: Column
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns from left to right.

    :ivar gap: cells between two columns
    :ivar width: cells of the whole line
    """

    columns: tuple[PlacedColumn, ...]
    gap: int
    width: int

    def at(self, x: int) -> PlacedColumn | None:
        """Return the column that takes a cell, or whose gap behind it does."""
        return next((each for each in self.columns if each.x <= x < each.x + each.width + self.gap), None)

    def edge(self, x: int) -> PlacedColumn | None:
        """Return the column that ends right before a cell: dragging there changes its width."""
        return next(
            (each for each in self.columns if each.x + each.width <= x < each.x + each.width + self.gap), None
        )


def lay_out(profile: Profile, room: int, longest: Mapping[str, int], *, margin: int = 0) -> Layout:
    """Return where columns stand.

    :param room: cells of a line
    :param longest: cells of the longest text met so far, by column ID
    :param margin: cells in front of the first column
    """
    gap = 2 if room >= _WIDE else 1
    columns = [column(each.column) for each in profile.columns]
    chosen = {each.column: each.width for each in profile.columns if each.width}
    least = {each.id: chosen.get(each.id, _least(each, longest)) for each in columns}
    while len(columns) > 1 and sum(least[each.id] + gap for each in columns) - gap > room - margin:
        spare = max(
            (each for each in columns if each.id not in chosen),
            key=lambda each: each.expendable,
            default=None,
        )
        if spare is None or not spare.expendable:
            break
        columns.remove(spare)
    widths = [chosen.get(each.id, min(least[each.id], _needed(each, longest))) for each in columns]
    own = [each for each in columns if each.id not in chosen]
    _widen(columns, widths, room - margin - gap * (len(columns) - 1), longest, own)
    placed: list[PlacedColumn] = []
    x = margin
    for each, width in zip(columns, widths, strict=True):
        placed.append(PlacedColumn(each, x, width))
        x += width + gap
    return Layout(tuple(placed), gap, max(x - gap, margin))


def _least(each: Column, longest: Mapping[str, int]) -> int:
    return max(each.least, _wanted(each, longest)) if each.firm else each.least


def _needed(each: Column, longest: Mapping[str, int]) -> int:
    """Return the cells that its texts take, as far as they are known: it need not be wider."""
    return max(longest.get(each.id, each.least), len(each.title))


def _wanted(each: Column, longest: Mapping[str, int]) -> int:
    return min(max(longest.get(each.id, 0), len(each.title), each.least), each.most)


def _widen(
    columns: Sequence[Column], widths: list[int], room: int, longest: Mapping[str, int], own: Sequence[Column]
) -> None:
    """Give columns what they need beyond the least, as far as there is room, and what is left to the flexible ones.

    :param own: those whose widths were not chosen
    """
    wanted, spare = [0] * len(columns), [0] * len(columns)
    for index, each in enumerate(columns):
        if each not in own:
            continue
        spare[index] = each.flexible
        if not each.whole:
            wanted[index] = _wanted(each, longest) - widths[index]
        elif (each.most - each.least) * _MODEST <= room - sum(widths):
            widths[index] = each.most
    _satisfy(widths, wanted, room - sum(widths))
    _share(widths, spare, room - sum(widths))


def _satisfy(widths: list[int], wanted: Sequence[int], room: int) -> None:
    """Give columns what they want, the smallest wants first; those that want more than is left share it evenly."""
    open_ = sorted((want, index) for index, want in enumerate(wanted) if want > 0)
    for place, (want, index) in enumerate(open_):
        given = min(want, max(room, 0) // (len(open_) - place))
        widths[index] += given
        room -= given


def _share(widths: list[int], weights: Sequence[int], extra: int) -> None:
    """Give out cells by weight; not one is lost by rounding."""
    total = sum(weights)
    if extra <= 0 or not total:
        return
    given = done = 0
    for index, weight in enumerate(weights):
        done += weight
        upto = extra * done // total
        widths[index] += upto - given
        given = upto
