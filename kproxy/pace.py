"""Paces expensive work that is repeated, such as reports about a growing capture."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")

_AGAIN = 0.5
"""Seconds between checks whether it is time to compute it again."""
_SHARE = 20
"""Length of the pause after a run, relative to the run."""


class Pace:
    """Limits repeated work to a small share of the time.

    :param least: seconds between two runs at least
    """

    def __init__(self, least: float = 0.0) -> None:
        self._least = least
        self._next = 0.0

    @property
    def due(self) -> bool:
        """Whether the work may be done now."""
        return monotonic() >= self._next

    @contextmanager
    def step(self) -> Iterator[None]:
        """Measure the work done in this context."""
        began = monotonic()
        yield
        ended = monotonic()
        self._next = ended + max(self._least, _SHARE * (ended - began))


class PacedValue(Generic[T]):
    """A value that is computed from a state, and recomputed only as often as a :class:`Pace` allows.

    :param value: before the first computation
    :ivar current: whether the value belongs to the state last passed to :meth:`get`
    """

    def __init__(self, value: T) -> None:
        self._value = value
        self._state: Hashable = None
        self._pace = Pace()
        self.current = True

    def get(self, state: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of a state, or of an earlier one if it is too early to compute it again."""
        if state != self._state and self._pace.due:
            with self._pace.step():
                self._value, self._state = compute(), state
        self.current = state == self._state
        return self._value

    @property
    def version(self) -> int:
        """A number that keeps changing while the value is not current, so that a view asks again."""
        return 0 if self.current else int(monotonic() / _AGAIN)
