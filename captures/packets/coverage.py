"""Covered ranges of numbers, such as positions of bytes, to distinguish new ones from repeated ones."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Coverage:
    """Ranges of numbers as [start, end), sorted, with touching ranges joined.

    Adding a range costs one search and removes the ranges that it joins: any number of overlapping ranges costs only as
    many searches.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __bool__(self) -> bool:
        return bool(self._starts)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._ends, strict=True))

    def has(self, start: int, end: int) -> bool:
        """Return whether all of [start, end) is covered."""
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and self._ends[at] >= end

    def add(self, start: int, end: int) -> list[tuple[int, int]]:
        """Add [start, end); return the parts of it that were not covered, in order."""
        if end <= start:
            return []
        low = bisect_left(self._ends, start)
        high = bisect_right(self._starts, end)
        edges = [start]
        for at in range(low, high):
            edges += (self._starts[at], self._ends[at])
        edges.append(end)
        new = [(one, two) for one, two in zip(edges[::2], edges[1::2], strict=True) if one < two]
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]
        return new

    def forget(self, before: int) -> None:
        """Drop the ranges that end at `before` or earlier."""
        count = bisect_right(self._ends, before)
        del self._starts[:count], self._ends[:count]
