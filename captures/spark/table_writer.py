"""Tables written on Spark: per-exchange tables by one task per range, tables of the whole capture by a few others.

Each task writes its own files below the hidden folder of the run and reports their names; no rows pass through Spark.
So a task that is retried, or runs twice concurrently, leaves only files that no manifest names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from captures.analysis.clusters import Clusters
from captures.analysis.decision_columns import TAKEN, DecisionColumns, Fact, merged_facts
from captures.analysis.exchange_groups import COUNTED, ExchangeGroup, exchange_groups, undecoded
from captures.analysis.findings.diagnosis import packed
from captures.analysis.findings.keys import buckets
from captures.analysis.groups.components import Components, links, nodes
from captures.analysis.groups.history import HISTORIES
from captures.analysis.incidents.history import NEEDED, ClusterHistories, IncidentHistories
from captures.arrays import Bools, Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.faults import Faults
from captures.names import Names
from captures.ranges.edges import pack, unpack
from captures.ranges.exchange_numbers import Context
from captures.ranges.exchanges import RangeExchanges
from captures.ranges.headers import headers_of
from captures.ranges.range_reader import FinishedExchanges
from captures.ranges.whole import WholeCapture, WholeCaptureData
from captures.spark.capture_reader import RowFunction, packed_rows
from captures.spark.located_exchanges import LOCATED, LocatedCapture, located, located_schema
from captures.spark.task import (
    WRITTEN,
    Task,
    TaskResult,
    collected,
    result_row,
)
from captures.spark.task_shares import Share
from captures.tables.exchange_rows import header_batch
from captures.tables.folder import PartWriter
from captures.tables.whole_rows import OF_ALL_EXCHANGES, WholeTables, needs
from dissectors.sides import SIDES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


_ROWS = 4096
"""Exchanges per batch of located rows."""
_BYTES = 4 << 20
"""Bytes of frames in memory at a time; a single exchange may have more."""


# ---------------------------------------------------------------- tables of single exchanges
@dataclass(frozen=True)
class RangeWriter(RowFunction):
    """Decodes ranges and writes their per-exchange tables.

    :ivar tables: names of the tables
    :ivar prefix: prefix of file names, for runs with several batches
    """

    task: Task
    tables: Sequence[str]
    prefix: str = ""
    inputs = ("context",)

    def batches(self, context: Context) -> Iterator[pa.RecordBatch]:
        yield result_row(context.part.number, self._write(context))

    def _write(self, context: Context) -> TaskResult:
        counts: Counter[bool] = Counter()

        def count(exchange: Exchange) -> None:
            counts[undecoded(exchange)] += 1

        with PartWriter(self.task.staged, f"{self.prefix}{context.part.number:05d}") as writer:
            part = self.task.read(context)
            writer.write_all(self.task.rows(self.tables, part, count))
            return TaskResult(writer.close(), counts.total(), counts[True], part.capture.faults)


@dataclass(frozen=True)
class HeaderWriter(RowFunction):
    """Writes the table ``exchanges`` from the headers that Spark has cached, without decoding bodies.

    :ivar columns: names of its columns
    """

    task: Task
    columns: Sequence[str]
    inputs = ("context", "data")

    def batches(self, context: Context, finished: FinishedExchanges) -> Iterator[pa.RecordBatch]:
        batch = header_rows(context, finished, self.task.staged.run, self.columns, self.task.wanted.names)
        number = context.part.number
        with PartWriter(self.task.staged, number) as writer:
            writer.write("exchanges", batch)
            yield result_row(number, TaskResult(writer.close(), batch.num_rows, 0, Faults()))


def header_rows(
    context: Context, finished: FinishedExchanges, run: int, columns: Sequence[str] | None, names: Names
) -> pa.RecordBatch:
    """Return rows of the table ``exchanges`` that can be made from the headers of a range alone.

    :param columns: names of the columns; None for all
    :param names: names of addresses
    """
    headers = headers_of(finished, context)
    capture: Any = headers.capture
    capture.names = names
    return header_batch(capture, headers.rows, headers.numbers, headers.connections, run, columns)


# ---------------------------------------------------------------- tables of the whole
LOCATED_SHARES = f"share int not null, {LOCATED}, shown binary, results binary"
"""Rows of exchanges, each for a share; those that are not shown to rules have no frames.

``shown`` is null for them, else a column of :meth:`WholeTables.wanted`, packed.

The first rows of a share, numbered up to 0, are no exchanges. They may hold packed :class:`_PartialResults`.
"""


class _PartialResults(NamedTuple):
    """Results of other tasks for a share: arguments of :meth:`WholeTables.merge`."""

    histories: Mapping[str, IncidentHistories] | None
    counted: Sequence[ExchangeGroup]
    by_rules: Mapping[str, Mapping[str, Any]]
    faults: Faults


class _Selection(NamedTuple):
    """Exchanges of a range that have to be shown to a share.

    :ivar masks: a row for each rule, and others, of the share (:meth:`WholeTables.wanted`)
    :ivar counted: what its rules have counted instead (:meth:`WholeTables.counted`)
    """

    masks: Bools
    counted: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisSettings:
    """Settings of the tasks that make tables of all exchanges of a capture."""

    task: Task
    shares: tuple[Share, ...]

    @property
    def collects(self) -> bool:
        """Whether separate shares collect the traffic of groups."""
        return any(share.collects for share in self.shares)

    def tables(self, share: Share, capture: Any) -> WholeTables | _Collector:
        """Return the table builder, or the collector, of a share."""
        facts, upstreams = self.task.facts, self.task.upstreams
        if isinstance(capture, WholeCapture):  # a range only needs to know whether there are several clusters
            facts, upstreams = capture.facts, capture.samples.upstreams
        clusters = Clusters(capture, facts, upstreams)
        if share.collects:
            return _Collector(capture, self.task, clusters)
        return WholeTables(
            capture,
            self.task.knowledge().topic_name,
            share.tables,
            run=self.task.staged.run,
            rules=share.rules,
            limits=self.task.wanted.limits,
            has=share.has,
            follow=not self.collects,
            count=self.task.wanted.filter is not None,
            clusters=clusters,
        )

    def deciding(self, part: RangeExchanges, facts: Mapping[str, Any] | None = None) -> DecisionColumns:
        """Return the columns that select the deciding exchanges of a range.

        :param facts: merged facts of all ranges, once they are known
        """
        columns = ExchangeColumns(part.capture, part.rows, names=self.task.knowledge().topic_name)
        columns.prepare((*COUNTED, *TAKEN))
        return DecisionColumns(
            columns, part.numbers, connections=part.connections, part=part.number, facts=facts
        )

    def wanted(self, part: RangeExchanges, rows: DecisionColumns) -> list[_Selection]:
        """Return, for each share, the exchanges of a range that are deciding for its tables and rules."""
        found: dict[tuple[Any, ...], _Selection] = {}
        for share in self.shares:
            if share[:2] not in found:
                tables = self.tables(share, part.capture)
                found[share[:2]] = _Selection(tables.wanted(rows), tables.counted())
        return [found[share[:2]] for share in self.shares]


class _Collector:
    """Collects the histories of groups, in place of :class:`~captures.tables.whole_rows.WholeTables`."""

    def __init__(self, capture: Any, task: Task, clusters: Clusters) -> None:
        self.faults: Faults = capture.faults
        self.groups = ClusterHistories(task.knowledge().topic_name, clusters=clusters)
        self._add = self.faults.guarded(self.groups.add, HISTORIES)

    def add(self, exchange: Exchange, _: bytes | None = None) -> None:
        self._add(exchange)

    def wanted(self, rows: DecisionColumns) -> Bools:
        """Return a mask of the exchanges that have to be added, as :meth:`WholeTables.wanted` does."""
        return self.groups.choose(rows)[np.newaxis]

    def counted(self) -> Mapping[str, Mapping[Any, Any]]:
        return {HISTORIES: self.groups.passed}

    def merge(self, _: Any, __: Any, counted: Mapping[str, Mapping[Any, Any]], ___: Faults) -> None:
        self.groups.pass_over(counted.get(HISTORIES, {}))


class FoundFacts(NamedTuple):
    """What a range shows about the whole capture.

    :ivar facts: :attr:`DecisionColumns.found_facts`
    :ivar links: clients and groups that belong together
    :ivar nodes: clients and groups in its exchanges
    """

    facts: Mapping[str, Fact] = {}
    links: Sequence[tuple[str, str]] = ()
    nodes: Sequence[str] = ()


class MergedFacts(NamedTuple):
    """What a range needs of the facts of all ranges.

    :ivar facts: of :func:`merged_facts`
    """

    facts: Mapping[str, Any] = {}
    components: Components = Components(())

    @classmethod
    def of(cls, found: Sequence[FoundFacts]) -> list[MergedFacts]:
        """Return them for each range.

        :param found: of all ranges, in their order
        """
        components = Components({link for each in found for link in each.links})
        merged = merged_facts([each.facts for each in found])
        return [cls(facts, components.of_part(each.nodes)) for facts, each in zip(merged, found, strict=True)]


@dataclass(frozen=True)
class FactFinder(RowFunction):
    """Finds facts of ranges that determine the deciding exchanges of others, and links between clients and groups."""

    settings: AnalysisSettings
    inputs = ("context",)

    def batches(self, context: Context) -> Iterator[pa.RecordBatch]:
        settings = self.settings
        part = settings.task.read(context)
        rows = settings.deciding(part)
        if settings.task.wanted.filter is None:
            settings.wanted(part, rows)
        found = FoundFacts(rows.found_facts)
        if settings.collects:
            found = found._replace(links=[*links(rows.columns)], nodes=nodes(rows.columns))
        yield result_row(part.number, found)


class ExchangeDealer(RowFunction):
    """Deals the exchanges of ranges out to shares, as rows of :data:`LOCATED_SHARES`."""

    inputs = ("context", "merged")

    def __init__(self, settings: AnalysisSettings) -> None:
        self._settings = settings

    def batches(self, context: Context, merged: MergedFacts) -> Iterator[pa.RecordBatch]:
        part = self._settings.task.read(context)
        yield from self._first_rows(part)
        held = self._held(part, merged.components)
        if self._settings.task.wanted.filter is None:
            columns = self._settings.deciding(part, merged.facts)
            shown = self._settings.wanted(part, columns)
            yield from self._counts(part, columns.columns, shown, held)
        else:
            shown = self._fitting(part)
        for begin in range(0, len(part), _ROWS):
            some = np.arange(begin, min(begin + _ROWS, len(part)))
            rows = located(part, some)
            for number, share in enumerate(self._settings.shares):
                chosen, masks = held[number][some], shown[number].masks[:, some]
                if not share.follows_groups:
                    chosen = chosen & masks.any(axis=0)
                if chosen.any():
                    yield _dealt(rows, number, np.flatnonzero(chosen), masks[:, chosen])

    def _first_rows(self, part: RangeExchanges) -> Iterator[pa.RecordBatch]:
        """Yield the first row of each share, if this is the first range."""
        if not part.number:
            for share in range(len(self._settings.shares)):
                yield _first_row(share)

    def _counts(
        self,
        part: RangeExchanges,
        columns: ExchangeColumns,
        shown: Sequence[_Selection],
        held: Sequence[Bools],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the counts of the exchanges of a range for the shares that need them."""
        if not len(part):
            return
        counted = exchange_groups(columns, part.numbers)
        connections, first = part.connections, part.numbers[0]
        for group in counted:
            connection = int(connections[group.number - first])
            group.connection = group.connection._replace(connection=connection)
        at = part.number - len(self._settings.task.given.plan.ranges)
        for number, share in enumerate(self._settings.shares):
            counts = bool(OF_ALL_EXCHANGES.intersection(share.tables))
            of_share = [group for group in counted if counts and share.has(group.connection.connection)]
            by_rules = {
                rule: {
                    key: found
                    for key, found in by_key.items()
                    if (held[number][key - first] if rule == HISTORIES else share.takes(key))
                }
                for rule, by_key in shown[number].counted.items()
            }
            if of_share or by_rules:
                yield _first_row(number, at, _PartialResults(None, of_share, by_rules, Faults()))

    def _held(self, part: RangeExchanges, components: Components) -> list[Bools]:
        """Return, for each share, a mask of the exchanges of a range that belong to it."""
        columns = ExchangeColumns(part.capture, part.rows)
        by_key = {
            (key, of, collects): components.buckets(columns, of)
            if collects
            else buckets(key, columns, part.connections, of)
            for key, of, collects in {
                (share.key, share.of, share.collects) for share in self._settings.shares
            }
        }
        return [by_key[share.key, share.of, share.collects][share.bucket] for share in self._settings.shares]

    def _fitting(self, part: RangeExchanges) -> list[_Selection]:
        """Return, for each share, the exchanges of a range that match the filter and matter for its work."""
        settings, task = self._settings, self._settings.task
        fitting = [exchange.number for exchange in task.fitting(part, None, summary=False)]
        fits: Bools = np.isin(part.numbers, fitting)
        keys = part.capture.table.column("api_key")[part.rows]
        found = []
        for share in settings.shares:
            wanted = NEEDED if share.collects else needs(share.tables, share.rules)
            mask = fits if wanted is None else fits & np.isin(keys, sorted(wanted))
            found.append(_Selection(mask[np.newaxis], {}))
        return found


def _dealt(rows: pa.RecordBatch, share: int, chosen: Int64s, masks: Bools) -> pa.RecordBatch:
    """Return the `chosen` rows for a share; rows that are shown to no rule lose their frames.

    :param masks: of the chosen rows, as :attr:`_Selection.masks`
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    taken = rows.take(pa.array(chosen))
    columns = {"share": pa.array(np.full(len(chosen), share, np.int32))}
    columns |= dict(zip(taken.schema.names, taken.columns, strict=True))
    shown = masks.any(axis=0)
    if not shown.all():
        keep = pa.array(shown)
        for side in SIDES:
            columns[side] = pc.if_else(keep, columns[side], pa.nulls(len(chosen), columns[side].type))
    columns["shown"] = pa.array(packed(masks), pa.binary(), mask=~shown)
    columns["results"] = pa.nulls(len(chosen), pa.binary())
    return pa.RecordBatch.from_pydict(columns)


def _first_row(share: int, number: int = 0, results: _PartialResults | None = None) -> pa.RecordBatch:
    """Return a row of a share that is no exchange.

    :param number: at most 0; rows are sorted by it
    """
    import pyarrow as pa

    columns = {"share": pa.array([share], pa.int32())}
    columns |= {field.name: pa.nulls(1, field.type) for field in located_schema()}
    columns |= {"number": pa.array([number], pa.int64()), "shown": pa.nulls(1, pa.binary())}
    columns["results"] = pa.array([None if results is None else pack(results)], pa.binary())
    return pa.RecordBatch.from_pydict(columns)


class TableBuilder:
    """Makes the tables of shares from rows of exchanges that are sorted by share and number.

    :param whole: data of the capture as a whole
    """

    def __init__(self, settings: AnalysisSettings, whole: WholeCaptureData) -> None:
        self._settings = settings
        self._whole = pack(whole)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, tables in self.built(batches):
            assert isinstance(tables, WholeTables)
            with PartWriter(self._settings.task.staged, f"whole{number}") as writer:
                writer.write_all(tables.batches())
                yield result_row(number, TaskResult(writer.close(), 0, 0, tables.faults))

    def built(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, WholeTables | _Collector]]:
        """Yield the number of each share with its tables or collector."""
        number, tables, capture = -1, None, None
        for batch in batches:
            for rows in _runs(batch):
                share = rows.column("share")[0].as_py()
                if share != number:
                    if tables is not None:
                        yield number, tables
                    number, capture = share, self._capture()
                    tables = self._settings.tables(self._settings.shares[share], capture)
                assert tables is not None
                first = int(np.searchsorted(rows.column("number").to_numpy(), 0, "right"))
                for results in filter(None, rows.column("results")[:first].to_pylist()):
                    tables.merge(*unpack(results))
                self._show(rows.slice(first), share, tables, capture)
        if tables is not None:
            yield number, tables

    def _capture(self) -> Any:
        capture = WholeCapture(self._settings.task.given.plan.source(), unpack(self._whole))
        capture.names = self._settings.task.wanted.names
        return capture

    def _show(self, rows: pa.RecordBatch, share: int, tables: WholeTables | _Collector, capture: Any) -> None:
        """Add the shown exchanges to the tables; headers of all exchanges are kept if the share follows groups."""
        task = self._settings.task
        here = LocatedCapture(capture.source, rows, task.wanted.names)
        if self._settings.shares[share].follows_groups:
            capture.take(here.table, np.arange(len(here.table)), here.table.column("connection"))
        shown = rows.column("shown").to_pylist()
        indexes = [index for index, each in enumerate(shown) if each is not None]
        for index, exchange in zip(indexes, here.exchanges(capture.facts, indexes), strict=True):
            tables.add(exchange, shown[index] if task.wanted.filter is None else None)
        for faults in (capture.faults, here.faults):
            faults.locate(here.file_of)
        capture.faults.merge(here.faults)


class HistoryCollector(TableBuilder):
    """Replaces the rows of collecting shares by their histories, for the share with the histories of all groups.

    The rows of all other shares are passed on.
    """

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        shares = self._settings.shares
        histories = next(number for number, share in enumerate(shares) if share.follows_groups)
        every = chain.from_iterable(map(_runs, batches))
        for share, rows in groupby(every, key=lambda rows: int(rows.column("share")[0].as_py())):
            if not shares[share].collects:
                yield from rows
                continue
            first = next(rows)
            for _, made in self.built(chain((first,), rows)):
                assert isinstance(made, _Collector)
                row = _first_row(histories, results=_PartialResults(made.groups.of, (), {}, made.faults))
                yield pa.RecordBatch.from_arrays(row.columns, schema=first.schema)  # Spark's nullability


def dealt_out(
    spark: SparkSession, contexts: DataFrame, settings: AnalysisSettings, whole: WholeCaptureData
) -> DataFrame:
    """Return the exchanges of all ranges by share, sorted by number: rows of :data:`LOCATED_SHARES`.

    :param contexts: of all ranges
    :param whole: data of the capture as a whole
    """
    count = len(settings.task.given.plan.ranges)
    found = dict.fromkeys(range(count), FoundFacts())
    if settings.task.wanted.filter is None or settings.collects:
        found = collected(contexts.mapInArrow(FactFinder(settings), WRITTEN))
    merged = MergedFacts.of([found[number] for number in sorted(found)])
    ranges = contexts.join(packed_rows(spark, merged=list(map(pack, merged))), "part")
    rows = ranges.repartitionById(count, "part").mapInArrow(ExchangeDealer(settings), LOCATED_SHARES)
    if settings.collects:  # one task per collecting share, which also passes on rows of other shares
        count = sum(share.collects for share in settings.shares)
        rows = _by_share(rows, count).mapInArrow(HistoryCollector(settings, whole), LOCATED_SHARES)
    return _by_share(rows, len(settings.shares))


def _by_share(rows: DataFrame, tasks: int) -> DataFrame:
    return rows.repartitionById(tasks, rows["share"] % tasks).sortWithinPartitions("share", "number")


def _runs(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into slices of one share each, with at most about _BYTES of frames."""
    shares = batch.column("share").to_numpy()
    sizes = sum(batch.column(f"{side}_size").fill_null(0).to_numpy(zero_copy_only=False) for side in SIDES)
    blocks = np.cumsum(sizes) // _BYTES
    edges = np.flatnonzero((np.diff(shares) != 0) | (np.diff(blocks) != 0)) + 1
    for begin, end in pairwise((0, *edges.tolist(), batch.num_rows)):
        if end > begin:
            yield batch.slice(begin, end - begin)
