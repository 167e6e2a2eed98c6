"""Tasks on Spark that read ranges of a capture: what all of them need, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from captures.exchanges import Exchange
from captures.faults import Faults
from captures.filters.context import Context as FilterContext
from captures.filters.groups import INFERRING
from captures.interventions import UpstreamBroker
from captures.ranges.edges import pack, unpack
from captures.ranges.exchange_numbers import Context
from captures.ranges.exchanges import RangeExchanges
from captures.ranges.jobs import Input, MergeResult, read_exchanges
from captures.spark.capture_reader import columns_of
from captures.tables.exchange_rows import ExchangeTables, header_batch, wants_summary
from captures.tables.folder import Part, StagingFolder
from captures.tables.single import TableRequest
from dissectors.api_keys import MEMBER_APIS, ApiKey
from dissectors.session_context import SessionContext, SessionFacts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from captures.filters.filter import Filter
    from captures.filters.groups import GroupInference

NOWHERE = StagingFolder("", 0, "")
WRITTEN = "part int not null, data binary not null"
"""Output of writing tasks: number of the range or share, and a packed :class:`TaskResult`."""


class TaskResult(NamedTuple):
    """Files and counts of a finished task.

    :ivar exchanges: number that match the filter
    :ivar undecoded: number of these that could not be decoded completely
    :ivar faults: internal errors
    """

    parts: list[Part]
    exchanges: int
    undecoded: int
    faults: Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Settings shared by all tasks of a run.

    :ivar staged: where rows are written, if they are
    :ivar upstreams: as :attr:`~captures.ranges.exchange_numbers.NumberedRanges.upstreams`
    :ivar wanted: the tables of the run
    :ivar start: time of the first exchange, the origin of relative times in the filter
    :ivar groups: group membership, if the filter refers to groups
    """

    given: Input
    staged: StagingFolder = NOWHERE
    facts: SessionFacts
    upstreams: Mapping[int, UpstreamBroker] = field(default_factory=dict)
    wanted: TableRequest
    start: int | None = None
    groups: GroupInference | None = None

    @classmethod
    def of(cls, read: MergeResult, wanted: TableRequest, staged: StagingFolder = NOWHERE) -> Task:
        """Return the settings for the tables of a capture."""
        return cls(
            given=read.given,
            staged=staged,
            facts=read.numbered.facts,
            upstreams=read.numbered.upstreams,
            wanted=wanted,
            start=read.numbered.start,
        )

    def read(self, context: Context) -> RangeExchanges:
        """Read a range again, with its context.

        :raises CaptureError: if a file can no longer be read
        """
        part = read_exchanges(self.given, context, self.facts)
        part.capture.names = self.wanted.names
        return part

    def knowledge(self) -> SessionContext:
        """Return the session context of the whole capture."""
        known = SessionContext()
        known.add(self.facts)
        return known

    def with_groups(self, contexts: DataFrame) -> Task:
        """Return the task with `groups` set if the filter needs them; a job then reads all exchanges.

        :param contexts: of all ranges
        """
        if self.wanted.filter is None or not self.wanted.filter.needs_groups or self.groups is not None:
            return self
        every = contexts.repartition(1).sortWithinPartitions("part")
        return replace(self, groups=collected(every.mapInArrow(GroupLearner(self), WRITTEN))[0])

    def fitting(
        self, part: RangeExchanges, keys: frozenset[int] | None, *, summary: bool
    ) -> Iterator[Exchange]:
        """Yield the decoded exchanges of a range that match the filter.

        :param keys: keys of the APIs to decode; None for all exchanges
        """
        exchanges = part.exchanges(apis=keys, annotate=False, summary=summary)
        wanted = self.wanted.filter
        if wanted is None:
            return exchanges
        names = self.knowledge().topic_name
        faults = part.capture.faults
        return (each for each in exchanges if self._fits(wanted, each, names, faults))

    def rows(
        self, tables: Sequence[str], part: RangeExchanges, seen: Callable[[Exchange], object]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of per-exchange tables of a range, each batch with the name of its table.

        :param seen: called with each exchange that matches the filter
        """
        faults = part.capture.faults
        names, run = self.knowledge().topic_name, self.staged.run
        rows = ExchangeTables(tables, names=names, run=run, columns=self.wanted.columns, faults=faults)
        for exchange in self.fitting(part, None, summary=wants_summary(tables, self.wanted.columns)):
            rows.add(exchange)
            seen(exchange)
            if rows.full:
                yield from rows.take().items()
        yield from rows.take().items()
        faults.locate(part.path_of)

    def rows_of(self, table: str, context: Context) -> Iterator[pa.RecordBatch]:
        """Read a range again and yield the rows of one table; decode bodies only if table or filter needs them."""
        part = self.read(context)
        columns = self.wanted.header_columns((table,))
        if columns is not None:
            yield header_batch(part.capture, part.rows, part.numbers, part.connections, 0, columns)
            return
        yield from (batch for _, batch in self.rows((table,), part, lambda _: None))
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


@dataclass(frozen=True)
class GroupLearner:
    """Infers group membership from the exchanges of all ranges, in their order, for filters that refer to groups."""

    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from captures.filters.groups import GroupInference

        contexts = [context for batch in batches for (context,) in columns_of(batch, "context")]
        groups = GroupInference(self.task.knowledge().topic_name)
        self._observe(groups, contexts, MEMBER_APIS)
        if groups.contested:  # only then the partitions of Fetch requests matter
            self._observe(groups, contexts, frozenset({ApiKey.FETCH}))
        yield result_row(0, groups)

    def _observe(self, groups: GroupInference, contexts: Sequence[bytes], keys: frozenset[int]) -> None:
        for context in contexts:
            part = self.task.read(unpack(context))
            observe = part.capture.faults.guarded(groups.observe, INFERRING)
            for exchange in part.exchanges(apis=keys, annotate=False, summary=False):
                observe(exchange)


def collected(frame: DataFrame) -> dict[int, Any]:
    """Run the job of `frame`; return the unpacked results by ``part``."""
    return {row["part"]: unpack(bytes(row["data"])) for row in frame.collect()}


def faults_of(done: Iterable[TaskResult]) -> Faults:
    """Return the internal errors of all tasks."""
    found = Faults()
    for each in done:
        found.merge(each.faults)
    return found


def result_row(part: int, result: NamedTuple | GroupInference) -> pa.RecordBatch:
    """Return the output of a task, as :data:`WRITTEN` describes it.

    :param part: number of the range or share
    """
    import pyarrow as pa

    columns = [pa.array([part], pa.int32()), pa.array([pack(result)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["part", "data"])
