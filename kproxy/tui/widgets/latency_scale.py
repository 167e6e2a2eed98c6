"""Latencies on a logarithmic scale: its rows and their labels. Independent of Textual.

Bounds of rows are bounds of the buckets that latencies are counted in (:data:`captures.analysis.latency.SCALE`), so
that a row counts exactly the exchanges that match the filter made of its bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from captures.analysis.latency import SCALE, Counts, Measure

_RESOLUTIONS = ((10, 12, 15, 20, 25, 30, 40, 50, 60, 80), (10, 15, 25, 40, 60), (10, 20, 50), (10, 30), (10,))
"""Leading digits of bounds, the finest resolution first."""
_UNITS = ((1_000_000_000, "s", "s"), (1_000_000, "ms", "ms"), (1_000, "µs", "us"))
_BASE = 10


def bound_text(nanoseconds: int) -> str:
    """Return a bound for display: ``1.5 ms``, ``100 µs``."""
    value, unit, _ = _in_unit(nanoseconds)
    return f"{value:,g} {unit}"


def bound_literal(nanoseconds: int) -> str:
    """Return a bound in the filter language: ``1.5ms``, ``100us``."""
    value, _, unit = _in_unit(nanoseconds)
    return f"{value:g}{unit}"


def _in_unit(nanoseconds: int) -> tuple[float, str, str]:
    size, shown, written = next((unit for unit in _UNITS if nanoseconds >= unit[0]), _UNITS[-1])
    return nanoseconds / size, shown, written


@dataclass(frozen=True, slots=True)
class Range:
    """Latencies from a bound to below another, in ns.

    :ivar low: None if there is no lower bound
    :ivar high: None if there is no upper bound
    """

    low: int | None
    high: int | None

    def __contains__(self, nanoseconds: int) -> bool:
        return (self.low is None or nanoseconds >= self.low) and (
            self.high is None or nanoseconds < self.high
        )

    @property
    def label(self) -> str:
        """Label of the row: its lower bound."""
        return f"<{bound_text(SCALE[0])}" if self.low is None else bound_text(self.low)

    @property
    def text(self) -> str:
        """The range in words."""
        if self.low is None or self.high is None:
            return f"below {bound_text(SCALE[0])}" if self.low is None else f"{bound_text(self.low)} and more"
        return f"{bound_text(self.low)} to {bound_text(self.high)}"

    def condition(self, measure: Measure) -> str:
        parts = []
        if self.low is not None:
            parts.append(f"{measure.value} >= {bound_literal(self.low)}")
        if self.high is not None:
            parts.append(f"{measure.value} < {bound_literal(self.high)}")
        if self.low is None and measure is Measure.EXCESS:
            parts.append("not (waited and excess <= 0)")  # exchanges that only waited are not counted
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class Scale:
    """Rows of ascending latency.

    :ivar ranges: contiguous
    :ivar first: first bucket of each row
    :ivar end: after the last bucket of the last row
    """

    ranges: tuple[Range, ...]
    first: tuple[int, ...]
    end: int

    def __len__(self) -> int:
        return len(self.ranges)

    def counts(self, counts: Counts) -> Counts:
        """Return counts by row for counts whose last axis is by bucket."""
        found: Counts = np.add.reduceat(counts[..., : self.end], self.first, axis=-1)
        return found

    def row_of(self, bucket: int) -> int:
        """Return the row that contains a bucket, or the nearest."""
        return min(max(int(np.searchsorted(self.first, bucket, "right")) - 1, 0), len(self) - 1)

    def row_at(self, nanoseconds: int) -> int:
        """Return the row that contains a latency, or the nearest."""
        return self.row_of(int(np.searchsorted(SCALE, nanoseconds, "right")))


def fitting(counts: Counts, most: int) -> Scale | None:
    """Return the finest scale for all counts with at most `most` rows.

    :param counts: by bucket
    :returns: None if all counts are 0; the coarsest scale may have more rows
    """
    used = np.flatnonzero(counts)
    if not len(used):
        return None
    low, high = int(used[0]), int(used[-1])
    scales = (_scale(low, high, resolution) for resolution in _RESOLUTIONS)
    scale = next(scales)
    for coarser in scales:
        if len(scale) <= most:
            break
        scale = coarser
    return scale


def _scale(low: int, high: int, resolution: Sequence[int]) -> Scale:
    """Return the scale that covers the buckets `low` to `high`."""
    cuts = [0, *(index + 1 for index, bound in enumerate(SCALE) if _leading(bound) in resolution)]
    begin = max(cut for cut in cuts if cut <= low)
    end = next((cut for cut in cuts if cut > high), len(SCALE) + 1)
    first = [cut for cut in cuts if begin <= cut < end]
    bounds = [*first, end]
    ranges = tuple(
        Range(SCALE[one - 1] if one else None, SCALE[other - 1] if other <= len(SCALE) else None)
        for one, other in pairwise(bounds)
    )
    return Scale(ranges, tuple(first), end)


def _leading(bound: int) -> int:
    """Return the two leading digits of a bound."""
    while bound >= _BASE * _BASE:
        bound //= _BASE
    return bound
