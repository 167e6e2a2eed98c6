"""The time axis of a picture: positions of times, folded quiet time, and the break into rows.

All busy time has one scale, so that lengths can be compared. Quiet time that is long in comparison is folded to a
marked gap of fixed width.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from dissectors.units import SECOND

WIDTH = 960.0
"""Width of a row, in the units of the picture."""
FOLDED = 44.0
"""Width of a folded gap."""
MOST_ROWS = 24

_READABLE = 10.0
"""If a rebalance of usual length takes this many units, nothing is folded."""
_LEAST_SHOWN = 22.0
"""Units that a rebalance of usual length takes at least, once quiet time is folded."""
_LEAST_FOLDED = 3 * FOLDED
"""Quiet time that would take more units is folded."""
_LEAST_SPAN = SECOND
STEPS = tuple(
    step * unit
    for unit, steps in (
        (SECOND // 1000, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (SECOND, (1, 2, 5, 10, 15, 30)),
        (60 * SECOND, (1, 2, 5, 10, 15, 30)),
        (3600 * SECOND, (1, 2, 3, 6, 12, 24)),
    )
    for step in steps
)
"""Round durations, in ns."""
_BETWEEN_TICKS = 70.0


class Piece(msgspec.Struct, frozen=True):
    """A stretch of time on a row.

    :ivar begin: ns since the epoch
    :ivar x: where it begins on its row
    :ivar folded: whether it is quiet time, folded to a gap
    """

    begin: int
    end: int
    x: float
    width: float
    folded: bool

    def at(self, time: int) -> float:
        """Return the position of a time, clamped to the piece."""
        share = (time - self.begin) / max(self.end - self.begin, 1)
        return self.x + self.width * min(max(share, 0.0), 1.0)


class AxisRow(msgspec.Struct, frozen=True):
    """One row of the picture: consecutive pieces."""

    pieces: Sequence[Piece]

    @property
    def begin(self) -> int:
        """Start of its first piece, in ns since the epoch."""
        return self.pieces[0].begin

    @property
    def end(self) -> int:
        """End of its last piece, in ns since the epoch."""
        return self.pieces[-1].end

    @property
    def width(self) -> float:
        """Width of all its pieces."""
        return self.pieces[-1].x + self.pieces[-1].width

    def x(self, time: int) -> float:
        """Return the position of a time, clamped to the row."""
        index = bisect_right(self.pieces, time, key=lambda piece: piece.begin) - 1
        return self.pieces[max(index, 0)].at(time)

    def holds(self, time: int) -> bool:
        """Return whether a time is on this row."""
        return self.begin <= time <= self.end

    def ticks(self) -> list[int]:
        """Return round times that are not folded away, far enough from each other to be labelled."""
        shown = [piece for piece in self.pieces if not piece.folded and piece.width > 0]
        if not shown:
            return []
        scale = max(piece.width / max(piece.end - piece.begin, 1) for piece in shown)
        step = next((step for step in STEPS if step * scale >= _BETWEEN_TICKS), STEPS[-1])
        found: list[int] = []
        for piece in shown:
            for time in _round(piece, step):
                if not found or self.x(time) - self.x(found[-1]) >= _BETWEEN_TICKS:
                    found.append(time)
        return found


def _round(piece: Piece, step: int) -> range:
    """Return the multiples of `step` in a piece; if there are none, the first multiple of the largest smaller step."""
    smaller = (each for each in reversed(STEPS) if each <= step)
    for each in smaller:
        found = range(-(-piece.begin // each) * each, piece.end + 1, each)
        if found:
            return found if each == step else found[:1]
    return range(0)


def axis(begin: int, end: int, busy: Iterable[tuple[int, int]], usual: int) -> list[AxisRow]:
    """Lay out time in rows.

    :param busy: stretches in which something happens, in any order
    :param usual: usual duration of such a stretch, in ns
    """
    end = max(end, begin + 1)
    usual = max(usual, _LEAST_SPAN)
    scale = WIDTH / (end - begin)
    if usual * scale >= _READABLE:
        return [AxisRow([Piece(begin, end, 0.0, WIDTH, False)])]
    scale = _LEAST_SHOWN / usual
    stretches = _stretches(begin, end, _with_room(busy, usual, begin, end), _LEAST_FOLDED / scale)
    needed = sum(FOLDED if folded else (last - first) * scale for first, last, folded in stretches)
    if needed < WIDTH:  # spare room goes to busy time
        gaps = sum(FOLDED for *_, folded in stretches if folded)
        scale *= (WIDTH - gaps) / max(needed - gaps, 1.0)
    elif needed > WIDTH * MOST_ROWS:
        scale *= WIDTH * MOST_ROWS / needed
    return _rows(stretches, scale)


def _with_room(busy: Iterable[tuple[int, int]], usual: int, begin: int, end: int) -> list[tuple[int, int]]:
    """Return stretches with a margin before and a larger one after each; touching stretches are merged."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(busy):
        low, high = max(first - usual // 2, begin), min(last + 3 * usual // 2, end)
        if high <= low:
            continue
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _stretches(
    begin: int, end: int, busy: Iterable[tuple[int, int]], least: float
) -> list[tuple[int, int, bool]]:
    """Return all of the time as stretches (begin, end, whether it is folded), with adjacent unfolded ones merged."""
    found: list[tuple[int, int, bool]] = []

    def add(first: int, last: int, folded: bool) -> None:
        if last <= first:
            return
        if found and not folded and not found[-1][2]:
            found[-1] = found[-1][0], last, False
        else:
            found.append((first, last, folded))

    at = begin
    for first, last in busy:
        add(at, first, first - at > least)
        add(first, last, False)
        at = last
    add(at, end, end - at > least)
    return found


def _rows(stretches: Iterable[tuple[int, int, bool]], scale: float) -> list[AxisRow]:
    rows: list[list[Piece]] = [[]]
    x = 0.0
    for first, last, folded in stretches:
        begin = first
        while begin < last:
            whole = FOLDED if folded else (last - begin) * scale
            room = WIDTH - x
            if x and whole > room and (folded or whole <= WIDTH or room < _LEAST_SHOWN):
                rows.append([])  # a row of its own keeps it in one piece
                x = 0.0
                continue
            width = min(whole, room)
            end = last if width >= whole - 0.01 else begin + max(round(width / scale), 1)
            rows[-1].append(Piece(begin, end, x, width, folded))
            begin, x = end, x + width
    return [AxisRow(pieces) for pieces in rows if pieces]
