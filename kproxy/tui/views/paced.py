"""The base of views whose result is expensive, and is therefore computed again only at intervals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from captures.analysis.groups.calls import OF_MEMBERS
from captures.exchanges import Exchange
from kproxy.pace import PacedValue
from kproxy.session.access import Access
from kproxy.tui.views.table_view import TableView

T = TypeVar("T")


class PacedFold(Generic[T]):
    """A fold with a result as of some time.

    :param nothing: the result before the first computation
    :ivar latest: the latest result, with its pace
    """

    def __init__(self, nothing: T) -> None:
        self.latest = PacedValue(nothing)
        self._added = 0
        self._end = 0

    def add(self, exchange: Exchange) -> None:
        self._added += 1
        self._end = max(self._end, exchange.end)

    def compute(self, now: int, pending: Iterable[Exchange], *, live: bool) -> T:
        """Return the result as of now.

        :param pending: open requests of group members
        :param live: whether time continues even without new exchanges
        """
        raise NotImplementedError

    def result(self, access: Access, *, everything: bool, live: bool) -> T:
        """Return the result as of now, or a recent one.

        :param everything: whether all exchanges were added, so that missing ones do not exist; otherwise now is the
            time of the latest one added
        :param live: as for :meth:`compute`
        """
        now = access.capture.latest if everything else self._end

        def compute() -> T:
            pending = access.pending(OF_MEMBERS) if live and everything else ()
            return self.compute(now, pending, live=live)

        return self.latest.get((self._added, now, live), compute)


P = TypeVar("P", bound=PacedFold[Any])


class PacedView(TableView[P]):
    """A view of the result of such a fold."""

    def result(self, fold: PacedFold[T], access: Access) -> T:
        """Return the result; in the engine's thread."""
        return fold.result(access, everything=self._folding.progress >= 1, live=self.continues)

    def state(self) -> tuple[Hashable, ...]:
        return (*super().state(), self._folding.look(lambda fold: fold.latest.version))
