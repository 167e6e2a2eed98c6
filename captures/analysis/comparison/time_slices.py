"""Counts over time, in bounded memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from captures.arrays import Int64s

MOST_SLICES = 64
_FIRST_WIDTH = 1_000_000
"""Initial width of a slice in ns."""
MOST_EXAMPLES = 5

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _IntervalCount:
    total: int = 0
    slices: dict[int, int] = field(default_factory=dict)
    examples: list[int] = field(default_factory=list)


class TimeSlicedCounts(Generic[Key]):
    """Counts by key and slice of time; slices get wider as the covered time does.

    However long that is, a key takes at most :data:`MOST_SLICES` counts and :data:`MOST_EXAMPLES` numbers.
    """

    def __init__(self) -> None:
        self._width = _FIRST_WIDTH
        self._begin = self._end = 0
        self._keys: defaultdict[Key, _IntervalCount] = defaultdict(_IntervalCount)

    def cover(self, time: int) -> None:
        """Extend the covered time to `time`, in ns since the epoch, whether anything is counted there or not."""
        if not self._end:
            self._begin = self._end = time
        elif self._begin <= time <= self._end:
            return
        self._begin, self._end = min(self._begin, time), max(self._end, time)
        factor = 1
        while self._end // (self._width * factor) - self._begin // (self._width * factor) >= MOST_SLICES:
            factor *= 2
        if factor > 1:
            self._widen(factor)

    def cover_all(self, times: Int64s) -> None:
        """Extend the covered time to each of `times`; there is at least one."""
        self.cover(int(times.min()))
        self.cover(int(times.max()))

    def add(self, key: Key, time: int, number: int, count: int = 1) -> None:
        """Count events of an exchange.

        :param number: number of the exchange
        """
        self.cover(time)
        counted = self._keys[key]
        counted.total += count
        at = time // self._width
        counted.slices[at] = counted.slices.get(at, 0) + count
        if len(counted.examples) < MOST_EXAMPLES:
            counted.examples.append(number)

    def extend(self, key: Key, times: Int64s, numbers: Int64s) -> None:
        """Count one event of each exchange, in the order of their numbers."""
        if not len(times):
            return
        self.cover_all(times)
        counted = self._keys[key]
        counted.total += len(times)
        slices, counts = np.unique(times // self._width, return_counts=True)
        for at, count in zip(slices.tolist(), counts.tolist(), strict=True):
            counted.slices[at] = counted.slices.get(at, 0) + count
        counted.examples += numbers[: MOST_EXAMPLES - len(counted.examples)].tolist()

    def kinds(self) -> set[Key]:
        """Return all keys."""
        return set(self._keys)

    def total(self, key: Key) -> int:
        """Return the number of events."""
        return self._keys[key].total if key in self._keys else 0

    def examples(self, key: Key) -> tuple[int, ...]:
        """Return numbers of the first exchanges with such an event."""
        return tuple(self._keys[key].examples) if key in self._keys else ()

    def slices(self, key: Key) -> list[int]:
        """Return the number of events in each slice of the covered time."""
        counted = self._keys.get(key)
        if counted is None:
            return []
        first, last = self._begin // self._width, self._end // self._width
        return [counted.slices.get(at, 0) for at in range(first, last + 1)]

    def _widen(self, factor: int) -> None:
        self._width *= factor
        for counted in self._keys.values():
            merged: dict[int, int] = {}
            for at, count in counted.slices.items():
                merged[at // factor] = merged.get(at // factor, 0) + count
            counted.slices = merged
