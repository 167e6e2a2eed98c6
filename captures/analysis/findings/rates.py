"""Rates of events, measured where they are highest."""

from __future__ import annotations

from dissectors.units import SECOND

WINDOW = 10 * SECOND
"""Length of a period in ns."""


class Busiest:
    """The busiest period of at most 10 seconds; times must be ascending.

    :ivar count: number of events in it
    """

    __slots__ = ("_begin", "_count", "_span", "count")

    def __init__(self) -> None:
        self.count = 0
        self._span = 0
        self._begin = 0
        self._count = 0

    def add(self, time: int) -> None:
        """Count an event.

        :param time: ns since the epoch
        """
        if not self._count or time - self._begin > WINDOW:
            self._begin, self._count = time, 0
        self._count += 1
        if self._count > self.count:
            self.count, self._span = self._count, time - self._begin

    @property
    def rate(self) -> float:
        """Events per second, over at least a second."""
        return self.count * SECOND / max(self._span, SECOND)
