"""Findings: problems in plain words, the most severe first."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import tzinfo
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from captures.analysis.clusters import beside
from captures.analysis.decision_columns import TAKEN
from captures.analysis.findings.diagnosis import Diagnosis, InconclusiveRule
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import words
from captures.time_format import clock
from kproxy.session.summaries import unexpected
from kproxy.text.tables import Column
from kproxy.tui.views.paced import PacedFold, PacedView
from kproxy.tui.views.table_view import Detail, facts
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, counted, moment, numbered

if TYPE_CHECKING:
    from kproxy.session import Access

_ROLES = {
    Severity.HIGH: Role.ERROR,
    Severity.MEDIUM: Role.WARNING,
    Severity.LOW: Role.PLAIN,
    Severity.INFO: Role.MUTED,
}
_BLIND = "not judged"
SENTENCE = 60
"""Least cells of a sentence: other columns are left out before it is cut to fewer."""
_MOST_EVIDENCE = 50
"""Most exchanges that are described."""
EVIDENCE = (
    Column("evidence", right=True),
    Column("time", rank=2),
    Column("client", least=10, rank=1),
    Column("api"),
    Column("request → response", least=20),
)
"""Columns of exchanges that are evidence."""


class DiagnosisResult(NamedTuple):
    """The result of the rules.

    :ivar blind: rules that could not judge
    :ivar incidents: in order of time
    """

    findings: Sequence[Finding] = ()
    blind: Sequence[InconclusiveRule] = ()
    incidents: Sequence[Incident] = ()


class FindingsFold(PacedFold[DiagnosisResult]):
    """Feeds every exchange to the rules, and queries them at intervals.

    :ivar first: time of the earliest exchange, ns since the epoch; 0 before there is one
    """

    TAKEN = TAKEN

    def __init__(self, access: Access) -> None:
        super().__init__(access, DiagnosisResult())
        names = access.plain.knowledge.topic_name
        self._diagnosis = Diagnosis(access.capture, names, clusters=self.clusters)
        self.first = 0

    def add(self, exchange: Exchange) -> None:
        super().add(exchange)
        self.first = min(self.first or exchange.time, exchange.time)
        self._diagnosis.add(exchange)

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        reader = access.plain
        times = columns.flat("time")
        self.first = int(times.min()) if len(times) else 0
        for exchange in self._diagnosis.add_all(reader, columns, indexes):
            yield exchange.number - reader.first

    def compute(self, now: int, pending: Iterable[Exchange], *, live: bool) -> DiagnosisResult:
        found = self._diagnosis.findings(now=now, pending=pending)
        return DiagnosisResult(found, self._diagnosis.blind(), self._diagnosis.incidents)


class DiagnosisView(PacedView[FindingsFold]):
    """A view of the rules' results. All such views share one fold, over all exchanges regardless of the filter."""

    FOLD = "findings"
    EVERYTHING = True

    def make(self, access: Access) -> FindingsFold:
        return FindingsFold(access)


class Findings(DiagnosisView):
    """One row per finding; evidence and advice for the selected one.

    It covers all exchanges: with a part of them, much would look wrong that is not.
    """

    view_name = "findings"
    THINGS = "findings"
    COLUMNS = (
        Column("severity"),
        Column("what", least=SENTENCE, wraps=True),
        Column("about", least=14, rank=4),
        Column("times", right=True, rank=2),
        Column("first", rank=1),
        Column("last", rank=3),
        Column("rule", rank=5),
    )
    DETAILS = (EVIDENCE,)

    def rows(self, fold: FindingsFold, access: Access) -> Sequence[Row]:
        found = self.result(fold, access)
        rows = [self._row(finding) for finding in found.findings]
        if found.blind and self._folding.progress >= 1:
            rows.append(_blind_row(len(found.blind)))
        return rows

    def _row(self, finding: Finding) -> Row:
        zone = self.session.zone
        cells: tuple[AnyCell, ...] = (
            Cell(finding.severity.word, _ROLES[finding.severity], -finding.severity),
            finding.sentence,
            beside(finding.subject, finding.cluster),
            counted(finding.count),
            moment(finding.first, zone),
            moment(finding.last, zone),
            Cell(finding.rule, Role.MUTED),
        )
        return Row(finding.key, cells, leads_to=next(iter(finding.evidence), None) or finding.filter)

    def detail(self, fold: FindingsFold, access: Access, key: Hashable) -> Detail | None:
        found = self.result(fold, access)
        if key == _BLIND:
            return Detail(_BLIND, _blind_text(found.blind), ((),))
        finding = next((finding for finding in found.findings if finding.key == key), None)
        if finding is None:
            return None
        sure = "" if finding.certainty is Certainty.OBSERVED else finding.certainty.value
        cause = next((each.sentence for each in found.incidents if each.id == finding.because_of), "")
        ends = (f"{' to '.join(access.capture.shown_endpoints(each))}" for each in finding.connections)
        zone = self.session.zone
        text = facts(
            ("what to do", finding.advice),
            ("cluster", str(finding.cluster or "")),
            ("certainty", sure),
            ("because of", Cell(finding.because_of, incident=finding.because_of), cause),
            (
                "seen",
                f"{clock(finding.first, zone)} to {clock(finding.last, zone)}",
                words.counted(finding.count, "time"),
            ),
            ("filter", finding.filter),
            ("connections", words.some(ends)),
            ("thresholds", *(f"{name} {value}" for name, value in finding.thresholds.items())),
        )
        evidence = evidence_rows(access, finding.evidence, zone)
        title = f"{finding.severity.word}: {finding.rule}"
        return Detail(title, text, (evidence,), filter=finding.filter, marks=moments_of(evidence))


def _blind_row(count: int) -> Row:
    cell = Cell(f"{words.counted(count, 'rule')} could not judge", Role.MUTED)
    empty = ("",) * (len(Findings.COLUMNS) - 3)
    return Row(_BLIND, (Cell("-", Role.MUTED, 1), cell, "", *empty))


def evidence_rows(access: Access, numbers: Sequence[int], zone: tzinfo | None) -> list[Row]:
    """Return rows for exchanges that are evidence: time, client, API, and summary."""
    return [_evidence_row(access, number, zone) for number in numbers[:_MOST_EVIDENCE]]


def named_exchange(access: Access, number: int) -> str:
    """Return the number of an exchange with its API, if it is still kept: ``SyncGroup #252``."""
    with suppress(LookupError):
        return f"{access.plain.bare(access.index(number)).api} #{number}"
    return f"#{number}"


def moments_of(evidence: Sequence[Row]) -> list[int]:
    """Return the known times of the exchanges in :func:`evidence_rows`."""
    return [int(time.value) for row in evidence if isinstance(time := row.cells[1], Cell) and time.value]


def _evidence_row(access: Access, number: int, zone: tzinfo | None) -> Row:
    cells: tuple[AnyCell, ...] = ("",) * (len(EVIDENCE) - 1)
    with suppress(LookupError):  # the ring of a live capture may have dropped it
        exchange = access.exchange(number)
        errors = unexpected(exchange)
        cells = (
            moment(exchange.time, zone),
            exchange.client_id or exchange.shown_client,
            exchange.title,
            Cell(" → ".join(filter(None, exchange.summary)), Role.ERROR if errors else Role.PLAIN),
        )
    return Row(number, (numbered(number), *cells), leads_to=number)


def _blind_text(blind: Sequence[InconclusiveRule]) -> Content:
    return facts(*_blind_lines(blind))


def _blind_lines(blind: Sequence[InconclusiveRule]) -> Iterator[tuple[AnyCell, ...]]:
    for rule, why in blind:
        yield "", f"{rule.title}: {why}"
