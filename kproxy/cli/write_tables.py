"""``kproxy tables``: captures of any size as folders of Parquet, by Spark or by one process."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC
from threading import Event
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE, filter_option, keylog_option
from kproxy.cli.printing import echo, echo_json
from kproxy.cli.showing import ended_by_signals
from kproxy.cli.sizes import Size

if TYPE_CHECKING:
    from captures.tables.options import TablesOptions, TablesSummary

Progress = Callable[[str, int, int], None]
"""Is told a stage, how far it is, and what it comes to (0 if that is not known): bytes while reading."""

SMALL = 256 << 20
"""Bytes that one process reads in the time in which a JVM and its workers start and are warm."""
_LEAST_RANGE = 1 << 20
_STANDARD_INPUT = "-"


class Engine(Protocol):
    """What makes the tables.

    :raises CaptureError: if nothing could be read, or with ``strict`` at the first fault
    """

    def __call__(
        self, paths: Sequence[str], out: str, options: TablesOptions, progress: Progress
    ) -> TablesSummary:
        """Write the tables of captures to a folder."""
        ...


def _list_tables(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from captures.tables.schema import TABLES, USUAL

    for name, table in TABLES.items():
        request = "" if name in USUAL else " (only with --table)"
        echo(f"{name}{request}: {table.about}")
        echo(f"    {', '.join(column.name for column in table.columns)}")
    context.exit()


def _settings(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.BadParameter(f"{text!r} is no setting of Spark: write spark.driver.memory=4g")
        settings[name.strip()] = value.strip()
    return settings


@click.command(
    "tables", short_help="Write captures of any size as Parquet tables, on this machine or a cluster."
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "-o", "--output", required=True, metavar="OUT", help="The folder of the tables: OUT/TABLE/date=.../..."
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Write this table; may be given several times. Default: all but records.",
)
@click.option(
    "--columns",
    metavar="NAME,...",
    help="Write these columns of exchanges, besides number and time. Default: all but bodies.",
)
@click.option(
    "-Y",
    "--filter",
    "wanted",
    metavar="FILTER",
    help="Only exchanges that fit become rows: 'topic == orders'. Times in it are UTC, as in the tables.",
)
@click.option(
    "--append", is_flag=True, help="Add to the tables in OUT; files that they have already are skipped."
)
@click.option("--overwrite", is_flag=True, help="Replace the tables in OUT.")
@click.option("-F", "--follow", is_flag=True, help="Go on with files that come into a folder, until Ctrl-C.")
@click.option("--strict", is_flag=True, help="End at the first file that is damaged or cannot be read.")
@click.option(
    "--keylog", type=click.Path(), metavar="FILE", help="Decrypt TLS with the secrets in this NSS key log."
)
@click.option(
    "--only", multiple=True, metavar="RULE", help="Findings: ask only this rule (kproxy diagnose --list)."
)
@click.option("--skip", multiple=True, metavar="RULE", help="Findings: leave this rule out.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "single"]),
    default="auto",
    help="What makes them. auto: Spark, if it is installed and there is much to read, else one process.",
)
@click.option(
    "--master", metavar="URL", help="Where Spark runs: spark://host:7077, yarn, local[4]. Default: here."
)
@click.option("--remote", metavar="URL", help="A Spark Connect server: sc://host:15002.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Processes on this machine. Default: as many as processors.",
)
@click.option(
    "--range-size",
    type=Size(_LEAST_RANGE),
    default="64MiB",
    metavar="SIZE",
    help="How much of a file one task reads. Default: 64MiB.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=_settings,
    metavar="NAME=VALUE",
    help="A setting of Spark, such as spark.driver.memory=4g; may be given several times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object (docs/spark.md).")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_tables,
    help="List the tables with their columns (docs/tables.md).",
)
def write_tables(paths: tuple[str, ...], output: str, **options: Any) -> None:
    """Write what CAPTURE... says as tables to the folder OUT, for SQL: exchanges, partitions, groups, findings ...

    CAPTURE is a file, a folder, or a pattern; on a cluster, the same path on all its machines. Several are one capture
    in the order of time. Each table is a folder of Parquet files, by date and hour; docs/tables.md has their columns,
    and kproxy report makes a page of them.

    Files that cannot be read are named and left out. A run that fails or is stopped leaves the tables as they were.
    """
    run = WriteTables(paths, output, **options)
    sys.exit(run.run())


class WriteTables:
    """One run of ``kproxy tables``.

    :raises click.UsageError: if the options do not make sense together
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        output: str,
        *,
        tables: tuple[str, ...],
        columns: str | None,
        wanted: str | None,
        append: bool,
        overwrite: bool,
        follow: bool,
        strict: bool,
        keylog: str | None,
        only: tuple[str, ...],
        skip: tuple[str, ...],
        engine: str,
        master: str | None,
        remote: str | None,
        jobs: int | None,
        range_size: int,
        settings: Mapping[str, str],
        as_json: bool,
    ) -> None:
        from captures.tables.options import TablesOptions

        _check_together(
            {"--append": append, "--overwrite": overwrite},
            {"--master": master, "--remote": remote, "--engine single": engine == "single"},
            {"--jobs": jobs, "--master": master, "--remote": remote},
            {"--follow": follow, "--engine single": engine == "single"},
            {"--follow": follow, "--overwrite": overwrite},
            {"--follow": follow, "CAPTURE -, standard input": _STANDARD_INPUT in paths},
        )
        _check_names(tables, columns, only, skip)
        filter_option(wanted, UTC)
        keylog_option(keylog, growing=follow)
        self.paths = paths
        self.output = output
        self.as_json = as_json
        self.options = TablesOptions(
            tables=tables,
            columns=tuple(columns.replace(" ", "").split(",")) if columns else (),
            filter=wanted,
            append=append,
            overwrite=overwrite,
            strict=strict,
            keylog=keylog,
            range_bytes=range_size,
            follow=follow,
            master=master,
            remote=remote,
            settings=settings,
            jobs=jobs,
            only=only,
            skip=skip,
        )
        self.choice = choose_engine(engine, paths, self.options)

    def run(self) -> int:
        """Write the tables, and say what came of it; return the exit code."""
        from captures.spark.errors import expected, plain

        echo(f"kproxy: {self.choice.why}", err=True)
        logging.getLogger().addHandler(logging.NullHandler())  # py4j logs Ctrl-C with a traceback
        try:
            with stopped_by_signals(), StageBars() as progress:
                summary = self.choice.engine(self.paths, self.output, self.options, progress)
        except KeyboardInterrupt:
            echo(f"kproxy: stopped: nothing of this run is in {self.output}", err=True)
            return EXIT_UNREADABLE
        except Exception as error:
            if not expected(error):
                raise
            echo(f"kproxy: {plain(error)}", err=True)
            return EXIT_UNREADABLE
        self._print(summary)
        for line in summary.faults.told:
            echo(f"kproxy: {line}", err=True)
        if summary.nothing_read:
            return EXIT_UNREADABLE
        return 0 if summary.clean else EXIT_INCOMPLETE

    def _print(self, summary: TablesSummary) -> None:
        if self.as_json:
            echo_json(summary.to_json())
            return
        for line in summary.lines():
            echo(line)


def _check_together(*groups: Mapping[str, object]) -> None:
    """Refuse options that exclude each other."""
    for group in groups:
        given = [name for name, value in group.items() if value]
        if len(given) > 1:
            raise click.UsageError(f"{' and '.join(given)} do not go together")


def _check_names(
    tables: Sequence[str], columns: str | None, only: Sequence[str], skip: Sequence[str]
) -> None:
    """Refuse names that mean nothing, before a JVM starts for them."""
    from captures.tables.schema import TABLES, choose_tables
    from kproxy.cli.diagnosing import rules_and_limits

    try:
        chosen = choose_tables(tables or None)
    except ValueError as error:
        raise click.UsageError(f"--table: {error}") from None
    if columns is not None:
        if "exchanges" not in chosen:
            raise click.UsageError("--columns: the table exchanges is not written")
        try:
            TABLES["exchanges"].choose(columns.replace(" ", "").split(","))
        except ValueError as error:
            raise click.UsageError(f"--columns: {error}") from None
    if only or skip:
        rules_and_limits(only, skip, ())


# ---------------------------------------------------------------- what makes them
class Choice(NamedTuple):
    """An engine, and why it is that one, for the user."""

    engine: Engine
    why: str


def choose_engine(wanted: str, paths: Sequence[str], options: TablesOptions) -> Choice:
    """Return what makes the tables.

    :param wanted: ``auto``, ``spark`` or ``single``
    :raises click.UsageError: if Spark is needed and cannot be used
    """
    from captures.spark.errors import SparkUnavailable

    place = _place(options)
    if wanted == "single":
        return Choice(_single, "one process, without Spark")
    if wanted == "spark" or place or options.follow:
        try:
            return Choice(_on_spark, _spark(place or "this machine"))
        except SparkUnavailable as error:
            raise click.UsageError(str(error)) from None
    if _STANDARD_INPUT in paths:
        return Choice(_single, "one process: standard input can be read only once")
    size = _size(paths)
    if size is not None and size < SMALL:
        return Choice(
            _single,
            f"one process: for {size / 1e6:,.1f} MB Spark would take longer to start (--engine spark)",
        )
    try:
        return Choice(_on_spark, _spark("this machine"))
    except SparkUnavailable as error:
        if size is None:
            raise click.UsageError(str(error)) from None
        return Choice(_single, f"one process: {error}")


def _place(options: TablesOptions) -> str:
    """Return where Spark has been told to run; empty if nobody has said so."""
    if options.master or options.remote:
        return str(options.master or options.remote)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "where spark-submit says"
    return os.environ.get("SPARK_REMOTE", "")


def _spark(place: str) -> str:
    """Return what Spark there is, for the user.

    :raises SparkUnavailable: if there is none, or no Java where a JVM has to be started
    """
    from captures.spark.java import find_java
    from captures.spark.session import spark_version

    version = spark_version()
    if place.startswith(("sc://", "where spark-submit")):
        return f"Spark {version}, {place}"
    java = find_java()
    return f"Spark {version} on {place}, Java {java.version} ({java.where})"


def _size(paths: Sequence[str]) -> int | None:
    """Return the bytes that there are to read; None if they are where only a cluster can look."""
    from captures.packets import CaptureError
    from captures.packets.files import FileStatus, expanded

    size = 0
    try:
        for name in (name for path in paths for name in expanded(path)):
            with suppress(OSError):  # it is told when it is read
                size += FileStatus.of(name).size
    except CaptureError:
        return None
    return size


def _on_spark(paths: Sequence[str], out: str, options: TablesOptions, progress: Progress) -> TablesSummary:
    from captures.spark.pipeline import follow_tables, write_tables

    if options.jobs is not None and not _place(options):
        options = replace(options, master=f"local[{options.jobs}]")
    if options.follow:
        stop = Event()
        with ended_by_signals(stop.set):
            return follow_tables(paths, out, options, stop, progress)
    return write_tables(paths, out, options, progress)


def _single(paths: Sequence[str], out: str, options: TablesOptions, progress: Progress) -> TablesSummary:
    from captures.tables.single import write_tables

    return write_tables(paths, out, options, progress)


# ---------------------------------------------------------------- while it runs
@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let being asked to terminate do what Ctrl-C does."""

    def stop(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StageBars:
    """Shows how far each stage is, as a bar on a terminal; nothing elsewhere.

    One is a context manager that gives what is to be told the progress.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._stage = ""
        self._shown = 0
        self._begin = 0.0

    def __enter__(self) -> Progress:
        return self._tell if sys.stderr.isatty() else lambda stage, done, total: None

    def __exit__(self, *_: object) -> None:
        self._close()

    def _tell(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._close()
            self._open(stage, total)
        self._bar.length = max(total, done)
        self._bar.update(done - self._shown, done)
        self._shown = done

    def _open(self, stage: str, total: int) -> None:
        self._stage, self._shown, self._begin = stage, 0, monotonic()
        self._bar = click.progressbar(
            length=total,
            label=f"{stage:<10}",
            show_percent=bool(total),
            show_eta=bool(total),
            item_show_func=self._rate if stage == "reading" else None,
            file=sys.stderr,
        )
        self._bar.__enter__()

    def _rate(self, done: int | None) -> str | None:
        took = monotonic() - self._begin
        return f"{done / took / 1e6:,.0f} MB/s" if done and took else None

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
