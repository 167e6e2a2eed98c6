"""``kproxy groups``: the groups of a capture over time, and every rebalance as a story."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from kproxy.cli.capture_run import CaptureRun
from kproxy.cli.command import option, options
from kproxy.cli.common import read_all, refuse_to_overwrite
from kproxy.cli.options import GroupOption, JobsOption, ReadingOptions, ReportOptions, TimeOptions, UtcOption
from kproxy.cli.selection import chosen, fits
from kproxy.export_files import replacing
from kproxy.output import echo, flush

if TYPE_CHECKING:
    from captures.analysis.groups.model import GroupTimeline, Rebalance
    from captures.analysis.incidents.model import Incident
    from captures.exchanges import Capture
    from kproxy.text.blocks import Block
    from kproxy.text.groups import GroupText

    ShownGroup = tuple[GroupTimeline, list[Rebalance]]
    """A group, and its rebalances to show."""


@options
class GroupsOptions(UtcOption, ReportOptions, ReadingOptions, JobsOption, TimeOptions, GroupOption):
    """Options of ``kproxy groups``."""

    follow: bool = option(
        "-F", "--follow", help="Show rebalances of a capture that is still being written, as they end."
    )
    show_all: bool = option("--all", help="Show everything; do not fold storms.")
    as_json: bool = option("--json", help="Print one JSON object per rebalance (docs/json-groups.md).")
    html: str | None = option(
        "--html",
        type=click.Path(allow_dash=True, dir_okay=False),
        help="Write a page with a chart of members over time instead; - for standard output.",
    )
    mermaid: bool = option(
        "--mermaid",
        help="Print a Mermaid sequence diagram instead: what started each rebalance, and what it led to.",
    )
    force: bool = option("--force", help="Overwrite the FILE of --html if it exists.")


class GroupsRun(CaptureRun[GroupsOptions], short_help="Show why groups rebalanced, and what it cost."):
    """Show the groups in CAPTURE... over time: members, generations, and why each rebalance happened.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Groups of all kinds: classic ones (including Connect and Streams), KIP-848 consumer groups, share groups and streams
    groups. For each rebalance it shows what triggered it, which member waited how long, which partitions moved and were
    not consumed meanwhile, which commits failed, and the exchanges that show it. docs/groups.md explains the terms.

    With --follow, for a growing file or folder or for a pipe, each rebalance is shown when it is over and its cost is
    known, and earlier if it takes long; --html and --mermaid are written at the end.

    --from and --to choose the rebalances that are shown. The whole capture is read in any case, because earlier traffic
    shows who was a member.
    """

    def __init__(self, options: GroupsOptions) -> None:
        super().__init__(options)
        self.incidents: list[Incident] = []
        if options.html is not None:
            refuse_to_overwrite(options.html, options.files, force=options.force)

    def concerned(self, error: OSError) -> object:
        return f"{self.options.html} could not be written" if self.options.html else error.filename

    def run(self) -> None:
        capture = self.reading.opened()
        streamed = self.options.follow and capture.source.live
        timelines = self._followed(capture) if streamed else self._timelines(capture)
        if not streamed or self.options.html is not None or self.options.mermaid:
            self._show(capture, timelines)

    def _show(self, capture: Capture, timelines: list[GroupTimeline]) -> None:
        low, high = self.reading.bounds(capture, self.options.begin, self.options.end)
        shown = [(each, _within(each.rebalances, low, high)) for each in self._chosen(timelines)]
        if self.options.html is not None:
            self._write_html(shown, low, high)
        elif self.options.mermaid:
            self._print_mermaid(shown)
        else:
            found = sorted(
                (each for _, rebalances in shown for each in rebalances), key=lambda each: each.time
            )
            self.answer(*found, blocks=self._blocks(shown))

    # ------------------------------------------------------------ reading
    def _timelines(self, capture: Capture) -> list[GroupTimeline]:
        from captures.analysis.incidents.history import ClusterHistories

        read_all(capture)
        reader = self.reading.reader(capture)
        names, clusters = reader.knowledge.topic_name, self.reading.clusters(reader)
        histories = ClusterHistories(names, capture, clusters)
        self.reading.follow_groups(histories, reader)
        timelines = histories.result()
        self.incidents = histories.incidents
        self.conclude(capture)
        return timelines

    def _followed(self, capture: Capture) -> list[GroupTimeline]:
        """Read a growing capture, and print rebalances as they end, until it ends or is stopped."""
        from kproxy.cli.groups_live import LiveGroups

        reader = self.reading.reader(capture, live=True)
        live = LiveGroups(capture, reader.knowledge, lambda *found: self._print(capture, *found))
        self.follow(capture, reader, live.add, live.look)
        timelines = live.conclude()
        self.conclude(capture)
        return timelines

    def _print(self, capture: Capture, timeline: GroupTimeline, rebalance: Rebalance) -> None:
        """Print a rebalance of a growing capture, if it is selected."""
        if (
            self.options.html is not None
            or self.options.mermaid
            or not fits(timeline.group, self.options.groups)
        ):
            return
        if not _within([rebalance], *self.reading.bounds(capture, self.options.begin, self.options.end)):
            return
        self.answer(rebalance, blocks=self._text().story(timeline, rebalance))
        flush()

    def _chosen(self, timelines: list[GroupTimeline]) -> list[GroupTimeline]:
        """Return the selected groups.

        :raises click.UsageError: if one of them does not exist
        """
        wanted = chosen([each.group for each in timelines], self.options.groups)
        return [each for each in timelines if each.group in wanted]

    # ------------------------------------------------------------ output
    def _blocks(self, shown: list[ShownGroup]) -> Iterator[Block]:
        from kproxy.text.blocks import BLANK, Paragraph

        text = self._text()
        if not shown:
            yield Paragraph("No group was seen: no client spoke with a coordinator as a member.")
        for index, each in enumerate(shown):
            if index:
                yield BLANK
            yield from self.reading.faults.contained_items(text.blocks(*each), f"showing group {index + 1}")

    def _text(self) -> GroupText:
        from kproxy.text.groups import GroupText

        return GroupText(
            self.reading.zone,
            self.reading.names,
            show_all=self.options.show_all,
            incidents=self.incidents,
        )

    def _write_html(self, shown: list[ShownGroup], low: int | None, high: int | None) -> None:
        from captures.export.group_html import page
        from captures.meaning import words

        assert self.options.html is not None
        text = page(
            shown,
            names=self.reading.names,
            zone=self.reading.zone,
            begin=low,
            end=high,
            source=" ".join(self.reading.files),
            incidents=self.incidents,
        )
        with replacing(self.options.html) as file:
            file.write(text.encode())
        count = sum(len(rebalances) for _, rebalances in shown)
        where = "standard output" if self.options.html == "-" else self.options.html
        what = f"{words.counted(len(shown), 'group')} with {words.counted(count, 'rebalance')}"
        echo(f"{what} written to {where}.", err=True)

    def _print_mermaid(self, shown: list[ShownGroup]) -> None:
        from captures.export.group_mermaid import lines

        for line in lines(shown, self.reading.zone):
            echo(line)


def _within(rebalances: Iterable[Rebalance], low: int | None, high: int | None) -> list[Rebalance]:
    """Return the rebalances that overlap a time range."""
    return [
        each
        for each in rebalances
        if (high is None or each.time <= high)
        and (low is None or each.running or (each.time if each.end is None else each.end) >= low)
    ]
