"""The Spark data source ``kproxy``: captures as tables, by Spark's own reader.

::

    captures.spark.register(spark)
    spark.read.format("kproxy").option("table", "exchanges").load("/captures/monday")
    spark.readStream.format("kproxy").option("table", "parts").load("/captures/rotated")

A partition of a reader cannot ask others. So the files of a path are read by one task, as one capture; several paths
are several captures. The table ``parts`` is what :mod:`captures.spark.reading` begins with: ranges side by side, with
what has to be put together. As a stream, every file is read once: those that are there and those that come, the newest
not before there is a newer one, or it was left alone for a while.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from captures.analysis.findings.all import RULES
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.filters import compile_filter
from captures.packets.errors import CaptureError
from captures.packets.files import expanded
from captures.packets.tls import KeyLog
from captures.ranges.jobs import Input, read_part
from captures.ranges.plan import RANGE_BYTES, Plan, make_plan
from captures.spark.reading import PARTS, batches_of
from captures.tables.exchange_rows import ExchangeTables
from captures.tables.schema import PER_EXCHANGE, TABLES, Needs, ddl
from captures.tables.whole_rows import WholeTables, needs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

NAME = "kproxy"
SETTLED = 60.0
"""Seconds after which the newest file of a stream, if nothing was written to it, counts as finished."""
_HEADER = 24

_COMPARED: dict[type[Filter], str] = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_NUMBERS = frozenset({"api_key", "version", "correlation_id", "request_size", "response_size", "connection"})
"""Columns that filters of the project name alike, with integers as values."""


class OptionError(ValueError):
    """An option of the data source cannot be used; the text says which, and what can be."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the data source.

    :ivar paths: files, folders and patterns
    :ivar table: ``parts``, or a name of docs/tables.md
    :ivar columns: of that table; the usual ones if empty
    :ivar filter: only exchanges that fit (docs/filters.md) are rows
    :ivar keylog: path of TLS secrets, on every machine
    :ivar range_bytes: bytes that a task reads, of ``parts``
    :ivar buckets: of ``parts``: among how many those are dealt out who put connections together
    :ivar settled: seconds, of streams: see :data:`SETTLED`
    """

    paths: tuple[str, ...]
    table: str = "exchanges"
    columns: tuple[str, ...] = ()
    filter: str | None = None
    keylog: str | None = None
    range_bytes: int = RANGE_BYTES
    buckets: int = 8
    settled: float = SETTLED

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Read options as Spark gives them; their names do not depend on case.

        :raises OptionError: if one cannot be used
        """
        options = {name.lower(): value for name, value in given.items()}
        paths = json.loads(options["paths"]) if "paths" in options else [options.get("path", "")]
        if not any(paths):
            raise OptionError("no path: load('/captures/monday')")
        table = options.get("table", "exchanges")
        if table not in (*TABLES, "parts"):
            raise OptionError(f"{table!r} is no table; there are parts, {', '.join(TABLES)}")
        columns = tuple(name.strip() for name in options.get("columns", "").split(",") if name.strip())
        made = cls(
            tuple(paths),
            table,
            columns,
            options.get("filter"),
            options.get("keylog"),
            _number(options, "range_bytes", RANGE_BYTES),
            _number(options, "buckets", 8),
            float(options.get("settled", SETTLED)),
        )
        if made.filter:
            compile_filter(made.filter)
        made.shape()
        return made

    def shape(self) -> str:
        """Return the columns, as Spark SQL declares them.

        :raises ValueError: for a column that the table does not have
        """
        return PARTS if self.table == "parts" else ddl(self.table, self.columns or None)

    def secrets(self) -> bytes:
        """Return the TLS secrets."""
        return Path(self.keylog).read_bytes() if self.keylog else b""


def _number(options: Mapping[str, str], name: str, usual: int) -> int:
    text = options.get(name)
    if text is None:
        return usual
    if not text.isdecimal() or not int(text):
        raise OptionError(f"{name} is {text!r}, and has to be a number from 1 on")
    return int(text)


def register(spark: SparkSession) -> None:
    """Let a session know the data source ``kproxy``."""
    spark.dataSource.register(KafkaCaptures)


class KafkaCaptures(DataSource):
    """Captures of Kafka traffic."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return Options.of(self.options).shape()

    def reader(self, schema: Any) -> DataSourceReader:
        options = Options.of(self.options)
        return PartsReader(options) if options.table == "parts" else TableReader(options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        return FolderStream(Options.of(self.options))


# ---------------------------------------------------------------- ranges side by side
@dataclass
class RangePartition(InputPartition):
    """A range, by its number in the plan."""

    number: int


class PartsReader(DataSourceReader):
    """Reads ranges side by side; rows of :class:`~captures.ranges.jobs.Told`."""

    def __init__(self, options: Options) -> None:
        self._given = Input(make_plan(options.paths, options.range_bytes), options.secrets(), options.buckets)

    def partitions(self) -> Sequence[InputPartition]:
        return [RangePartition(part.number) for part in self._given.plan.ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return batches_of(read_part(self._given, self._given.plan.ranges[partition.number]))


# ---------------------------------------------------------------- whole captures
@dataclass
class CapturePartition(InputPartition):
    """Files that are one capture."""

    paths: tuple[str, ...]


class TableReader(DataSourceReader):
    """Reads whole captures, each by one task, into the rows of a table."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._pushed: list[str] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take what narrows the exchanges that are decoded; Spark asks all of it of the rows once more."""
        for each in filters:
            text = _as_filter(each)
            if text and self._options.table in PER_EXCHANGE:
                self._pushed.append(text)
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        return [CapturePartition((path,)) for path in self._options.paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CapturePartition)
        return rows_of(partition.paths, self._options, self._pushed)


def _as_filter(wanted: Filter) -> str:
    """Return a comparison as the project's filters write it; empty if they have no such field."""
    attribute: tuple[str, ...] = getattr(wanted, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in _NUMBERS:
        return ""
    (name,) = attribute
    if isinstance(wanted, In):
        values = [value for value in wanted.value if isinstance(value, int)]
        return (
            " or ".join(f"{name} == {value}" for value in values) if len(values) == len(wanted.value) else ""
        )
    operator = _COMPARED.get(type(wanted))
    value = getattr(wanted, "value", None)
    return f"{name} {operator} {value}" if operator and type(value) is int else ""


def rows_of(paths: Sequence[str], options: Options, pushed: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Read files as one capture; yield the rows of a table.

    :param pushed: filters that all rows will be asked for anyway
    :raises CaptureError: if there is nothing that can be read
    """
    keylog = KeyLog()
    keylog.add(options.secrets())
    capture = open_capture(list(paths), keylog=keylog)
    capture.read()
    reader = ExchangeReader(capture, annotate=False)
    reader.learn(len(reader))
    names = reader.knowledge.topic_name
    parts = [f"({text})" for text in (options.filter, *pushed) if text]
    wanted = compile_filter(" and ".join(parts)) if parts else None
    exchanges: Iterable[Exchange] = reader if wanted is None else wanted.exchanges(reader)
    if options.table not in PER_EXCHANGE:
        whole = WholeTables(capture, names, (options.table,), run=0, rules=RULES)
        keys = needs((options.table,), RULES)
        for exchange in exchanges:
            if keys is None or exchange.api_key in keys:
                whole.add(exchange)
        yield whole.batches()[options.table]
        return
    columns = {options.table: options.columns} if options.columns else {}
    rows = ExchangeTables((options.table,), names=names, run=0, columns=columns)
    if rows.needs is Needs.HEADER and wanted is None:
        yield _headers(reader, options)
        return
    for exchange in exchanges:
        rows.add(exchange)
        if rows.full:
            yield from rows.take().values()
    yield from rows.take().values()


def _headers(reader: ExchangeReader, options: Options) -> pa.RecordBatch:
    import numpy as np

    from captures.tables.exchange_rows import header_batch

    capture, rows = reader.capture, reader.rows
    connections = capture.table.column("connection")[rows]
    numbers = np.arange(len(rows)) + 1
    return header_batch(capture, rows, numbers, connections, 0, options.columns)


# ---------------------------------------------------------------- streams
@dataclass
class FilePartition(InputPartition):
    """A range of one file of a stream.

    :ivar order: place among those of a batch
    """

    path: str
    number: int
    order: int


@dataclass
class _Listing:
    """Files of a stream: name -> size, and time of the last change in ns since the epoch."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"files": {name: list(seen) for name, seen in sorted(self.files.items())}}

    @classmethod
    def of(cls, offset: Mapping[str, Any] | None) -> _Listing:
        return cls({name: (seen[0], seen[1]) for name, seen in ((offset or {}).get("files") or {}).items()})


class FolderStream(DataSourceStreamReader):
    """Reads the files of folders and patterns, each once.

    The offset is which files were there, with size and time: a file that is written to after it was read is not read
    again, one of another size or time under the same name, as a ring has them, is.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return _Listing().to_json()

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the files that are finished by now; later versions of Spark ask with an offset and a limit."""
        return finished(self._options.paths, self._options.settled).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, now = _Listing.of(start).files, _Listing.of(end).files
        new = [name for name, seen in now.items() if before.get(name) != seen]
        if not new:
            return []
        try:
            plan = make_plan(new, self._options.range_bytes)
        except CaptureError:  # none of them is a capture
            return []
        if self._options.table != "parts":
            return [CapturePartition(tuple(file.path for file in plan.files))]
        return [
            FilePartition(plan.files[part.files[0]].path, _number_in_file(plan, part.number), part.number)
            for part in plan.ranges
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, CapturePartition):
            yield from rows_of(partition.paths, self._options)
            return
        assert isinstance(partition, FilePartition)
        plan = make_plan([partition.path], self._options.range_bytes)
        given = Input(plan, self._options.secrets(), self._options.buckets)
        told = read_part(given, plan.ranges[partition.number])
        yield from batches_of(each._replace(part=partition.order) for each in told)


def _number_in_file(plan: Plan, number: int) -> int:
    part = plan.ranges[number]
    return sum(each.files == part.files for each in plan.ranges[:number])


def finished(paths: Sequence[str], settled: float) -> _Listing:
    """Return the files of folders and patterns that nobody writes to any more.

    :param settled: seconds for which nothing was written to the newest one
    """
    found: dict[str, tuple[int, int]] = {}
    for name in (name for path in paths for name in expanded(path)):
        try:
            status = Path(name).stat()
        except OSError:  # it is gone again
            continue
        if status.st_size >= _HEADER:
            found[name] = status.st_size, status.st_mtime_ns
    newest = max(found, key=lambda name: found[name][1], default=None)
    if newest is not None and time_ns() - found[newest][1] < settled * 1e9:
        del found[newest]
    return _Listing(found)
