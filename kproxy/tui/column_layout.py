"""The places of the list's columns, for a line width and the lengths of their texts.

Columns with a chosen width keep it. The others are as wide as the longest measured text, between their limits. If the
line is too short they shrink, in narrow lines the flexible ones first, then expendable columns are left out; if that is
not enough the list scrolls sideways. Spare cells go to the flexible columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kproxy.tui.columns import Column, column
from kproxy.tui.profiles import Profile
from kproxy.tui.room import shared

_WIDE = 130
_READABLE = 24
"""Cells of a flexible column in which a sentence tells something."""
_NARROW = 90
"""Cells of all columns up to which a sentence gets only what names leave."""
_MODEST = 3  # a column of two widths gets the larger one if others still get at least twice as much


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column with its place.

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
        """Return the column that covers cell `x`, including the gap after it."""
        return next((each for each in self.columns if each.x <= x < each.x + each.width + self.gap), None)

    def edge(self, x: int) -> PlacedColumn | None:
        """Return the column whose following gap contains cell `x`; dragging there changes its width."""
        return next(
            (each for each in self.columns if each.x + each.width <= x < each.x + each.width + self.gap), None
        )


def lay_out(profile: Profile, room: int, longest: Mapping[str, int], *, margin: int = 0) -> Layout:
    """Return the layout of a profile's columns.

    :param room: cells of a line
    :param longest: cells of the longest measured text, by column ID
    :param margin: cells before the first column
    """
    gap = 2 if room >= _WIDE else 1
    columns = [column(each.column) for each in profile.columns]
    chosen = {each.column: each.width for each in profile.columns if each.width}
    least = {each.id: chosen.get(each.id, _least(each, longest)) for each in columns}
    expendable = [each for each in columns if each.expendable and each.id not in chosen]
    for spare in sorted(expendable, key=lambda each: -each.expendable):
        needed = sum(least[each.id] + gap for each in columns) - gap
        if spare.expendable > 1:  # it leaves sentences readable
            needed += sum(
                max(_READABLE - least[each.id], 0)
                for each in columns
                if each.flexible and each.id not in chosen
            )
        if len(columns) > 1 and needed > room - margin:
            columns.remove(spare)
    widths = [least[each.id] for each in columns]
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


def _wanted(each: Column, longest: Mapping[str, int]) -> int:
    return min(max(longest.get(each.id, 0), len(each.title), each.least), each.most)


def _widen(
    columns: Sequence[Column], widths: list[int], room: int, longest: Mapping[str, int], own: Sequence[Column]
) -> None:
    """Widen columns towards the width they want, and give what is left to the flexible ones.

    Names come before sentences, but leave them readable unless the line is narrow.

    :param own: columns whose widths were not chosen
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
    readable = _READABLE if room > _NARROW else 0
    first = [
        min(want, max(readable - width, 0)) if weight else want
        for want, width, weight in zip(wanted, widths, spare, strict=True)
    ]
    for index, more in enumerate(shared(first, room - sum(widths))):
        widths[index] += more
        wanted[index] -= more
    for index, more in enumerate(shared(wanted, room - sum(widths))):
        widths[index] += more
    _share(widths, spare, room - sum(widths))


def _share(widths: list[int], weights: Sequence[int], extra: int) -> None:
    """Distribute `extra` cells by weight; rounding loses none."""
    total = sum(weights)
    if extra <= 0 or not total:
        return
    given = done = 0
    for index, weight in enumerate(weights):
        done += weight
        upto = extra * done // total
        widths[index] += upto - given
        given = upto
