"""Tables written on Spark: every range by the task that decodes it, and what needs all of a capture by a few others.

Tasks write their own files below the hidden folder of the run, and tell which these are; nothing of the rows goes
through Spark. So a task that is retried, or runs twice at the same time, leaves files that no manifest names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from captures.analysis.exchange_groups import undecoded
from captures.exchanges import Exchange
from captures.faults import Faults
from captures.filters.context import Context as FilterContext
from captures.filters.groups import INFERRING
from captures.names import Names
from captures.ranges.edges import pack, unpack
from captures.ranges.exchange_numbers import Context
from captures.ranges.exchanges import RangeExchanges
from captures.ranges.jobs import Input, exchanges_of, give_out
from captures.ranges.whole import Whole, WholeCapture
from captures.spark.task_shares import Share
from captures.tables.columns import Needs
from captures.tables.exchange_rows import ExchangeTables, header_batch, wants_summary
from captures.tables.folder import Part, PartWriter, StagingFolder
from captures.tables.whole_rows import WholeTables, needs
from dissectors.api_keys import ApiKey
from dissectors.session_context import SessionContext, SessionFacts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from captures.filters.filter import Filter
    from captures.filters.groups import GroupInference

NOWHERE = StagingFolder("", 0, "")
WRITTEN = "part int not null, data binary not null"
"""What tasks that write give: the number of the range, or of the share, and a packed :class:`TaskResult`."""


class TaskResult(NamedTuple):
    """What a task has written.

    :ivar exchanges: how many fit the filter
    :ivar undecoded: how many of these could not be decoded, or not wholly
    :ivar faults: what went wrong in kproxy itself
    """

    parts: list[Part]
    exchanges: int
    undecoded: int
    faults: Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What tasks have to know, all the same.

    :ivar staged: where rows are written, if they are
    :ivar columns: table -> names of its columns; the usual ones of those that are not named
    :ivar filter: only exchanges that fit are rows, and are judged; None for all
    :ivar start: time of the first packet, which relative times of the filter count from
    :ivar groups: who belongs to which group, if the filter asks for that
    :ivar names: of addresses
    """

    given: Input
    staged: StagingFolder = NOWHERE
    facts: SessionFacts
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    filter: Filter | None = None
    start: int | None = None
    groups: GroupInference | None = None
    names: Names = field(default_factory=Names)

    def read(self, context: Context) -> RangeExchanges:
        """Read a range again.

        :raises CaptureError: if a file cannot be read any more
        """
        part = give_out(self.given, context, self.facts)
        part.capture.names = self.names
        return part

    def knowledge(self) -> SessionContext:
        """Return what exchanges reveal about others."""
        known = SessionContext()
        known.add(self.facts)
        return known

    def with_groups(self, spark: SparkSession, contexts: Sequence[bytes]) -> Task:
        """Return the same with who belongs to which group, if the filter asks for that: a job looks at all exchanges.

        :param contexts: of all ranges, packed
        """
        if self.filter is None or not self.filter.needs_groups or self.groups is not None:
            return self
        ids = spark.range(0, 1, 1, 1)
        groups = collected(ids.mapInArrow(LearnGroups(self, contexts), WRITTEN))[0]
        return replace(self, groups=groups)

    def fitting(
        self, part: RangeExchanges, keys: frozenset[int] | None, *, summary: bool
    ) -> Iterator[Exchange]:
        """Yield the exchanges of a range that fit the filter, decoded.

        :param keys: of the APIs that matter; None for all exchanges
        """
        exchanges = part.exchanges(apis=keys, annotate=False, summary=summary)
        if self.filter is None:
            return exchanges
        names = self.knowledge().topic_name
        faults = part.capture.faults
        return (each for each in exchanges if self._fits(self.filter, each, names, faults))

    def rows(self, tables: Sequence[str], part: RangeExchanges) -> ExchangeTables:
        """Return what gathers rows of the exchanges of a range."""
        return ExchangeTables(
            tables,
            names=self.knowledge().topic_name,
            run=self.staged.run,
            columns=self.columns,
            faults=part.capture.faults,
        )

    def rows_of(self, table: str, context: Context) -> Iterator[pa.RecordBatch]:
        """Read a range again, and yield the rows of one table of its exchanges; decode them only if that is needed."""
        part = self.read(context)
        rows = self.rows((table,), part)
        if rows.needs is Needs.HEADER and self.filter is None:
            yield header_batch(
                part.capture, part.rows, part.numbers, part.connections, 0, self.columns.get(table)
            )
            return
        for exchange in self.fitting(part, None, summary=wants_summary((table,), self.columns)):
            rows.add(exchange)
            if rows.full:
                yield from rows.take().values()
        yield from rows.take().values()
        part.capture.faults.locate(part.path_of)
        part.capture.faults.log()

    def _fits(
        self, wanted: Filter, exchange: Exchange, names: Callable[[str], str | None], faults: Faults
    ) -> bool:
        number, note = exchange.number, exchange.note
        context = FilterContext(
            names,
            self.groups,
            self.start,
            {"marked": {number}} if note.marked else {},
            {number: note.comment} if note.comment else {},
            {number: exchange.interventions} if exchange.interventions.flags else {},
        )
        return wanted.fits(exchange, context, faults)


# ---------------------------------------------------------------- tables of single exchanges
class WriteRanges:
    """Decodes ranges, and writes the tables of their exchanges.

    :param tables: names of those
    :param prefix: of the names of files, of a run that has several batches
    """

    def __init__(self, task: Task, tables: Sequence[str], prefix: str = "") -> None:
        self._task = task
        self._prefix = prefix
        self._tables = tuple(tables)
        self._summary = wants_summary(tables, task.columns)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part, context in columns_of(batch, "part", "context"):
                yield _done(part, self._write(unpack(context)))

    def _write(self, context: Context) -> TaskResult:
        task = self._task
        count = damaged = 0
        with PartWriter(task.staged, f"{self._prefix}{context.part.number:05d}") as writer:
            part = task.read(context)
            rows = task.rows(self._tables, part)
            for exchange in task.fitting(part, None, summary=self._summary):
                rows.add(exchange)
                count += 1
                damaged += undecoded(exchange)
                if rows.full:
                    writer.write_all(rows.take())
            writer.write_all(rows.take())
            part.capture.faults.locate(part.path_of)
            return TaskResult(writer.close(), count, damaged, part.capture.faults)


class WriteHeaders:
    """Writes the table of exchanges from what the reading of ranges has left with Spark: nothing is decoded.

    :param columns: names of its columns
    """

    def __init__(self, task: Task, columns: Sequence[str]) -> None:
        self._task = task
        self._columns = tuple(columns)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part, context, data in columns_of(batch, "part", "context", "data"):
                yield _done(part, self._write(unpack(context), data))

    def _write(self, context: Context, data: bytes) -> TaskResult:
        batch = header_rows(context, data, self._task.staged.run, self._columns, self._task.names)
        with PartWriter(self._task.staged, context.part.number) as writer:
            writer.write("exchanges", batch)
            return TaskResult(writer.close(), batch.num_rows, 0, Faults())


def header_rows(
    context: Context, data: bytes, run: int, columns: Sequence[str] | None, names: Names
) -> pa.RecordBatch:
    """Return the rows of the table of exchanges that the headers of a range alone tell.

    :param data: what the reading of the range has left with Spark
    :param columns: names of the columns; None for all
    :param names: of addresses
    """
    from captures.ranges.headers import headers_of

    headers = headers_of(exchanges_of(data), context)
    capture: Any = headers.capture
    capture.names = names
    return header_batch(capture, headers.rows, headers.numbers, headers.connections, run, columns)


# ---------------------------------------------------------------- tables of the whole
class Judge:
    """Looks at the exchanges of all ranges, in order, and writes the tables that need all of them.

    :param contexts: of all ranges, packed
    :param limits: thresholds of rules
    """

    def __init__(
        self,
        task: Task,
        shares: Sequence[Share],
        contexts: Sequence[bytes],
        whole: Whole,
        limits: Mapping[str, float],
    ) -> None:
        self._task = task
        self._shares = tuple(shares)
        self._contexts = tuple(contexts)
        self._whole = pack(whole)
        self._limits = dict(limits)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for (number,) in columns_of(batch, "id"):
                yield _done(number, self._write(number, self._shares[number]))

    def _write(self, number: int, share: Share) -> TaskResult:
        with PartWriter(self._task.staged, f"whole{number}") as writer:
            tables = self.tables(share)
            writer.write_all(tables.batches())
            return TaskResult(writer.close(), 0, 0, tables.faults)

    def tables(self, share: Share) -> WholeTables:
        """Look at all exchanges that a share needs."""
        task = self._task
        capture: Any = WholeCapture(task.given.plan.source(), unpack(self._whole))
        capture.names = task.names
        tables = WholeTables(
            capture,
            task.knowledge().topic_name,
            share.tables,
            run=task.staged.run,
            rules=share.rules,
            limits=self._limits,
        )
        keys = needs(share.tables, share.rules)
        for context in self._contexts if keys is None or keys else ():
            part = task.read(unpack(context))
            capture.take(part)
            for exchange in task.fitting(part, keys, summary=False):
                tables.add(exchange)
            for faults in (capture.faults, part.capture.faults):
                faults.locate(part.path_of)
            capture.faults.merge(part.capture.faults)
        return tables


class LearnGroups:
    """Looks at the exchanges of all ranges for who belongs to which group, which filters may ask for."""

    def __init__(self, task: Task, contexts: Sequence[bytes]) -> None:
        self._task = task
        self._contexts = tuple(contexts)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from captures.filters.groups import GroupInference
        from dissectors.api_keys import MEMBER_APIS

        for _ in batches:
            groups = GroupInference(self._task.knowledge().topic_name)
            self._observe(groups, MEMBER_APIS)
            if groups.contested:  # only then do the partitions of a Fetch matter
                self._observe(groups, frozenset({ApiKey.FETCH}))
            columns = [pa.array([0], pa.int32()), pa.array([pack(groups)], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["part", "data"])

    def _observe(self, groups: GroupInference, keys: frozenset[int]) -> None:
        for context in self._contexts:
            part = self._task.read(unpack(context))
            observe = part.capture.faults.guarded(groups.observe, INFERRING)
            for exchange in part.exchanges(apis=keys, annotate=False, summary=False):
                observe(exchange)


def faults_of(done: Iterable[TaskResult]) -> Faults:
    """Return the faults of all tasks."""
    found = Faults()
    for each in done:
        found.merge(each.faults)
    return found


def header_only(tables: Sequence[str], task: Task) -> Sequence[str] | None:
    """Return the columns of the table of exchanges if nothing has to be decoded for what is needed; else None."""
    if task.filter is not None or "exchanges" not in tables:
        return None
    rows = ExchangeTables(tables, names=task.knowledge().topic_name, run=0, columns=task.columns)
    return task.columns["exchanges"] if rows.needs is Needs.HEADER else None


def collected(frame: DataFrame) -> dict[int, Any]:
    """Return what tasks gave, by the number that they were given."""
    return {row["part"]: unpack(bytes(row["data"])) for row in frame.collect()}


def columns_of(batch: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """Return columns of a batch side by side, as plain values."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _done(part: int, done: TaskResult) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array([part], pa.int32()), pa.array([pack(done)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["part", "data"])
