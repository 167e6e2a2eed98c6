"""Shared code for tests of rules about brokers and connections: findings of recordings and of synthetic packets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captures.analysis.findings.finding import Finding
from captures.analysis.findings.rule import Rule, RuleContext
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.filters import compile_filter
from captures.meaning import errors_in
from tests.captures.analysis.kit import exchange
from tests.captures.exchanges.talk import capture_of
from tests.captures.packets.kit import MS, Conversation

__all__ = [
    "MS",
    "SECOND",
    "Conversation",
    "asked",
    "capture_of",
    "of_capture",
    "of_exchanges",
    "of_recording",
    "spoken",
]

DATA = Path(__file__).resolve().parents[3] / "data"
SECOND = 1_000 * MS


def of_recording(name: str, rule: type[Rule], **limits: float) -> list[Finding]:
    """Return the findings of a rule in a recording of ``tests/data``; its filter must select the evidence."""
    folders = ("findings", "groups", "clean", "captures")
    path = next(path for folder in folders for path in (DATA / folder).glob(f"{name}.pcap*"))
    capture = open_capture(str(path))
    capture.read()
    return of_capture(capture, rule, {f"{rule.name}.{limit}": value for limit, value in limits.items()})


def of_capture(
    capture: Capture, rule: type[Rule], limits: Mapping[str, float] | None = None
) -> list[Finding]:
    """Return the findings of a rule in a capture; its filter must select the evidence."""
    reader = ExchangeReader(capture, annotate=False, summary=False)
    made = rule(
        RuleContext(capture=capture, names=reader.knowledge.topic_name, timelines=list, limits=limits or {})
    )
    for each in reader:
        if rule.apis is None or each.api_key in rule.apis:
            made.add(each)
    found = list(made.findings())
    assert found == list(made.findings())
    for finding in found:
        assert finding.evidence or finding.connections
        shown = set((compile_filter(finding.filter).select(reader) + 1).tolist())
        assert set(finding.evidence) <= shown, finding.filter
    return found


def asked(rule: type[Rule], *exchanges: Exchange, limits: Mapping[str, float] | None = None) -> Rule:
    """Return a rule that has seen synthetic exchanges of an otherwise empty capture."""
    capture = open_capture(str(DATA / "captures" / "20_k430_ck_zstd.pcap"))
    made = rule(RuleContext(capture=capture, names=lambda _: None, timelines=list, limits=limits or {}))
    for each in exchanges:
        if rule.apis is None or each.api_key in rule.apis:
            made.add(each)
    return made


def of_exchanges(
    rule: type[Rule], *exchanges: Exchange, limits: Mapping[str, float] | None = None
) -> list[Finding]:
    """Return the findings of a rule in synthetic exchanges."""
    return list(asked(rule, *exchanges, limits=limits).findings())


def spoken(key: int, version: int, request: Any = None, response: Any = None, **fields: Any) -> Exchange:
    """Return an exchange with the errors of its response."""
    fields.setdefault("errors", errors_in(key, version, response))
    return exchange(key, version, request=request or {}, response=response, **fields)
