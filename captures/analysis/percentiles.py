"""Exact percentiles of times in nanoseconds.

Percentiles are by nearest rank: each is a measured time, and p99 of fewer than a hundred is the longest.
"""

from __future__ import annotations

from array import array

import msgspec
import numpy as np

from captures.arrays import Int64s

RANKS = (50, 95, 99)


def nearest_rank(count: int, percent: int) -> int:
    """Return the 1-based rank of a percentile among `count` sorted values: the lowest that covers `percent` of them.

    Uses integers, to avoid rounding. Called ``inverted_cdf`` by numpy: type 1 of Hyndman and Fan (1996).
    """
    return max(-(-count * percent // 100), 1)


class Percentiles(msgspec.Struct, frozen=True):
    """A distribution of times, in ns."""

    JSON = "count total_ns=total p50_ns=p50 p95_ns=p95 p99_ns=p99 max_ns=max"

    count: int
    total: int
    p50: int
    p95: int
    p99: int
    max: int


class Times:
    """Times to be summarised later; 8 bytes each."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._values)

    def add(self, nanoseconds: int) -> None:
        """Add one time."""
        self._values.append(nanoseconds)

    def extend(self, nanoseconds: Int64s) -> None:
        """Add a column of times."""
        self._values.frombytes(np.ascontiguousarray(nanoseconds, np.int64).tobytes())

    def include(self, other: Times) -> None:
        """Add all times of another one."""
        self._values.extend(other._values)

    def percentiles(self) -> Percentiles | None:
        """Return the distribution, None if there are no times."""
        if not self._values:
            return None
        # a copy: an array with an exported buffer cannot grow
        values = np.array(self._values, np.int64)
        indexes = [nearest_rank(len(values), percent) - 1 for percent in RANKS]
        p50, p95, p99 = np.partition(values, indexes)[indexes].tolist()
        return Percentiles(len(values), int(values.sum()), p50, p95, p99, int(values.max()))


def weighted(times: Int64s, counts: Int64s) -> Percentiles | None:
    """Return the distribution of times with multiplicities `counts`; None if there are none."""
    kept = counts > 0
    times, counts = times[kept], counts[kept]
    if not len(times):
        return None
    order = np.argsort(times, kind="stable")
    times, reached = times[order], np.cumsum(counts[order])
    total = int(reached[-1])
    p50, p95, p99 = times[
        np.searchsorted(reached, [nearest_rank(total, percent) for percent in RANKS])
    ].tolist()
    return Percentiles(total, int((times * counts[order]).sum()), p50, p95, p99, int(times[-1]))
