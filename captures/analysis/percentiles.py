"""Times in nanoseconds, kept as they are, and their percentiles.

Percentiles are by nearest rank: each is a time that was measured, and p99 of fewer than a hundred is the longest.
"""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

RANKS = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A distribution of times, in ns."""

    count: int
    total: int
    p50: int
    p95: int
    p99: int
    max: int

    def to_json(self) -> dict[str, int]:
        """Return the figures; those that are times have ``_ns`` in their name."""
        return {name if name == "count" else f"{name}_ns": value for name, value in asdict(self).items()}


class Times:
    """Times to be summed up later; 8 bytes each."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._values)

    def add(self, nanoseconds: int) -> None:
        """Add one time."""
        self._values.append(nanoseconds)

    def extend(self, nanoseconds: NDArray[np.int64]) -> None:
        """Add a column of times."""
        self._values.frombytes(np.ascontiguousarray(nanoseconds, np.int64).tobytes())

    def include(self, other: Times) -> None:
        """Add all that another has."""
        self._values.extend(other._values)

    def percentiles(self) -> Percentiles | None:
        """Return the distribution, or None if there is nothing."""
        if not self._values:
            return None
        # a copy: an array whose buffer is in use cannot grow
        values = np.array(self._values, np.int64)
        p50, p95, p99 = map(int, np.percentile(values, RANKS, method="inverted_cdf").tolist())
        return Percentiles(len(values), int(values.sum()), p50, p95, p99, int(values.max()))


def weighted(times: NDArray[np.int64], counts: NDArray[np.int64]) -> Percentiles | None:
    """Return the distribution of times of which each counts several times; None if there is nothing."""
    kept = counts > 0
    times, counts = times[kept], counts[kept]
    if not len(times):
        return None
    order = np.argsort(times, kind="stable")
    times, reached = times[order], np.cumsum(counts[order])
    total = int(reached[-1])
    # the least time that so many percent do not exceed, as inverted_cdf has it
    p50, p95, p99 = (int(times[np.searchsorted(reached, -(-rank * total // 100))]) for rank in RANKS)
    return Percentiles(total, int((times * counts[order]).sum()), p50, p95, p99, int(times[-1]))
