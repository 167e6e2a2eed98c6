"""All tables of a capture, made by one process.

:func:`write_tables` does everything from paths to a folder; :func:`write_parts` takes a capture that was already read.
Runs on Spark start and end in the same way, with :func:`write_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from captures.analysis.clusters import Clusters
from captures.analysis.exchange_groups import undecoded
from captures.analysis.findings.all import RULES
from captures.analysis.findings.rule import Rule
from captures.analysis.findings.rule_selection import chosen as chosen_rules
from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.json_objects import to_json
from captures.names import Names, read_names
from captures.packets import CaptureError, JoinedSource
from captures.packets.remote import absolute
from captures.packets.tls import KeyLog
from captures.tables.columns import Needs
from captures.tables.exchange_rows import ExchangeTables, header_batch, wants_summary
from captures.tables.folder import Folder, Part, PartWriter, open_folder
from captures.tables.inputs import RunInputs, find_inputs
from captures.tables.options import (
    FaultSummary,
    InputFile,
    OmittedFile,
    TablesOptions,
    TablesSummary,
    check_complete,
    damage_sentences,
    note_sentences,
)
from captures.tables.schema import OF_THE_WHOLE, TABLES, choose_tables, needs_of
from captures.tables.whole_rows import WholeTables, needs

if TYPE_CHECKING:
    import pyarrow as pa

    from captures.filters.filter import Filter

Progress = Callable[[str, int, int], None]
"""Called with the current activity, how much of it is done, and how much there is to do."""

READING, WRITING = "reading", "writing"
SINGLE, SPARK = "single", "spark"
"""The engines that write tables."""
_STEP = 1 << 16
"""Exchanges per batch if none of them is decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """The tables to write.

    :ivar tables: names of tables
    :ivar filter: only exchanges that match it become rows and are analyzed; None for all
    :ivar columns: table -> names of its columns; tables that are not listed have their default columns
    :ivar rules: rules for the table of findings
    :ivar limits: thresholds of rules that differ from their defaults: ``rule.name`` -> value
    :ivar names: names of addresses
    """

    tables: tuple[str, ...] = choose_tables()
    filter: Filter | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Sequence[type[Rule]] = RULES
    limits: Mapping[str, float] = field(default_factory=dict)
    names: Names = field(default_factory=Names)

    @classmethod
    def of(cls, options: TablesOptions) -> TableRequest:
        """Return the request for `options`.

        :raises ValueError: for an unknown table or rule, or an invalid filter
        :raises NamesError: if a file of names is malformed
        :raises OSError: if a file of names cannot be read
        """
        from captures.filters import compile_filter

        return cls(
            tables=choose_tables(options.tables or None),
            filter=compile_filter(options.filter) if options.filter else None,
            columns={"exchanges": options.columns} if options.columns else {},
            rules=chosen_rules(RULES, options.only, options.skip),
            names=read_names(options.hosts),
        )

    def header_columns(self, tables: Sequence[str]) -> Sequence[str] | None:
        """Return the columns of ``exchanges`` if it alone is among `tables` and headers suffice for it.

        :return: None if bodies have to be decoded
        """
        columns = self.columns.get("exchanges")
        if self.filter is not None or columns is None or set(tables) != {"exchanges"}:
            return None
        return columns if needs_of(TABLES["exchanges"].choose(columns)) is Needs.HEADER else None


class UncommittedTables(NamedTuple):
    """Files that were written, but not committed yet.

    :ivar exchanges: number of decoded exchanges that match the filter
    :ivar undecoded: number of these that could not be decoded completely; 0 if none had to be decoded
    """

    parts: list[Part]
    exchanges: int
    undecoded: int


def silent(_: str, __: int, ___: int) -> None:
    """Report no progress."""


# ---------------------------------------------------------------- a capture that was read
def write_parts(
    capture: Capture, folder: Folder, wanted: TableRequest, progress: Progress = silent
) -> UncommittedTables:
    """Write the tables of a capture, to be moved to their places by :meth:`Folder.commit`.

    :param capture: read to its end
    """
    tables = CaptureTables(capture, wanted, folder.run)
    with PartWriter(folder.staged, 0) as writer:
        writer.write_all(tables.batches(progress))
        return UncommittedTables(writer.close(), tables.exchanges, tables.undecoded)


class CaptureTables:
    """The rows of the tables of a capture.

    :param capture: read to its end
    :param run: number of the run
    :ivar exchanges: number of exchanges that match the filter, as far as they were decoded
    :ivar undecoded: number of these that could not be decoded completely
    """

    def __init__(self, capture: Capture, wanted: TableRequest, run: int) -> None:
        self.exchanges = self.undecoded = 0
        self._capture = capture
        self._wanted = wanted
        self._run = run

    def batches(self, progress: Progress = silent) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows in batches, each with the name of its table."""
        capture, wanted, run = self._capture, self._wanted, self._run
        summary = wants_summary(wanted.tables, wanted.columns)
        reader = ExchangeReader(capture, annotate=False, summary=summary)
        names = reader.knowledge.topic_name
        rows = ExchangeTables(
            wanted.tables, names=names, run=run, columns=wanted.columns, faults=capture.faults
        )
        if rows.needs is not Needs.HEADER or {*wanted.tables} & {*OF_THE_WHOLE}:
            # first all session facts, so that rows do not depend on the order of exchanges
            reader.learn(len(reader))
        whole = WholeTables(
            capture,
            names,
            wanted.tables,
            run=run,
            rules=wanted.rules,
            limits=wanted.limits,
            clusters=Clusters(capture, reader.knowledge.facts),
        )
        keys = needs(wanted.tables, wanted.rules)
        if wanted.filter is None and rows.needs is Needs.HEADER and keys is not None:
            yield from _headers(reader, run, wanted, progress)
            if not keys:
                yield from whole.batches()
                self.exchanges = len(reader)
                return
            rows = ExchangeTables((), names=names, run=run)
        for exchange in _exchanges(reader, wanted.filter, keys if not rows.tables else None):
            rows.add(exchange)
            whole.add(exchange)
            self.exchanges += 1
            self.undecoded += undecoded(exchange)
            if rows.full:
                yield from rows.take().items()
                progress(WRITING, exchange.number, len(reader))
        yield from rows.take().items()
        yield from whole.batches()
        progress(WRITING, len(reader), len(reader))
        capture.faults.locate(lambda number: capture.path_of(int(reader.rows[number - 1])))


def _exchanges(
    reader: ExchangeReader, fits: Filter | None, keys: frozenset[int] | None
) -> Iterator[Exchange]:
    """Yield the exchanges to decode.

    :param keys: keys of the relevant APIs; None for all
    """
    if fits is None:
        indexes = np.arange(len(reader))
        if keys is not None:
            indexes = indexes[np.isin(reader.capture.table.column("api_key")[reader.rows], sorted(keys))]
        return reader.several(indexes.tolist())
    return (exchange for exchange in fits.exchanges(reader) if keys is None or exchange.api_key in keys)


def _headers(
    reader: ExchangeReader, run: int, wanted: TableRequest, progress: Progress
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of the table ``exchanges`` without decoding."""
    if "exchanges" not in wanted.tables:
        return
    capture, rows = reader.capture, reader.rows
    connections = capture.table.column("connection")
    for begin in range(0, len(rows), _STEP):
        some: Int64s = rows[begin : begin + _STEP]
        numbers = np.arange(begin, begin + len(some)) + 1
        columns = wanted.columns.get("exchanges")
        yield "exchanges", header_batch(capture, some, numbers, connections[some], run, columns)
        progress(WRITING, begin + len(some), len(rows))


# ---------------------------------------------------------------- from paths
def write_run(
    paths: Sequence[str],
    out: str,
    engine: str,
    options: TablesOptions,
    work: Callable[[RunInputs, Folder, TableRequest], tuple[list[Part], dict[str, Any]]],
) -> TablesSummary:
    """Do one run that writes tables into a folder: all of them or, if it fails, none.

    :param paths: files, folders and patterns, which together are one capture
    :param engine: ``single``, which matches request logs with packets, or ``spark``
    :param work: reads the files that were found, and writes the parts; returns these and further fields of the summary
    :raises CaptureError: with ``strict``, if a file cannot be read or is no capture
    :raises FolderError: if the folder cannot take these tables
    :raises ValueError: for an unknown table, column or rule, or an invalid filter
    """
    begin = monotonic()
    if options.columns:
        TABLES["exchanges"].choose(options.columns)
    wanted = TableRequest.of(options)
    folder = open_folder(out, append=options.append, overwrite=options.overwrite)
    try:
        found = find_inputs(paths, folder, options, logs=engine == SINGLE)
        made = found.summary(folder.out, engine)
        rows = dict.fromkeys(wanted.tables, 0)
        if not found.read:
            return replace(made, rows=rows, seconds=monotonic() - begin)
        parts, outcome = work(found, folder, wanted)
        for part in parts:
            rows[part.table] += part.rows
        failed = (OmittedFile(error.path, error.reason) for error in outcome.pop("failed"))
        made = replace(
            made, unreadable=(*made.unreadable, *failed), rows=rows, seconds=monotonic() - begin, **outcome
        )
        folder.commit(parts, tables=wanted.tables, inputs=found.inputs, summary=to_json(made))
        return made
    finally:
        folder.discard()


def write_tables(
    paths: Sequence[str], out: str, options: TablesOptions, progress: Progress = silent
) -> TablesSummary:
    """Write the tables of captures into a folder.

    :param paths: files, folders and patterns, which together are one capture; ``-`` for standard input
    :raises CaptureError: if no file can be read; with ``strict``, at the first file that cannot be read
    :raises FolderError: if the folder cannot take these tables
    :raises ValueError: for an unknown table, column or rule, or an invalid filter
    """

    if options.follow:
        raise ValueError("files that come are followed with Spark only: leave out --engine single")

    def work(found: RunInputs, folder: Folder, wanted: TableRequest) -> tuple[list[Part], dict[str, Any]]:
        capture = _read(found.read, options, progress)
        capture.names = wanted.names
        written = write_parts(capture, folder, wanted, progress)
        return written.parts, _outcome(capture, found, written, options)

    return write_run(paths, out, SINGLE, options, work)


def _read(paths: Sequence[str], options: TablesOptions, progress: Progress) -> Capture:
    keylog = KeyLog(options.keylog) if options.keylog else None
    capture = open_capture(paths, keylog=keylog)
    capture.read(lambda done, expected: progress(READING, done, expected or 0))
    check_complete(options, capture.statistics.damage, _unreadable(capture))
    return capture


def _unreadable(capture: Capture) -> list[CaptureError]:
    return capture.source.unreadable if isinstance(capture.source, JoinedSource) else []


def _outcome(
    capture: Capture, found: RunInputs, written: UncommittedTables, options: TablesOptions
) -> dict[str, Any]:
    """Return the fields of the summary that depend on what was read and written."""
    streams, statistics = capture.connections.streams, capture.statistics
    failed = _unreadable(capture)
    gone = {each.path for each in failed}
    sizes = {each.path: each.size for each in found.inputs}
    return {
        "failed": failed,
        "files": tuple(
            InputFile(path, sizes.get(absolute(path), 0)) for path in found.read if path not in gone
        ),
        "packets": statistics.packets,
        "exchanges": len(capture.table),
        "undecoded": written.undecoded,
        "faults": FaultSummary.of(capture.faults),
        "lost_bytes": int(streams.lost.sum()) + int(streams.cut.sum()),
        "damage": damage_sentences(statistics.damage),
        "notes": note_sentences(
            options,
            exchanges=len(capture.table),
            fitting=written.exchanges,
            dropped=statistics.dropped,
            foreign=len(capture.foreign),
        ),
    }
