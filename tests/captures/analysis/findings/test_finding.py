"""Findings and their evidence."""

from __future__ import annotations

from captures.analysis.findings.finding import MOST_EVIDENCE, Occurrences, Severity
from captures.analysis.findings.rule import Threshold, Unit, times
from captures.analysis.findings.rules.rebalances import SlowPolls
from captures.json_objects import to_json
from tests.captures.analysis.findings.group_kit import made


def test_the_first_and_the_last_are_evidence() -> None:
    seen = Occurrences()
    assert not seen
    for number in range(1, 101):
        seen.note(number, 1_000 - number)
    assert (seen.count, seen.first, seen.last) == (100, 900, 999)
    assert seen.numbers == (*range(1, MOST_EVIDENCE), 100)


def test_what_is_only_shown_does_not_count() -> None:
    seen = Occurrences()
    seen.note(7, 10)
    seen.show(3)
    seen.show(7)
    assert (seen.count, seen.numbers) == (1, (3, 7))


def test_what_has_no_number_yet_counts_all_the_same() -> None:
    seen = Occurrences()
    seen.note(0, 10)
    assert (seen.count, seen.numbers) == (1, ())


def test_the_shape_of_json() -> None:
    rule = made(SlowPolls, limits={"slow_polls.held_up": 1_500.0})
    seen = Occurrences()
    seen.note(4, 1_000_000_000)
    shape = to_json(rule.finding("group a", "It is so.", "Do that.", seen, severity=Severity.LOW))
    assert shape == {
        "rule": "slow_polls",
        "severity": "low",
        "certainty": "observed",
        "subject": "group a",
        "sentence": "It is so.",
        "advice": "Do that.",
        "count": 1,
        "first": "1970-01-01T00:00:01.000000000Z",
        "last": "1970-01-01T00:00:01.000000000Z",
        "evidence": [4],
        "filter": None,
        "connections": [],
        "thresholds": {"slow_polls.held_up": "1.5s"},
        "because_of": None,
    }


def test_thresholds_have_units() -> None:
    shown = {unit: Threshold("name", 1, unit, "").shown(12_000) for unit in Unit}
    assert shown == {
        Unit.COUNT: "12,000",
        Unit.MS: "12s",
        Unit.BYTES: "12,000 B",
        Unit.PERCENT: "12,000%",
        Unit.A_SECOND: "12,000/s",
    }
    size = Threshold("name", 1, Unit.BYTES, "")
    assert [size.shown(value) for value in (0, 65_536, 3 << 20)] == ["0 B", "64 KiB", "3 MiB"]
    assert Threshold("name", 1, Unit.PERCENT, "").shown(12.5) == "12.5%"


def test_how_often() -> None:
    assert [times(count) for count in (1, 2, 3, 12_345)] == ["once", "twice", "3 times", "12,345 times"]
