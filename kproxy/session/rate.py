"""How many a second, lately."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_SECONDS = 3.0


class Rate:
    """Counts things as they come.

    :param clock: seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._came: deque[tuple[float, int]] = deque()
        self._total = 0
        self._begin = clock()

    def add(self, count: int) -> None:
        """Take note of so many."""
        if count:
            self._came.append((self._clock(), count))
            self._total += count

    def now(self) -> float:
        """Return how many a second there were in the last seconds."""
        now = self._clock()
        while self._came and self._came[0][0] < now - _SECONDS:
            self._total -= self._came.popleft()[1]
        return self._total / max(min(_SECONDS, now - self._begin), 0.001)
