"""``kproxy groups``: the groups of a capture over time, and every rebalance as a story."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends, read_to_the_end
from kproxy.cli.group_option import chosen_groups, fits, group_option
from kproxy.cli.options import color_option, reading_options, time_options, utc_option
from kproxy.cli.output import refuse_to_overwrite, replacing
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude, terminal_width
from kproxy.cli.selecting import Selecting
from kproxy.cli.showing import ended_by_signals

if TYPE_CHECKING:
    from captures.analysis.groups.model import GroupTimeline, Rebalance
    from captures.exchanges import Capture
    from kproxy.cli.groups_text import GroupText

    Told = tuple[GroupTimeline, list[Rebalance]]
    """A group, and those of its rebalances that are to be shown."""


@click.command(short_help="Tell why groups rebalanced, and what it cost.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@group_option
@click.option(
    "-F",
    "--follow",
    is_flag=True,
    help="Tell rebalances of what is still being written to CAPTURE as they are over.",
)
@click.option("--all", "show_all", is_flag=True, help="Show everything; fold no storms.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per rebalance (docs/json-groups.md)."
)
@click.option(
    "--html",
    type=click.Path(allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="Write a page with a picture of members over time instead; - for standard output.",
)
@click.option(
    "--mermaid",
    is_flag=True,
    help="Print a Mermaid sequence diagram instead: who began each rebalance, and what it led to.",
)
@click.option("--force", is_flag=True, help="Overwrite the FILE of --html if it exists.")
@time_options
@reading_options
@utc_option
@color_option
def groups(files: tuple[str, ...], **options: Any) -> None:
    """Tell the groups in CAPTURE... over time: members, generations, and why each rebalance happened.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Groups of all kinds: classic ones (Connect and Streams among them), KIP-848 consumer groups, share groups and
    streams groups. Each rebalance is told with what triggered it, who waited how long, which partitions moved and
    were not consumed meanwhile, which commits failed, and the exchanges that show it. docs/groups.md explains the
    words.

    With --follow, of a file or folder that grows or of a pipe, each rebalance is told when it is over and its
    cost is seen, and before that if it goes on for long; --html and --mermaid are written in the end.

    --from and --to choose the rebalances that are shown. The whole capture is read all the same, since what was before
    tells who was a member.
    """
    run = Groups(files, **options)
    with early_ends(lambda error: f"{run.html} could not be written" if run.html else error.filename):
        run.run()
    sys.exit(run.reading.exit_code(clean=run.clean))


class Groups:
    """One run of ``kproxy groups``."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        wanted: tuple[str, ...],
        follow: bool,
        show_all: bool,
        as_json: bool,
        html: str | None,
        mermaid: bool,
        force: bool,
        begin: str | None,
        end: str | None,
        utc: bool,
        color: str,
        **reading: Any,
    ) -> None:
        if as_json + mermaid + (html is not None) > 1:
            raise click.UsageError("--json, --html and --mermaid exclude each other")
        self.wanted = wanted
        self.show_all = show_all
        self.as_json = as_json
        self.html = html
        self.mermaid = mermaid
        self.begin, self.end = begin, end
        self.follow = follow
        self.reading = Reading(files, utc=utc, follow=follow, **reading)
        self.color = colored(color)
        self.clean = True
        if html is not None:
            refuse_to_overwrite(html, files, force=force)

    def run(self) -> None:
        """Read the capture, and tell its groups."""
        capture = self.reading.opened()
        streamed = self.follow and capture.source.live
        timelines = self._followed(capture) if streamed else self._timelines(capture)
        if not streamed or self.html is not None or self.mermaid:
            self._show(capture, timelines)
        flush()

    def _show(self, capture: Capture, timelines: list[GroupTimeline]) -> None:
        low, high = self.reading.bounds(capture, self.begin, self.end)
        told = [(each, _within(each.rebalances, low, high)) for each in self._chosen(timelines)]
        if self.as_json:
            _print_json([each for _, rebalances in told for each in rebalances])
        elif self.html is not None:
            self._write_html(told, low, high)
        elif self.mermaid:
            self._print_mermaid(told)
        else:
            self._print(told)

    # ------------------------------------------------------------ reading
    def _timelines(self, capture: Capture) -> list[GroupTimeline]:
        from captures.analysis.groups.history import HISTORIES, GroupHistories
        from captures.exchanges import ExchangeReader
        from kproxy.cli.summary import Tally

        read_to_the_end(capture)
        reader = ExchangeReader(capture, annotate=False, gist=False)
        histories = GroupHistories(reader.knowledge.topic_name, capture)
        tally = Tally()
        add = capture.faults.guarded(histories.add, HISTORIES)
        for exchange in self.reading.exchanges(reader, tally, "following groups"):
            add(exchange)
        timelines = histories.result()
        self.clean = conclude(capture, tally)
        return timelines

    def _followed(self, capture: Capture) -> list[GroupTimeline]:
        """Read a capture that grows, and tell rebalances as they are over, until it ends or is stopped."""
        from captures.exchanges import ExchangeReader
        from kproxy.cli.groups_live import LiveGroups
        from kproxy.cli.summary import Tally

        reader = ExchangeReader(capture, annotate=False, gist=False, live=True)
        tally = Tally()
        live = LiveGroups(capture, reader.knowledge, lambda *told: self._tell(capture, *told))
        with ended_by_signals(capture.source.stop):
            for exchange in Selecting().as_they_come(capture, reader, pause=live.look):
                tally.add(exchange)
                live.add(exchange)
        timelines = live.conclude()
        self.clean = conclude(capture, tally)
        return timelines

    def _tell(self, capture: Capture, timeline: GroupTimeline, rebalance: Rebalance) -> None:
        """Print a rebalance of a capture that grows, if it is one that was asked for."""
        if self.html is not None or self.mermaid or not fits(timeline.group, self.wanted):
            return
        if not _within([rebalance], *self.reading.bounds(capture, self.begin, self.end)):
            return
        if self.as_json:
            _print_json([rebalance])
        else:
            for line in capture.faults.whole(self._text().story(timeline, rebalance), "showing a rebalance"):
                echo(line)
        flush()

    def _chosen(self, timelines: list[GroupTimeline]) -> list[GroupTimeline]:
        """Return the groups that were asked for.

        :raises click.UsageError: if one of them is not there
        """
        chosen = chosen_groups([each.group for each in timelines], self.wanted)
        return [each for each in timelines if each.group in chosen]

    # ------------------------------------------------------------ what is shown
    def _print(self, told: list[Told]) -> None:
        text = self._text()
        if not told:
            echo("No group was seen: nobody spoke with a coordinator as a member.")
        for index, (timeline, rebalances) in enumerate(told):
            if index:
                echo()
            for line in self.reading.faults.whole(
                text.lines(timeline, rebalances), f"showing group {index + 1}"
            ):
                echo(line)

    def _text(self) -> GroupText:
        from kproxy.cli.groups_text import GroupText

        width = terminal_width()
        return GroupText(
            width, self.reading.zone, self.reading.names, color=self.color, show_all=self.show_all
        )

    def _write_html(self, told: list[Told], low: int | None, high: int | None) -> None:
        from captures.export.group_html import page
        from captures.meaning import words

        assert self.html is not None
        text = page(
            told,
            names=self.reading.names,
            zone=self.reading.zone,
            begin=low,
            end=high,
            source=" ".join(self.reading.files),
        )
        with replacing(self.html) as file:
            file.write(text.encode())
        count = sum(len(rebalances) for _, rebalances in told)
        where = "standard output" if self.html == "-" else self.html
        what = f"{words.counted(len(told), 'group')} with {words.counted(count, 'rebalance')}"
        echo(f"{what} written to {where}.", err=True)

    def _print_mermaid(self, told: list[Told]) -> None:
        from captures.export.group_mermaid import lines

        for line in lines(told, self.reading.zone):
            echo(line)


def _print_json(rebalances: Iterable[Rebalance]) -> None:

    for rebalance in sorted(rebalances, key=lambda found: found.time):
        echo_json(rebalance.to_json(), wait=True)


def _within(rebalances: Iterable[Rebalance], low: int | None, high: int | None) -> list[Rebalance]:
    """Return those that went on at some time between two moments."""
    return [
        each
        for each in rebalances
        if (high is None or each.time <= high)
        and (low is None or each.running or (each.time if each.end is None else each.end) >= low)
    ]
