"""ARCHITECTURE.md describes every folder, and everything named in it and in the recipes exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
FLOORS = ("dissectors", "captures", "kproxy")
TOP = (*FLOORS, "tests", "benchmarks", "fuzz", "docs")


@cache
def named(page: str) -> set[str]:
    """Return the paths and other code words on a page."""
    return set(re.findall(r"`([\w./]+)`", (ROOT / f"{page}.md").read_text(encoding="utf-8")))


@cache
def files() -> set[str]:
    return {path.relative_to(ROOT).as_posix() for floor in FLOORS for path in (ROOT / floor).rglob("*.py")}


@cache
def rooms() -> set[str]:
    """Return the folders with code below the top-level packages, as the page writes them."""
    return {f"{Path(file).parent.as_posix()}/" for file in files()} - {f"{floor}/" for floor in FLOORS}


def test_every_room_is_on_the_map() -> None:
    on_the_map = named("ARCHITECTURE")
    # a folder named in the row of its parent stands there without the parent's path
    inner = {room for room in rooms() if f"{Path(room).name}/" in on_the_map}
    assert rooms() - inner - on_the_map == set()


@pytest.mark.parametrize("page", ["ARCHITECTURE", "CONTRIBUTING"])
def test_all_that_is_named_is_there(page: str) -> None:
    rooted = {name for name in named(page) if name.split("/")[0] in TOP or name.endswith(".md")}
    assert {name for name in rooted if not (ROOT / name).exists()} == set()
    known = files() | {room.rstrip("/") for room in rooms()}
    loose = {name.rstrip("/") for name in named(page) - rooted if name.endswith((".py", "/"))}
    assert {name for name in loose if not any(f"/{each}".endswith(f"/{name}") for each in known)} == set()


def test_paths_are_found() -> None:
    assert "kproxy/proxy/rules/" in rooms()
    assert {"captures/samples/", "bulk.py", "dissectors/apis/"} <= named("ARCHITECTURE")
