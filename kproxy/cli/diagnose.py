"""``kproxy diagnose``: what is wrong in a capture, in words, with what it rests on and what to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends, filter_option, read_to_the_end, with_progress
from kproxy.cli.filtering import FILTER
from kproxy.cli.options import color_option, reading_options, time_options, utc_option
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude, terminal_width
from kproxy.cli.selecting import Selecting
from kproxy.cli.showing import ended_by_signals

if TYPE_CHECKING:
    from captures.analysis.findings.diagnosis import Diagnosis
    from captures.analysis.findings.finding import Finding, Severity
    from captures.exchanges import Capture
    from kproxy.cli.summary import Tally

EXIT_FOUND = 4
"""There is a finding as grave as ``--fail-on`` says; comes before :data:`~kproxy.cli.common.EXIT_INCOMPLETE`."""
MOST_OF_A_RULE = 5
"""Findings that are printed of one rule and severity."""
LEVELS = ("info", "low", "medium", "high")


def _list_rules(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from captures.analysis.findings.all import RULES
    from kproxy.cli.findings_text import rule_lines

    for line in rule_lines(RULES, terminal_width()):
        echo(line)
    context.exit()


@click.command(short_help="Say what is wrong in a capture, and what to do.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option("-F", "--follow", is_flag=True, help="Tell findings as what is still being written shows them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/json-diagnose.md).")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for tickets.")
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS),
    help=f"Exit with {EXIT_FOUND} if there is a finding as grave as this, or graver.",
)
@click.option(
    "--least", type=click.Choice(LEVELS), default="info", help="Leave out findings less grave than this."
)
@click.option(
    "--all", "show_all", is_flag=True, help=f"Print every finding, not {MOST_OF_A_RULE} of a rule at most."
)
@click.option("--only", multiple=True, metavar="RULE", help="Ask only this rule; may be given several times.")
@click.option(
    "--skip", multiple=True, metavar="RULE", help="Leave this rule out; may be given several times."
)
@click.option(
    "--set",
    "thresholds",
    multiple=True,
    metavar="RULE.NAME=VALUE",
    help="Set a threshold, such as heartbeat_gaps.share=90; may be given several times.",
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_rules,
    help="List the rules with their thresholds (docs/findings.md).",
)
@click.option(
    "-Y", "--filter", "wanted", type=FILTER, help="Judge only exchanges that fit: 'client_id ~ ^app'."
)
@time_options
@reading_options
@utc_option
@color_option
def diagnose(files: tuple[str, ...], **options: Any) -> None:
    """Say in words what is wrong in the Kafka traffic in CAPTURE..., since when, and what to do.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Each finding has a severity, the numbers of exchanges that show it (kproxy read --exchange N), and a command that
    shows them. high: data is lost, doubled or not available, or somebody cannot work; medium: something does not work
    as it should; low: it costs something; info: good to know. What the capture cannot tell is named at the end.

    With --follow, of a folder that a proxy writes to or of a pipe, a finding is told when it is first seen, and again
    when it has become graver or is seen ten times as often; all of them come at the end, after Ctrl-C. Exchanges are
    numbered as kproxy read --follow does, in the order in which they are complete.
    """
    run = Diagnosing(files, **options)
    with early_ends():
        run.run()
    sys.exit(run.exit_code)


class Diagnosing:
    """One run of ``kproxy diagnose``."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        follow: bool,
        as_json: bool,
        as_markdown: bool,
        fail_on: str | None,
        least: str,
        show_all: bool,
        only: tuple[str, ...],
        skip: tuple[str, ...],
        thresholds: tuple[str, ...],
        wanted: str | None,
        begin: str | None,
        end: str | None,
        utc: bool,
        color: str,
        **reading: Any,
    ) -> None:
        from captures.analysis.findings.finding import Severity
        from kproxy.cli.diagnosing import rules_and_limits

        if as_json and as_markdown:
            raise click.UsageError("--json and --markdown are two shapes: give one of them")
        self.reading = Reading(files, utc=utc, follow=follow, **reading)
        self.follow = follow
        self.as_json = as_json
        self.as_markdown = as_markdown
        self.fail_on: Severity | None = Severity[fail_on.upper()] if fail_on else None
        self.most = None if show_all else MOST_OF_A_RULE
        self.least = Severity[least.upper()]
        self.rules, self.limits = rules_and_limits(only, skip, thresholds)
        self.color = colored(color)
        zone = self.reading.zone
        self.selecting = Selecting(filter_option(wanted, zone), begin, end, zone)
        self.exit_code = 0

    def run(self) -> None:
        """Read the capture, and print what was found."""
        from kproxy.cli.summary import Tally

        capture = self.reading.opened()
        tally = Tally()
        judge = self._follow if self.follow and capture.source.live else self._judge
        diagnosis = judge(capture, tally)
        found = diagnosis.findings()
        clean = conclude(capture, tally, told=not self.as_json)
        flush()
        self._print(capture, tally, diagnosis, [each for each in found if each.severity >= self.least])
        self.exit_code = self.reading.exit_code(clean=clean)
        if self.fail_on is not None and any(each.severity >= self.fail_on for each in found):
            self.exit_code = EXIT_FOUND
        flush()

    # ------------------------------------------------------------ judging
    def _judge(self, capture: Capture, tally: Tally) -> Diagnosis:
        """Show the whole of a capture to the rules."""
        from captures.analysis.findings.diagnosis import Diagnosis
        from captures.exchanges import ExchangeReader

        read_to_the_end(capture)
        reader = ExchangeReader(capture, annotate=False, gist=False)
        diagnosis = Diagnosis(capture, reader.knowledge.topic_name, limits=self.limits, rules=self.rules)
        exchanges = self.selecting.exchanges(capture, reader)
        for exchange in with_progress(exchanges, lambda each: each.number, len(reader), "judging"):
            tally.add(exchange)
            diagnosis.add(exchange)
        return diagnosis

    def _follow(self, capture: Capture, tally: Tally) -> Diagnosis:
        """Show a capture that grows to the rules, and tell what is new, until it ends or is stopped."""
        from captures.analysis.findings.diagnosis import Diagnosis
        from captures.exchanges import ExchangeReader
        from kproxy.cli.diagnosing import LiveFindings
        from kproxy.cli.findings_text import FindingsText

        reader = ExchangeReader(capture, annotate=False, gist=False, live=True)
        diagnosis = Diagnosis(capture, reader.knowledge.topic_name, limits=self.limits, rules=self.rules)
        text = FindingsText(None, self.reading.zone, color=False, files=self.reading.files)
        live = LiveFindings(
            diagnosis,
            capture,
            reader.knowledge,
            lambda finding: echo(f"{text.when(finding)}  {text.notice(finding)}", err=True),
            least=self.least,
            whole=self.selecting.wanted is None,
        )
        with ended_by_signals(capture.source.stop):
            for exchange in self.selecting.as_they_come(capture, reader, pause=live.tell):
                tally.add(exchange)
                diagnosis.add(exchange)
        return diagnosis

    # ------------------------------------------------------------ what came of it
    def _print(self, capture: Capture, tally: Tally, diagnosis: Diagnosis, found: list[Finding]) -> None:
        if self.as_json:
            self._print_json(capture, tally, diagnosis, found)
        elif self.as_markdown:
            from captures.export.findings import findings_markdown

            path = str(capture.source.path)
            read, blind = tally.sentence(capture), diagnosis.blind()
            for line in findings_markdown(path, found, blind, read=read, most=self.most):
                echo(line)
        else:
            self._print_text(capture, tally, diagnosis, found)

    def _print_text(self, capture: Capture, tally: Tally, diagnosis: Diagnosis, found: list[Finding]) -> None:
        from kproxy.cli.findings_text import FindingsText, verdict

        text = FindingsText(
            terminal_width(),
            self.reading.zone,
            color=self.color,
            files=self.reading.files,
            options=self.reading.options,
        )
        echo(tally.sentence(capture))
        if tally.first is not None:
            echo(text.span(tally.first, tally.last))
            echo()
            echo(verdict(found, faulty=bool(capture.faults)))
        for line in capture.faults.whole(text.lines(found, self.most), "showing findings"):
            echo(line)
        for line in text.blind(diagnosis.blind()):
            echo(line)

    def _print_json(self, capture: Capture, tally: Tally, diagnosis: Diagnosis, found: list[Finding]) -> None:

        from captures.exchanges import rfc3339

        shape = {
            "captures": list(self.reading.files),
            "exchanges": tally.exchanges,
            "first": None if tally.first is None else rfc3339(tally.first),
            "last": None if tally.first is None else rfc3339(tally.last),
            "complete": tally.clean(capture),
            "rules": [rule.name for rule in self.rules],
            "findings": [each.to_json() for each in found],
            "blind": [{"rule": rule.name, "why": why} for rule, why in diagnosis.blind()],
        }
        echo_json(shape, wait=True)
