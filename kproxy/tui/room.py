"""Sharing a limited number of cells or lines."""

from __future__ import annotations

from collections.abc import Sequence


def shared(wants: Sequence[int], room: int) -> list[int]:
    """Return what each want gets: small wants are satisfied, and those above an even share divide the rest evenly."""
    given, left = [0] * len(wants), max(room, 0)
    open_ = sorted((want, index) for index, want in enumerate(wants) if want > 0)
    for position, (want, index) in enumerate(open_):
        given[index] = min(want, left // (len(open_) - position))
        left -= given[index]
    return given
