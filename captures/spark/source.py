"""The Spark data source ``kproxy``: captures as tables, by Spark's own reader.

::

    spark.read.format("kproxy").option("table", "exchanges").load("/captures/monday")
    spark.readStream.format("kproxy").option("table", "exchanges").load("/captures/rotated")

All paths together are one capture. Its partitions are the ranges of :mod:`captures.ranges.plan`. A partition cannot ask
others, so what crosses the edges of ranges is put together when Spark plans the query: the driver's processors read the
headers of all packets, and each partition gets what its range needs to know of the others. Tables that need all
exchanges, and filters that ask for groups, are one partition.

The table ``parts`` is what :mod:`captures.spark.stream_source` begins with: ranges side by side, with what has to be
put together. As a stream, every file is read once: those that are there and those that come, the newest not before
there is a newer one, or it was left alone for a while.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

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

try:  # Spark 4.2 asks for a batch of so many files
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:
    ReadAllAvailable = ReadMaxFiles = SupportsTriggerAvailableNow = type("NotThere", (), {})  # type: ignore

from captures.analysis.findings.all import RULES
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.filters import FilterError, compile_filter
from captures.filters.errors import did_you_mean
from captures.filters.lexer import quoted
from captures.packets.errors import CaptureError
from captures.packets.feeds import LEAST_HEADER
from captures.packets.files import CaptureFile, FileStatus, expanded, head_of
from captures.packets.remote import absolute
from captures.packets.tls import KeyLog
from captures.ranges.edges import pack, unpack
from captures.ranges.jobs import EDGES, MARK, Input, RangeOutput, read_here, read_part
from captures.ranges.plan import RANGE_BYTES, Plan, Range, make_plan
from captures.spark.capture_reader import PARTS, batches_of
from captures.spark.table_writer import Task
from captures.tables.columns import Needs
from captures.tables.exchange_rows import ExchangeTables, wants_summary
from captures.tables.schema import PER_EXCHANGE, TABLES, ddl
from captures.tables.schema import schema as arrow_schema
from captures.tables.whole_rows import WholeTables, needs
from dissectors.apis import NAMES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from captures.filters.filter import Filter as CaptureFilter

NAME = "kproxy"
SETTLED = 60.0
"""Seconds after which the newest file of a stream, if nothing was written to it, counts as finished."""
_HEAD = 256
"""Bytes at the beginning of a file that distinguish it from another file of the same name."""
PLAN = "plan"
"""Kind of the rows of ``parts``, of streams only, that have the packed :class:`~captures.ranges.jobs.Input`: what the
ranges of a batch are."""

_COMPARED: dict[type[Filter], str] = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_NUMBERS = frozenset({"api_key", "version", "correlation_id", "request_size", "response_size", "connection"})
"""Columns that filters of the project name alike, with integers as values."""
_TEXTS = frozenset({"api", "client_id"})
"""Columns that filters of the project name alike, with texts as values."""
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program of Spark's that pushes filters; others refuse a reader that takes them if the session does not push."""
_OPTIONS = (
    *("path", "paths", "table", "columns", "filter", "keylog"),
    *("range_bytes", "buckets", "settled", "maxFilesPerTrigger"),
)


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
    :ivar range_bytes: bytes that a task reads
    :ivar buckets: of ``parts``: among how many those are dealt out who put connections together
    :ivar settled: seconds, of streams: see :data:`SETTLED`
    :ivar most_files: of a batch of a stream, 0 for all that are there
    """

    paths: tuple[str, ...]
    table: str = "exchanges"
    columns: tuple[str, ...] = ()
    filter: str | None = None
    keylog: str | None = None
    range_bytes: int = RANGE_BYTES
    buckets: int = 8
    settled: float = SETTLED
    most_files: int = 0

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Read options as Spark gives them; their names do not depend on case.

        :raises OptionError: if one cannot be used
        """
        known = {name.lower() for name in _OPTIONS}
        for name in given:
            if name.lower() not in known:
                hint = did_you_mean(name, _OPTIONS) or f"there are {', '.join(_OPTIONS)}"
                raise OptionError(f"{name!r} is no option of kproxy: {hint}")
        options = {name.lower(): value for name, value in given.items()}
        paths = json.loads(options["paths"]) if "paths" in options else [options.get("path", "")]
        if not any(paths):
            raise OptionError("no path: load('/captures/monday')")
        table = options.get("table", "exchanges")
        if table not in (*TABLES, "parts"):
            hint = did_you_mean(table, TABLES) or f"there are {', '.join(TABLES)}"
            raise OptionError(f"{table!r} is no table of kproxy: {hint}")
        columns = tuple(name.strip() for name in options.get("columns", "").split(",") if name.strip())
        made = cls(
            tuple(paths),
            table,
            columns,
            options.get("filter"),
            options.get("keylog"),
            _number(options, "range_bytes", RANGE_BYTES),
            _number(options, "buckets", 8),
            _seconds(options, "settled", SETTLED),
            _number(options, "maxfilespertrigger", 0),  # the name that Spark's own sources have for it
        )
        try:
            made.compiled()
            made.shape()
        except FilterError as error:
            raise OptionError(f"filter: {error}") from None
        except ValueError as error:
            raise OptionError(f"columns: {error}") from None
        return made

    def compiled(self, pushed: Sequence[str] = ()) -> CaptureFilter | None:
        """Return what rows have to fit, None for all.

        :param pushed: further filters
        :raises FilterError: if it is none
        """
        parts = [f"({text})" for text in (self.filter, *pushed) if text]
        return compile_filter(" and ".join(parts)) if parts else None

    def chosen(self, schema: StructType) -> Options:
        """Return the same with the columns of a schema: that of the options, or the user's own.

        :raises OptionError: for a column that the table does not have, or has with another type
        """
        if self.table == "parts":
            return self
        from pyspark.sql.pandas.types import to_arrow_schema

        names = tuple(schema.fieldNames())
        try:
            ours = arrow_schema(self.table, names)
        except ValueError as error:
            raise OptionError(f"schema: {error}") from None
        for one, other in zip(ours, to_arrow_schema(schema, timezone="UTC"), strict=True):
            if one.type != other.type:
                raise OptionError(f"schema: {one.name} is declared as {other.type}, and is {one.type}")
        return replace(self, columns=names)

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


def _seconds(options: Mapping[str, str], name: str, usual: float) -> float:
    text = options.get(name)
    if text is None:
        return usual
    with suppress(ValueError):
        if 0 <= float(text) < float("inf"):
            return float(text)
    raise OptionError(f"{name} is {text!r}, and has to be a number of seconds from 0 on")


def register(spark: SparkSession) -> None:
    """Let a session know the data source ``kproxy``, where the driver has not found it among the installed packages."""
    spark.dataSource.register(KafkaCaptures)


class KafkaCaptures(DataSource):
    """Captures of Kafka traffic."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return Options.of(self.options).shape()

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options.of(self.options).chosen(schema)
        if options.table == "parts":
            return PartsReader(options)
        return FilteringReader(options, schema) if _PUSHING in sys.modules else TableReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        return FolderStream(Options.of(self.options).chosen(schema), schema)


# ---------------------------------------------------------------- ranges side by side
@dataclass
class RangePartition(InputPartition):
    """A range, by its number in the plan."""

    number: int


class PartsReader(DataSourceReader):
    """Reads ranges side by side; rows of :class:`~captures.ranges.jobs.RangeOutput`."""

    def __init__(self, options: Options) -> None:
        self._given = Input(make_plan(options.paths, options.range_bytes), options.secrets(), options.buckets)

    def partitions(self) -> Sequence[InputPartition]:
        return [RangePartition(part.number) for part in self._given.plan.ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return batches_of(read_part(self._given, self._given.plan.ranges[partition.number]))


# ---------------------------------------------------------------- tables
@dataclass
class FilesPartition(InputPartition):
    """Files that are one capture, read by one task.

    :ivar paths: none if there is nothing to read
    """

    paths: tuple[str, ...]


@dataclass
class RowsPartition(InputPartition):
    """A range of a capture, with what it has to know of the others.

    :ivar task: packed :class:`~captures.spark.table_writer.Task`, with only the files of this range
    :ivar context: packed :class:`~captures.ranges.exchange_numbers.Context`
    """

    task: bytes
    context: bytes


class TableReader(DataSourceReader):
    """Reads the rows of a table.

    :param schema: of the rows
    """

    def __init__(self, options: Options, schema: StructType | None = None) -> None:
        self._options = options
        self._schema = schema
        self._pushed: list[str] = []

    def partitions(self) -> Sequence[InputPartition]:
        return partitions_of(self._options.paths, self._options, self._pushed)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self._options, self._schema, self._pushed)


class FilteringReader(TableReader):
    """Takes filters that narrow the exchanges that are decoded."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take what can be taken; Spark asks all of it of the rows once more."""
        for each in filters:
            text = _as_filter(each)
            if text and self._options.table in PER_EXCHANGE:
                self._pushed.append(text)
            yield each


def partitions_of(paths: Sequence[str], options: Options, pushed: Sequence[str] = ()) -> list[InputPartition]:
    """Return the partitions of a table of a capture; one at least.

    :param pushed: filters that all rows will be asked for anyway
    :raises CaptureError: if there is nothing that can be read
    """
    wanted = options.compiled(pushed)
    if options.table not in PER_EXCHANGE or (wanted is not None and wanted.needs_groups):
        return [FilesPartition(tuple(map(absolute, paths)))]
    columns = {options.table: options.columns} if options.columns else {}
    rows = ExchangeTables((options.table,), names=lambda _: None, run=0, columns=columns)
    learn = rows.needs is not Needs.HEADER or wanted is not None
    given = Input(make_plan(paths, options.range_bytes), options.secrets(), options.buckets, learn)
    read = read_here(given, os.cpu_count() or 1, (MARK, EDGES))
    numbered, plan = read.numbered, read.given.plan
    made: list[InputPartition] = []
    for context in numbered.contexts:
        if context.count:
            mine = replace(read.given, plan=_only(plan, context.files, []), keylog=b"")
            task = Task(
                given=mine, facts=numbered.facts, columns=columns, filter=wanted, start=numbered.start
            )
            made.append(RowsPartition(pack(task), pack(context)))
    return made or [FilesPartition(())]


def _as_filter(wanted: Filter) -> str:
    """Return a comparison as the project's filters write it; empty if they have no such field."""
    attribute: tuple[str, ...] = getattr(wanted, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in _NUMBERS | _TEXTS:
        return ""
    (name,) = attribute
    if name in _TEXTS:
        return _as_text_filter(name, wanted)
    if isinstance(wanted, In):
        values = [value for value in wanted.value if isinstance(value, int)]
        return (
            " or ".join(f"{name} == {value}" for value in values) if len(values) == len(wanted.value) else ""
        )
    operator = _COMPARED.get(type(wanted))
    value = getattr(wanted, "value", None)
    return f"{name} {operator} {value}" if operator and type(value) is int else ""


def _as_text_filter(name: str, wanted: Filter) -> str:
    values = wanted.value if isinstance(wanted, In) else (getattr(wanted, "value", None),)
    fits = all(isinstance(value, str) and (name != "api" or value in NAMES) for value in values)
    if not isinstance(wanted, EqualTo | In) or not fits:
        return ""
    return " or ".join(f"{name} == {quoted(value)}" for value in values)


def rows_of(
    partition: InputPartition, options: Options, schema: StructType | None, pushed: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table that a partition has.

    :param schema: that they are to have; None for that of the table
    :param pushed: filters that all rows will be asked for anyway
    :raises CaptureError: if a file cannot be read any more
    """
    if isinstance(partition, RowsPartition):
        task: Task = unpack(partition.task)
        task = replace(task, given=replace(task.given, keylog=options.secrets()))
        found = task.rows_of(options.table, unpack(partition.context))
    else:
        assert isinstance(partition, FilesPartition)
        found = _rows_of_files(partition.paths, options, pushed) if partition.paths else iter(())
    if schema is None:
        return found
    from pyspark.sql.pandas.types import to_arrow_schema

    shape = to_arrow_schema(schema, timezone="UTC")
    return (_shaped(batch, shape) for batch in found)


def _shaped(batch: pa.RecordBatch, shape: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([batch.column(name) for name in shape.names], schema=shape)


def _rows_of_files(paths: Sequence[str], options: Options, pushed: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read files as one capture; yield the rows of a table.

    :raises CaptureError: if there is nothing that can be read
    """
    keylog = KeyLog()
    keylog.add(options.secrets())
    capture = open_capture(list(paths), keylog=keylog)
    capture.read()
    columns = {options.table: options.columns} if options.columns else {}
    reader = ExchangeReader(capture, annotate=False, summary=wants_summary((options.table,), columns))
    reader.learn(len(reader))
    names = reader.knowledge.topic_name
    wanted = options.compiled(pushed)
    exchanges: Iterable[Exchange] = reader if wanted is None else wanted.exchanges(reader)
    if options.table in PER_EXCHANGE:
        rows = ExchangeTables((options.table,), names=names, run=0, columns=columns, faults=capture.faults)
        for exchange in exchanges:
            rows.add(exchange)
            if rows.full:
                yield from rows.take().values()
        yield from rows.take().values()
    else:
        whole = WholeTables(capture, names, (options.table,), run=0, rules=RULES)
        keys = needs((options.table,), RULES)
        for exchange in exchanges:
            if keys is None or exchange.api_key in keys:
                whole.add(exchange)
        yield from (batch for _, batch in whole.batches())
    capture.faults.log()


# ---------------------------------------------------------------- streams
@dataclass
class StreamPartition(InputPartition):
    """A range of a batch of a stream.

    :ivar given: the batch, packed, with only the files of this range
    :ivar part: the range, by its number in the plan
    :ivar whole: the batch, packed, if this is the partition that carries it
    """

    given: bytes
    part: int
    whole: bytes | None


class StreamedFile(NamedTuple):
    """A file of a stream.

    :ivar size: in bytes
    :ivar changed: when it was last written to, in ns since the epoch
    :ivar head: hash of its first bytes
    """

    size: int
    changed: int
    head: str

    @classmethod
    def of(cls, path: str, before: StreamedFile | None) -> StreamedFile:
        """Look at a file.

        :param before: its state at the last look
        :raises OSError: if it cannot be read
        :raises CaptureError: likewise, of one that is elsewhere
        """
        now = FileStatus.of(path)
        if before is not None and before[:2] == (now.size, now.changed):
            return before
        return cls(now.size, now.changed, head_of(path, min(now.size, _HEAD)))

    def is_still(self, path: str, now: StreamedFile) -> bool:
        """Whether a file is the one that was seen, however it has grown."""
        if now.size < self.size:
            return False
        with suppress(OSError, CaptureError):
            return now.head == self.head or head_of(path, min(self.size, _HEAD)) == self.head
        return False


Listing = dict[str, StreamedFile]
"""Files by their paths."""


def _to_json(files: Listing) -> dict[str, Any]:
    return {"files": {name: list(seen) for name, seen in sorted(files.items())}}


def _of_json(offset: Mapping[str, Any] | None) -> Listing:
    return {name: StreamedFile(*seen) for name, seen in ((offset or {}).get("files") or {}).items()}


class FolderStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files of folders and patterns, each once.

    The offset is which files were there, with size, time, and first bytes: a file that is written to after it was read
    is not read again; another one under the same name, as a ring has them, is.
    """

    def __init__(self, options: Options, schema: StructType | None = None) -> None:
        self._options = options
        self._schema = schema
        self._known: Listing = {}
        self._last: Listing | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return _to_json({})

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  # Spark's name
        most = self._options.most_files
        return ReadMaxFiles(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        self._last = self._look()

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return the files that are finished by now, or as many as a batch may have besides those before."""
        now = self._look() if self._last is None else self._last
        if start is not None and isinstance(limit, ReadMaxFiles):
            before = _of_json(start)
            new = sorted(news(before, now), key=lambda name: (now[name].changed, name))
            later = set(new[limit.max_files :])
            now = {name: before.get(name, seen) if name in later else seen for name, seen in now.items()}
            now = {name: seen for name, seen in now.items() if name not in later or name in before}
        return _to_json(now)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        now = _of_json(end)
        there = [name for name in news(_of_json(start), now) if _is_there(name, now[name])]
        if not there:
            return []
        try:
            if self._options.table != "parts":
                return partitions_of(there, self._options)
            plan = make_plan(there, self._options.range_bytes)
        except CaptureError:  # none of them is a capture
            return []
        given = Input(plan, b"", self._options.buckets)
        return [
            StreamPartition(
                pack(replace(given, plan=_only(plan, range(*part.files), plan.ranges))),
                part.number,
                None if part.number else pack(given),
            )
            for part in plan.ranges
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StreamPartition):
            yield from rows_of(partition, self._options, self._schema)
            return
        given = replace(unpack(partition.given), keylog=self._options.secrets())
        if partition.whole is not None:
            yield from batches_of([RangeOutput(partition.part, PLAN, -1, partition.whole)])
        yield from batches_of(read_part(given, given.plan.ranges[partition.part]))

    def _look(self) -> Listing:
        self._known = finished(self._options.paths, self._options.settled, self._known)
        return self._known


def _only(plan: Plan, wanted: Container[int], ranges: list[Range]) -> Plan:
    """Return a plan of which only some files are described; the others keep their places."""
    nothing = CaptureFile("", 0, (0, 0), None)
    files = [file if at in wanted else nothing for at, file in enumerate(plan.files)]
    return replace(plan, files=files, ranges=ranges, unreadable=[], passed_over=[])


def _is_there(name: str, seen: StreamedFile) -> bool:
    """Whether a file was not deleted, and no other has its name, since it was listed."""
    try:
        return seen.is_still(name, StreamedFile.of(name, seen))
    except (OSError, CaptureError):
        return False


def news(before: Listing, now: Listing) -> list[str]:
    """Return the files that were not there before, by name."""
    return [
        name
        for name, seen in sorted(now.items())
        if name not in before or (before[name] != seen and not before[name].is_still(name, seen))
    ]


def finished(
    paths: Sequence[str], settled: float, known: Mapping[str, StreamedFile] | None = None
) -> Listing:
    """Return the files of folders and patterns that are complete.

    :param settled: seconds for which nothing was written to the newest one
    :param known: what the last look found
    """
    found: Listing = {}
    for path in paths:
        with suppress(CaptureError):  # it is elsewhere, and cannot be reached just now
            for name in expanded(path):
                with suppress(OSError, CaptureError):  # it is gone again
                    seen = StreamedFile.of(name, (known or {}).get(name))
                    if seen.size >= LEAST_HEADER:
                        found[name] = seen
    newest = max(found, key=lambda name: found[name].changed, default=None)
    if newest is not None and time_ns() - found[newest].changed < settled * 1e9:
        del found[newest]
    return found
