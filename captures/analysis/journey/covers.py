"""Ranges of offsets, and what covered each offset first: a send, a delivery, a commit.

All ranges include their last offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s


class Overlap(NamedTuple):
    """Offsets that were covered twice, with the earlier row and the repeating one."""

    first: int
    last: int
    before: int
    refetched: int


class Cover:
    """Disjoint ranges ordered by offset; the first row to cover an offset keeps it."""

    __slots__ = ("firsts", "lasts", "rows")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.rows: list[int] = []

    def add(self, first: int, last: int, row: int) -> list[Overlap]:
        """Cover the uncovered parts of a range; return the parts that were covered already."""
        if last < first:
            return []
        if not self.lasts or first > self.lasts[-1]:
            self._insert(len(self.lasts), first, last, row)
            return []
        found: list[Overlap] = []
        at, here = bisect_left(self.lasts, first), first
        while here <= last:
            if at == len(self.firsts) or self.firsts[at] > last:
                self._insert(at, here, last, row)
                break
            if self.firsts[at] > here:
                self._insert(at, here, self.firsts[at] - 1, row)
                at += 1
            end = min(self.lasts[at], last)
            found.append(Overlap(max(here, self.firsts[at]), end, self.rows[at], row))
            here, at = end + 1, at + 1
        return found

    def _insert(self, at: int, first: int, last: int, row: int) -> None:
        self.firsts.insert(at, first)
        self.lasts.insert(at, last)
        self.rows.insert(at, row)


class Ranges:
    """A set of offsets as few ranges: adjacent ones are joined."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def covers(self, first: int, last: int) -> bool:
        """Return whether a whole range is in the set."""
        at = bisect_right(self._firsts, first) - 1
        return at >= 0 and last < self._ends[at]

    def add(self, first: int, last: int) -> bool:
        """Add a range; return whether any of it is new."""
        end = last + 1
        if end <= first:
            return False
        if self._ends and first == self._ends[-1]:
            self._ends[-1] = end
            return True
        low, high = bisect_left(self._ends, first), bisect_right(self._firsts, end)
        if high - low == 1 and self._firsts[low] <= first and end <= self._ends[low]:
            return False
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self._firsts[low:high], self._ends[low:high] = [first], [end]
        return True


def first_cover(first: Int64s, last: Int64s) -> tuple[Cover, list[Overlap]]:
    """Cover ranges one after the other; rows are their indexes."""
    cover, overlaps = Cover(), list[Overlap]()
    if (
        len(first)
        and bool((last >= first).all())
        and bool((first[1:] > np.maximum.accumulate(last)[:-1]).all())
    ):
        cover.firsts, cover.lasts, cover.rows = first.tolist(), last.tolist(), list(range(len(first)))
        return cover, overlaps
    for row, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        overlaps += cover.add(low, high, row)
    return cover, overlaps


def rows_at(cover: Cover, offsets: Int64s) -> Int64s:
    """Return for each offset the row that covers it first; -1 if none does."""
    if not cover.firsts:
        return np.full(len(offsets), -1, np.int64)
    firsts, lasts = np.array(cover.firsts, np.int64), np.array(cover.lasts, np.int64)
    at = np.searchsorted(firsts, offsets, "right") - 1
    inside = (at >= 0) & (offsets <= lasts[at])
    found: Int64s = np.where(inside, np.array(cover.rows, np.int64)[at], -1)
    return found
