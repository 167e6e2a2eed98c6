"""The pipeline from capture files to a folder of Parquet tables, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from captures.packets.remote import absolute
from captures.ranges.jobs import Input, MergeResult
from captures.ranges.plan import make_plan
from captures.ranges.whole import whole_of
from captures.spark.capture_reader import SparkCaptureReader
from captures.spark.job_progress import watched
from captures.spark.session import is_connect, running_session
from captures.spark.table_writer import AnalysisSettings, HeaderWriter, RangeWriter, TableBuilder, dealt_out
from captures.spark.task import WRITTEN, Task, TaskResult, collected, faults_of
from captures.spark.task_shares import shares_of
from captures.tables.folder import Folder, Part, open_folder
from captures.tables.inputs import RunInputs
from captures.tables.options import (
    FaultSummary,
    InputFile,
    TablesOptions,
    TablesSummary,
    check_complete,
    damage_sentences,
    note_sentences,
)
from captures.tables.schema import OF_THE_WHOLE, PER_EXCHANGE
from captures.tables.single import READING, SPARK, WRITING, Progress, TableRequest, silent, write_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHOLE, _EXCHANGES = "kproxy-whole", "kproxy-exchanges"
"""Scheduler pools, as in ``pools.xml``."""


def write_tables(
    paths: Sequence[str], out: str, options: TablesOptions, progress: Progress = silent
) -> TablesSummary:
    """Write the tables of captures into a folder, on Spark.

    With ``follow`` it continues until Ctrl-C; :func:`follow_tables` can be stopped in other ways.

    :param paths: files, folders and patterns, which together are one capture
    :param progress: called with the current activity, how much of it is done, and how much there is to do
    :raises CaptureError: if no file can be read; with ``strict``, at the first file that cannot be read completely
    :raises FolderError: if the folder cannot take these tables
    :raises SparkUnavailable: if Spark cannot be used
    :raises ValueError: for an unknown table, column or rule, or an invalid filter
    """
    if options.follow:
        return follow_tables(paths, out, options, Event(), progress)

    def work(found: RunInputs, folder: Folder, wanted: TableRequest) -> tuple[list[Part], dict[str, Any]]:
        keylog = Path(options.keylog).read_bytes() if options.keylog else b""
        given = Input(make_plan(found.read, options.range_bytes), keylog)
        with running_session(options.master, remote=options.remote, settings=options.settings) as spark:
            with watched(spark, READING, progress):
                reading = SparkCaptureReader(spark, given)
            with closing(reading), watched(spark, WRITING, progress):
                marks = reading.read.marks
                damage = (each for mark in marks for each in mark.statistics.damage)
                check_complete(options, damage, (error for mark in marks for error in mark.unreadable))
                done = _write(spark, reading, folder, wanted)
        return [part for each in done for part in each.parts], _outcome(reading.read, done, options)

    return write_run(paths, absolute(out), SPARK, options, work)


def follow_tables(
    paths: Sequence[str], out: str, options: TablesOptions, stop: Event, progress: Progress = silent
) -> TablesSummary:
    """Write the tables of captures on Spark as their files arrive, until stopped.

    :param paths: folders, patterns and files
    :param stop: set it from another thread or a signal handler; files that have arrived until then are still read
    :raises CaptureError: with ``strict``, at the first file that cannot be read completely
    :raises FolderError: if the folder cannot take these tables
    :raises SparkUnavailable: if Spark cannot be used
    :raises ValueError: for an unknown table, column or rule, or an invalid filter
    """
    from captures.spark.follow import Follower

    wanted = TableRequest.of(options)
    folder = open_folder(absolute(out), append=options.append, overwrite=options.overwrite)
    try:
        with running_session(options.master, remote=options.remote, settings=options.settings) as spark:
            return Follower(spark, paths, folder, wanted, options, progress=progress).run(stop)
    finally:
        folder.discard()


# ---------------------------------------------------------------- output
def _write(
    spark: SparkSession, reading: SparkCaptureReader, folder: Folder, wanted: TableRequest
) -> list[TaskResult]:
    """Write all tables. Those that need all exchanges start first, because they take longest."""
    read = reading.read
    task = Task.of(read, wanted, folder.staged).with_groups(reading.contexts)
    jobs: dict[str, Callable[[], DataFrame]] = {}
    if of_the_whole := [name for name in wanted.tables if name in OF_THE_WHOLE]:
        settings = settings_of(read, task, of_the_whole, processors(spark))
        whole = whole_of(read.numbered, read.marks, reading.connections)
        builder = TableBuilder(settings, whole)
        jobs[_WHOLE] = lambda: dealt_out(spark, reading.contexts, settings, whole).mapInArrow(
            builder, WRITTEN
        )
    if tables := [name for name in wanted.tables if name in PER_EXCHANGE]:
        columns = wanted.header_columns(tables)
        if columns is not None and not read.noted:
            finished = reading.finished.join(reading.contexts, "part")
            jobs[_EXCHANGES] = partial(finished.mapInArrow, HeaderWriter(task, columns), WRITTEN)
        else:
            jobs[_EXCHANGES] = partial(reading.contexts.mapInArrow, RangeWriter(task, tables), WRITTEN)
    return [each for job in side_by_side(spark, jobs) for _, each in sorted(job.items())]


def settings_of(read: MergeResult, task: Task, tables: Sequence[str], processors: int) -> AnalysisSettings:
    """Return the settings for the tasks that make tables of all exchanges.

    :param tables: names of tables that need all exchanges
    """
    # interventions excuse findings of all rules, and only one share with the group histories sees them all
    shares = shares_of(tables, task.wanted.rules, 0 if read.noted else processors)
    return AnalysisSettings(task=task, shares=tuple(shares))


def side_by_side(spark: SparkSession, jobs: Mapping[str, Callable[[], DataFrame]]) -> list[dict[int, Any]]:
    """Run jobs concurrently; if one fails, or on Ctrl-C, the others end at once.

    :param jobs: scheduler pool -> function that returns the frame to collect, and may run jobs for that
    :return: for each job, the result of :func:`~captures.spark.table_writer.collected`
    """
    tag = f"kproxy-{uuid4().hex}"

    def run(job: Callable[[], DataFrame], pool: str) -> dict[int, Any]:
        spark.addTag(tag)  # tags and pools belong to the thread
        if not is_connect(spark):
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        return collected(job())

    threads = ThreadPoolExecutor(len(jobs) or 1)
    try:
        begun = [threads.submit(run, job, pool) for pool, job in jobs.items()]
        for each in as_completed(begun):
            each.result()
        return [each.result() for each in begun]
    except BaseException as error:
        with suppress(Exception):  # Spark may have ended
            spark.interruptTag(tag)
        threads.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    finally:
        threads.shutdown(wait=False)


def processors(spark: SparkSession) -> int:
    """Return how many tasks run in parallel; a large number for Spark Connect, whose server does not report it."""
    if is_connect(spark):
        return 1 << 10
    return int(spark.sparkContext.defaultParallelism)


# ---------------------------------------------------------------- reporting
def _outcome(read: MergeResult, done: Sequence[TaskResult], options: TablesOptions) -> dict[str, Any]:
    """Return the fields of the summary that depend on what was read and written."""
    marks, plan = read.marks, read.given.plan
    tasks = [0] * len(plan.files)
    for part in plan.ranges:
        for number in range(*part.files):
            tasks[number] += 1
    return {
        "failed": [error for mark in marks for error in mark.unreadable],
        "files": tuple(
            InputFile(file.path, file.size, tasks[number], plan.whole.get(number, ""))
            for number, file in enumerate(plan.files)
        ),
        "packets": sum(mark.statistics.packets for mark in marks),
        "exchanges": read.numbered.exchanges,
        "undecoded": sum(each.undecoded for each in done),
        "faults": FaultSummary.of(faults_of(done)),
        "lost_bytes": read.numbered.lost_bytes,
        "damage": damage_sentences(damage for mark in marks for damage in mark.statistics.damage),
        "notes": note_sentences(
            options,
            exchanges=read.numbered.exchanges,
            fitting=sum(each.exchanges for each in done),
            dropped=sum(mark.statistics.dropped for mark in marks),
            foreign=read.numbered.foreign,
        ),
    }
