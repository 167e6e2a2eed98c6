"""``kproxy tables``: captures of any size as folders of Parquet, made by Spark or by one process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from threading import Event
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from kproxy.cli.command import AnyFile, Count, TextParam, argument, command, option, options
from kproxy.cli.common import (
    EXIT_INCOMPLETE,
    EXIT_UNREADABLE,
    RateBar,
    filter_option,
    keylog_option,
    names_of,
    usage_errors,
)
from kproxy.cli.options import FilterString, HostsOption, size_type
from kproxy.output import echo, echo_json
from kproxy.signals import ended_by_signals

if TYPE_CHECKING:
    from captures.tables.options import TablesOptions, TablesSummary

Progress = Callable[[str, int, int], None]
"""Called with a stage, its progress, and its total (0 if unknown): bytes while reading."""

SMALL = 256 << 20
"""Bytes that one process reads in the time that a JVM and its workers take to start and warm up."""
_LEAST_RANGE = 1 << 20


Engine = Callable[[Sequence[str], str, "TablesOptions", Progress], "TablesSummary"]
"""Called with paths of captures, a folder, options and `Progress`; writes the tables.

Raises CaptureError if nothing could be read, or with ``strict`` at the first error.
"""


def _list_tables(context: click.Context, _: click.Parameter, requested: bool) -> None:
    if not requested:
        return
    from captures.tables.schema import TABLES, USUAL

    for name, table in TABLES.items():
        request = "" if name in USUAL else " (only with --table)"
        echo(f"{name}{request}: {table.about}")
        echo(f"    {', '.join(column.name for column in table.columns)}")
    context.exit()


def _spark_setting(text: str) -> tuple[str, str]:
    name, equals, setting = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise ValueError(f"{text!r} is not a Spark setting: write spark.driver.memory=4g")
    return name.strip(), setting.strip()


@options
class TablesCommandOptions(HostsOption):
    """Options of ``kproxy tables``."""

    paths: tuple[str, ...] = argument("CAPTURE...", type=click.Path(allow_dash=True))
    output: str = option(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="The folder of the tables: OUT/TABLE/date=.../...",
    )
    tables: tuple[str, ...] = option(
        "--table",
        metavar="NAME",
        help="Write this table; may be given several times. Default: all but records.",
    )
    columns: str | None = option(
        "--columns",
        metavar="NAME,...",
        help="Write these columns of exchanges, besides number and time. Default: all but bodies.",
    )
    wanted: FilterString | None = option(
        "-Y",
        "--filter",
        help="Write only exchanges that match: 'topic == orders'. Times in the filter are UTC, as in the tables.",
    )
    append: bool = option("--append", help="Add to the tables in OUT; skip files that they already contain.")
    overwrite: bool = option("--overwrite", help="Replace the tables in OUT.")
    follow: bool = option("-F", "--follow", help="Keep adding files that appear in a folder, until Ctrl-C.")
    strict: bool = option("--strict", help="Stop at the first file that is damaged or cannot be read.")
    keylog: AnyFile | None = option("--keylog", help="Decrypt TLS with the secrets in this NSS key log.")
    only: tuple[str, ...] = option(
        "--only", metavar="RULE", help="Findings: run only this rule (kproxy diagnose --list)."
    )
    skip: tuple[str, ...] = option("--skip", metavar="RULE", help="Findings: skip this rule.")
    engine: Literal["auto", "spark", "single"] = option(
        "--engine",
        default="auto",
        help="Engine that makes the tables. auto: Spark, if it is installed and there is much to read, else one "
        "process.",
    )
    master: str | None = option(
        "--master",
        metavar="URL",
        help="Spark master: spark://host:7077, yarn, local[4]. Default: this machine.",
    )
    remote: str | None = option(
        "--remote", private=True, metavar="URL", help="A Spark Connect server: sc://host:15002."
    )
    jobs: Count | None = option(
        "-j", "--jobs", help="Processes on this machine. Default: as many as processors."
    )
    range_size: int = option(
        "--range-size",
        type=size_type(_LEAST_RANGE),
        default="64MiB",
        help="How much of a file one task reads. Default: 64MiB.",
    )
    spark_conf: tuple[tuple[str, str], ...] = option(
        "--spark-conf",
        former=("--set",),
        private=True,
        type=TextParam("setting", _spark_setting),
        metavar="NAME=VALUE",
        help="A setting of Spark, such as spark.driver.memory=4g; may be given several times.",
    )
    as_json: bool = option("--json", help="Print the summary as one JSON object (docs/spark.md).")
    listing: bool = option(
        "--list",
        is_eager=True,
        expose_value=False,
        callback=_list_tables,
        help="List the tables with their columns (docs/tables.md).",
    )


@command(
    TablesCommandOptions,
    "tables",
    short_help="Write captures of any size as Parquet tables, on this machine or a cluster.",
)
def write_tables(options: TablesCommandOptions) -> None:
    """Write CAPTURE... as tables for SQL to the folder OUT: exchanges, partitions, groups, findings ...

    CAPTURE is a file, a folder, or a pattern; on a cluster, the same path on all machines. Several are one capture in
    the order of time. Each table is a folder of Parquet files, by date and hour; docs/tables.md lists their columns,
    and kproxy report makes a page from them.

    Files that cannot be read are named and left out. A run that fails or is stopped leaves the tables as they were.
    """
    run = WriteTables(options)
    sys.exit(run.run())


class WriteTables:
    """One run of ``kproxy tables``.

    :raises click.UsageError: if the options contradict each other
    """

    def __init__(self, options: TablesCommandOptions) -> None:
        from captures.packets.files import is_readable_once
        from captures.tables.options import TablesOptions

        master, remote, follow = options.master, options.remote, options.follow
        single = options.engine == "single"
        _check_together(
            {"--append": options.append, "--overwrite": options.overwrite},
            {"--master": master, "--remote": remote, "--engine single": single},
            {"--jobs": options.jobs, "--master": master, "--remote": remote},
            {"--follow": follow, "--engine single": single},
            {"--follow": follow, "--overwrite": options.overwrite},
            {"--follow": follow, "standard input or a connection": any(map(is_readable_once, options.paths))},
        )
        _check_names(options.tables, options.columns, options.only, options.skip)
        filter_option(options.wanted, UTC)
        keylog_option(options.keylog, growing=follow)
        names_of(options.hosts)  # refuses errors now rather than after Spark has started
        self.paths = options.paths
        self.output = options.output
        self.as_json = options.as_json
        self.options = TablesOptions(
            tables=options.tables,
            columns=tuple(options.columns.replace(" ", "").split(",")) if options.columns else (),
            filter=options.wanted,
            append=options.append,
            overwrite=options.overwrite,
            strict=options.strict,
            keylog=options.keylog,
            hosts=options.hosts,
            range_bytes=options.range_size,
            follow=follow,
            master=master,
            remote=remote,
            settings=dict(options.spark_conf),
            jobs=options.jobs,
            only=options.only,
            skip=options.skip,
        )
        self.choice = choose_engine(options.engine, options.paths, self.options)

    def run(self) -> int:
        """Write the tables, and print a summary; return the exit code."""
        from captures.spark.errors import expected, plain

        echo(f"kproxy: {self.choice.why}", err=True)
        logging.getLogger().addHandler(logging.NullHandler())  # py4j logs Ctrl-C with a traceback
        try:
            with ended_by_signals(_interrupt), StageBars() as progress:
                summary = self.choice.engine(self.paths, self.output, self.options, progress)
        except KeyboardInterrupt:
            echo(f"kproxy: stopped: nothing of this run was written to {self.output}", err=True)
            return EXIT_UNREADABLE
        except Exception as error:
            if not expected(error):
                raise
            echo(f"kproxy: {plain(error)}", err=True)
            return EXIT_UNREADABLE
        self._print(summary)
        for line in summary.faults.sentences:
            echo(f"kproxy: {line}", err=True)
        if summary.nothing_read:
            return EXIT_UNREADABLE
        return 0 if summary.clean else EXIT_INCOMPLETE

    def _print(self, summary: TablesSummary) -> None:
        if self.as_json:
            echo_json(summary)
            return
        for line in summary.lines():
            echo(line)


def _check_together(*groups: Mapping[str, object]) -> None:
    """Refuse options that exclude each other."""
    for group in groups:
        given = [name for name, value in group.items() if value]
        if len(given) > 1:
            raise click.UsageError(f"{' and '.join(given)} cannot be combined")


def _check_names(
    tables: Sequence[str], columns: str | None, only: Sequence[str], skip: Sequence[str]
) -> None:
    """Refuse unknown names before a JVM starts."""
    from captures.tables.schema import TABLES, choose_tables
    from kproxy.cli.live_findings import rules_and_limits

    with usage_errors(ValueError, before="--table: "):
        chosen = choose_tables(tables or None)
    if columns is not None:
        if "exchanges" not in chosen:
            raise click.UsageError("--columns: the table exchanges is not written")
        with usage_errors(ValueError, before="--columns: "):
            TABLES["exchanges"].choose(columns.replace(" ", "").split(","))
    if only or skip:
        rules_and_limits(only, skip, ())


# ---------------------------------------------------------------- engines
class Choice(NamedTuple):
    """An engine, and the reason for choosing it, for the user."""

    engine: Engine
    why: str


def choose_engine(name: str, paths: Sequence[str], options: TablesOptions) -> Choice:
    """Return the engine that makes the tables.

    :param name: ``auto``, ``spark`` or ``single``
    :raises click.UsageError: if Spark is needed and cannot be used
    """
    from captures.meaning.words import volume  # not needed to show help
    from captures.packets.files import is_readable_once
    from captures.spark.errors import SparkUnavailable

    place = _place(options)
    if name == "single":
        return Choice(_single, "one process, without Spark")
    if name == "spark" or place or options.follow:
        with usage_errors(SparkUnavailable):
            return Choice(_on_spark, _spark(place or "this machine"))
    if any(map(is_readable_once, paths)):
        return Choice(_single, "one process: standard input, or a connection, can be read only once")
    size = _size(paths)
    if size is not None and size < SMALL:
        return Choice(
            _single,
            f"one process: for {volume(size)} Spark would take longer to start (--engine spark)",
        )
    if size is not None and _has_log_beside_others(paths):
        return Choice(
            _single,
            "one process: Spark matches no request log with packets, and does not join logs",
        )
    try:
        return Choice(_on_spark, _spark("this machine"))
    except SparkUnavailable as error:
        if size is None:
            raise click.UsageError(str(error)) from None
        return Choice(_single, f"one process: {error}")


def _place(options: TablesOptions) -> str:
    """Return the configured Spark master; empty if there is none."""
    if options.master or options.remote:
        return str(options.master or options.remote)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "where spark-submit says"
    return os.environ.get("SPARK_REMOTE", "")


def _spark(master: str) -> str:
    """Return a description of Spark, for the user.

    :raises SparkUnavailable: if Spark is missing, or Java, unless the JVM runs elsewhere
    """
    from captures.spark.java import find_java
    from captures.spark.session import spark_version

    version = spark_version()
    if master.startswith(("sc://", "where spark-submit")):
        return f"Spark {version}, {master}"
    java = find_java()
    return f"Spark {version} on {master}, Java {java.version} ({java.where})"


def _size(paths: Sequence[str]) -> int | None:
    """Return the number of bytes to read; None if only a cluster can access them."""
    from captures.packets import CaptureError
    from captures.packets.files import FileStatus, expanded

    size = 0
    try:
        for name in (name for path in paths for name in expanded(path)):
            with suppress(OSError):  # reading it reports the error
                size += FileStatus.of(name).size
    except CaptureError:
        return None
    return size


def _has_log_beside_others(paths: Sequence[str]) -> bool:
    """Return whether a request log on this machine is among several captures: logs, or captures of packets."""
    from captures.packets.files import FileStatus, expanded, find_files
    from captures.packets.remote import is_remote
    from captures.packets.spool import Quota

    names = [name for path in paths for name in expanded(path)]
    local = [name for name in names if not is_remote(name)]
    regular = list[str]()
    for name in local:
        with suppress(OSError):  # reading it reports the error
            if FileStatus.of(name).regular:
                regular.append(name)
    logs = [
        file.is_log for file in find_files(regular, Quota(), logs_beside_packets=True, joined=False).files
    ]
    return any(logs) and (len(logs) > 1 or len(local) < len(names))


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
def _interrupt() -> None:
    raise KeyboardInterrupt


class StageBars:
    """Shows the progress of each stage, as a bar on a terminal; nothing elsewhere.

    A context manager that returns the callback for progress.
    """

    def __init__(self) -> None:
        self._bar: RateBar | None = None
        self._stage = ""

    def __enter__(self) -> Progress:
        return self._show if sys.stderr.isatty() else lambda stage, done, total: None

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def _show(self, stage: str, done: int, total: int) -> None:
        if self._bar is None or stage != self._stage:
            self.__exit__()
            self._stage = stage
            self._bar = RateBar(f"{stage:<10}", total, rated=stage == "reading")
        self._bar.update(done, max(total, done))
