"""Ranges of offsets, and what covered each offset first: a send, a delivery, a commit.

All ranges include their last offset.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import msgspec
import numpy as np

from captures.arrays import Int64s


class Overlap(NamedTuple):
    """Offsets that were covered twice, with the earlier row and the repeating one."""

    first: int
    last: int
    before: int
    refetched: int


class Cover(msgspec.Struct):
    """Disjoint ranges ordered by offset; the first row to cover an offset keeps it."""

    firsts: list[int] = []
    lasts: list[int] = []
    rows: list[int] = []

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


def first_cover(first: Int64s, last: Int64s) -> tuple[Cover, list[Overlap]]:
    """Cover ranges one after the other; rows are their indexes."""
    if len(first) and (last >= first).all() and (first[1:] > np.maximum.accumulate(last)[:-1]).all():
        return Cover(first.tolist(), last.tolist(), list(range(len(first)))), []
    cover, overlaps = Cover(), list[Overlap]()
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
