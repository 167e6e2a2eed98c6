"""What takes its time and is done again and again, as telling what a capture that grows shows: never too often."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

_SHARE = 20
"""So many times as long as something takes, it is not done again."""


class Pace:
    """Says when something may be done again: so seldom that it takes a small share of the time.

    :param least: seconds between two times at least
    """

    def __init__(self, least: float = 0.0) -> None:
        self._least = least
        self._next = 0.0

    @property
    def due(self) -> bool:
        """Whether it may be done now."""
        return monotonic() >= self._next

    @contextmanager
    def step(self) -> Iterator[None]:
        """Do it, and see how long it takes."""
        began = monotonic()
        yield
        ended = monotonic()
        self._next = ended + max(self._least, _SHARE * (ended - began))
