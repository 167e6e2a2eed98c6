"""Tables of a folder that a proxy or tcpdump rotates files into, extended batch by batch.

All batches form one run: exchanges and connections are numbered across them, and connections continue from file to
file. A batch is in the tables whole or not at all. Tables that need all exchanges, such as findings, cover all batches
so far: each commit replaces their previous state.

With ``--append`` a program that ended continues: files that are already in the tables are not added again. Those that
still exist are read once more to find the state of their connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

from captures.faults import Faults
from captures.json_objects import to_json
from captures.packets import CaptureError, Statistics
from captures.packets.observation import Observation
from captures.ranges.batches import BatchState, stitch_and_number_batch
from captures.ranges.edges import pack
from captures.ranges.exchange_numbers import Context
from captures.ranges.jobs import FINISHED, Input, MergeResult, RangeOutput
from captures.ranges.plan import Plan, make_plan
from captures.ranges.whole import WholeCapture, WholeCaptureData
from captures.ranges.whole_connections import PackedConnections, WholeConnection
from captures.spark.capture_reader import packed_rows, parts
from captures.spark.source import Listing, finished, news
from captures.spark.table_writer import RangeWriter
from captures.spark.task import WRITTEN, Task, TaskResult, collected, faults_of
from captures.tables.folder import Folder, Part, PartWriter
from captures.tables.manifest import Input as FileInput
from captures.tables.options import (
    ALREADY_READ,
    FaultSummary,
    InputFile,
    OmittedFile,
    TablesOptions,
    TablesSummary,
    damage_sentences,
)
from captures.tables.schema import OF_THE_WHOLE, PER_EXCHANGE
from captures.tables.single import READING, WRITING, Progress, TableRequest, silent
from captures.tables.whole_rows import WholeTables, needs
from dissectors.session_context import SessionContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLED = 10.0
"""Seconds without a write after which the newest file counts as finished."""
_EVERY = 1.0
"""Seconds between two scans of the folder."""
_GROWN = "it was written to after it was read: what came later is not in the tables"
_WHOLE = "whole"
"""Name of the task that writes the tables over all batches."""


class _CumulativeTables:
    """The tables over all batches, made in this process.

    :param tables: names of the tables that need all exchanges
    """

    def __init__(self, tables: Sequence[str], wanted: TableRequest, run: int) -> None:
        self._names = tuple(tables)
        self._wanted = wanted
        self._run = run
        self._wholes: dict[int, WholeConnection] = {}
        self._statistics = Statistics()
        self._latest = 0
        self._knowledge = SessionContext()
        self._capture: Any = None
        self._tables: WholeTables | None = None
        self._keys = needs(tables, wanted.rules)

    @property
    def faults(self) -> Faults:
        """Internal errors so far."""
        return Faults() if self._tables is None else self._tables.faults

    def add_connections(self, read: MergeResult) -> None:
        """Add the connections, statistics and facts of a batch."""
        for each in read.marked:
            self._statistics.add(each.mark.statistics)
            self._latest = max(self._latest, each.mark.latest)
        self._wholes |= read.numbered.connections
        self._knowledge.add(read.numbered.facts)

    def add(self, task: Task, read: MergeResult) -> None:
        """Add the exchanges of a batch to the tables."""
        self.add_connections(read)
        source = read.given.plan.source()
        whole = WholeCaptureData(
            (PackedConnections.of(self._wholes),),
            task.facts,
            self._statistics,
            self._latest,
            Observation(),  # rotated files of one capture
        )
        if self._tables is None:
            self._capture = WholeCapture(source, whole)
            self._capture.names = self._wanted.names
            self._tables = WholeTables(
                self._capture,
                self._knowledge.topic_name,
                self._names,
                run=self._run,
                rules=self._wanted.rules,
                limits=self._wanted.limits,
            )
        else:
            self._capture.show(source, whole)
        for context in read.numbered.contexts if self._keys is None or self._keys else ():
            part = task.read(context)
            self._capture.take(part.capture.table, part.rows, part.connections)
            for exchange in task.fitting(part, self._keys, summary=False):
                self._tables.add(exchange)
            for faults in (self._capture.faults, part.capture.faults):
                faults.locate(part.path_of)
            self._capture.faults.merge(part.capture.faults)

    def write(self, folder: Folder) -> list[Part]:
        """Write the tables over all batches so far; return their files."""
        if self._tables is None or not self._names:
            return []
        with PartWriter(folder.staged, _WHOLE) as writer:
            writer.write_all(self._tables.batches())
            return writer.close()


class Follower:
    """Writes tables of the existing files, then of new ones as they arrive.

    :param paths: folders, patterns and files
    :param settled: seconds without a write after which the newest file counts as finished
    :ivar summary: covers all batches so far
    """

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        folder: Folder,
        wanted: TableRequest,
        options: TablesOptions,
        *,
        progress: Progress = silent,
        settled: float = SETTLED,
    ) -> None:
        self._spark = spark
        self._paths = list(paths)
        self._folder = folder
        self._wanted = wanted
        self._options = options
        self._progress = progress
        self._settled = settled
        self._keylog = Path(options.keylog).read_bytes() if options.keylog else b""
        self._seen: Listing = {}
        self._grown: set[str] = set()
        self._state = BatchState()
        self._batch = 0
        self._inputs: list[FileInput] = []
        self._begin = monotonic()
        of_the_whole = [name for name in wanted.tables if name in OF_THE_WHOLE]
        self._cumulative = _CumulativeTables(of_the_whole, wanted, folder.run)
        self._faults = Faults()
        self.summary = TablesSummary(out=folder.out, engine="spark", rows=dict.fromkeys(wanted.tables, 0))

    def run(self, stop: Event) -> TablesSummary:
        """Read batch by batch until `stop` is set, then once more what has arrived. Ctrl-C ends the run at once.

        :raises CaptureError: with ``strict``, at the first file that cannot be read completely
        """
        try:
            while not stop.is_set():
                if not self.step():
                    stop.wait(_EVERY)
            self.step(last=True)
        except KeyboardInterrupt:
            pass  # the next run reads the uncommitted batch again
        return self.summary

    def step(self, *, last: bool = False) -> bool:
        """Read the files that have arrived; return whether there were any.

        :param last: whether this is the final batch, in which the newest file is read even if it is still being written
        """
        new = self._new(0.0 if last else self._settled)
        if not new:
            return False
        before, inputs = self._known(new)
        if before:
            self._process(before)
        plan = self._planned([each.path for each in inputs]) if inputs else None
        if plan is not None and plan.files:
            self._take(plan, inputs)
        return True

    # ------------------------------------------------------------ files
    def _new(self, settled: float) -> list[str]:
        now = finished(self._paths, settled, self._seen)
        new = news(self._seen, now)
        grown = [name for name, seen in now.items() if name not in new and self._seen[name].size < seen.size]
        self._leave_out([OmittedFile(name, _GROWN) for name in grown if name not in self._grown])
        self._grown = self._grown.union(grown).difference(new)
        self._seen = {name: now[name] if name in new else self._seen[name] for name in now}
        return new

    def _known(self, paths: Sequence[str]) -> tuple[list[str], list[FileInput]]:
        """Split `paths` into files that are already in the tables and new ones."""
        compared = self._folder.compare(FileInput.of(path) for path in paths)
        skipped = tuple(OmittedFile(each.path, ALREADY_READ) for each in compared.known)
        self.summary = replace(self.summary, skipped=(*self.summary.skipped, *skipped))
        self._leave_out([OmittedFile(each.path, _GROWN) for each in compared.changed])
        return [each.path for each in compared.known], compared.new

    def _planned(self, paths: Sequence[str]) -> Plan | None:
        try:
            plan = make_plan(paths, self._options.range_bytes)
        except CaptureError as error:
            self._leave_out([OmittedFile(error.path, error.reason)])
            return None
        self._leave_out([OmittedFile(error.path, error.reason) for error in plan.unreadable])
        return plan

    def _leave_out(self, files: Sequence[OmittedFile]) -> None:
        if files and self._options.strict:
            raise CaptureError(files[0].path, 0, files[0].reason)
        self.summary = replace(self.summary, unreadable=(*self.summary.unreadable, *files))

    # ------------------------------------------------------------ a batch
    def _read(self, plan: Plan) -> tuple[MergeResult, BatchState]:
        """Read the ranges of a batch in parallel, and stitch their connections here; return the state after it."""
        given = Input(plan, self._keylog)
        outputs: dict[int, list[RangeOutput]] = {}
        for row in parts(self._spark, given).filter(f"kind != '{FINISHED}'").collect():
            outputs.setdefault(row["part"], []).append(
                RangeOutput(row["part"], row["kind"], row["bucket"], bytes(row["data"]))
            )
        return stitch_and_number_batch(given, outputs, self._state)

    def _process(self, paths: Sequence[str]) -> None:
        """Find the state of connections at the end of files that are already in the tables."""
        plan = self._planned(paths)
        if plan is not None and plan.files:
            read, self._state = self._read(plan)
            self._cumulative.add_connections(read)

    def _take(self, plan: Plan, inputs: Sequence[FileInput]) -> None:
        """Read a batch and commit it to the tables."""
        self._progress(READING, 0, 0)
        read, after = self._read(plan)
        task = Task.of(read, self._wanted, self._folder.staged)
        self._progress(WRITING, 0, 0)
        with ThreadPoolExecutor(1) as threads:
            written = threads.submit(self._write, task, read.numbered.contexts)
            self._cumulative.add(task, read)
            done = written.result()
        of_the_whole = self._cumulative.write(self._folder)
        self._report(read, done, inputs, of_the_whole)
        parts = [part for each in done for part in each.parts]
        self._folder.commit(
            [*parts, *of_the_whole],
            tables=self._wanted.tables,
            inputs=self._inputs,
            summary=to_json(self.summary),
            replacing=_WHOLE,
        )
        self._state = after
        self._batch += 1

    def _write(self, task: Task, contexts: Sequence[Context]) -> list[TaskResult]:
        tables = [name for name in self._wanted.tables if name in PER_EXCHANGE]
        if not tables:
            return []
        writer = RangeWriter(task, tables, prefix=f"{self._batch:05d}x")
        rows = packed_rows(self._spark, context=list(map(pack, contexts)))
        found = collected(rows.repartitionById(len(contexts), "part").mapInArrow(writer, WRITTEN))
        return [each for _, each in sorted(found.items())]

    def _report(
        self,
        read: MergeResult,
        done: Sequence[TaskResult],
        inputs: Sequence[FileInput],
        of_the_whole: Sequence[Part],
    ) -> None:
        """Update the summary.

        :param of_the_whole: files of the tables that cover all batches
        """
        self._inputs += inputs
        marks, made = read.marks, self.summary
        rows = dict(made.rows)
        for part in (part for each in done for part in each.parts):
            rows[part.table] += part.rows
        rows |= {name: 0 for name in rows if name in OF_THE_WHOLE}
        for part in of_the_whole:
            rows[part.table] += part.rows
        files = tuple(InputFile(file.path, file.size) for file in read.given.plan.files)
        damage = damage_sentences(each for mark in marks for each in mark.statistics.damage)
        self._faults.merge(faults_of(done))
        faults = Faults()
        for each in (self._faults, self._cumulative.faults):
            faults.merge(each)
        self.summary = replace(
            made,
            files=(*made.files, *files),
            packets=made.packets + sum(mark.statistics.packets for mark in marks),
            exchanges=made.exchanges + read.numbered.exchanges,
            undecoded=made.undecoded + sum(each.undecoded for each in done),
            faults=FaultSummary.of(faults),
            rows=rows,
            damage=(*made.damage, *damage),
            seconds=monotonic() - self._begin,
        )
