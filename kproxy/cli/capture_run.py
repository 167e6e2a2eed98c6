"""How commands about a whole capture read it: the implementation of their shared options."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, NoReturn, TypeVar, get_args

import click

from kproxy.cli.command import Command, command
from kproxy.cli.common import (
    EXIT_INCOMPLETE,
    keylog_option,
    names_of,
    read_all,
    reported_endings,
    undecided_notes,
    with_progress,
)
from kproxy.cli.options import ReadingOptions
from kproxy.cli.selection import ExchangeSelection, bounds
from kproxy.output import echo, echo_json, echo_lines, flush, terminal_width, use_color
from kproxy.signals import ended_by_signals

if TYPE_CHECKING:
    from captures.analysis.clusters import Clusters
    from captures.analysis.findings.diagnosis import Diagnosis
    from captures.analysis.groups.history import GroupHistories
    from captures.analysis.incidents.history import ClusterHistories
    from captures.analysis.negotiation import VersionLearner
    from captures.arrays import Bools, Int64s
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.exchanges.capture_cache import CaptureCache
    from captures.exchanges.columns import ExchangeColumns
    from captures.faults import Faults
    from captures.filters import Filter
    from captures.packets import Source
    from kproxy.text.blocks import Block
    from kproxy.text.summary import Tally

Options = TypeVar("Options", bound=ReadingOptions)


class CaptureInput:
    """A capture that is read to its end, or followed, and the notes on that.

    :param options: which files, folders and patterns are one capture, and how they are read
    :param utc: whether times are read and shown in UTC
    :param follow: whether the capture is still being written
    :raises click.UsageError: if the key log or the names cannot be read

    :ivar zone: time zone for reading and showing times; None for local time
    :ivar names: of addresses
    :ivar options: arguments that make another command read the capture in the same way
    """

    def __init__(self, options: ReadingOptions, *, utc: bool, follow: bool = False) -> None:
        self.files = options.files
        self._given = options
        self._follow = follow
        self.zone: tzinfo | None = UTC if utc else None
        self._keylog = keylog_option(options.keylog, growing=follow or "-" in options.files)
        self.names = names_of(options.hosts)
        self._opened: list[Capture] = []
        self.options = [
            *(("--keylog", options.keylog) if options.keylog else ()),
            *(["--align-clocks"] if options.align_clocks else ()),
        ]

    def capture(self) -> Capture:
        """Read the capture.

        :raises CaptureError: if there is nothing that can be read
        """
        capture = self.opened()
        read_all(capture)
        return capture

    def opened(self) -> Capture:
        """Open the capture; only its beginning is read.

        :raises CaptureError: if there is nothing that can be read
        """
        from captures.exchanges import open_capture
        from captures.packets.spool import DEFAULT_SPOOL

        given = self._given
        capture = open_capture(
            self.files,
            keylog=self._keylog,
            align_clocks=given.align_clocks,
            follow=self._follow,
            spool=DEFAULT_SPOOL if given.spool is None else given.spool,
        )
        capture.names = self.names
        if given.cache:
            capture.cache = _cache(capture.source)
        capture.jobs = _jobs(capture.source, self.files, getattr(given, "jobs", 1))
        self._opened.append(capture)
        return capture

    @property
    def faults(self) -> Faults:
        """Internal errors with the capture that was opened last."""
        return self._opened[-1].faults

    def exit_code(self, *, clean: bool) -> int:
        """Report internal errors that were not reported yet, such as those of showing results; return the exit code.

        :param clean: whether everything else was read and decoded
        """
        for capture in self._opened:
            report_faults(capture)
        return 0 if clean and not any(capture.faults for capture in self._opened) else EXIT_INCOMPLETE

    @cached_property
    def tally(self) -> Tally:
        """Counts of exchanges, for the closing line."""
        from kproxy.text.summary import Tally

        return Tally()

    @staticmethod
    def reader(capture: Capture, *, live: bool = False) -> ExchangeReader:
        """Return a reader of exchanges for analyses: decoded, but not prepared for display."""
        from captures.exchanges import ExchangeReader

        return ExchangeReader(capture, annotate=False, summary=False, live=live)

    def counted(
        self, reader: ExchangeReader, indexes: Int64s, names: Iterable[str], label: str
    ) -> ExchangeColumns:
        """Return columns of exchanges of a capture that was read to its end; count the exchanges by them.

        :param names: of columns to fill in addition to those for counting
        """
        from captures.analysis.exchange_groups import COUNTED

        columns = self.filled(reader.capture, reader.rows[indexes], [*COUNTED, *names], label)
        self.tally.add_columns(columns)
        return columns

    @staticmethod
    def filled(capture: Capture, rows: Int64s, names: Iterable[str], label: str) -> ExchangeColumns:
        """Return some filled columns of some rows of the table."""
        from captures.exchanges.columns import ExchangeColumns

        columns = ExchangeColumns(capture, rows)
        filled = columns.preparing(names)
        deque(with_progress(filled, lambda done: done, len(rows), label), maxlen=0)
        return columns

    def follow_groups(self, histories: GroupHistories | ClusterHistories, reader: ExchangeReader) -> None:
        """Add the exchanges of a fully read capture to the histories of its groups; count all exchanges."""
        from captures.analysis.groups.history import TAKEN
        from captures.analysis.incidents.history import needed

        label, wanted = "following groups", needed(reader.capture.table, reader.rows)
        self.follow(histories, reader, *self.counted_apart(reader, wanted, TAKEN, label), label)

    def counted_apart(
        self, reader: ExchangeReader, wanted: Bools, names: Iterable[str], label: str
    ) -> tuple[Int64s, ExchangeColumns]:
        """Count all exchanges of a fully read capture; return the indexes and columns of the wanted ones."""
        import numpy as np

        self.counted(reader, np.flatnonzero(~wanted), (), label)
        indexes = np.flatnonzero(wanted)
        return indexes, self.counted(reader, indexes, names if len(indexes) else (), label)

    @staticmethod
    def follow(
        histories: GroupHistories | ClusterHistories,
        reader: ExchangeReader,
        indexes: Int64s,
        columns: ExchangeColumns,
        label: str,
    ) -> None:
        """Add exchanges of a fully read capture to the histories of its groups.

        :param columns: of the exchanges: :data:`~captures.analysis.groups.history.TAKEN`
        """
        from captures.analysis.incidents.history import add_all

        shown = add_all(histories, reader, columns, indexes)
        deque(with_progress(shown, lambda each: each.number, len(reader), label), maxlen=0)

    @staticmethod
    def clusters(reader: ExchangeReader) -> Clusters:
        """Return the clusters of a capture that was read to its end."""
        from captures.analysis.clusters import Clusters

        reader.learn(len(reader))
        return Clusters(reader.capture, reader.knowledge.facts)

    def learn_versions(self, learner: VersionLearner, capture: Capture) -> None:
        """Have versions learned from a capture that was read to its end."""
        from captures.analysis.negotiation import TAKEN, learn_versions

        reader = self.reader(capture)
        columns = self.filled(capture, reader.rows, TAKEN, "reading versions")
        deque(learn_versions(learner, reader, columns), maxlen=0)

    def diagnose(self, diagnosis: Diagnosis, reader: ExchangeReader, indexes: Int64s, label: str) -> None:
        """Pass exchanges of a capture that was read to its end to the rules; all are counted."""
        from captures.analysis.decision_columns import TAKEN

        columns = self.counted(reader, indexes, TAKEN, label)
        shown = diagnosis.add_all(reader, columns, indexes)
        deque(with_progress(shown, lambda each: each.number, len(reader), label), maxlen=0)

    def bounds(self, capture: Capture, begin: str | None, end: str | None) -> tuple[int | None, int | None]:
        """Return the times of ``--from`` and ``--to`` in ns since the epoch, None if not given."""
        return bounds(capture, begin, end, self.zone)


_FORMS = {"as_json": "--json", "as_markdown": "--markdown", "html": "--html", "mermaid": "--mermaid"}


class CaptureRun(Generic[Options]):
    """A run of a command about a capture. The module of a subclass has the command's name, its docstring is the help.

    :cvar command: the command, which makes and executes a run
    :param files: the captures, if not all arguments are captures
    :raises click.UsageError: if the options are invalid
    :ivar clean: whether everything was read and decoded
    """

    command: ClassVar[Command]

    def __init_subclass__(cls, *, short_help: str) -> None:
        name = cls.__module__.rpartition(".")[2].replace("_", "-")
        (declared,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]
        made = command(declared, name, short_help=short_help, help=cls.__doc__)
        cls.command = made(lambda options: cls(options).execute())

    def __init__(self, options: Options, files: tuple[str, ...] | None = None) -> None:
        self.options = options
        forms = [name for field, name in _FORMS.items() if getattr(options, field, None)]
        if len(forms) > 1:
            raise click.UsageError(f"use only one of {' and '.join(forms)}")
        self.as_json, self.as_markdown = "--json" in forms, "--markdown" in forms
        if self.as_markdown:
            use_color("never")
        given = options if files is None else replace(options, files=files)
        utc, follow = getattr(options, "utc", True), getattr(options, "follow", False)
        self.reading = CaptureInput(given, utc=utc, follow=follow)
        self.clean = True

    def run(self) -> None:
        """Read the capture, and show the results."""
        raise NotImplementedError

    def execute(self) -> NoReturn:
        """Run the command, and exit with its code."""
        with reported_endings(self.concerned):
            self.run()
            flush()
        sys.exit(self.exit_code)

    @property
    def exit_code(self) -> int:
        """The exit code of the process, after the run."""
        return self.reading.exit_code(clean=self.clean)

    def concerned(self, error: OSError) -> object:
        """Return the subject of an operating system error, for the message."""
        return error.filename

    def follow(
        self,
        capture: Capture,
        reader: ExchangeReader,
        add: Callable[[Exchange], None],
        pause: Callable[[], None],
        selecting: ExchangeSelection | None = None,
    ) -> None:
        """Pass on the exchanges of a growing capture as they complete, until it ends or is stopped; all are counted.

        :param pause: called if there is nothing to read, and now and then
        """
        with ended_by_signals(capture.source.stop):
            for exchange in (selecting or ExchangeSelection()).follow(capture, reader, pause=pause):
                self.reading.tally.add(exchange)
                add(exchange)

    def conclude(self, capture: Capture, *, printed: bool = False, wanted: Filter | None = None) -> None:
        """Print the notes on the reading, see :func:`conclude`."""
        self.clean = conclude(capture, self.reading.tally, printed=printed, wanted=wanted)

    def answer(self, *results: object, blocks: Iterable[Block], prose: bool = False) -> None:
        """Print the results.

        :param results: for JSON, an object per line
        :param blocks: for text and Markdown
        :param prose: whether lines are kept short for readability
        """
        if self.as_json:
            for each in results:
                echo_json(each, wait=True)
        else:
            self.show(blocks, prose=prose)

    def show(self, blocks: Iterable[Block], *, prose: bool = False) -> None:
        """Print blocks as text or Markdown; internal errors in them are contained."""
        from kproxy.text.blocks import markdown_lines, text_lines

        shown = (
            markdown_lines(blocks) if self.as_markdown else text_lines(blocks, terminal_width(), prose=prose)
        )
        echo_lines(self.reading.faults.contained_items(shown, "showing what was found"))


def _cache(source: Source) -> CaptureCache | None:
    """Return the cache of a capture, None if kproxy is not installed or reading the capture takes little time."""
    from captures.exchanges.capture_cache import CaptureCache
    from captures.exchanges.parallel import WORTH_PROCESSES
    from kproxy.doctor.packages import own_version
    from kproxy.user_folders import user_folder

    version = own_version()
    if version is None or (source.expected or 0) < WORTH_PROCESSES:
        return None
    return CaptureCache(user_folder("XDG_CACHE_HOME") / "captures", source, version)


def _jobs(source: Source, paths: Sequence[str], asked: int | None) -> int:
    """Return how many processes work on a capture.

    :param paths: as given
    :param asked: value of ``--jobs``
    """
    from captures.exchanges.parallel import WORTH_PROCESSES, processors
    from captures.packets.remote import is_remote

    # connections to remote files belong to threads of fsspec, which a fork does not inherit
    if source.live or any(map(is_remote, paths)):
        return 1
    if asked is None:
        return processors() if (source.expected or 0) >= WORTH_PROCESSES else 1
    return asked


def print_notes(capture: Capture) -> None:
    """Print the reader's notes on a capture on standard error."""
    from kproxy.text.summary import notes

    for note in notes(capture):
        echo(f"kproxy: {note}", err=True)
    report_faults(capture)


def report_faults(capture: Capture) -> None:
    """Print internal errors that were not reported yet on standard error."""
    for line in capture.faults.news():
        echo(f"kproxy: {line}", err=True)


def conclude_unread(capture: Capture) -> bool:
    """Do the same as :func:`conclude` if only chosen fields were read, so that not every body was inspected."""
    import numpy as np

    from captures.exchanges import Flag
    from kproxy.text.summary import Tally

    print_notes(capture)
    orphans = np.count_nonzero(capture.table.column("flags") & np.uint16(Flag.ORPHAN))
    clean = Tally(exchanges=len(capture.table), orphans=int(orphans)).clean(capture)
    if not clean:
        echo("kproxy: not everything could be read: kproxy read shows what is missing", err=True)
    return clean


def conclude(capture: Capture, tally: Tally, *, printed: bool = False, wanted: Filter | None = None) -> bool:
    """Print the notes on a reading on standard error; return whether everything was read and decoded.

    If not, print the closing line of ``kproxy read`` with the counts, because the exit code alone would be a riddle.

    :param printed: whether the closing line is on standard output anyway
    :param wanted: the filter; the closing line also counts exchanges that a limit left undecided
    """
    print_notes(capture)
    undecided = undecided_notes(wanted)
    for note in undecided:
        echo(f"kproxy: {note}", err=True)
    clean = tally.clean(capture)
    if not clean and not printed:
        echo(f"kproxy: {tally.sentence(capture, wanted)}", err=True)
    return clean and not undecided
