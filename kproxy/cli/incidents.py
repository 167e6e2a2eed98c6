"""``kproxy incidents``: what happened in a capture, each incident once, with its consequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kproxy.cli.capture_run import CaptureRun
from kproxy.cli.command import option, options
from kproxy.cli.common import read_all
from kproxy.cli.options import JobsOption, ReadingOptions, ReportOptions, TimeOptions, UtcOption
from kproxy.cli.selection import ExchangeSelection
from kproxy.output import flush

if TYPE_CHECKING:
    from captures.analysis.incidents.model import Incident
    from captures.exchanges import Capture
    from kproxy.text.blocks import Block
    from kproxy.text.incidents import IncidentText


@options
class IncidentsOptions(UtcOption, ReportOptions, ReadingOptions, JobsOption, TimeOptions):
    """Options of ``kproxy incidents``."""

    as_json: bool = option("--json", help="Print one JSON object per incident (docs/incidents.md).")
    follow: bool = option(
        "-F", "--follow", help="Report incidents of a capture that is still being written, while they happen."
    )
    show_all: bool = option("--all", help="Print all that followed from an incident.")


class IncidentsRun(
    CaptureRun[IncidentsOptions],
    short_help="Report what happened: outages, restarts, crashes, and what followed.",
):
    """Report what happened in CAPTURE..., each incident once: who, from when to when, how sure, and what followed.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Incidents are brokers that were away, networks that were cut, rolling restarts, crash loops, members that died or
    paused, applications that share a group.id, coordinators that moved, topics that changed. Below each are its
    consequences: rebalances, partitions without a consumer, commits that failed, findings. docs/incidents.md explains
    the words.

    With --follow, for a growing file or folder or for a pipe, an incident is reported when it is first seen, and again
    when more is known of it, such as its end; of several reports with the same kind and beginning, the last is valid.

    --from and --to choose the incidents that are shown. The whole capture is read in any case.
    """

    def __init__(self, options: IncidentsOptions) -> None:
        if options.follow and options.as_markdown:
            raise click.UsageError("--markdown is a whole report: leave out --follow")
        super().__init__(options)

    def run(self) -> None:
        capture = self.reading.opened()
        if self.options.follow and capture.source.live:
            self._follow(capture)
            return
        found = self._within(capture, self._found(capture))
        self.answer(*found, blocks=self._blocks(found, capture), prose=True)

    def _blocks(self, found: list[Incident], capture: Capture) -> Iterator[Block]:
        from kproxy.text.blocks import Heading

        if self.as_markdown:
            yield Heading([f"Incidents in {capture.source.path}"], 1)
        yield from self._text().blocks(found, capture.latest)

    def _text(self) -> IncidentText:
        from kproxy.text.incidents import IncidentText

        return IncidentText(self.reading.zone, show_all=self.options.show_all, dated=self.as_markdown)

    def _follow(self, capture: Capture) -> None:
        """Read a growing capture, and report incidents while they happen, until it ends or is stopped."""
        from captures.analysis.findings.diagnosis import Diagnosis
        from kproxy.cli.live_findings import LiveFindings

        reader = self.reading.reader(capture, live=True)
        diagnosis, text = Diagnosis(capture, reader.knowledge.topic_name), self._text()

        def report(incident: Incident) -> None:
            if not self._within(capture, [incident]):
                return
            self.answer(incident, blocks=text.story(incident), prose=True)
            flush()

        live = LiveFindings(diagnosis, capture, reader.knowledge, lambda _: None, incident=report)
        self.follow(capture, reader, diagnosis.add, live.update)
        live.conclude()
        self.conclude(capture)

    def _found(self, capture: Capture) -> list[Incident]:
        from captures.analysis.findings.diagnosis import Diagnosis

        read_all(capture)
        reader = self.reading.reader(capture)
        clusters = self.reading.clusters(reader)
        diagnosis = Diagnosis(capture, reader.knowledge.topic_name, clusters=clusters)
        everything = ExchangeSelection().indexes(capture, reader)
        self.reading.diagnose(diagnosis, reader, everything, "looking for incidents")
        diagnosis.findings()
        self.conclude(capture)
        return diagnosis.incidents

    def _within(self, capture: Capture, found: list[Incident]) -> list[Incident]:
        """Return the incidents that overlap the range from ``--from`` to ``--to``."""
        low, high = self.reading.bounds(capture, self.options.begin, self.options.end)
        return [
            each
            for each in found
            if (high is None or each.begin <= high)
            and (low is None or (capture.latest if each.end is None else each.end) >= low)
        ]
