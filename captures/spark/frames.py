"""Captures as DataFrames: the functions for notebooks, scripts and clusters.

Creating the DataFrames reads the whole capture, to stitch the connections that cross range edges; bodies are decoded
when rows are requested. Spark treats the result like any other DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from captures.filters import compile_filter
from captures.names import Names
from captures.ranges.exchange_numbers import Context
from captures.ranges.jobs import Input
from captures.ranges.plan import RANGE_BYTES, make_plan
from captures.ranges.range_reader import FinishedExchanges
from captures.ranges.whole import whole_of
from captures.spark.capture_reader import RowFunction, SparkCaptureReader
from captures.spark.pipeline import processors, settings_of
from captures.spark.table_writer import TableBuilder, dealt_out, header_rows
from captures.spark.task import Task, header_only
from captures.tables.columns import Needs
from captures.tables.exchange_rows import ExchangeTables
from captures.tables.schema import PER_EXCHANGE, choose_tables, ddl
from captures.tables.single import TableRequest
from captures.tables.whole_rows import WholeTables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options for reading captures.

    :ivar filter: only exchanges that match it (docs/filters.md) become rows and are analyzed
    :ivar keylog: path of a TLS key log, on the machine of the driver
    :ivar range_bytes: bytes of a capture that one task reads
    """

    filter: str | None = None
    keylog: str | None = None
    range_bytes: int = RANGE_BYTES


@dataclass(slots=True)
class _ReadCapture:
    """A capture whose ranges were read, ready to be decoded."""

    spark: SparkSession
    reading: SparkCaptureReader
    task: Task


def exchanges(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    reading: ReadOptions = ReadOptions(),  # frozen
) -> DataFrame:
    """Return the exchanges of a capture, one row each, numbered over the whole capture.

    :param paths: files, folders and patterns, which together are one capture; they must be the same on all machines
    :param columns: names of columns (docs/tables.md); bodies are decoded only if one of them needs that
    :raises CaptureError: if no file can be read
    :raises ValueError: for an unknown column or an invalid filter
    """
    return tables(spark, paths, ("exchanges",), columns=columns, reading=reading)["exchanges"]


def tables(
    spark: SparkSession,
    paths: str | Sequence[str],
    names: Sequence[str] = (),
    *,
    columns: Sequence[str] | None = None,
    reading: ReadOptions = ReadOptions(),  # frozen
) -> dict[str, DataFrame]:
    """Return tables of a capture as DataFrames (docs/tables.md), by name.

    Each is computed when it is requested; persist those that are used more than once. To write them,
    :func:`captures.spark.write_tables` makes several in one pass.

    :param paths: files, folders and patterns, which together are one capture; they must be the same on all machines
    :param names: names of tables; default: all but ``records``
    :param columns: columns of the table ``exchanges``
    :raises CaptureError: if no file can be read
    :raises ValueError: for an unknown table or column, or an invalid filter
    """
    chosen = choose_tables(names or None)
    read = _read(spark, [paths] if isinstance(paths, str) else paths, columns, reading, chosen)
    return {name: _frame(read, name) for name in chosen}


def _read(
    spark: SparkSession,
    paths: Sequence[str],
    columns: Sequence[str] | None,
    how: ReadOptions,
    chosen: Sequence[str],
) -> _ReadCapture:
    wanted = TableRequest(
        filter=compile_filter(how.filter) if how.filter else None,
        columns={"exchanges": tuple(columns)} if columns else {},
    )
    rows = ExchangeTables(chosen, names=_unnamed, run=0, columns=wanted.columns)
    learn = rows.needs is not Needs.HEADER or wanted.filter is not None or len(rows.tables) < len(chosen)
    keylog = Path(how.keylog).read_bytes() if how.keylog else b""
    given = Input(make_plan(paths, how.range_bytes), keylog, learn=learn)
    reading = SparkCaptureReader(spark, given)
    return _ReadCapture(spark, reading, Task.of(reading.read, wanted))


def _unnamed(_: str) -> str | None:
    return None


def _frame(read: _ReadCapture, name: str) -> DataFrame:
    columns = read.task.columns.get(name)
    shape = ddl(name, columns)
    contexts = read.reading.contexts
    task = read.task.with_groups(contexts)
    if name not in PER_EXCHANGE:
        reading = read.reading
        whole = whole_of(reading.read.numbered, reading.read.marks, reading.connections)
        settings = settings_of(read.reading.read, task, (name,), TableRequest(), processors(read.spark))
        maker = _TableMaker(TableBuilder(settings, whole))
        return dealt_out(read.spark, contexts, settings, whole).mapInArrow(maker, shape)
    header = header_only((name,), task)
    if header is not None and not read.reading.read.noted:
        together = read.reading.finished.join(contexts, "part").select("part", "context", "data")
        return together.mapInArrow(_HeaderRowMaker(header), shape)
    return contexts.mapInArrow(_RowMaker(task, name), shape)


@dataclass(frozen=True)
class _RowMaker(RowFunction):
    """Decodes ranges and yields the rows of one per-exchange table."""

    task: Task
    table: str
    inputs = ("context",)

    def batches(self, context: Context) -> Iterator[pa.RecordBatch]:
        return self.task.rows_of(self.table, context)


@dataclass(frozen=True)
class _HeaderRowMaker(RowFunction):
    """Yields rows of the table ``exchanges`` from the headers that Spark has cached, without decoding bodies."""

    columns: Sequence[str]
    inputs = ("context", "data")

    def batches(self, context: Context, finished: FinishedExchanges) -> Iterator[pa.RecordBatch]:
        yield header_rows(context, finished, 0, self.columns, Names())


@dataclass(frozen=True)
class _TableMaker:
    """Yields the rows of a table that needs all exchanges."""

    builder: TableBuilder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, tables in self.builder.built(batches):
            assert isinstance(tables, WholeTables)
            yield from (batch for _, batch in tables.batches())
            tables.faults.log()
