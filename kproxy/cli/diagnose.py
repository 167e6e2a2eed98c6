"""``kproxy diagnose``: what is wrong in a capture, in words, with evidence and advice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import click

from kproxy.cli.capture_run import CaptureRun
from kproxy.cli.command import option, options
from kproxy.cli.common import filter_option, read_all
from kproxy.cli.options import FilterString, JobsOption, ReadingOptions, ReportOptions, TimeOptions, UtcOption
from kproxy.cli.selection import ExchangeSelection
from kproxy.output import echo, flush, terminal_width

if TYPE_CHECKING:
    from captures.analysis.findings.diagnosis import Diagnosis
    from captures.analysis.findings.finding import Finding, Severity
    from captures.analysis.incidents.model import Incident
    from captures.exchanges import Capture
    from kproxy.cli.results import DiagnosisResult
    from kproxy.text.blocks import Block

EXIT_FOUND = 4
"""A finding has the severity of ``--fail-on`` or more; precedes :data:`~kproxy.cli.common.EXIT_INCOMPLETE`."""
MOST_OF_A_RULE = 5
"""Findings that are printed per rule and severity."""
Level = Literal["info", "low", "medium", "high"]


def _list_rules(context: click.Context, _: click.Parameter, requested: bool) -> None:
    if not requested:
        return
    from captures.analysis.findings.all import RULES
    from kproxy.text.findings import rule_lines

    for line in rule_lines(RULES, terminal_width()):
        echo(line)
    context.exit()


@options
class DiagnoseOptions(UtcOption, ReportOptions, ReadingOptions, JobsOption, TimeOptions):
    """Options of ``kproxy diagnose``."""

    follow: bool = option(
        "-F", "--follow", help="Report findings from a capture that is still being written."
    )
    as_json: bool = option("--json", help="Print one JSON object (docs/json-diagnose.md).")
    fail_on: Level | None = option(
        "--fail-on", help=f"Exit with {EXIT_FOUND} if there is a finding of this severity or higher."
    )
    least: Level = option("--least", default="info", help="Omit findings below this severity.")
    show_all: bool = option(
        "--all",
        help=f"Print every finding, not just {MOST_OF_A_RULE} per rule, including those of incidents.",
    )
    only: tuple[str, ...] = option(
        "--only", metavar="RULE", help="Run only this rule; may be given several times."
    )
    skip: tuple[str, ...] = option(
        "--skip", metavar="RULE", help="Skip this rule; may be given several times."
    )
    thresholds: tuple[str, ...] = option(
        "--threshold",
        former=("--set",),
        metavar="RULE.NAME=VALUE",
        help="Set a threshold, such as heartbeat_gaps.share=90; may be given several times.",
    )
    listing: bool = option(
        "--list",
        is_eager=True,
        expose_value=False,
        callback=_list_rules,
        help="List the rules with their thresholds (docs/findings.md).",
    )
    wanted: FilterString | None = option(
        "-Y", "--filter", help="Judge only exchanges that match: 'client_id ~ ^app'."
    )


class DiagnoseRun(
    CaptureRun[DiagnoseOptions], short_help="Report what is wrong in a capture, and what to do."
):
    """Report what is wrong in the Kafka traffic in CAPTURE..., since when, and what to do.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Each finding has a severity, the numbers of exchanges that show it (kproxy read --exchange N), and a command that
    shows them. high: data is lost, duplicated or unavailable, or a client cannot work; medium: something does not work
    as it should; low: it costs resources; info: good to know. The end of the report lists what could not be judged.

    With --follow, for a folder that a proxy writes to or for a pipe, an incident is reported when it is first seen, and
    again when more is known about it; a finding when it is first seen, and again when it becomes more severe or has
    been seen ten times as often; Ctrl-C ends with all of them. Exchanges are numbered in order of completion, as in
    kproxy read --follow.
    """

    def __init__(self, options: DiagnoseOptions) -> None:
        from captures.analysis.findings.finding import Severity
        from kproxy.cli.live_findings import rules_and_limits

        super().__init__(options)
        self.fail_on: Severity | None = Severity[options.fail_on.upper()] if options.fail_on else None
        self.most = None if options.show_all else MOST_OF_A_RULE
        self.least = Severity[options.least.upper()]
        self.rules, self.limits = rules_and_limits(options.only, options.skip, options.thresholds)
        zone = self.reading.zone
        self.selecting = ExchangeSelection(
            filter_option(options.wanted, zone), options.begin, options.end, zone
        )
        self.failed = False

    def run(self) -> None:
        capture = self.reading.opened()
        judge = self._follow if self.options.follow and capture.source.live else self._judge
        diagnosis = judge(capture)
        found = diagnosis.findings()
        self.conclude(capture, printed=not self.options.as_json)
        flush()
        shown = [each for each in found if each.severity >= self.least]
        result = self._result(capture, diagnosis, shown)
        self.answer(result, blocks=self._blocks(capture, diagnosis, shown), prose=True)
        self.failed = self.fail_on is not None and any(each.severity >= self.fail_on for each in found)

    @property
    def exit_code(self) -> int:
        code = super().exit_code
        return EXIT_FOUND if self.failed else code

    # ------------------------------------------------------------ judging
    def _judge(self, capture: Capture) -> Diagnosis:
        """Pass the whole capture to the rules."""
        from captures.analysis.findings.diagnosis import Diagnosis

        read_all(capture)
        reader = self.reading.reader(capture)
        diagnosis = Diagnosis(
            capture,
            reader.knowledge.topic_name,
            limits=self.limits,
            rules=self.rules,
            clusters=self.reading.clusters(reader),
        )
        indexes = self.selecting.indexes(capture, reader)
        self.reading.diagnose(diagnosis, reader, indexes, "judging")
        return diagnosis

    def _follow(self, capture: Capture) -> Diagnosis:
        """Pass a growing capture to the rules, and report news, until it ends or is stopped."""
        from captures.analysis.findings.diagnosis import Diagnosis
        from kproxy.cli.live_findings import LiveFindings
        from kproxy.text.findings import FindingsText
        from kproxy.text.incidents import IncidentText

        reader = self.reading.reader(capture, live=True)
        diagnosis = Diagnosis(capture, reader.knowledge.topic_name, limits=self.limits, rules=self.rules)
        text = FindingsText(self.reading.zone, files=self.reading.files)
        incidents = IncidentText(self.reading.zone)
        live = LiveFindings(
            diagnosis,
            capture,
            reader.knowledge,
            lambda finding: echo(text.notice(finding), err=True),
            least=self.least,
            whole=self.selecting.wanted is None,
            incident=None
            if self.options.only or self.options.wanted
            else lambda incident: echo(incidents.brief(incident), err=True),
        )
        self.follow(capture, reader, diagnosis.add, live.update, self.selecting)
        return diagnosis

    # ------------------------------------------------------------ results
    def _blocks(self, capture: Capture, diagnosis: Diagnosis, found: list[Finding]) -> Iterator[Block]:
        from kproxy.text.blocks import BLANK, Heading, Paragraph
        from kproxy.text.findings import FindingsText, verdict

        tally = self.reading.tally
        text = FindingsText(
            self.reading.zone,
            files=self.reading.files,
            options=self.reading.options,
            dated=self.as_markdown,
        )
        if self.as_markdown:
            yield Heading([f"Diagnosis of {capture.source.path}"], 1)
        yield Paragraph(tally.sentence(capture, self.selecting.wanted), whole=True)
        if tally.first is not None:
            yield Paragraph(text.span(tally.first, tally.last))
            yield BLANK
            yield Paragraph(verdict(found, faulty=bool(capture.faults)), whole=True)
        yield from capture.faults.contained_items(self._happened(capture, diagnosis), "showing incidents")
        told = self._unexplained(diagnosis, found)
        yield from capture.faults.contained_items(text.blocks(told, self.most), "showing findings")
        yield from text.left_out(diagnosis.left_out)
        yield from text.blind(diagnosis.blind())

    def _incidents(self, diagnosis: Diagnosis) -> list[Incident]:
        """Return the incidents, unless only chosen rules or exchanges were requested."""
        return diagnosis.incidents if not (self.options.only or self.options.wanted) else []

    def _unexplained(self, diagnosis: Diagnosis, found: list[Finding]) -> list[Finding]:
        """Return the findings that no reported incident explains; those of high severity are always included."""
        from captures.analysis.findings.finding import Severity

        told = {each.id for each in self._incidents(diagnosis)}
        return [
            each
            for each in found
            if self.options.show_all or each.severity is Severity.HIGH or each.because_of not in told
        ]

    def _happened(self, capture: Capture, diagnosis: Diagnosis) -> Iterator[Block]:
        from kproxy.text.blocks import BLANK, Paragraph
        from kproxy.text.incidents import IncidentText

        happened = self._incidents(diagnosis)
        if not happened:
            return
        text = IncidentText(self.reading.zone, show_all=self.options.show_all, dated=self.as_markdown)
        yield BLANK
        yield from text.blocks(happened, capture.latest)
        if not self.options.show_all and any(
            consequence.kind == "finding" for each in happened for consequence in each.consequences
        ):
            yield BLANK
            yield Paragraph(
                "Findings that follow from an incident stand with it; the grave ones also below, all with --all.",
                whole=True,
            )

    def _result(self, capture: Capture, diagnosis: Diagnosis, found: list[Finding]) -> DiagnosisResult:
        from kproxy.cli.results import DiagnosisResult, InconclusiveRule

        tally = self.reading.tally
        return DiagnosisResult(
            captures=self.reading.files,
            exchanges=tally.exchanges,
            first=tally.first,
            last=tally.last,
            complete=tally.clean(capture),
            rules=[rule.name for rule in self.rules],
            findings=found,
            blind=[InconclusiveRule(rule.name, why) for rule, why in diagnosis.blind()],
            intervened=diagnosis.intervened,
            incidents=self._incidents(diagnosis),
        )
