"""When exchanges were that fit a filter, found out as they come: for pictures of what a row of a view is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.columns.arrays import GrowingArray
from captures.filters import Filter
from kproxy.session.access import Access
from kproxy.session.engine import Steps

if TYPE_CHECKING:
    from kproxy.session.session import Session

_MOST = 50_000
"""Exchanges that are looked at, the latest, of a capture that is not read to its end when it begins."""


class Activity:
    """The moments of some exchanges; each is looked at once, as long as they come.

    :param wanted: what they fit, None for all
    :param everything: whatever is shown
    """

    def __init__(self, session: Session, wanted: Filter | None, *, everything: bool) -> None:
        self._session = session
        self._wanted = wanted
        self._everything = everything
        self._moments = GrowingArray(np.int64)
        self._seen = np.empty(0, np.int64)

    def renewed(self, _: Access) -> Steps[Int64s]:
        """Return the moments, in ns since the epoch and in no order, with those that are new by now."""
        numbers = self._session.countable(everything=self._everything)
        new = np.setdiff1d(numbers, self._seen, assume_unique=True)
        if not (len(self._seen) or self._session.status.finished):
            new = new[-_MOST:]
        self._seen = numbers
        self._moments.append((yield from self._session.moments(self._wanted, new)))
        return self._moments.array
