"""The page on security: each promise names existing tests, and its figures are the measured ones."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

import pytest

from docs.build import DOCS
from docs.tools import security
from tests.lanes.hostile.collection import ATTACKS

ROOT = DOCS.parent
TEXT = (DOCS / security.PAGE).read_text()
_PROMISES = TEXT.partition("## Guarantees")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in _PROMISES.splitlines()
    if line.startswith("| ") and not line.startswith("| promise")
]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, defined))


@pytest.mark.parametrize(("promise", "tests"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_promise_has_tests_that_there_are(promise: str, tests: str) -> None:
    named = _TEST.findall(tests)
    assert named, promise
    for path, name in named:
        assert name in functions(path), f"{path} has no {name}"


def test_promises_are_found() -> None:
    assert len(ROWS) > 20
    assert all(len(row) == 2 for row in ROWS)


def took(seconds: float, memory: int, code: int = 0) -> dict[str, float]:
    return {"seconds": seconds, "memory": memory << 20, "code": code}


def book(*failed: list[str], tshark: dict[str, float] | None = None) -> dict[str, Any]:
    """Return the output of both lanes."""
    measured = {
        "began": "2026-11-23T03:00:00Z",
        "load": 0.5,
        "command": "python -m tests.lanes.hostile --write",
        "commit": "0123456789ab",
        "machine": {"cores": "2", "processor": "Some CPU", "Python": "CPython 3.11.7"},
    }
    read = {
        "about": "what it attacks",
        "bytes": 3_700_000,
        "kproxy": took(0.8, 90),
        "tshark": tshark or took(0.14, 162),
    }
    run = {"slowest": [2.5, "diff"], "largest": [300 << 20, "tables, report"], "failed": list(failed)}
    gate = {"scale": 1.0, "bounds": {"seconds": 30, "memory": 1 << 30}, "commands": 42}
    attack = {
        "name": "a rule",
        "about": "a|b",
        "waited": 0.5,
        "without": 0.25,
        "memory": 60,
        "ports": 2,
        "failed": "",
    }
    return {
        "readers": measured | {"tshark": "4.0.17", "patience": 60, "files": {"overlaps.pcap": read}},
        "gate": measured | gate | {"files": {"overlaps.pcap": run}},
        "live": measured | {"attacks": [attack]},
    }


def test_figures() -> None:
    told = security.tables(book())
    assert "| `overlaps.pcap` | what it attacks | 3.7 | 0.80, 90 | 0.14, 162 |" in told["readers"]
    assert "| `overlaps.pcap` | 2.5 (diff) | 300 (tables, report) |" in told["gate"]
    assert (
        "1 files in full size, 42 commands on each: 42 runs, each limited to 30 s of processor time"
        in told["gate"]
    )
    assert "1,024 MiB. None of them failed" in told["gate"]
    assert "| a rule | a\\|b | 500 | 250 | 60 | 2 |" in told["live"]


def test_what_failed_is_told() -> None:
    table = security.tables(book(["stats", "over 30 s of the processor"]))["gate"]
    assert "1 of them failed" in table
    assert "| `overlaps.pcap` | stats | over 30 s of the processor |" in table


def test_a_reader_that_was_ended_is_told() -> None:
    table = security.tables(book(tshark=took(60.2, 1024, 137)))["readers"]
    assert "| ended after 60 s, 1,024 |" in table


def test_what_was_not_measured_is_told() -> None:
    assert set(security.tables({}).values()) == {"Not measured yet."}


def test_files_that_were_measured_are_those_of_the_collection() -> None:
    measured = security.load()
    there = {attack.path(DOCS).name: attack.about for attack in ATTACKS.values()}
    about = {name: file["about"] for name, file in measured["readers"]["files"].items()}
    assert about.items() <= there.items()  # a run may be limited to some files
    assert measured["gate"]["files"].keys() <= there.keys()


def test_a_part_replaces_its_own_alone(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "RESULTS", tmp_path / "hostile.json")
    security.write("live", {"attacks": []})
    gate = {"commit": "one", "machine": {"processor": "this"}, "files": {}}
    security.write("gate", gate)
    security.write("live", {"attacks": [1]})
    assert security.load() == {"gate": gate, "live": {"attacks": [1]}}


@pytest.mark.parametrize(("seconds", "kept"), [(30, {"a", "b"}), (60, {"a"})])
def test_files_that_were_not_measured_again_stay_if_bounds_are_the_same(
    seconds: int, kept: set[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "RESULTS", tmp_path / "hostile.json")
    first = {"commit": "one", "machine": {"processor": "this"}, "seconds": 30}
    again = {"commit": "two", "machine": {"processor": "that"}, "seconds": seconds}
    security.write("gate", first | {"files": {"a": {"most": 1}, "b": {"most": 2}}})
    security.write("gate", again | {"files": {"a": {"most": 3}}})
    files = security.load()["gate"]["files"]
    assert files.keys() == kept
    assert files["a"] == {"most": 3, "commit": "two", "processor": "that"}
    assert files.get("b", {"commit": "one", "processor": "this"}).items() >= {
        ("commit", "one"),
        ("processor", "this"),
    }
