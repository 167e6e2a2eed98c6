"""How fast something goes, where it goes fastest."""

from __future__ import annotations

from dissectors.units import SECOND

WINDOW = 10 * SECOND
"""ns of a stretch in which is counted."""


class Busiest:
    """The busiest of the stretches of 10 seconds in which something happens; times have to come in order.

    :ivar count: how often it happened there
    """

    __slots__ = ("_begin", "_count", "_span", "count")

    def __init__(self) -> None:
        self.count = 0
        self._span = 0
        self._begin = 0
        self._count = 0

    def add(self, time: int) -> None:
        """Count once.

        :param time: ns since the epoch
        """
        if not self._count or time - self._begin > WINDOW:
            self._begin, self._count = time, 0
        self._count += 1
        if self._count > self.count:
            self.count, self._span = self._count, time - self._begin

    @property
    def rate(self) -> float:
        """How often a second, over a second at least."""
        return self.count * SECOND / max(self._span, SECOND)
