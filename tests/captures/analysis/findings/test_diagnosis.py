"""A diagnosis shows exchanges to the rules that want them, and sorts what they find."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, Scene
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import unread
from tests.captures.analysis.kit import exchange


class Counting(Rule):
    """Counts what it is shown."""

    name = "counting"
    apis = None

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.seen = Occurrences()

    def add(self, exchange: Exchange) -> None:
        self.seen.add(exchange)

    def findings(self) -> Iterator[Finding]:
        yield self.finding("all", "", "", self.seen)

    def blind(self) -> str:
        return "nothing was captured" if not self.seen else ""


class OfMetadata(Counting):
    name = "of_metadata"
    apis = frozenset({3})
    severity = Severity.HIGH


class OfNone(Counting):
    name = "of_none"
    apis = frozenset()
    severity = Severity.LOW


def test_rules_see_what_they_want_to_see() -> None:
    diagnosis = Diagnosis(unread(), lambda _: None, rules=[OfNone, Counting, OfMetadata])
    for number, key in enumerate((3, 1, 3, None), 1):
        diagnosis.add(exchange(key, 1, number=number, time=number))
    found = diagnosis.findings()
    assert [(each.rule, each.count, each.evidence) for each in found] == [
        ("of_metadata", 2, (1, 3)),
        ("counting", 4, (1, 2, 3, 4)),
        ("of_none", 0, ()),
    ]
    assert [(blind.rule, blind.why) for blind in diagnosis.blind()] == [(OfNone, "nothing was captured")]
    assert found == diagnosis.findings()


def test_a_capture_without_anything() -> None:
    diagnosis = Diagnosis(unread(), lambda _: None)
    assert diagnosis.findings() == []
    assert diagnosis.blind()
