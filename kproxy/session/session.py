"""A session: a capture being read, and everything that the UI needs of it.

Two threads work here. The reading thread feeds packets to the capture, and may wait for them. The engine does
everything else, in jobs (:mod:`kproxy.session.engine`). Results are published as a whole, so that the display never
waits for either.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from threading import Lock, Thread
from typing import Any, TypeVar, overload

import numpy as np

from captures.arrays import Bools, Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.columns.arrays import GrowingArray
from captures.faults import Faults
from captures.filters import Context, Filter
from captures.filters.groups import INFERRING, GroupInference
from captures.interventions import Interventions
from captures.live.capture import GrowingCapture
from captures.packets import CaptureError
from dissectors.api_keys import MEMBER_APIS, ApiKey
from dissectors.record_values import Payload
from dissectors.session_context import OBSERVED_APIS, SessionContext
from kproxy.session.access import Access
from kproxy.session.engine import ClosedError, Engine, Priority, Steps
from kproxy.session.folds import F, SessionFold
from kproxy.session.order import ordered
from kproxy.session.published import HeldMessage, Order, Rate, ShownExchanges, Status
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
_TOGETHER_BY_COLUMNS = 2048
"""The same for filters that columns of their messages decide."""
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
        knowledge = SessionContext()
        self._reader = ExchangeReader(
            capture, show_secrets=show_secrets, payload=payload, live=True, knowledge=knowledge
        )
        self._plain = ExchangeReader(capture, annotate=False, summary=False, live=True, knowledge=knowledge)
        self._facts = knowledge.facts
        """What was known of other exchanges when the summaries were last outdated."""
        self._access = Access(
            capture, self._reader, self._plain, lambda: self.shown.all(), self._open, self._columns
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
        self._listed = 0
        """Number of table rows that are or were in the list."""
        self._index_of_row = GrowingArray(np.int64)
        self._complete = GrowingArray(np.bool_)
        self._fits = GrowingArray(np.bool_)
        self._marked: set[int] = set()
        self._filter: Filter | None = None
        self._order: Order | None = None
        self._marked_only = False
        self._context = Context(self._reader.knowledge.topic_name, selections={"marked": self._marked})
        self._comments: dict[int, str] = {}
        self._interventions: dict[int, Interventions] = {}
        self._filter_job: Future[None] | None = None
        self._filtering: float | None = None
        self._filter_rate = 0.0
        self._folds: dict[str, SessionFold[Any]] = {}
        self._rate = Rate()
        self._noted = 0.0
        self._groups: GroupInference | None = None
        self._messages: ExchangeColumns | None = None
        """Message columns of all exchanges, once the capture was read completely."""
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
        """Start reading."""
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
        table, reader = self._capture.table, self._reader
        new = table.in_order(np.arange(self._listed, len(table)))
        self._listed = len(table)
        begin = len(reader)
        self._list(new)
        if self._context.start is None:
            self._renew_context()
        completed = np.concatenate([np.empty(0, np.int64), *batches])
        settled = self._index_of_row.array[completed]
        settled = settled[settled >= 0]
        self._complete.array[settled] = True
        self._learn_soon(completed)
        self._observe_members(settled)
        self._note_marks()
        self._rate.add(len(new))
        if self._filter is not None:
            yield from self._decide(np.union1d(np.arange(begin, len(reader)), settled))
        # exchanges that arrived meanwhile have their own update
        self.summaries.outdate(settled + reader.first)
        fitting = settled[self._fits.array[settled]]
        for folding in self._folds.values():
            folding.extend((settled if folding.everything else fitting) + reader.first)
        if ended:
            self._finish()
        self._forget()
        yield from self._arrange()
        self._publish(finished=ended)

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
        facts = access.reader.knowledge.facts
        if facts != self._facts:
            self._facts = facts
            self.summaries.clear()
        self._publish()

    def _list(self, rows: Int64s) -> None:
        """Append rows of the table to the list."""
        reader, table = self._reader, self._capture.table
        begin = len(reader)
        reader.extend(rows)
        self._plain.extend(rows)
        self._complete.append(np.zeros(len(rows), np.bool_))
        self._fits.append(np.full(len(rows), self._filter is None))
        missing = len(table) - len(self._index_of_row)
        self._index_of_row.append(np.full(max(missing, 0), -1))
        self._index_of_row.array[rows] = np.arange(begin, begin + len(rows))

    def _finish(self) -> None:
        """Number exchanges by their first byte in the capture, as other commands do, now that all are known."""
        if self.live:
            return
        rows = self._reader.rows
        order = self._capture.table.in_order(rows)
        if order is rows:
            return
        places = self._index_of_row.array[order]
        self._reader.reorder(order)
        self._plain.reorder(order)
        self._index_of_row.array[order] = np.arange(len(order))
        for flags in (self._complete, self._fits):
            flags.array[:] = flags.array[places]
        moved = np.empty(len(places), np.int64)
        moved[places] = np.arange(1, len(places) + 1)
        self._marked = {int(moved[number - 1]) for number in self._marked}
        self._comments = {int(moved[number - 1]): text for number, text in self._comments.items()}
        self._interventions = {int(moved[number - 1]): done for number, done in self._interventions.items()}
        self._renew_context()
        self.summaries.forget()
        self._recount_shown()

    def _forget(self) -> None:
        """Drop the oldest exchanges of an endless source."""
        reader, count = self._reader, len(self._reader) - self._kept
        if not self._capture.source.live or count < max(self._kept // 10, 1):
            return
        table, rows = self._capture.table, reader.rows[count:]
        done = rows[table.is_complete(rows)]
        if not len(done):
            return
        # kept exchanges ended after this, or continue
        before = np.maximum(table.column("request_last")[done], table.column("response_last")[done]).min()
        renumbered = self._capture.forget(int(before))
        if renumbered is None:
            return
        self._listed = len(table)
        reader.drop(count, renumbered)
        self._plain.drop(count, renumbered)
        for flags in (self._complete, self._fits):
            chosen = np.zeros(len(flags), np.bool_)
            chosen[count:] = True
            flags.keep(chosen)
        with self._inbox_lock:
            batches = [renumbered[rows] for rows in self._inbox]
            self._inbox.clear()
            self._inbox.extend(rows[rows >= 0] for rows in batches)
        moved = [renumbered[rows] for rows in self._informative]
        self._informative = deque(rows[rows >= 0] for rows in moved)
        self._index_of_row = GrowingArray(np.int64)
        self._index_of_row.append(np.full(len(table), -1))
        self._index_of_row.array[reader.rows] = np.arange(len(reader))
        for kept_apart in (self._comments, self._interventions):
            for number in [number for number in kept_apart if number < reader.first]:
                del kept_apart[number]
        self._marked = {number for number in self._marked if number >= reader.first}
        self._renew_context()

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
        reader = self._reader
        self._fits.array[:] = wanted is None
        if wanted is not None:
            self._renew_context()
            yield
            self._filtering, self._filter_rate = 0.0, 0.0
            yield from self._arrange()  # from here on the list contains the matches so far
            self._publish()
            if wanted.needs_groups and self._groups is None:
                yield from self._learn_groups()
            yield from self._decide(np.arange(len(reader)), publish=True)
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
        self._note_interventions(indexes)
        self._fits.array[indexes] = False
        published = started = time.perf_counter()
        for found, share in self._fitting(wanted, indexes):
            # by number: the oldest may have been dropped meanwhile
            self._fits.array[found[found >= self._plain.first] - self._plain.first] = True
            now = time.perf_counter()
            if publish and now - published > _PROGRESS_SECONDS:
                published = now
                yield from self._arrange()
                self._filtering = share
                self._filter_rate = share * len(indexes) / (now - started)
                self._publish()
            if share < 1:
                yield

    def _fitting(self, wanted: Filter, indexes: Int64s) -> Iterator[tuple[Int64s, float]]:
        """Yield the exchanges that match a filter: by columns at once, the undecided ones in portions.

        :param indexes: increasing
        :returns: numbers of exchanges, and the share of all that is decided; each takes some milliseconds of work
        """
        messages = None
        if self.status.finished and wanted.message_columns and len(indexes) == len(self._reader):
            # of all exchanges, whose columns are kept
            for done in self._preparing(wanted.message_columns):
                yield indexes[:0], min(done / len(indexes), 0.99)
            messages = self._messages
        masks = wanted.mask_of(self._plain, indexes, self._context, messages)
        undecided = indexes[masks.undecided] + self._plain.first
        yield indexes[masks.matches] + self._plain.first, 1 - len(undecided) / len(indexes)
        together = _TOGETHER_BY_COLUMNS if wanted.message_columns and messages is None else _TOGETHER
        for begin in range(0, len(undecided), together):
            part = undecided[begin : begin + together] - self._plain.first
            found = list(wanted.decide(self._plain, part[part >= 0], self._context))
            left = max(len(undecided) - begin - together, 0)
            yield np.array(found, np.int64) + self._plain.first, 1 - left / len(indexes)

    def moments(self, wanted: Filter | None, numbers: Int64s) -> Steps[Int64s]:
        """Return the times of the exchanges that match a filter, in ns since the epoch; in the engine's thread.

        :param wanted: None matches all
        :param numbers: increasing
        """
        if wanted is not None and len(numbers):
            if wanted.needs_groups and self._groups is None:
                yield from self._learn_groups()
            every = self.status.finished
            indexes = np.arange(len(self._reader)) if every else numbers - self._plain.first
            fitting = [numbers[:0]]
            for found, _ in self._fitting(wanted, indexes[indexes >= 0]):
                fitting.append(found)
                yield
            numbers = np.intersect1d(np.concatenate(fitting), numbers)
        return ExchangeColumns(self._capture, self._access.rows(numbers)).flat("time")

    def _learn_groups(self) -> Steps[None]:
        groups = GroupInference(self._reader.knowledge.topic_name)
        yield from groups.learning(self._plain, self._kept_columns() if self.status.finished else None)
        self._groups = groups
        self._renew_context()

    def _observe_members(self, settled: Int64s) -> None:
        """Learn group memberships from completed exchanges."""
        if self._groups is None:
            return
        keys = self._capture.table.column("api_key")[self._reader.rows[settled]]
        apis = {*MEMBER_APIS, ApiKey.FETCH} if self._groups.contested else MEMBER_APIS
        chosen = settled[np.isin(keys, list(apis))] + self._plain.first
        observe = self.faults.guarded(self._groups.observe, INFERRING)
        for exchange in self._access.exchanges(chosen.tolist()):
            observe(exchange)

    def _preparing(self, columns: Iterable[str]) -> Iterator[int]:
        """Fill columns of the messages of all exchanges, step by step; they are kept."""
        return self._kept_columns().preparing(columns)

    def _kept_columns(self) -> ExchangeColumns:
        if self._messages is None:
            names = self._reader.knowledge.topic_name
            self._messages = ExchangeColumns(self._capture, self._reader.rows, names=names)
        return self._messages

    def _columns(self, names: Iterable[str]) -> Steps[ExchangeColumns]:
        for _ in self._preparing(names):
            yield
        return self._kept_columns()

    async def set_order(self, order: Order | None) -> None:
        """Order the list; by number if None.

        :raises FilterError: if the column does not exist
        """
        if order is not None:
            # tried first, so that the caller gets the error for an unknown column
            await self.run(lambda access: ordered(order, np.empty(0, np.int64), access, self._context))

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
        reader, version = self._reader, self.shown.version + 1
        if self._filter is None and not self._marked_only and self._order is None:
            self.shown = ShownExchanges(version, len(reader), first=reader.first)
            return
        numbers = np.flatnonzero(self._chosen()) + reader.first
        if self._order is not None:
            numbers = yield from ordered(self._order, numbers, self._access, self._context)
        self.shown = ShownExchanges(version, len(numbers), numbers=numbers, rising=self._order is None)

    def _chosen(self) -> Bools:
        """Return a mask of the exchanges that match the filter, and are marked if only these are shown."""
        fits = self._fits.array
        if not self._marked_only:
            return fits
        marked = np.zeros(len(fits), np.bool_)
        marked[[number - self._reader.first for number in self._marked]] = True
        return fits & marked

    # ------------------------------------------------------------ marks and comments
    async def mark(self, numbers: Sequence[int], marked: bool | None = None) -> None:
        """Mark exchanges, or remove their marks; None toggles."""

        def mark(access: Access) -> Steps[None]:
            for number in numbers:
                on = number not in self._marked if marked is None else marked
                self._capture.notes.mark(access.row(number), marked=on)
                (self._marked.add if on else self._marked.discard)(number)
            yield from self._renoted(numbers)

        await self.run(mark, Priority.LOOK)

    async def unmark_all(self) -> None:
        """Remove all marks."""
        await self.mark(sorted(self._marked), False)

    async def comment(self, number: int, text: str) -> None:
        """Set the comment on an exchange; an empty text removes it."""

        def comment(access: Access) -> Steps[None]:
            self._capture.notes.comment(access.row(number), text)
            self._comments.pop(number, None)
            if text:
                self._comments[number] = text
            yield from self._renoted([number])

        await self.run(comment, Priority.LOOK)

    @property
    def marked(self) -> list[int]:
        """Numbers of the marked exchanges, increasing."""
        return sorted(self._marked)

    def _renoted(self, numbers: Iterable[int]) -> Steps[None]:
        """Update the list for exchanges whose notes have changed."""
        changed = np.array(sorted(numbers), np.int64)
        self.summaries.outdate(changed)
        yield from self._decide(changed - self._reader.first)
        if self._marked_only or self._filter is not None:
            yield from self._arrange()
        self._publish()

    def _note_marks(self) -> None:
        """Add marks and comments from the capture."""
        if not self._read_all:
            return
        for row, note in self._capture.notes.all().items():
            index = int(self._index_of_row.array[row])
            if index < 0:
                continue
            number = index + self._reader.first
            if note.marked:
                self._marked.add(number)
            if note.comment:
                self._comments[number] = note.comment

    def _renew_context(self) -> None:
        known = self._context
        table = self._capture.table
        start = known.start
        if start is None and len(self._reader):
            row = table.row(self._reader.row(0))
            start = row["request_first"] if row["request_size"] else row["response_first"]
        self._context = Context(
            known.names, self._groups, start, {"marked": self._marked}, self._comments, self._interventions
        )

    def _note_interventions(self, indexes: Int64s) -> None:
        """Record what the proxy did to some exchanges, which columns do not contain."""
        if self._context.start is None:
            self._renew_context()
        all_notes, first = self._capture.notes, self._reader.first
        if len(indexes) < _FEW:
            for index in indexes.tolist():
                done = all_notes.interventions(self._reader.row(index))
                if done:
                    self._interventions[index + first] = done
            return
        place = self._index_of_row.array
        for row, done in all_notes.all_interventions().items():
            if place[row] >= 0:
                self._interventions[int(place[row]) + first] = done

    # ------------------------------------------------------------ publishing
    def _publish(self, *, finished: bool = False) -> None:
        capture, reader, before = self._capture, self._reader, self.status
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
            exchanges=len(reader),
            shown=len(self.shown),
            in_flight=len(reader) - int(np.count_nonzero(self._complete.array)),
            first=reader.first,
            read=capture.done,
            size=capture.source.expected,
            finished=before.finished or finished,
            failure=self._failure,
            filter=self._filter,
            filtering=self._filtering,
            filter_rate=self._filter_rate,
            order=self._order,
            marked_only=self._marked_only,
            marked=len(self._marked),
            rate=self._rate.now(),
            dropped=capture.statistics.dropped,
            lost=lost,
            latest=capture.latest,
            begin=self._context.start or 0,
            notes=shown_notes,
            faults=tuple(self.faults.lines()),
        )

    # ------------------------------------------------------------ for views
    def _wish(self) -> None:
        self.do(self._summarise, Priority.ROWS)

    def _summarise(self, access: Access) -> Steps[None]:
        return self.summaries.make(access, self._context)

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
        complete = self._complete.array
        return np.flatnonzero(complete if everything else complete & self._chosen()) + self._reader.first

    def of_other_apis(self, numbers: Int64s, keys: Sequence[int]) -> Int64s:
        """Return the numbers of the exchanges that are of none of some APIs, all that are still kept."""
        numbers = numbers[numbers >= self._reader.first]
        return numbers[~np.isin(self._capture.table.column("api_key")[self._access.rows(numbers)], keys)]

    def _open(self) -> Int64s:
        """Return the numbers of the incomplete exchanges."""
        return np.flatnonzero(~self._complete.array) + self._reader.first

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
