"""What takes its time to be told of a fold, and so is told anew only now and then."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Generic, TypeVar

from kproxy.pace import Pace

T = TypeVar("T")

_AGAIN = 0.5
"""Seconds between two looks whether it is time to tell anew."""


class PacedValue(Generic[T]):
    """Something that is told of a state.

    :param told: what is told before it was asked for
    """

    def __init__(self, told: T) -> None:
        self._told = told
        self._state: Hashable = None
        self._pace = Pace()
        self.current = True
        """Whether what is told is of the latest state that was asked for."""

    def get(self, state: Hashable, tell: Callable[[], T]) -> T:
        """Return what is told of a state, or of one before where it is too early to tell anew."""
        if state != self._state and self._pace.due:
            with self._pace.step():
                self._told, self._state = tell(), state
        self.current = state == self._state
        return self._told

    @property
    def version(self) -> int:
        """Changes as long as what is told is not current, so that who shows it asks again."""
        return 0 if self.current else int(monotonic() / _AGAIN)
