"""Shared by commands that diagnose: rules and thresholds by name, news of findings, and the diagnosis that runs beside
the output of ``kproxy proxy`` and ``kproxy sniff``.

A growing capture is judged where its exchanges are decoded, never where bytes are forwarded; and so seldom that it
takes a small share of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import tzinfo

import click

from captures.analysis.clusters import RecordedClusters
from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rule import Rule
from captures.analysis.findings.rule_selection import UnknownRuleError, chosen, limits
from captures.analysis.groups.call_reader import pending_calls
from captures.analysis.incidents.model import Consequence, Incident
from captures.exchanges import Capture, Exchange, ExchangeReader
from dissectors.session_context import SessionContext
from dissectors.units import SECOND
from kproxy.output import echo, notice
from kproxy.pace import Pace
from kproxy.text.blocks import BLANK, Block, Paragraph, text_lines
from kproxy.text.findings import FindingsText, verdict
from kproxy.text.incidents import IncidentText

_EVERY = 1.0  # seconds between checks for news
_GROWN = 10
_SETTLED = 10 * SECOND
"""ns of the capture without news of an incident, after which it is reported again."""
_DIAGNOSIS = "the diagnosis"
"""The activity, for reports of internal errors."""


def rules_and_limits(
    only: Sequence[str], without: Sequence[str], settings: Sequence[str]
) -> tuple[list[type[Rule]], dict[str, float]]:
    """Return the rules and thresholds of ``--only``, ``--skip`` and ``--threshold``.

    :raises click.UsageError: if there is no such rule or threshold, or no rule is left
    """
    try:
        rules = chosen(RULES, only, without)
        found = limits(RULES, settings)
    except UnknownRuleError as error:
        raise click.UsageError(
            f"{error}\nkproxy diagnose --list has the rules and their thresholds"
        ) from None
    if not rules and (only or without):
        raise click.UsageError("--only and --skip leave no rule to run")
    return rules, found


class IncidentNews:
    """Decides which incidents of a growing capture to report: new ones, and those with news.

    What is known about an incident changes while it happens, so it is reported again only when it has settled. At the
    end, incidents with new consequences are reported too.
    """

    def __init__(self) -> None:
        self._reported: dict[Hashable, tuple[str, list[Consequence]]] = {}
        self._latest: dict[Hashable, tuple[str, int]] = {}

    def of(self, incidents: Iterable[Incident], now: int, *, ended: bool = False) -> Iterator[Incident]:
        """Yield the incidents to report.

        :param incidents: all known incidents, in order of time
        :param now: ns since the epoch
        :param ended: whether the capture has ended, so that all have settled
        """
        for incident in incidents:
            key, sentence = (incident.kind, incident.begin), incident.sentence
            latest, since = self._latest.get(key, ("", now))
            if latest != sentence:
                latest, since = self._latest[key] = sentence, now
            known, reported = (sentence, list(incident.consequences)), self._reported.get(key)
            if reported is not None:
                settled = now - since >= _SETTLED and reported[0] != sentence
                if not (reported != known if ended else settled):
                    continue
            self._reported[key] = known
            yield incident


class LiveFindings:
    """Reports findings of a growing capture: each when it is first seen, more severe, or seen ten times as often.

    Findings that follow from an incident are omitted, except those of high severity.

    :param diagnosis: is fed by the code that reads the capture
    :param knowledge: of the reader that decodes the exchanges
    :param report: called with each finding to report
    :param least: findings of lower severity are not reported
    :param whole: whether the diagnosis sees all exchanges, so that unanswered requests belong to it too
    :param incident: called with each incident to report, before the findings; None omits incidents
    """

    def __init__(
        self,
        diagnosis: Diagnosis,
        capture: Capture,
        knowledge: SessionContext,
        report: Callable[[Finding], None],
        *,
        least: Severity = Severity.INFO,
        whole: bool = True,
        incident: Callable[[Incident], None] | None = None,
    ) -> None:
        self._diagnosis = diagnosis
        self._incident = incident
        self._incidents = IncidentNews()
        self._capture = capture
        self._knowledge = knowledge
        self._report = report
        self._least = least
        self._whole = whole
        self._reported: dict[tuple[str, str, str], tuple[Severity, int]] = {}
        self._pace = Pace(_EVERY)

    def update(self) -> None:
        """Report news; does nothing shortly after the last call."""
        if not self._pace.due:
            return
        with self._pace.step():
            now = self._capture.latest or None
            findings = self._diagnosis.findings(now=now, pending=self._pending())
            self._report_incidents()
            for finding in findings:
                effect = bool(finding.because_of) and self._incident is not None
                if effect and finding.severity < Severity.HIGH:
                    continue
                if finding.severity >= self._least and self._is_news(finding):
                    self._reported[finding.key] = finding.severity, finding.count
                    self._report(finding)

    def conclude(self) -> None:
        """Report incidents with news since they were reported; the capture has ended."""
        self._diagnosis.findings()
        self._report_incidents(ended=True)

    def _report_incidents(self, *, ended: bool = False) -> None:
        if self._incident is not None:
            for each in self._incidents.of(self._diagnosis.incidents, self._capture.latest, ended=ended):
                self._incident(each)

    def _pending(self) -> list[Exchange]:
        """Return the pending requests of group members; they have no numbers yet."""
        return pending_calls(self._capture, self._knowledge) if self._whole else []

    def _is_news(self, finding: Finding) -> bool:
        before = self._reported.get(finding.key)
        return before is None or finding.severity > before[0] or finding.count >= _GROWN * before[1]


class LiveDiagnosis:
    """Diagnoses a live capture that is also shown; prints incidents and findings as notices, severity info at the end.

    Its errors are contained, because in ``kproxy proxy`` they would end the connections of clients: each is reported
    once, and the diagnosis continues.

    :param reader: of the command that shows the capture
    :param annotated: whether that reader prepares bodies for display, which rules cannot use
    :param clusters: names of the clusters behind ``kproxy proxy``
    :param zone: time zone; None for local time
    """

    def __init__(
        self, reader: ExchangeReader, zone: tzinfo | None, *, annotated: bool, clusters: Sequence[str] = ()
    ) -> None:
        capture, knowledge = reader.capture, reader.knowledge
        several = RecordedClusters(capture, clusters)
        self._diagnosis = Diagnosis(capture, knowledge.topic_name, clusters=several)
        self._again = raw_reader(capture, knowledge) if annotated else None
        self._text = FindingsText(zone, files=("-",))
        self._incident_text = IncidentText(zone)
        self._live = LiveFindings(
            self._diagnosis,
            capture,
            knowledge,
            self._print,
            least=Severity.LOW,
            incident=lambda each: notice(self._incident_text.brief(each)),
        )
        self._capture = capture
        self._faults = capture.faults
        self._look = self._faults.guarded(self._add, _DIAGNOSIS)

    def look(self, exchange: Exchange) -> None:
        """Pass an exchange to the rules, just after it was decoded."""
        self._look(exchange)

    def update(self) -> None:
        """Report news; does nothing shortly after the last call."""
        self._faults.contained(self._live.update, _DIAGNOSIS, None)
        for line in self._faults.news():
            notice(line)

    def conclude(self) -> None:
        """Report all findings on standard error."""
        for line in self._faults.contained_items(text_lines(self._blocks(), None, prose=True), _DIAGNOSIS):
            echo(line, err=True)

    def _blocks(self) -> Iterator[Block]:
        found = self._diagnosis.findings()
        yield BLANK
        if self._diagnosis.incidents:
            blocks = self._incident_text.blocks(self._diagnosis.incidents, self._capture.latest)
            yield from self._faults.contained_items(blocks, _DIAGNOSIS)
            yield BLANK
        yield Paragraph(verdict(found, faulty=bool(self._faults)), whole=True)
        yield from self._faults.contained_items(self._text.blocks(found), _DIAGNOSIS)
        yield from self._text.left_out(self._diagnosis.left_out)

    def _add(self, exchange: Exchange) -> None:
        self._diagnosis.add(exchange if self._again is None else reread(self._again, exchange))

    def _print(self, finding: Finding) -> None:
        notice(self._text.notice(finding))


def raw_reader(capture: Capture, knowledge: SessionContext) -> ExchangeReader:
    """Return a reader of bodies for rules; it takes rows of the table."""
    return ExchangeReader(capture, annotate=False, summary=False, live=True, knowledge=knowledge)


def reread(reader: ExchangeReader, exchange: Exchange) -> Exchange:
    """Return an exchange as another reader decodes it."""
    (raw,) = reader.take([exchange.row])
    raw.number = exchange.number
    return raw
