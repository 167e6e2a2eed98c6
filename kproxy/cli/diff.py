"""``kproxy diff``: the differences between two captures, or between two time ranges of one."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kproxy.cli.capture_run import CaptureInput, CaptureRun, conclude
from kproxy.cli.command import TextParam, argument, option, options
from kproxy.cli.common import with_progress
from kproxy.cli.options import JobsOption, ReadingOptions, ReportOptions, UtcOption, checked_moment

if TYPE_CHECKING:
    from captures.analysis.comparison.model import Comparison
    from captures.analysis.comparison.side import Side
    from captures.exchanges import ExchangeReader

_MOST = 20


def _window(text: str) -> tuple[str, str]:
    """Return two times, ``FROM..TO``; either may be empty."""
    begin, dots, end = text.partition("..")
    if not dots or not (begin or end):
        raise ValueError(f"{text!r} is not a time range: write 10s..1m, 09:14..09:20, or 09:14..")
    for each in filter(None, (begin, end)):
        checked_moment(each)
    return begin, end


_WINDOW = TextParam("FROM..TO", _window)


@options
class DiffOptions(UtcOption, ReportOptions, ReadingOptions, JobsOption):
    """Options of ``kproxy diff``."""

    files: tuple[str, ...] = argument("GOOD BAD | CAPTURE...", type=click.Path(allow_dash=True))
    window: tuple[str, str] | None = option(
        "--window",
        multiple=False,
        type=_WINDOW,
        help="Compare this stretch of time of CAPTURE, the bad one, with that of --against: 09:14..09:20.",
    )
    against: tuple[str, str] | None = option(
        "--against",
        multiple=False,
        type=_WINDOW,
        help="The good stretch of time, to compare with --window.",
    )
    show_all: bool = option("--all", help=f"Show every difference, not just the largest {_MOST}.")
    as_json: bool = option("--json", help="Print one JSON object (docs/diff.md).")


class DiffRun(CaptureRun[DiffOptions], short_help="Show what differs between two captures."):
    """Show what differs between the captures GOOD and BAD, the largest differences first.

    GOOD and BAD are files or folders. With --window and --against, two stretches of time of CAPTURE... are compared,
    which is a file, a folder, or - for standard input; several are one capture in the order of time.

    It compares findings, errors, latency without designed waits, rebalances by trigger, clients and their settings,
    versions, and rates. Rates and latencies are reported as different only if the data prove it (99.9 %); possible
    differences follow after that. Each difference lists exchange numbers of both sides. docs/diff.md explains the
    method.
    """

    def __init__(self, options: DiffOptions) -> None:
        window, against, files = options.window, options.against, options.files
        if (window is None) != (against is None):
            raise click.UsageError("use --window and --against together")
        if window is None and len(files) != 2:
            raise click.UsageError(
                "give two captures, GOOD and BAD, or --window and --against for two times of one"
            )
        self.windows = None if window is None or against is None else (against, window)
        super().__init__(options, files if self.windows else files[:1])
        self.readings = [self.reading]
        if not self.windows:
            self.readings.append(CaptureInput(replace(options, files=files[1:]), utc=options.utc))

    @property
    def exit_code(self) -> int:
        return max(reading.exit_code(clean=self.clean) for reading in self.readings)

    def run(self) -> None:
        from kproxy.cli.results import ComparisonResult
        from kproxy.text.diff import blocks

        comparison = self._of_windows() if self.windows else self._of_captures()
        most = None if self.options.show_all else _MOST
        result = ComparisonResult(self.options.files, comparison)
        self.answer(result, blocks=blocks(comparison, most, self.reading.zone))

    def _of_captures(self) -> Comparison:
        from captures.analysis.comparison.compare import compare_sides
        from captures.analysis.comparison.side import Side

        sides = []
        for reading in self.readings:
            capture = reading.capture()
            reader, tally = reading.reader(capture), reading.tally
            side = Side(str(reading.files[0]), capture, reader.knowledge.topic_name)
            _read(side, reader)
            for group in side.groups:
                tally.count(group)
            self.clean = conclude(capture, tally) and self.clean
            sides.append(side)
        good, bad = sides
        return compare_sides(good, bad)

    def _of_windows(self) -> Comparison:
        from captures.analysis.comparison.compare import compare_sides
        from captures.analysis.comparison.side import Side, Window
        from captures.analysis.groups.history import GroupHistories

        assert self.windows is not None
        (reading,) = self.readings
        capture = reading.capture()
        reader = reading.reader(capture)
        names = reader.knowledge.topic_name
        # earlier traffic shows who was a member, which explains rebalances in a window
        histories = GroupHistories(names, capture)
        reading.follow_groups(histories, reader)
        sides = []
        for begin, end in self.windows:
            side = Side(f"{begin}..{end}", capture, names, Window(*reading.bounds(capture, begin, end)))
            _read(side, reader)
            sides.append(side)
        self.conclude(capture)
        good, bad = sides
        return compare_sides(good, bad, histories.result())


def _read(side: Side, reader: ExchangeReader) -> None:
    label = f"reading {reader.capture.source.path}"
    deque(with_progress(side.read(reader), lambda number: number, len(reader), label), maxlen=0)
