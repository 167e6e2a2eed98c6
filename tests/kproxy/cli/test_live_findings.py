"""Findings that appear in a growing capture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rule import Rule
from captures.analysis.findings.rules.members import CommitFailures
from captures.analysis.findings.rules.rebalances import BlockedRebalance
from captures.analysis.incidents.model import Consequence, Incident, IncidentKind
from captures.exchanges import ExchangeReader, open_capture
from dissectors.units import SECOND
from kproxy.cli.live_findings import IncidentNews, LiveFindings
from tests.captures.analysis.kit import MS

DATA = Path(__file__).parents[2] / "data" / "groups"
BLOCKED = DATA / "21_k430_java_blocked_rebalance.pcap.zst"
SMALL = 1 << 12  # bytes: a few packets at a time


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the pacing of findings."""
    monkeypatch.setattr("kproxy.cli.live_findings._EVERY", 0)
    monkeypatch.setattr("kproxy.pace._SHARE", 0)


def told(
    path: Path, *rules: type[Rule], least: Severity = Severity.INFO, whole: bool = True
) -> list[Finding]:
    """Return the findings reported for a capture that is read in small pieces."""
    capture = open_capture(str(path), SMALL)
    reader = ExchangeReader(capture, annotate=False, summary=False, live=True)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, rules=rules)
    found: list[Finding] = []
    live = LiveFindings(diagnosis, capture, reader.knowledge, found.append, least=least, whole=whole)
    for rows in capture.updates():
        for exchange in reader.take(rows.tolist()):
            diagnosis.add(exchange)
        live.update()
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_a_rebalance_that_waits_is_told_while_it_does() -> None:
    (found,) = told(BLOCKED, BlockedRebalance)
    assert "It waits for m2" in found.sentence
    # m3 sent its request at 09:52:24.9; the response came when m2 polled again, at 09:52:37.6 (truth file)
    assert found.last - found.first < 12_800 * MS


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_what_waits_belongs_to_no_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("kproxy.cli.live_findings.pending_calls", lambda *given: asked.append(given) or [])
    told(BLOCKED, BlockedRebalance, whole=False)
    assert asked == []
    told(BLOCKED, BlockedRebalance)
    assert asked


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_each_finding_is_told_once() -> None:
    (found,) = told(DATA / "21_k430_java_sigstop.pcap.zst", CommitFailures)
    assert found.count == 1


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_the_less_grave_is_not_told() -> None:
    assert told(DATA / "21_k430_java_sigstop.pcap.zst", CommitFailures, least=Severity.HIGH) == []


class GrowingRule(Rule):
    """Reports a growing finding."""

    name = "growing"
    seen: ClassVar[tuple[tuple[Severity, int], ...]] = (
        (Severity.LOW, 1),
        (Severity.LOW, 9),
        (Severity.LOW, 10),
        (Severity.MEDIUM, 11),
        (Severity.MEDIUM, 99),
        (Severity.MEDIUM, 110),
        (Severity.LOW, 111),
    )

    def findings(self) -> Iterator[Finding]:
        severity, times = self.seen[self._asked]
        self._asked += 1
        yield Finding(
            rule=self.name,
            severity=severity,
            subject="it",
            sentence="",
            advice="",
            count=times,
            first=0,
            last=0,
        )

    _asked: int = 0


@pytest.mark.usefixtures("always")
def test_what_grows_tenfold_or_is_graver_is_told_again() -> None:
    capture = open_capture(str(BLOCKED))
    reader = ExchangeReader(capture, live=True)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, rules=[GrowingRule])
    found: list[Finding] = []
    live = LiveFindings(diagnosis, capture, reader.knowledge, found.append)
    for _ in GrowingRule.seen:
        live.update()
    assert [(each.severity, each.count) for each in found] == [
        (Severity.LOW, 1),
        (Severity.LOW, 10),
        (Severity.MEDIUM, 11),
        (Severity.MEDIUM, 110),
    ]


def test_it_is_not_asked_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((0.0, 0.0, 0.1, 0.5, 1.5, 2.2, 2.2, 2.4, 5.0, 7.0, 7.0, 7.1))
    monkeypatch.setattr("kproxy.pace.monotonic", lambda: next(times))
    capture = open_capture(str(BLOCKED))
    reader = ExchangeReader(capture, live=True)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, rules=[])
    asked = 0

    def findings(**_: object) -> list[Finding]:
        nonlocal asked
        asked += 1
        return []

    monkeypatch.setattr(diagnosis, "findings", findings)
    live = LiveFindings(diagnosis, capture, reader.knowledge, lambda _: None)
    # the first takes 0.1 s, so that the next 2 s are skipped; the second 0.2 s, so 4 s are
    for expected in (1, 1, 1, 2, 2, 3):
        live.update()
        assert asked == expected


def test_an_incident_is_reported_when_it_is_new_and_when_what_is_known_of_it_has_settled() -> None:
    def outage(sentence: str, *consequences: Consequence) -> Incident:
        return Incident(
            kind=IncidentKind.BROKER_OUTAGE,
            begin=1,
            end=None,
            who=("b",),
            sentence=sentence,
            consequences=list(consequences),
        )

    news = IncidentNews()
    assert list(news.of([outage("away")], 1 * SECOND))
    assert not list(news.of([outage("away")], 20 * SECOND))
    assert not list(news.of([outage("back")], 21 * SECOND))
    assert not list(news.of([outage("back")], 30 * SECOND))
    assert list(news.of([outage("back")], 31 * SECOND))
    assert not list(news.of([outage("back")], 60 * SECOND))
    assert list(news.of([outage("back for good")], 61 * SECOND, ended=True))
    rebalance = Consequence("rebalance", "g", 2, "g rebalanced")
    assert not list(news.of([outage("back for good", rebalance)], 80 * SECOND))
    assert list(news.of([outage("back for good", rebalance)], 80 * SECOND, ended=True))
    assert not list(news.of([outage("back for good", rebalance)], 80 * SECOND, ended=True))
