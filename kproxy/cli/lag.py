"""``kproxy lag``: how far groups are behind, over time, as far as a capture shows it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from kproxy.cli.capture_run import CaptureRun
from kproxy.cli.command import option, options
from kproxy.cli.common import with_progress
from kproxy.cli.options import GroupOption, JobsOption, ReadingOptions, ReportOptions, UtcOption
from kproxy.cli.selection import chosen
from kproxy.output import terminal_width

if TYPE_CHECKING:
    from captures.analysis.clusters import Clusters
    from captures.analysis.incidents.model import Incident
    from captures.analysis.lag import LagRow
    from captures.exchanges import Capture, ExchangeReader
    from kproxy.text.blocks import Block

_ROWS = 40
_GROUP = attrgetter("group", "cluster")


@options
class LagOptions(UtcOption, ReportOptions, ReadingOptions, JobsOption, GroupOption):
    """Options of ``kproxy lag``."""

    show_all: bool = option("--all", help="Show every partition.")
    as_json: bool = option("--json", help="Print one JSON object (docs/lag.md).")


class LagRun(CaptureRun[LagOptions], short_help="Show how far groups are behind, over time."):
    """Show the lag of the groups in CAPTURE..., per partition and over time, without asking any broker.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Lag is what kafka-consumer-groups shows: the end of the partition minus the offset that the group has committed, or
    minus the offset that it fetches if it commits nothing. Ends are known from Fetch and ListOffsets responses, and
    from records produced with acks=all. Unknown values are left open. docs/lag.md explains the columns.
    """

    def run(self) -> None:
        from msgspec import UNSET

        from captures.analysis.lag import FOLLOWING, LagStats, needed, total
        from captures.analysis.position_columns import TAKEN
        from kproxy.cli.results import GroupLag, LagResult
        from kproxy.text.blocks import spaced

        capture = self.reading.capture()
        reader, tally = self.reading.reader(capture), self.reading.tally
        wanted = needed(capture.table.column("api_key")[reader.rows])
        indexes, columns = self.reading.counted_apart(reader, wanted, TAKEN, FOLLOWING)
        clusters = self.reading.clusters(reader)
        rows: list[LagRow] = []
        nothing: list[LagRow] = []
        for cluster, here in clusters.rows_of(columns.flat("connection")):
            stats = LagStats(reader.knowledge.topic_name)
            steps = stats.add_all(reader, columns, indexes, here)
            deque(with_progress(steps, lambda number: number, len(reader), FOLLOWING), maxlen=0)
            found = capture.faults.contained(
                partial(stats.result, tally.last), "telling how far groups are behind", nothing
            )
            rows += [replace(row, cluster=cluster or UNSET) for row in found]
        incidents: list[Incident] = []
        if any(row.highest for row in rows):
            from captures.analysis.incidents.lag import explain_lag

            incidents = self._incidents(capture, reader, clusters)
            rows = list(explain_lag(rows, incidents, tally.last))
        self.conclude(capture)
        shown = chosen(sorted({row.group for row in rows}), self.options.groups)
        rows = sorted((row for row in rows if row.group in shown), key=_GROUP)
        groups = [list(rows_of_group) for _, rows_of_group in groupby(rows, key=_GROUP)]
        result = LagResult(
            self.reading.files,
            tally.first,
            tally.last,
            [GroupLag(each[0].group, *total(each), cluster_id=each[0].cluster) for each in groups],
            rows,
        )
        because = {row.because_of for row in result.partitions}
        roots = [each for each in incidents if each.id in because]
        self.answer(result, blocks=spaced(self._blocks(groups, roots, tally.last)))

    def _incidents(self, capture: Capture, reader: ExchangeReader, clusters: Clusters) -> list[Incident]:
        """Return what happened; nothing is looked for where no member came or went and no broker was away."""
        import numpy as np

        from captures.analysis.groups.history import TAKEN
        from captures.analysis.incidents.history import ClusterHistories, eventless, needed

        if eventless(capture, reader.rows):
            return []
        histories = ClusterHistories(reader.knowledge.topic_name, capture, clusters)
        label, indexes = "looking for incidents", np.flatnonzero(needed(capture.table, reader.rows))
        columns = self.reading.filled(capture, reader.rows[indexes], TAKEN, label)
        self.reading.follow(histories, reader, indexes, columns, label)
        histories.result()
        return histories.incidents

    def _blocks(
        self, groups: Collection[list[LagRow]], roots: Sequence[Incident], now: int
    ) -> Iterator[Block]:
        from captures.analysis.incidents.model import in_line
        from captures.time_format import Clock
        from kproxy.text.blocks import Paragraph
        from kproxy.text.lag import lag_table

        if not groups:
            yield Paragraph("No lag to show: no group committed, looked up or fetched an offset.")
        for rows in groups:
            table = lag_table(rows, now, self.reading.zone, picture=terminal_width() is not None)
            table.most = None if self.options.show_all else _ROWS
            yield table
        for root in roots:
            yield Paragraph(in_line(root, Clock.of(root.begin, now, self.reading.zone)))
