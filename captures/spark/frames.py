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
from captures.spark.task import Task
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
    wanted = TableRequest(
        filter=compile_filter(reading.filter) if reading.filter else None,
        columns={"exchanges": tuple(columns)} if columns else {},
    )
    shapes = {name: ddl(name, wanted.columns.get(name)) for name in chosen}
    keylog = Path(reading.keylog).read_bytes() if reading.keylog else b""
    plan = make_plan([paths] if isinstance(paths, str) else paths, reading.range_bytes)
    learn = wanted.header_columns(chosen) is None
    capture = SparkCaptureReader(spark, Input(plan, keylog, learn=learn))
    task = Task.of(capture.read, wanted).with_groups(capture.contexts)
    return {name: _frame(spark, capture, task, name, shape) for name, shape in shapes.items()}


def _frame(spark: SparkSession, capture: SparkCaptureReader, task: Task, name: str, shape: str) -> DataFrame:
    contexts, read = capture.contexts, capture.read
    if name not in PER_EXCHANGE:
        whole = whole_of(read.numbered, read.marks, capture.connections)
        settings = settings_of(read, task, (name,), processors(spark))
        maker = _TableMaker(TableBuilder(settings, whole))
        return dealt_out(spark, contexts, settings, whole).mapInArrow(maker, shape)
    header = task.wanted.header_columns((name,))
    if header is not None and not read.noted:
        together = capture.finished.join(contexts, "part").select("part", "context", "data")
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
