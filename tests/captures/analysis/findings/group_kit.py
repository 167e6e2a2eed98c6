"""Shared code for tests of rules about groups: findings of a recording, and of synthetic timelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.groups.model import GroupTimeline
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.filters import compile_filter

FOLDER = Path(__file__).resolve().parents[3] / "data" / "groups"


def of_recording(name: str, rule: type[Rule], **limits: float) -> list[Finding]:
    """Return the findings of a rule in a recording of ``tests/data/groups``; its filter must select the evidence."""
    capture = open_capture(str(FOLDER / f"{name}.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    settings = {f"{rule.name}.{limit}": value for limit, value in limits.items()}
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, limits=settings, rules=[rule])
    for exchange in reader:
        diagnosis.add(exchange)
    found = diagnosis.findings()
    for finding in found:
        shown = set((compile_filter(finding.filter).select(reader) + 1).tolist())
        assert finding.evidence
        assert set(finding.evidence) <= shown, finding.filter
    return found


def unread() -> Capture:
    """Return a capture of which nothing is known yet."""
    return open_capture(str(FOLDER / "21_k430_java_eager_range.pcap.zst"))


def made(
    rule: type[Rule],
    *timelines: GroupTimeline,
    exchanges: Iterable[Exchange] = (),
    limits: Mapping[str, float] | None = None,
) -> Rule:
    """Return a rule that has seen some timelines and exchanges."""
    context = RuleContext(
        capture=unread(), names=lambda _: None, timelines=lambda: timelines, limits=limits or {}
    )
    asked = rule(context)
    for exchange in exchanges:
        asked.add(exchange)
    return asked


def of_timelines(
    rule: type[Rule], *timelines: GroupTimeline, limits: Mapping[str, float] | None = None
) -> list[Finding]:
    """Return the findings of a rule in synthetic timelines."""
    return list(made(rule, *timelines, limits=limits).findings())


def of_exchanges(
    rule: type[Rule], *exchanges: Exchange, limits: Mapping[str, float] | None = None
) -> list[Finding]:
    """Return the findings of a rule in synthetic exchanges."""
    return list(made(rule, exchanges=exchanges, limits=limits).findings())
