"""What was read into a folder of tables: the notes that each run leaves there, ``_kproxy/run-*.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.meaning import words


@dataclass(frozen=True, slots=True)
class Input:
    """A capture file.

    :ivar size: in words; empty if it is not known
    """

    path: str
    size: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run that wrote tables.

    :ivar told: what is said of it, such as the version that wrote it
    :ivar missing: what it could not read, in words
    """

    number: int
    inputs: Sequence[Input]
    told: Sequence[str]
    missing: Sequence[str]


def runs_of(folder: Path) -> list[Run]:
    """Return the runs that left notes in a folder, in their order; notes that cannot be read are left out."""
    return [
        run for path in sorted((folder / "_kproxy").glob("run-*.json")) if (run := _run(path)) is not None
    ]


def _run(path: Path) -> Run | None:
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return Run(int(path.stem.partition("-")[2]), [], [], []) if isinstance(told, dict) else None


def _input(each: dict[str, Any]) -> Input:
    return Input(str(each["path"]), words.size(int(each["size"])))
