"""``kproxy diff``: what differs between two captures, or two stretches of time of one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends
from kproxy.cli.options import color_option, reading_options, utc_option
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude, terminal_width
from kproxy.cli.times import Moment, resolve

if TYPE_CHECKING:
    from captures.analysis.comparison.model import Comparison
    from captures.exchanges import Capture

_MOST = 20


class Stretch(click.ParamType[tuple[str, str]]):
    """Two moments, ``FROM..TO``; either may be left out."""

    name = "FROM..TO"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Check the form of both; the moments themselves are known when the capture is."""
        if isinstance(value, tuple):
            return value
        begin, dots, end = value.partition("..")
        if not dots or not (begin or end):
            self.fail(f"{value!r} is no stretch of time: write 10s..1m, 09:14..09:20, or 09:14..", param, ctx)
        for each in (begin, end):
            if each:
                Moment().convert(each, param, ctx)
        return begin, end


@click.command(short_help="Tell what differs between two captures.")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="GOOD BAD | CAPTURE..."
)
@click.option(
    "--window",
    type=Stretch(),
    metavar="FROM..TO",
    help="Compare this stretch of time of CAPTURE, the bad one, with that of --against: 09:14..09:20.",
)
@click.option("--against", type=Stretch(), metavar="FROM..TO", help="The good stretch of time.")
@click.option("--all", "show_all", is_flag=True, help=f"Show every difference, not the largest {_MOST}.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/diff.md).")
@reading_options
@utc_option
@color_option
def diff(files: tuple[str, ...], **options: Any) -> None:
    """Tell what differs between the captures GOOD and BAD, the largest differences first.

    GOOD and BAD are files or folders. With --window and --against, two stretches of time of CAPTURE... are compared,
    which is a file, a folder, or - for standard input; several are one capture in the order of time.

    Compared are findings, errors, latency without designed waiting, rebalances by trigger, clients and their settings,
    versions, and rates. Rates and latencies are told to differ only where the data prove it (99.9 %); what may differ
    is told after that. Each difference comes with numbers of exchanges of both sides. docs/diff.md explains how they
    are compared.
    """
    run = Diff(files, **options)
    with early_ends():
        run.run()
    sys.exit(max(reading.exit_code(clean=run.clean) for reading in run.readings))


class Diff:
    """One run of ``kproxy diff``.

    :raises click.UsageError: if there are not two things to compare
    """

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        window: tuple[str, str] | None,
        against: tuple[str, str] | None,
        show_all: bool,
        as_json: bool,
        utc: bool,
        color: str,
        **reading: Any,
    ) -> None:
        if (window is None) != (against is None):
            raise click.UsageError("--window and --against go together")
        if window is None and len(files) != 2:
            raise click.UsageError(
                "give two captures, GOOD and BAD, or --window and --against for two times of one"
            )
        self.files = files
        self.windows = None if window is None or against is None else (against, window)
        self.show_all = show_all
        self.as_json = as_json
        groups = (files,) if self.windows else tuple((each,) for each in files)
        self.readings = [Reading(each, utc=utc, **reading) for each in groups]
        self.color = colored(color)
        self.clean = True

    def run(self) -> None:
        """Read both, and show what differs."""
        comparison = self._of_windows() if self.windows else self._of_captures()
        if self.as_json:
            self._print_json(comparison)
        else:
            self._print(comparison)
        flush()

    def _of_captures(self) -> Comparison:
        from captures.analysis.comparison.compare import compare_sides
        from captures.analysis.comparison.side import Side
        from captures.exchanges import ExchangeReader

        sides = []
        for reading in self.readings:
            capture = reading.capture()
            reader = ExchangeReader(capture, annotate=False, gist=False)
            side = Side(str(reading.files[0]), capture, reader.knowledge.topic_name)
            self._read(reading, capture, reader, [side])
            sides.append(side)
        good, bad = sides
        return compare_sides(good, bad)

    def _of_windows(self) -> Comparison:
        from captures.analysis.comparison.compare import compare_sides
        from captures.analysis.comparison.side import Side, Window
        from captures.analysis.groups.history import GroupHistories
        from captures.exchanges import ExchangeReader

        assert self.windows is not None
        (reading,) = self.readings
        capture = reading.capture()
        reader = ExchangeReader(capture, annotate=False, gist=False)
        names = reader.knowledge.topic_name
        first = int(capture.connections.first_time.min()) if len(capture.connections) else 0
        sides = []
        for begin, end in self.windows:
            low, high = (resolve(each, first, reading.zone) if each else None for each in (begin, end))
            sides.append(Side(f"{begin}..{end}", capture, names, Window(low, high)))
        # who was a member before tells more of a rebalance than its window alone does
        histories = GroupHistories(names, capture)
        self._read(reading, capture, reader, [*sides, histories])
        good, bad = sides
        return compare_sides(good, bad, histories.result())

    def _read(self, reading: Reading, capture: Capture, reader: Any, learners: Iterable[Any]) -> None:
        """Show all exchanges to whoever learns from them."""
        from kproxy.cli.summary import Tally

        tally = Tally()
        adds = [capture.faults.guarded(each.add, "learning what to compare") for each in learners]
        for exchange in reading.exchanges(reader, tally, f"reading {capture.source.path}"):
            for add in adds:
                add(exchange)
        self.clean = conclude(capture, tally) and self.clean

    # ------------------------------------------------------------ what is shown
    def _print_json(self, comparison: Comparison) -> None:

        shape = {"captures": list(self.files), **comparison.to_json()}
        echo_json(shape, wait=True)

    def _print(self, comparison: Comparison) -> None:
        from kproxy.cli.diff_text import lines

        reading = self.readings[0]
        most = None if self.show_all else _MOST
        for line in lines(comparison, terminal_width(), most, reading.zone, color=self.color):
            echo(line)
