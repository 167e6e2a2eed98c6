"""``kproxy lag``: how far groups are behind, over time, by what a capture shows."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kproxy.cli.command import command, option, options
from kproxy.cli.options import ColorOption, GroupOption, JobsOption, ReadingOptions, UtcOption
from kproxy.cli.reading import CaptureRun, conclude
from kproxy.cli.selecting import chosen
from kproxy.printing import echo, echo_json, terminal_width

if TYPE_CHECKING:
    from captures.analysis.lag import LagRow
    from kproxy.text.summary import Tally

_ROWS = 40


@options
class LagOptions(UtcOption, ColorOption, ReadingOptions, JobsOption, GroupOption):
    """What ``kproxy lag`` takes."""

    show_all: bool = option("--all", help="Show every partition.")
    as_json: bool = option("--json", help="Print one JSON object (docs/lag.md).")


@command(LagOptions, short_help="Show how far groups are behind, over time.")
def lag(options: LagOptions) -> None:
    """Show the lag of the groups in CAPTURE..., per partition and over time, without asking any broker.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Lag is what kafka-consumer-groups shows: the end of the partition minus the offset that the group has committed, or
    minus the offset that it fetches if it commits nothing. Ends are known from Fetch and ListOffsets responses, and
    from records produced with acks=all. Unknown values are left open. docs/lag.md explains the columns.
    """
    Lag(options).execute()


class Lag(CaptureRun[LagOptions]):
    """One run of ``kproxy lag``."""

    def run(self) -> None:
        """Read the capture, and show how far its groups are behind."""
        from captures.analysis.lag import NEEDED, LagStats
        from captures.exchanges import ExchangeReader
        from kproxy.text.summary import Tally

        capture = self.reading.capture()
        reader = ExchangeReader(capture, annotate=False, summary=False)
        stats = LagStats(reader.knowledge.topic_name)
        tally = Tally()
        add = capture.faults.guarded(stats.add, "following offsets")
        for exchange in self.reading.exchanges_of(NEEDED, reader, tally, "following offsets"):
            add(exchange)
        nothing: list[LagRow] = []
        rows = capture.faults.made(
            partial(stats.result, tally.last), "telling how far groups are behind", nothing
        )
        self.clean = conclude(capture, tally)
        shown = chosen(sorted({row.group for row in rows}), self.options.groups)
        rows = [row for row in rows if row.group in shown]
        if self.options.as_json:
            self._print_json(rows, tally)
        else:
            self._print(rows, tally)

    def _print_json(self, rows: list[LagRow], tally: Tally) -> None:
        from captures.analysis.lag import total
        from kproxy.cli.results import GroupLag, LagResult

        groups = [GroupLag(group, *total(list(mine))) for group, mine in groupby(rows, lambda row: row.group)]
        echo_json(LagResult(self.reading.files, tally.first, tally.last, groups, rows), wait=True)

    def _print(self, rows: list[LagRow], tally: Tally) -> None:
        from kproxy.text.lag import lag_table

        if not rows:
            echo("No lag to show: no group committed, looked up or fetched an offset.")
        for index, (_, mine) in enumerate(groupby(rows, lambda row: row.group)):
            if index:
                echo()
            table = lag_table(list(mine), tally.last, self.reading.zone, picture=terminal_width() is not None)
            self.print_table(table, None if self.options.show_all else _ROWS)
