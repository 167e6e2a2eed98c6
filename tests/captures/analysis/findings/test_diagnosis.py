"""A diagnosis passes exchanges to the rules that need them, and sorts their findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule
from captures.arrays import Bools
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from captures.interventions import UNTOUCHED
from tests.captures.analysis.findings.group_kit import unread
from tests.captures.analysis.kit import exchange
from tests.conftest import DATA


class CountingRule(Rule):
    """Counts the exchanges it sees."""

    name = "counting"
    apis = None

    seen: Occurrences = msgspec.field(default_factory=Occurrences)

    def add(self, exchange: Exchange) -> None:
        self.seen.add(exchange)

    def findings(self) -> Iterator[Finding]:
        yield self.finding("all", "", "", self.seen)

    def blind(self) -> str:
        return "nothing was captured" if not self.seen else ""


class OfMetadata(CountingRule):
    name = "of_metadata"
    apis = frozenset({3})
    severity = Severity.HIGH


class OfNone(CountingRule):
    name = "of_none"
    apis = frozenset()
    severity = Severity.LOW


def test_rules_see_what_they_want_to_see() -> None:
    diagnosis = Diagnosis(unread(), lambda _: None, rules=[OfNone, CountingRule, OfMetadata])
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


CAPTURES = sorted(
    path for folder in ("findings", "groups", "captures") for path in (DATA.parent / folder).glob("*.pcap*")
)


def diagnosed(path: Path, *, by_columns: bool) -> tuple[Diagnosis, int]:
    """Diagnose a whole capture; also return the number of exchanges that the rules saw."""
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
    if by_columns:
        columns, indexes = ExchangeColumns(capture, reader.rows), np.arange(len(reader))
        return diagnosis, sum(1 for _ in diagnosis.add_all(reader, columns, indexes))
    for each in reader:
        diagnosis.add(each)
    return diagnosis, len(reader)


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_exchanges_that_decide_nothing_are_not_missed(path: Path) -> None:
    (mine, shown), (theirs, every) = (diagnosed(path, by_columns=way) for way in (True, False))
    assert shown <= every
    assert mine.findings() == theirs.findings()
    assert mine.blind() == theirs.blind()
    assert mine.incidents == theirs.incidents
    assert mine.intervened == theirs.intervened


class First(CountingRule):
    name = "first"

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.first(~rows.nothing)


class FailingRule(CountingRule):
    name = "failing"

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        raise KeyError("planted")


def test_a_rule_is_shown_what_decides_and_all_if_it_cannot_say() -> None:
    capture = open_capture(str(CAPTURES[0]))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, rules=[First, FailingRule])
    columns, indexes = ExchangeColumns(capture, reader.rows), np.arange(len(reader))
    shown = list(diagnosis.add_all(reader, columns, indexes))
    counts = {each.rule: each.count for each in diagnosis.findings()}
    assert all(each.interventions is UNTOUCHED for each in shown)
    assert counts == {"first": len(set(columns.flat("connection").tolist())), "failing": len(reader)}
    assert capture.faults
    assert {rule.name for rule in RULES}.isdisjoint(counts)
