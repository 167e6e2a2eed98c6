"""Counting for views: each shown exchange is added once, in the background, while a view is open. Rates of new ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns, SelectedColumns
from captures.exchanges.columns.arrays import GrowingArray
from captures.filters import Filter
from kproxy.session.access import Access
from kproxy.session.engine import Priority, Steps
from kproxy.session.published import Rate

if TYPE_CHECKING:
    from kproxy.session.session import Session

_TURN = 0.01  # seconds of work before more urgent jobs may run
_TOGETHER = 128
_FEW = 1 / 32
"""Share of all exchanges up to which it is faster to decode them one by one than to fill columns of all."""


class Fold(Protocol):
    """An accumulator of exchanges, used in the engine's thread."""

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""


@runtime_checkable
class ColumnFold(Fold, Protocol):
    """A fold that adds exchanges of a file together once it is read to its end, because columns decide most of it.

    :ivar TAKEN: the message columns that it uses
    """

    TAKEN: ClassVar[Collection[str]]

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        """Add exchanges, in steps; yield the index of the one that is done.

        :param columns: of the exchanges, in the order of their numbers
        :param indexes: their indexes among all exchanges
        """


F = TypeVar("F", bound=Fold)
T = TypeVar("T")


class SessionFold(Generic[F]):
    """A fold over the shown and complete exchanges.

    It restarts when the list changes other than by growing.

    :param name: name of its view
    :param make: creates the fold, in the engine's thread
    :param annotated: whether to decode exchanges for display, with summaries; takes twice the time
    :param everything: add all exchanges, whatever is shown
    :param without: API keys whose exchanges are left out
    :ivar version: changes when something was added, or the fold restarted
    :ivar rate: recent number of added exchanges per second
    """

    def __init__(
        self,
        session: Session,
        name: str,
        make: Callable[[Access], F],
        *,
        annotated: bool = False,
        everything: bool = False,
        without: Collection[int] = (),
    ) -> None:
        self._session = session
        self._without = list(without)
        self._doing = f"counting it for {name}"
        self._make = make
        self._annotated = annotated
        self.everything = everything
        self._fold: F | None = None
        self._waiting: deque[Int64s] = deque()
        self._left = 0
        self.added = 0
        """Number of added exchanges."""
        self._wanted = False
        self._running = False
        self._one_by_one = False
        self.version = 0
        self._rate = Rate()
        self.rate = 0.0

    # ------------------------------------------------------------ for views
    @property
    def progress(self) -> float:
        """Share of the exchanges that were added."""
        total = self.added + self._left
        return self.added / total if total else 1.0

    def want(self, on: bool) -> None:
        """Start or pause adding."""
        self._wanted = on
        if on:
            self._session.do(self._continue)

    def restart(self) -> None:
        """Drop the result, and add everything again, because it is to be counted differently."""
        self._session.do(lambda _: self.begin_anew(self._session.countable(everything=self.everything)))

    async def read(self, look: Callable[[F, Access], T]) -> T:
        """Return what `look` returns for the fold, in the engine's thread."""

        return await self._session.run(lambda access: look(self.fold(access), access), Priority.LOOK)

    def look(self, at: Callable[[F], T]) -> T | None:
        """Return what `at` returns for the fold, which must be safe in any thread; None if there is no fold yet."""
        fold = self._fold
        return None if fold is None else at(fold)

    def fold(self, access: Access) -> F:
        """Return the current fold; in the engine's thread."""
        if self._fold is None:
            self._fold = self._make(access)
        return self._fold

    # ------------------------------------------------------------ for the session, in the engine's thread
    @property
    def by_columns(self) -> bool:
        """Whether it adds a file as a whole once it is read to its end."""
        return isinstance(self._fold, ColumnFold)

    def begin_anew(self, numbers: Int64s) -> None:
        """Drop the result, and add these exchanges."""
        self._fold = None
        self._one_by_one = False
        self._waiting = deque()
        self._left = self.added = 0
        self.version += 1
        self.extend(numbers)

    def extend(self, numbers: Int64s) -> None:
        """Add further exchanges."""
        if self._without:
            numbers = self._session.of_other_apis(numbers, self._without)
        if not len(numbers):
            return
        self._waiting.append(numbers)
        self._left += len(numbers)
        if self._wanted:
            self._session.do(self._continue)

    def _continue(self, access: Access) -> None:
        if not self._running and self._waiting:
            self._running = True
            self._session.do(self._add, Priority.COUNT)

    def _add(self, access: Access) -> Steps[None]:
        try:
            while self._waiting and self._wanted:
                self.fold(access)
                if self._one_by_one or not (self.by_columns and self._session.whole) or self._are_few(access):
                    yield from self._add_some(access)
                else:
                    yield from self._add_all(access)
        finally:
            self._running = False

    def _are_few(self, access: Access) -> bool:
        return not self.everything and self._left + self.added < _FEW * len(access.reader)

    def _add_all(self, access: Access) -> Steps[None]:
        """Add everything to another fold, which replaces the empty one when it is complete."""
        waiting, total, columns = self._waiting, self._left, access.columns()
        made = self._make(access)
        assert isinstance(made, ColumnFold)
        indexes, chosen = np.arange(len(columns)), columns
        if not self.everything and total < len(columns):
            indexes = np.concatenate(waiting) - access.reader.first
            chosen = SelectedColumns(columns, indexes)
        passes = columns.preparing(made.TAKEN), made.add_all(access, chosen, indexes)
        began = perf_counter()
        try:
            for index, steps in enumerate(passes):
                for done in steps:
                    if perf_counter() - began > _TURN:
                        share = (index + done / len(columns)) / len(passes)
                        self._count(max(int(total * share) - self.added, 0))
                        yield
                        if self._waiting is not waiting:  # it has restarted
                            return
                        began = perf_counter()
        except Exception as error:
            self._session.contain(error, self._doing)
            # so that only those that fail are missing
            self._one_by_one, self._left, self.added = True, total, 0
            return
        self._fold, self._waiting = made, deque()
        self._count(self._left)
        self._session.report_faults()

    def _count(self, number: int) -> None:
        self._left -= number
        self.added += number
        self._rate.add(number)
        self.rate = self._rate.now()
        self.version += 1

    def _add_some(self, access: Access) -> Steps[None]:
        fold, numbers = self.fold(access), self._waiting[0]
        part, rest = numbers[:_TOGETHER], numbers[_TOGETHER:]
        if len(rest):
            self._waiting[0] = rest
        else:
            self._waiting.popleft()
        self._left -= len(part)
        began = perf_counter()
        for exchange in access.exchanges(part.tolist(), annotated=self._annotated):
            try:
                fold.add(exchange)
            except Exception as error:
                self._session.contain(error, self._doing, exchange.number)
            self.added += 1
            if perf_counter() - began > _TURN:
                self.version += 1
                yield
                if self._fold is not fold:  # it has restarted
                    return
                began = perf_counter()
        self._rate.add(len(part))
        self.rate = self._rate.now()
        self._session.report_faults()  # folds may have recorded some themselves
        self.version += 1
        yield


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
