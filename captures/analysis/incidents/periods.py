"""Periods of time, with binary search."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Period(NamedTuple, Generic[T]):
    """Something with start and end, in ns since the epoch."""

    begin: int
    end: int
    of: T


class Periods(Generic[T]):
    """Periods in the order of their starts.

    :param periods: in any order
    """

    def __init__(self, periods: Iterable[Period[T]]) -> None:
        self._periods = sorted(periods, key=lambda period: period.begin)
        self._begins = [period.begin for period in self._periods]
        self._last_ends = list(accumulate((period.end for period in self._periods), max))
        """Of all periods up to each, the end of the last one to end."""

    def first(self, begin: int, end: int) -> T | None:
        """Return the earliest period that begins at `begin` or before and ends at `end` or after; None if none does."""
        index = bisect_left(self._last_ends, end)
        return None if index >= bisect_right(self._begins, begin) else self._periods[index].of

    def latest(self, time: int) -> Period[T] | None:
        """Return the latest period that begins at `time` or before; None if there is none."""
        index = bisect_right(self._begins, time)
        return self._periods[index - 1] if index else None
