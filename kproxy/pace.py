"""What takes its time and is done again and again, as telling what a capture that grows shows: never too often."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")

_AGAIN = 0.5
"""Seconds between two looks whether it is time to compute it again."""
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


class PacedValue(Generic[T]):
    """A value that is computed from a state, and not again before that is worth its time.

    :param value: what it is before the first state
    """

    def __init__(self, value: T) -> None:
        self._value = value
        self._state: Hashable = None
        self._pace = Pace()
        self.current = True
        """Whether the value is that of the latest state that was asked for."""

    def get(self, state: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of a state, or of an earlier one where it is too early to compute it again."""
        if state != self._state and self._pace.due:
            with self._pace.step():
                self._value, self._state = compute(), state
        self.current = state == self._state
        return self._value

    @property
    def version(self) -> int:
        """Changes as long as the value is not current, so that a view of it asks again."""
        return 0 if self.current else int(monotonic() / _AGAIN)
