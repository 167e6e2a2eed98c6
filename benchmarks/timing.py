"""Timing side by side: candidates alternate within each round, so that a busy machine slows all of them alike.

Ratios are computed within a round, and their median is reported. Garbage collection is off while a candidate runs, as
with ``timeit``, because a pause could hit any candidate.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from math import exp, log
from statistics import median
from time import perf_counter_ns

Action = Callable[[], object]

SLICE_NS = 1_000_000  # how long a candidate runs before the next


class Timings:
    """Microseconds per call, one figure per round."""

    def __init__(self, times: dict[str, list[float]]) -> None:
        self.times = times

    def us(self, name: str) -> float:
        """Return the median time of a call."""
        return median(self.times[name])

    def ratio(self, name: str, base: str) -> float:
        """Return a candidate's time as a multiple of that of ``base``: the median over the rounds."""
        return median(one / other for one, other in zip(self.times[name], self.times[base], strict=True))


def interleaved(candidates: Mapping[str, Action], rounds: int) -> Timings:
    """Time the candidates alternately."""
    repeats = {name: _repeats(action) for name, action in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, action in candidates.items():
            times[name].append(_time(action, repeats[name]))
    return Timings(times)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean, the fair mean of ratios."""
    return exp(sum(map(log, values)) / len(values))


def _time(action: Action, repeats: int) -> float:
    gc.collect(0)
    gc.disable()
    try:
        start = perf_counter_ns()
        for _ in range(repeats):
            action()
        return (perf_counter_ns() - start) / repeats / 1000
    finally:
        gc.enable()


def _repeats(action: Action) -> int:
    """Return how many calls fill a slice, not counting the first call, which may generate code."""
    action()
    once = max(min(_time(action, 3) for _ in range(3)), 0.05)
    return max(1, round(SLICE_NS / 1000 / once))
