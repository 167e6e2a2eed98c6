"""``kproxy lag``: how far groups are behind, over time, by what a capture shows."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends
from kproxy.cli.group_option import chosen_groups, group_option
from kproxy.cli.options import color_option, reading_options, utc_option
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude, terminal_width

if TYPE_CHECKING:
    from captures.analysis.lag import LagRow
    from kproxy.cli.summary import Tally

_ROWS = 40


@click.command(short_help="Show how far groups are behind, over time.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@group_option
@click.option("--all", "show_all", is_flag=True, help="Show every partition.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/lag.md).")
@reading_options
@utc_option
@color_option
def lag(files: tuple[str, ...], **options: Any) -> None:
    """Show the lag of the groups in CAPTURE..., per partition and over time, without asking any broker.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Lag is what kafka-consumer-groups shows: the end of the partition less the offset that the group has committed, or
    less the offset that it fetches where it commits nothing. Ends are known from Fetch and ListOffsets responses, and
    from records produced with acks=all. What the capture does not tell is left open. docs/lag.md explains the columns.
    """
    run = Lag(files, **options)
    with early_ends():
        run.run()
    sys.exit(run.reading.exit_code(clean=run.clean))


class Lag:
    """One run of ``kproxy lag``."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        wanted: tuple[str, ...],
        show_all: bool,
        as_json: bool,
        utc: bool,
        color: str,
        **reading: Any,
    ) -> None:
        self.wanted = wanted
        self.show_all = show_all
        self.as_json = as_json
        self.reading = Reading(files, utc=utc, **reading)
        self.color = colored(color)
        self.clean = True

    def run(self) -> None:
        """Read the capture, and show how far its groups are behind."""
        from captures.analysis.lag import LagStats
        from captures.exchanges import ExchangeReader
        from kproxy.cli.summary import Tally

        capture = self.reading.capture()
        reader = ExchangeReader(capture, annotate=False, gist=False)
        stats = LagStats(reader.knowledge.topic_name)
        tally = Tally()
        add = capture.faults.guarded(stats.add, "following offsets")
        for exchange in self.reading.exchanges(reader, tally, "following offsets"):
            add(exchange)
        nothing: list[LagRow] = []
        rows = capture.faults.made(stats.result, "telling how far groups are behind", nothing)
        self.clean = conclude(capture, tally)
        shown = chosen_groups(sorted({row.group for row in rows}), self.wanted)
        rows = [row for row in rows if row.group in shown]
        if self.as_json:
            self._print_json(rows, tally)
        else:
            self._print(rows, tally)
        flush()

    def _print_json(self, rows: list[LagRow], tally: Tally) -> None:

        from captures.analysis.lag import total
        from captures.exchanges import rfc3339

        groups = {group: total(mine) for group, mine in groupby(rows, lambda row: row.group)}
        shape = {
            "captures": list(self.reading.files),
            "first": None if tally.first is None else rfc3339(tally.first),
            "last": None if tally.first is None else rfc3339(tally.last),
            "groups": [
                {"group": group, "lag": lag, "unknown_partitions": unknown}
                for group, (lag, unknown) in groups.items()
            ],
            "partitions": [row.to_json() for row in rows],
        }
        echo_json(shape, wait=True)

    def _print(self, rows: list[LagRow], tally: Tally) -> None:
        from kproxy.cli.lag_tables import lag_table

        if not rows:
            echo("No lag to be told: no group committed, looked up or fetched an offset.")
        width = terminal_width()
        limit = None if self.show_all else _ROWS
        for index, (_, mine) in enumerate(groupby(rows, lambda row: row.group)):
            if index:
                echo()
            table = lag_table(list(mine), tally.last, self.reading.zone, picture=width is not None)
            for line in table.lines(width, limit, color=self.color):
                echo(line)
