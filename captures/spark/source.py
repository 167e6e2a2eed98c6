"""The Spark data source ``kproxy``: captures as tables, through Spark's own reader.

::

    spark.read.format("kproxy").option("table", "exchanges").load("/captures/monday")
    spark.readStream.format("kproxy").option("table", "exchanges").load("/captures/rotated")

All paths together are one capture. Its partitions are the ranges of :mod:`captures.ranges.plan`. Partitions cannot
communicate, so connections that cross range edges are stitched when Spark plans the query: the driver's processors read
the headers of all packets, and each partition receives the context that its range needs. Tables that need all exchanges
have a single partition, as do queries with filters that refer to groups.

:mod:`captures.spark.stream_source` starts from the table ``parts``: the results of reading ranges in parallel, not
yet stitched. A stream reads every file once, existing and new ones; the newest file only when there is a newer
one or nothing was written to it for a while.
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

try:  # since Spark 4.2, which limits the files of a batch
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:
    ReadAllAvailable = ReadMaxFiles = SupportsTriggerAvailableNow = type("NotThere", (), {})  # type: ignore

from captures.exchanges import open_capture
from captures.filters import FilterError, compile_filter
from captures.filters.errors import did_you_mean
from captures.filters.lexer import quoted
from captures.packets.errors import CaptureError
from captures.packets.files import CaptureFile, FileStatus, expanded, head_of
from captures.packets.remote import absolute
from captures.packets.tls import KeyLog
from captures.packets.wrappings import LEAST_HEADER
from captures.ranges.edges import pack, unpack
from captures.ranges.jobs import EDGES, MARK, Input, RangeOutput, read_here, read_part
from captures.ranges.plan import RANGE_BYTES, Plan, Range, make_plan
from captures.spark.capture_reader import PARTS, batches_of
from captures.spark.task import Task
from captures.tables.schema import PER_EXCHANGE, TABLES, ddl
from captures.tables.schema import schema as arrow_schema
from captures.tables.single import CaptureTables, TableRequest
from dissectors.apis import NAMES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


NAME = "kproxy"
SETTLED = 60.0
"""Seconds without a write after which the newest file of a stream counts as finished."""
_HEAD = 256
"""Bytes at the start of a file that distinguish it from another file of the same name."""
PLAN = "plan"
"""Kind of the rows of ``parts`` with the packed :class:`~captures.ranges.jobs.Input` of a batch; only in streams."""

_COMPARED: dict[type[Filter], str] = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_NUMBERS = frozenset({"api_key", "version", "correlation_id", "request_size", "response_size", "connection"})
"""Integer columns with the same name in kproxy's filters."""
_TEXTS = frozenset({"api", "client_id"})
"""Text columns with the same name in kproxy's filters."""
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""The Spark worker that pushes filters; others reject a reader with pushFilters unless the session pushes filters."""
_OPTIONS = (
    *("path", "paths", "table", "columns", "filter", "keylog"),
    *("range_bytes", "settled", "maxFilesPerTrigger"),
)


class OptionError(ValueError):
    """An option of the data source is invalid; the message names it and the valid values."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the data source.

    :ivar paths: files, folders and patterns
    :ivar table: ``parts``, or a name of docs/tables.md
    :ivar columns: columns of the table; its default columns if empty
    :ivar filter: only exchanges that match it (docs/filters.md) become rows
    :ivar keylog: path of a TLS key log, on every machine
    :ivar range_bytes: bytes that a task reads
    :ivar settled: of streams: seconds as in :data:`SETTLED`
    :ivar most_files: of streams: files per batch, 0 for no limit
    """

    paths: tuple[str, ...]
    table: str = "exchanges"
    columns: tuple[str, ...] = ()
    filter: str | None = None
    keylog: str | None = None
    range_bytes: int = RANGE_BYTES
    settled: float = SETTLED
    most_files: int = 0

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Parse options as Spark passes them; names are case-insensitive.

        :raises OptionError: if one is invalid
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
            _seconds(options, "settled", SETTLED),
            _number(options, "maxfilespertrigger", 0),  # named as in Spark's own sources
        )
        try:
            made.request()
            made.shape()
        except FilterError as error:
            raise OptionError(f"filter: {error}") from None
        except ValueError as error:
            raise OptionError(f"columns: {error}") from None
        return made

    def request(self, pushed: Sequence[str] = ()) -> TableRequest:
        """Return the request for the table.

        :param pushed: further filters, all of which must match
        :raises FilterError: if a filter is invalid
        """
        parts = [f"({text})" for text in (self.filter, *pushed) if text]
        chosen = compile_filter(" and ".join(parts)) if parts else None
        columns = {self.table: self.columns} if self.columns else {}
        return TableRequest(tables=(self.table,), filter=chosen, columns=columns)

    def chosen(self, schema: StructType) -> Options:
        """Return these options with the columns of `schema`, which is either :meth:`shape` or the user's own.

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
        """Return the content of the TLS key log."""
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
    """Register the data source ``kproxy`` with a session whose driver does not find it among the installed packages."""
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
            raise OptionError("parts is a table of streams only")
        return FilteringReader(options, schema) if _PUSHING in sys.modules else TableReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        return FolderStream(Options.of(self.options).chosen(schema), schema)


# ---------------------------------------------------------------- tables
@dataclass
class FilesPartition(InputPartition):
    """The files of a capture, read by one task.

    :ivar paths: empty if there is nothing to read
    """

    paths: tuple[str, ...]


@dataclass
class RowsPartition(InputPartition):
    """A range of a capture, with its context from the other ranges.

    :ivar task: packed :class:`~captures.spark.table_writer.Task`, with only the files of this range
    :ivar context: packed :class:`~captures.ranges.exchange_numbers.Context`
    """

    task: bytes
    context: bytes


class TableReader(DataSourceReader):
    """Reads the rows of a table.

    :param schema: schema of the rows
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
    """Reads the rows of a table, decoding only exchanges that match the filters pushed by Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Keep the filters that kproxy can express; yield all of them, so that Spark applies them to the rows, too."""
        for each in filters:
            text = _as_filter(each)
            if text and self._options.table in PER_EXCHANGE:
                self._pushed.append(text)
            yield each


def partitions_of(paths: Sequence[str], options: Options, pushed: Sequence[str] = ()) -> list[InputPartition]:
    """Return the partitions of a table of a capture, at least one.

    :param pushed: filters that Spark applies to all rows anyway
    :raises CaptureError: if no file can be read
    """
    request = options.request(pushed)
    wanted = request.filter
    if options.table not in PER_EXCHANGE or (wanted is not None and wanted.needs_groups):
        return [FilesPartition(tuple(map(absolute, paths)))]
    learn = request.header_columns(request.tables) is None
    given = Input(make_plan(paths, options.range_bytes), options.secrets(), learn=learn)
    read = read_here(given, os.cpu_count() or 1, (MARK, EDGES))
    numbered, plan = read.numbered, read.given.plan
    made: list[InputPartition] = []
    for context in numbered.contexts:
        if context.count:
            partition = replace(read.given, plan=_only(plan, context.files, []), keylog=b"")
            task = Task.of(read._replace(given=partition), request)
            made.append(RowsPartition(pack(task), pack(context)))
    return made or [FilesPartition(())]


def _as_filter(wanted: Filter) -> str:
    """Return Spark's comparison in kproxy's filter language; empty if it has no such field."""
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
    """Return an iterator over the rows of a partition.

    :param schema: schema that the rows must have; None for that of the table
    :param pushed: filters that Spark applies to all rows anyway
    :raises CaptureError: if a file can no longer be read
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

    :raises CaptureError: if no file can be read
    """
    keylog = KeyLog()
    keylog.add(options.secrets())
    capture = open_capture(list(paths), keylog=keylog)
    capture.read()
    yield from (batch for _, batch in CaptureTables(capture, options.request(pushed), 0).batches())
    capture.faults.log()


# ---------------------------------------------------------------- streams
@dataclass
class StreamPartition(InputPartition):
    """A range of a batch of a stream.

    :ivar given: the batch, packed, with only the files of this range
    :ivar part: number of the range in the plan
    :ivar whole: the complete batch, packed; only in the first partition, else None
    """

    given: bytes
    part: int
    whole: bytes | None


class StreamedFile(NamedTuple):
    """A file of a stream.

    :ivar size: in bytes
    :ivar changed: time of the last write, in ns since the epoch
    :ivar head: hash of its first bytes
    """

    size: int
    changed: int
    head: str

    @classmethod
    def of(cls, path: str, before: StreamedFile | None) -> StreamedFile:
        """Return the current state of a file.

        :param before: its state at the last scan
        :raises OSError: if it cannot be read
        :raises CaptureError: if it is remote and cannot be read
        """
        now = FileStatus.of(path)
        if before is not None and before[:2] == (now.size, now.changed):
            return before
        return cls(now.size, now.changed, head_of(path, min(now.size, _HEAD)))

    def is_still(self, path: str, now: StreamedFile) -> bool:
        """Return whether `now` is the state of the same file, which may have grown."""
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

    The offset lists the files with size, time of the last write, and hash of the first bytes: a file that is written to
    after it was read is not read again; a different file under the same name, as in a ring, is.
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
        """Return the finished files; with a limit, those of `start` and at most so many new ones, oldest first."""
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
        except CaptureError:  # no file is a capture
            return []
        given = Input(plan)
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
    """Return a plan that describes only some files; the others keep their numbers."""
    nothing = CaptureFile("", 0, (0, 0), None)
    files = [file if at in wanted else nothing for at, file in enumerate(plan.files)]
    return replace(plan, files=files, ranges=ranges, unreadable=[], passed_over=[])


def _is_there(name: str, seen: StreamedFile) -> bool:
    """Return whether a file was neither deleted nor replaced since it was listed."""
    try:
        return seen.is_still(name, StreamedFile.of(name, seen))
    except (OSError, CaptureError):
        return False


def news(before: Listing, now: Listing) -> list[str]:
    """Return the files that are new or were replaced, by name."""
    return [
        name
        for name, seen in sorted(now.items())
        if name not in before or (before[name] != seen and not before[name].is_still(name, seen))
    ]


def finished(
    paths: Sequence[str], settled: float, known: Mapping[str, StreamedFile] | None = None
) -> Listing:
    """Return the files of folders and patterns that are complete.

    :param settled: seconds without a write after which the newest file counts as complete
    :param known: result of the last scan
    """
    found: Listing = {}
    for path in paths:
        with suppress(CaptureError):  # it is remote and unreachable at the moment
            for name in expanded(path):
                with suppress(OSError, CaptureError):  # it was deleted meanwhile
                    seen = StreamedFile.of(name, (known or {}).get(name))
                    if seen.size >= LEAST_HEADER:
                        found[name] = seen
    newest = max(found, key=lambda name: found[name].changed, default=None)
    if newest is not None and time_ns() - found[newest].changed < settled * 1e9:
        del found[newest]
    return found
