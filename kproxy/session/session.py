"""A session: a capture being read, and everything that the UI needs of it.

Two threads work here. The reading thread feeds packets to the capture, and may wait for them. The engine does
everything else, in jobs (:mod:`kproxy.session.engine`). Results are published as a whole, so that the display never
waits for either.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from threading import Lock, Thread
from typing import Any, TypeVar, overload

import numpy as np

from captures.arrays import Bools, Int64s
from captures.exchanges import Capture, Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.faults import Faults
from captures.filters import Filter
from captures.live.capture import GrowingCapture
from captures.packets import CaptureError
from dissectors.record_values import Payload
from dissectors.session_context import OBSERVED_APIS
from kproxy.session.access import Access
from kproxy.session.engine import ClosedError, Engine, Priority, Steps
from kproxy.session.folds import F, SessionFold
from kproxy.session.listed import ListedExchanges
from kproxy.session.matcher import ExchangeMatcher
from kproxy.session.order import ordered
from kproxy.session.published import HeldMessage, Order, Rate, ShownExchanges, Status
from kproxy.session.session_notes import SessionNotes
from kproxy.session.summaries import Summaries
from kproxy.text.summary import notes

T = TypeVar("T")

KEPT = 1_000_000
"""Most exchanges of live traffic that are kept; about 300 bytes each."""
_FEW = 5_000
_UPDATE_SECONDS = 0.25
"""Seconds between updates while a file is read at full speed."""
_LOOK_SECONDS = 1.0
_TOGETHER = 128
"""Exchanges that are filtered together; some milliseconds of work."""
_PROGRESS_SECONDS = 0.1


class Session:
    """One capture in the UI.

    :param capture: a capture that was not read yet
    :param title: what is viewed, for users
    :param live: whether it is live traffic: time continues between packets
    :param zone: time zone of the times; None is the local one
    :param kept: most exchanges that are kept of an endless source
    :ivar held: messages that the proxy holds now; set from outside
    :ivar summaries: content of the lines of the list
    """

    def __init__(
        self,
        capture: Capture,
        *,
        title: str,
        live: bool = False,
        zone: tzinfo | None = None,
        show_secrets: bool = False,
        payload: Payload = "full",
        kept: int = KEPT,
    ) -> None:
        if isinstance(capture, GrowingCapture):
            capture.remembered = None  # the session decides how much is kept
        self.title = title
        self.live = live
        self.zone = zone
        self.show_secrets = show_secrets
        self.held: tuple[HeldMessage, ...] = ()
        self._capture = capture
        self._kept = kept
        self._listed = ListedExchanges(capture, show_secrets=show_secrets, payload=payload)
        self._facts = self._listed.reader.knowledge.facts.of_messages
        """What was known of other exchanges when the summaries were last outdated."""
        self._notes = SessionNotes(capture.notes, self._listed)
        self._matcher = ExchangeMatcher(capture, self._listed, self._notes)
        self._access = Access(
            capture, self._listed, lambda: self.shown.all(), self._matcher.columns, lambda: self.whole
        )
        self._engine = Engine(capture.turns)
        self._reading = Thread(target=self._read, name="reading", daemon=True)
        self._inbox: deque[Int64s] = deque()
        self._inbox_lock = Lock()
        self._update_due = False
        self._updated = 0.0
        self._read_all = False
        self._closing = False
        self._failure = ""
        self._informative: deque[Int64s] = deque()
        """Rows of exchanges with facts about others, which have to be learned."""
        self._filter: Filter | None = None
        self._order: Order | None = None
        self._marked_only = False
        self._filter_job: Future[None] | None = None
        self._filtering: float | None = None
        self._filter_rate = 0.0
        self._folds: dict[str, SessionFold[Any]] = {}
        self._rate = Rate()
        self._noted = 0.0
        self.summaries = Summaries(self._wish)
        self.status = Status(size=capture.source.expected)
        self.shown = ShownExchanges(0, 0)

    # ------------------------------------------------------------ faults
    @property
    def faults(self) -> Faults:
        """Internal errors that the capture triggered."""
        return self._capture.faults

    def contain(self, error: Exception, doing: str, number: int = 0) -> None:
        """Record an internal error, and show it; from any thread.

        :raises Exception: as :meth:`~captures.faults.Faults.note` does
        """
        self.faults.note(error, doing, number)
        self.report_faults()

    def report_faults(self) -> None:
        """Publish the recorded errors."""
        lines = tuple(self.faults.lines())
        if lines != self.status.faults:
            self.status = replace(self.status, version=self.status.version + 1, faults=lines)

    # ------------------------------------------------------------ start and end
    def start(self) -> None:
        """Start reading, if that was not done yet."""
        if self._reading.ident is None:
            self._engine.start()
            self._reading.start()

    def close(self) -> None:
        """End everything; the rest of a file that is still being read is left unread."""
        self._closing = True
        self._capture.source.stop()
        if self._reading.is_alive():
            self._reading.join(5)
        self._engine.close()

    def _read(self) -> None:
        try:
            for rows in self._capture.updates():
                if self._closing:
                    return
                self._take(rows)
        except CaptureError as error:
            self._failure = str(error)
        except Exception as error:
            self._failure = f"reading failed: {type(error).__name__}: {error}"
        self._read_all = True
        self._take(np.empty(0, np.int64))

    def _take(self, rows: Int64s) -> None:
        """Pass completed rows to the engine; in the reading thread, with turns held."""
        now = time.monotonic()
        with self._inbox_lock:
            self._inbox.append(rows)
            soon = self._capture.source.live or self._read_all or now - self._updated > _UPDATE_SECONDS
            due = soon and not self._update_due
            self._update_due = self._update_due or due
        if due:
            self._updated = now
            self.do(self._update, Priority.UPDATE)

    # ------------------------------------------------------------ jobs
    @overload
    def submit(self, job: Callable[[Access], Steps[T]], priority: Priority) -> Future[T]: ...
    @overload
    def submit(self, job: Callable[[Access], T], priority: Priority) -> Future[T]: ...
    def submit(self, job: Callable[[Access], Any], priority: Priority) -> Future[Any]:
        """Submit a job; from any thread."""
        return self._engine.submit(lambda: job(self._access), priority)

    def do(self, job: Callable[[Access], Any], priority: Priority = Priority.LOOK) -> None:
        """Run something in the background; from any thread. The status reports a failure."""
        self.submit(job, priority).add_done_callback(self._on_done)

    def _on_done(self, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, ClosedError):
            self._failure = f"this went wrong: {type(error).__name__}: {error}"
            self.status = replace(self.status, version=self.status.version + 1, failure=self._failure)

    @overload
    async def run(self, job: Callable[[Access], Steps[T]], priority: Priority = Priority.ASKED) -> T: ...
    @overload
    async def run(self, job: Callable[[Access], T], priority: Priority = Priority.ASKED) -> T: ...
    async def run(self, job: Callable[[Access], Any], priority: Priority = Priority.ASKED) -> Any:
        """Run a job, and return its result. Being cancelled cancels it.

        :raises ClosedError: if the session has ended
        """
        return await asyncio.wrap_future(self.submit(job, priority))

    @property
    def filter(self) -> Filter | None:
        """The current filter; for the engine's thread, where the status may not have it yet."""
        return self._filter

    @property
    def whole(self) -> bool:
        """Whether this is a file that was read to its end, so that nothing changes any more."""
        return self._matcher.finished and not self.live

    @property
    def at_rest(self) -> bool:
        """Whether everything was read, and no job is left."""
        reads = self._reading.is_alive() and not self._capture.source.live
        return not reads and self._engine.idle and not self._inbox

    async def idle(self) -> None:
        """Wait until the session is at rest."""
        while not self.at_rest:
            await asyncio.sleep(0.005)

    # ------------------------------------------------------------ new exchanges
    def _update(self, access: Access) -> Steps[None]:
        with self._inbox_lock:
            batches, self._update_due = list(self._inbox), False
            self._inbox.clear()
        # checked first: rows appended later trigger another update
        ended = self._read_all and not self._inbox
        listed = self._listed
        begin = len(listed)
        self._rate.add(listed.extend(fits=self._filter is None))
        if self._matcher.context.start is None:
            self._matcher.renew_context()
        completed = np.concatenate([np.empty(0, np.int64), *batches])
        settled = listed.settle(completed)
        self._learn_soon(completed)
        self._matcher.observe_members(settled)
        if self._read_all:
            self._notes.read()
        if self._filter is not None:
            yield from self._decide(np.union1d(np.arange(begin, len(listed)), settled))
        # exchanges that arrived meanwhile have their own update
        self.summaries.outdate(settled + listed.first)
        fitting = settled[listed.fits.array[settled]]
        for folding in self._folds.values():
            folding.extend((settled if folding.everything else fitting) + listed.first)
        if ended:
            self._finish()
        self._forget()
        yield from self._arrange()
        self._publish(finished=ended)
        self._matcher.finished = self._matcher.finished or ended

    def _learn_soon(self, rows: Int64s) -> None:
        """Learn facts about other exchanges, such as the names of topic IDs, before filtering."""
        informative = rows[np.isin(self._capture.table.column("api_key")[rows], sorted(OBSERVED_APIS))]
        if len(informative):
            self._informative.append(informative)
            if len(self._informative) == 1:
                self.do(self._learn, Priority.FILTER)

    def _learn(self, access: Access) -> Steps[None]:
        while self._informative:
            rows = self._informative[0][:_TOGETHER]
            self._informative[0] = self._informative[0][_TOGETHER:]
            if not len(self._informative[0]):
                self._informative.popleft()
            for _ in access.reader.learn_from(rows):
                pass
            yield
        facts = access.reader.knowledge.facts.of_messages
        if facts != self._facts:
            self._facts = facts
            self.summaries.clear()
        self._publish()

    def _finish(self) -> None:
        """Number exchanges by their first byte in the capture, as other commands do, now that all are known."""
        if self.live:
            return
        moved = self._listed.sort()
        if moved is not None:
            first = self._listed.first
            self._notes.renumber(lambda number: int(moved[number - first]) + first)
            self._matcher.renew_context()
            self.summaries.forget()
        for folding in self._folds.values():
            if moved is not None or folding.by_columns:
                folding.begin_anew(self.countable(everything=folding.everything))

    def _forget(self) -> None:
        """Drop the oldest exchanges of an endless source."""
        listed, count = self._listed, len(self._listed) - self._kept
        if not self._capture.source.live or count < max(self._kept // 10, 1):
            return
        table, rows = self._capture.table, listed.reader.rows[count:]
        done = rows[table.is_complete(rows)]
        if not len(done):
            return
        # kept exchanges ended after this, or continue
        before = np.maximum(table.column("request_last")[done], table.column("response_last")[done]).min()
        renumbered = self._capture.forget(int(before))
        if renumbered is None:
            return
        listed.drop(count, renumbered)
        with self._inbox_lock:
            batches = [renumbered[rows] for rows in self._inbox]
            self._inbox.clear()
            self._inbox.extend(rows[rows >= 0] for rows in batches)
        moved = [renumbered[rows] for rows in self._informative]
        self._informative = deque(rows[rows >= 0] for rows in moved)
        self._notes.drop(listed.first)
        self._matcher.renew_context()

    # ------------------------------------------------------------ the list
    async def set_filter(self, wanted: Filter | None) -> None:
        """Show matching exchanges; return when that is done. A filter set meanwhile replaces it."""
        if self._filter_job is not None:
            self._filter_job.cancel()
        job = self._filter_job = self.submit(lambda _: self._apply(wanted), Priority.FILTER)
        with suppress(asyncio.CancelledError):
            await asyncio.shield(asyncio.wrap_future(job))

    def _apply(self, wanted: Filter | None) -> Steps[None]:
        self._filter = wanted
        listed = self._listed
        listed.fits.array[:] = wanted is None
        if wanted is not None:
            self._matcher.renew_context()
            yield
            self._filtering, self._filter_rate = 0.0, 0.0
            yield from self._arrange()  # from here on the list contains the matches so far
            self._publish()
            yield from self._matcher.learn_groups(wanted)
            yield from self._decide(np.arange(len(listed)), publish=True)
        self._filtering = None
        self._recount_shown()
        yield from self._arrange()
        self._publish()

    def _decide(self, indexes: Int64s, *, publish: bool = False) -> Steps[None]:
        """Find the exchanges that match the filter.

        :param indexes: increasing
        :param publish: whether to publish progress
        """
        wanted = self._filter
        if wanted is None or not len(indexes):
            return
        self._notes.read_interventions(indexes)
        listed = self._listed
        listed.fits.array[indexes] = False
        published = started = time.perf_counter()
        for found, share in self._matcher.matches(wanted, indexes):
            # by number: the oldest may have been dropped meanwhile
            listed.fits.array[found[found >= listed.first] - listed.first] = True
            now = time.perf_counter()
            if publish and now - published > _PROGRESS_SECONDS:
                published = now
                yield from self._arrange()
                self._filtering = share
                self._filter_rate = share * len(indexes) / (now - started)
                self._publish()
            if share < 1:
                yield

    def moments(self, wanted: Filter | None, numbers: Int64s) -> Steps[Int64s]:
        """Return the times of the exchanges that match a filter, in ns since the epoch; in the engine's thread.

        :param wanted: None matches all
        :param numbers: increasing
        """
        if wanted is not None and len(numbers):
            numbers = yield from self._matcher.matching(wanted, numbers)
        return ExchangeColumns(self._capture, self._access.rows(numbers)).flat("time")

    async def set_order(self, order: Order | None) -> None:
        """Order the list; by number if None.

        :raises FilterError: if the column does not exist
        """
        if order is not None:
            # tried first, so that the caller gets the error for an unknown column
            await self.run(
                lambda access: ordered(order, np.empty(0, np.int64), access, self._matcher.context)
            )

        def apply(_: Access) -> Steps[None]:
            self._order = order
            yield from self._arrange()
            self._publish()

        await self.run(apply, Priority.FILTER)

    async def set_marked_only(self, on: bool) -> None:
        """Show only marked exchanges among those that match the filter."""

        def apply(_: Access) -> Steps[None]:
            self._marked_only = on
            yield from self._arrange()
            self._recount_shown()
            self._publish()

        await self.run(apply, Priority.FILTER)

    def _arrange(self) -> Steps[None]:
        """Build the list: the matching exchanges, in order."""
        first, version = self._listed.first, self.shown.version + 1
        if self._filter is None and not self._marked_only and self._order is None:
            self.shown = ShownExchanges(version, len(self._listed), first=first)
            return
        numbers = np.flatnonzero(self._chosen()) + first
        if self._order is not None:
            numbers = yield from ordered(self._order, numbers, self._access, self._matcher.context)
        self.shown = ShownExchanges(version, len(numbers), numbers=numbers, rising=self._order is None)

    def _chosen(self) -> Bools:
        """Return a mask of the exchanges that match the filter, and are marked if only these are shown."""
        fits: Bools = self._listed.fits.array
        if not self._marked_only:
            return fits
        marked = np.zeros(len(fits), np.bool_)
        marked[[number - self._listed.first for number in self._notes.marked]] = True
        return fits & marked

    # ------------------------------------------------------------ marks and comments
    async def mark(self, numbers: Sequence[int], marked: bool | None = None) -> None:
        """Mark exchanges, or remove their marks; None toggles."""

        def mark(access: Access) -> Steps[None]:
            for number in numbers:
                self._notes.mark(number, access.row(number), marked)
            yield from self._renoted(numbers)

        await self.run(mark, Priority.LOOK)

    async def unmark_all(self) -> None:
        """Remove all marks."""
        await self.mark(self.marked, False)

    async def comment(self, number: int, text: str) -> None:
        """Set the comment on an exchange; an empty text removes it."""

        def comment(access: Access) -> Steps[None]:
            self._notes.comment(number, access.row(number), text)
            yield from self._renoted([number])

        await self.run(comment, Priority.LOOK)

    @property
    def marked(self) -> list[int]:
        """Numbers of the marked exchanges, increasing."""
        return sorted(self._notes.marked)

    def _renoted(self, numbers: Iterable[int]) -> Steps[None]:
        """Update the list for exchanges whose notes have changed."""
        changed = np.array(sorted(numbers), np.int64)
        self.summaries.outdate(changed)
        yield from self._decide(changed - self._listed.first)
        if self._marked_only or self._filter is not None:
            yield from self._arrange()
        self._publish()

    # ------------------------------------------------------------ publishing
    def _publish(self, *, finished: bool = False) -> None:
        capture, listed, before = self._capture, self._listed, self.status
        shown_notes = before.notes
        now = time.monotonic()
        if finished or now - self._noted > _LOOK_SECONDS:
            self._noted = now
            shown_notes = tuple(notes(capture)) if finished else shown_notes
            lost = int(capture.connections.streams.lost.sum())
        else:
            lost = before.lost
        self.status = replace(
            before,
            version=before.version + 1,
            exchanges=len(listed),
            shown=len(self.shown),
            in_flight=listed.in_flight,
            first=listed.first,
            read=capture.done,
            size=capture.source.expected,
            finished=before.finished or finished,
            failure=self._failure,
            filter=self._filter,
            filtering=self._filtering,
            filter_rate=self._filter_rate,
            order=self._order,
            marked_only=self._marked_only,
            marked=len(self._notes.marked),
            rate=self._rate.now(),
            published=now,
            dropped=capture.statistics.dropped,
            lost=lost,
            latest=capture.latest,
            begin=self._matcher.context.start or 0,
            notes=shown_notes,
            faults=tuple(self.faults.lines()),
        )

    # ------------------------------------------------------------ for views
    def _wish(self) -> None:
        self.do(self._summarise, Priority.ROWS)

    def _summarise(self, access: Access) -> Steps[None]:
        return self.summaries.make(access, self._matcher.context)

    async def exchange(self, number: int) -> Exchange:
        """Return a fully decoded exchange.

        :raises LookupError: if it is no longer kept, or never existed
        """
        return await self.run(lambda access: access.exchange(number), Priority.LOOK)

    def fold(
        self,
        name: str,
        make: Callable[[Access], F],
        *,
        annotated: bool = False,
        everything: bool = False,
        without: Collection[int] = (),
    ) -> SessionFold[F]:
        """Return the fold of this name; it is created on first use."""
        known = self._folds.get(name)
        if known is None:
            known = SessionFold(self, name, make, annotated=annotated, everything=everything, without=without)
            self._folds[name] = known
            begun = known
            self.do(lambda _: begun.begin_anew(self.countable(everything=everything)))
        return known

    def observe(self, begin: Callable[[Access], Callable[[Exchange], None]]) -> None:
        """Call a function with every exchange once it is complete, whatever is shown.

        :param begin: called once; both it and the function that it returns are called in the engine's thread
        """
        name = f"observer {len(self._folds)}"
        self.fold(name, lambda access: _Observer(begin(access)), annotated=True, everything=True).want(True)

    def countable(self, *, everything: bool) -> Int64s:
        """Return the numbers of the complete exchanges, only shown ones unless everything is wanted."""
        complete = self._listed.complete.array
        return np.flatnonzero(complete if everything else complete & self._chosen()) + self._listed.first

    def of_other_apis(self, numbers: Int64s, keys: Sequence[int]) -> Int64s:
        """Return the numbers of the exchanges that are of none of some APIs, all that are still kept."""
        numbers = numbers[numbers >= self._listed.first]
        return numbers[~np.isin(self._capture.table.column("api_key")[self._access.rows(numbers)], keys)]

    def _recount_shown(self) -> None:
        for folding in self._folds.values():
            if not folding.everything:
                folding.begin_anew(self.countable(everything=False))

    async def known(self, field: str) -> Sequence[str]:
        """Return values of a filter field in the capture, for completion; none for other fields."""
        try:
            return await self.run(lambda access: access.known(field), Priority.ASKED)
        except ClosedError:
            return ()


class _Observer:
    """A fold that passes exchanges to a function."""

    def __init__(self, look: Callable[[Exchange], None]) -> None:
        self.add = look
