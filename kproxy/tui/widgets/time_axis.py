"""A time axis below a picture."""

from __future__ import annotations

from datetime import tzinfo

from captures.time_format import clock

_TICK = "╵"
_CLOCK = 13
"""Cells of a tick with its time."""
_APART = 18


def time_axis(begin: int, end: int, cells: int, zone: tzinfo | None) -> str:
    """Return an axis between two times, in ns since the epoch, labelled with times where they fit."""
    text = ""
    for cell in range(0, max(cells - _CLOCK, 1), _APART):
        time = begin + cell * (end - begin) // cells
        text += "─" * (cell - len(text)) + _TICK + clock(time, zone)
    return text + "─" * max(cells - len(text), 0)
