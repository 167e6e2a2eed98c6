"""The page on security: each promise names tests that there are; its figures are those that were measured."""

from __future__ import annotations

import ast
import copy
import re
from functools import cache
from typing import Any

import pytest

from docs.build import DOCS
from docs.tools import security
from tests.lanes.hostile.collection import ATTACKS
from tests.lanes.hostile.gate import COMMANDS

ROOT = DOCS.parent
TEXT = (DOCS / security.PAGE).read_text()
_PROMISES = TEXT.partition("## What is promised")[2].partition("\n## ")[0]
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


def book() -> dict[str, Any]:
    return copy.deepcopy(security.load())


def test_the_whole_collection_was_measured() -> None:
    files = book()["files"]
    assert files["files"].keys() == {attack.name + attack.suffix for attack in ATTACKS.values()}
    assert files["commands"] == len(COMMANDS)
    assert {name: each["about"] for name, each in files["files"].items()} == {
        attack.name + attack.suffix: attack.about for attack in ATTACKS.values()
    }


def test_what_failed_is_told() -> None:
    told = book()
    some = next(iter(told["files"]["files"].values()))
    for each in told["files"]["files"].values():
        each["failed"] = []
    assert "none of which failed" in security.tables(told)["files"]
    some["failed"] = [["stats", "over 30 s of the processor"]]
    table = security.tables(told)["files"]
    assert "1 of which failed" in table
    assert "| stats | over 30 s of the processor |" in table


def test_a_reader_that_was_ended_is_told() -> None:
    told = book()
    name, some = next(iter(told["files"]["files"].items()))
    some["tshark"] = {"seconds": 60.2, "memory": 1 << 30, "code": 137}
    [row] = [line for line in security.tables(told)["files"].splitlines() if line.startswith(f"| `{name}` ")]
    assert "ended after 60 s, 1,024" in row


def test_a_part_replaces_its_own_alone(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "RESULTS", tmp_path / "hostile.json")
    security.write("live", {"attacks": []})
    security.write("files", {"files": {}})
    security.write("live", {"attacks": [1]})
    assert security.load() == {"files": {"files": {}}, "live": {"attacks": [1]}}
