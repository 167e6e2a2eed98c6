"""The base of views whose result is expensive, and is therefore computed again only at intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from captures.analysis.groups.calls import OF_MEMBERS
from captures.exchanges import Exchange
from kproxy.pace import PacedValue
from kproxy.session.access import Access
from kproxy.tui.views.table_view import TableView

T = TypeVar("T")


class PacedFold(ABC, Generic[T]):
    """A fold with a result as of some time. It examines each cluster by itself.

    :param nothing: the result before the first computation
    :ivar clusters: clusters of the connections
    :ivar cluster_names: those that the proxy had recorded when it was created
    :ivar latest: the latest result, with its pace
    :ivar added: number of added exchanges
    :ivar end: time of the latest one's end
    """

    def __init__(self, access: Access, nothing: T) -> None:
        self.clusters = access.clusters()
        self.cluster_names = access.cluster_names()
        self.latest = PacedValue(nothing)
        self.added = self.end = 0

    def add(self, exchange: Exchange) -> None:
        self.added += 1
        self.end = max(self.end, exchange.end)

    @abstractmethod
    def compute(self, now: int, pending: Iterable[Exchange], *, live: bool) -> T:
        """Return the result as of now.

        :param pending: open requests of group members
        :param live: whether time continues even without new exchanges
        """


P = TypeVar("P", bound=PacedFold[Any])


class PacedView(TableView[P]):
    """A view of the result of such a fold."""

    def result(self, fold: PacedFold[T], access: Access) -> T:
        """Return the result as of now, or a recent one; in the engine's thread.

        When a growing capture names another cluster, everything is counted again, because clusters are fixed in a fold.
        """
        if fold.cluster_names != access.cluster_names():
            self._folding.restart()
        # exchanges that were not added yet may be missing from the result
        everything, live = self._folding.progress >= 1, self.continues
        now = access.capture.latest if everything else fold.end

        def compute() -> T:
            pending = access.pending(OF_MEMBERS) if live and everything else ()
            return fold.compute(now, pending, live=live)

        return fold.latest.get((fold.added, now, live), compute)

    def state(self) -> tuple[Hashable, ...]:
        return (*super().state(), self._folding.look(lambda fold: fold.latest.version))
