"""Runs are recorded, and docs/fuzzing.md matches the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import __main__ as command
from fuzz import record
from fuzz.engine import Outcome
from fuzz.target import NAMES

DOCS = Path(__file__).parents[2] / "docs" / "fuzzing.md"


def test_docs_have_the_tables_of_the_record() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert record.table(record.load()) in text, record.table(record.load())
    assert record.states(record.load()) in text, record.states(record.load())


def test_goals_are_ten_million_executions_of_all_targets() -> None:
    assert set(record.GOALS) == set(NAMES)
    assert sum(record.GOALS.values()) >= 10_000_000
    assert min(record.GOALS[name] for name in ("pcap", "tcp", "commands")) >= 500_000


def test_runs_are_added(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    record.add("tls", "abc", "plain", 100, 0, path)
    record.add("tls", "abc", "plain", 20, 0, path)
    record.add("tls", "abc", "guided", 3, 700, path)
    record.add("tls", "def", "guided", 4, 650, path)
    record.add("frames", "def", "guided", 5, 9, path)
    found = record.load(path)
    assert list(found) == ["frames", "tls"]
    assert found["tls"] == {
        "edges": 700,
        "states": {"abc": {"plain": 120, "guided": 3}, "def": {"guided": 4}},
    }
    assert (record.executions(found, "tls"), record.executions(found, "tls", "guided")) == (127, 7)
    assert "| `tls` | 127 | 7 | 120 | 700 |\n" in record.table(found)
    assert "| all | 132 | 12 | 120 | |\n" in record.table(found)
    assert "| abc | 123 |\n| def | 9 |\n" in record.states(found)


def test_who_is_furthest_from_the_goal_comes_first() -> None:
    done = {name: {"edges": 0, "states": {"abc": {"plain": goal}}} for name, goal in record.GOALS.items()}
    done["tcp"]["states"] = {"abc": {"plain": 400_000}}  # type: ignore[index]
    done["tls"]["states"] = {}  # type: ignore[index]
    assert record.behind(done) == ["tls", "tcp"]


def test_a_campaign_goes_on_after_cases_and_ends_at_the_goals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, bool]] = []

    def fuzz(name: str, work: Path, *, plain: bool, **_: object) -> Outcome:
        ran.append((name, plain))
        return Outcome(name, executions=record.GOALS[name] // 2 + 1, after=5, cases=[Path("crash")])

    monkeypatch.setattr(command, "fuzz", fuzz)
    path = tmp_path / "record.json"
    arguments = ["all", "--campaign", "600", "--record", str(path), "--state", "abc"]
    assert command.main([*arguments, "--corpus", str(tmp_path)]) == 1
    assert sorted(name for name, _ in ran) == sorted([*NAMES, *NAMES])
    assert {plain for _, plain in ran} == {True, False}
    assert record.behind(record.load(path)) == []
    assert "again: python -m fuzz tls crash" in capsys.readouterr().out


def test_the_state_is_of_the_code_that_is_fuzzed() -> None:
    found = record.state()
    assert len(found.rstrip("+")) >= 7 or found == "unknown"
