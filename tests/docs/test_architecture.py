"""ARCHITECTURE.md is the map of the house: every room is on it, and everything on it is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
FLOORS = ("dissectors", "captures", "kproxy")
NAMED = set(re.findall(r"`([\w./]+)`", MAP))


def rooms() -> set[str]:
    """Return the folders with code below the floors, as the map writes them."""
    return {
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*.py")
        if path.parent.name not in FLOORS
    }


def test_every_room_is_on_the_map() -> None:
    inner = {
        room for room in rooms() if f"`{Path(room).name}/`" in MAP
    }  # named in the row of the room around it
    assert rooms() - inner - NAMED == set()


def test_all_that_is_on_the_map_is_there() -> None:
    rooted = {
        name for name in NAMED if name.split("/")[0] in (*FLOORS, "tests", "benchmarks", "fuzz", "docs")
    }
    assert {name for name in rooted if not (ROOT / name).exists()} == set()
    loose = {name for name in NAMED - rooted if name.endswith((".py", "/"))}
    files = {path.relative_to(ROOT).as_posix() for floor in FLOORS for path in (ROOT / floor).rglob("*.py")}
    files |= {room.rstrip("/") for room in rooms()}
    assert {
        name for name in loose if not any(f"/{each}".endswith(f"/{name.rstrip('/')}") for each in files)
    } == set()


def test_the_test_would_notice() -> None:
    assert "kproxy/proxy/rules/" in rooms()
    assert "captures/samples/" in NAMED  # data, no code
