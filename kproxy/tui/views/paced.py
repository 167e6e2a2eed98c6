"""What takes its time to be told of a fold, and so is told anew only now and then."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")

_SHARE = 20
"""So many times as long as telling takes, what was told stands."""
_AGAIN = 0.5
"""Seconds between two looks whether it is time to tell anew."""


class Paced(Generic[T]):
    """Something that is told of a state.

    :param told: what is told before it was asked for
    """

    def __init__(self, told: T) -> None:
        self._told = told
        self._state: Hashable = None
        self._next = 0.0
        self.current = True
        """Whether what is told is of the latest state that was asked for."""

    def get(self, state: Hashable, tell: Callable[[], T]) -> T:
        """Return what is told of a state, or of one before where it is too early to tell anew."""
        began = monotonic()
        if state != self._state and began >= self._next:
            self._told, self._state = tell(), state
            self._next = monotonic() + _SHARE * (monotonic() - began)
        self.current = state == self._state
        return self._told

    @property
    def version(self) -> int:
        """Changes as long as what is told is not current, so that who shows it asks again."""
        return 0 if self.current else int(monotonic() / _AGAIN)
