"""The executions of each target so far, by state of the code: ``fuzz/record.json``.

The table in docs/fuzzing.md is made from it (:func:`table`). ``--record`` adds a run to it.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fuzz.target import HERE, NAMES

RECORD = HERE / "record.json"

GOALS = dict.fromkeys(("pcap", "tcp", "commands"), 500_000) | {
    "analyses": 100_000,
    "frames": 250_000,
    "records": 1_500_000,
    "decompression": 2_500_000,
    "embedded": 1_400_000,
    "conversation": 350_000,
    "rewriting": 1_600_000,
    "pcapng": 150_000,
    "tls": 350_000,
    "filters": 300_000,
    "request_log": 100_000,
}
"""Executions that each target is to have: ten million together."""

_FUZZED = ("dissectors", "captures", "kproxy")

Record = dict[str, dict[str, Any]]
"""By target: ``edges`` that inputs reach, and ``states``: executions by state of the code and by kind of run."""


def load(path: Path = RECORD) -> Record:
    """Return the record; empty if there is none."""
    if not path.exists():
        return {}
    found: Record = json.loads(path.read_text(encoding="utf-8"))
    return found


def add(name: str, state: str, kind: str, executions: int, edges: int = 0, path: Path = RECORD) -> None:
    """Add the executions of a run; several processes may do so at the same time.

    :param state: state of the code: :func:`state`
    :param kind: ``guided`` by coverage, or ``plain``
    """
    with _held(path):
        record = load(path)
        target = record.setdefault(name, {"edges": 0, "states": {}})
        target["edges"] = max(target["edges"], edges)
        runs = target["states"].setdefault(state, {})
        runs[kind] = runs.get(kind, 0) + executions
        order = [each for each in NAMES if each in record]
        text = json.dumps({each: record[each] for each in order}, indent=2)
        other = path.with_suffix(".new")
        other.write_text(text + "\n", encoding="utf-8")
        other.replace(path)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def executions(record: Record, name: str, kind: str | None = None) -> int:
    """Return the executions of a target, of one kind or of both."""
    states = record.get(name, {}).get("states", {})
    return sum(count for runs in states.values() for each, count in runs.items() if kind in (None, each))


def state() -> str:
    """Return the state of the fuzzed code: the last commit that changed it, with a plus if files differ."""
    code = ("--", *_FUZZED)
    commit = _git("log", "-1", "--format=%h", "--abbrev=7", *code)
    return f"{commit}{'+' * bool(_git('status', '--porcelain', *code))}" or "unknown"


def _git(*arguments: str) -> str:
    said = subprocess.run(("git", *arguments), cwd=HERE.parent, capture_output=True, text=True, check=False)
    return said.stdout.strip()


def behind(record: Record) -> list[str]:
    """Return the targets below their goals, the furthest from its goal first."""
    done = {name: executions(record, name) / GOALS[name] for name in NAMES}
    return sorted((name for name in NAMES if done[name] < 1), key=done.__getitem__)


def table(record: Record) -> str:
    """Return the table of docs/fuzzing.md."""
    lines = [
        "| target | executions | guided by coverage | plain | edges reached |",
        "|---|---:|---:|---:|---:|",
    ]
    total = {"guided": 0, "plain": 0}
    for name in NAMES:
        counts = {kind: executions(record, name, kind) for kind in total}
        for kind, count in counts.items():
            total[kind] += count
        edges = record.get(name, {}).get("edges", 0)
        lines.append(
            f"| `{name}` | {sum(counts.values()):,} | {counts['guided']:,} | {counts['plain']:,} | {edges:,} |"
        )
    lines.append(f"| all | {sum(total.values()):,} | {total['guided']:,} | {total['plain']:,} | |")
    return "\n".join(lines) + "\n"


def states(record: Record) -> str:
    """Return the table in docs/fuzzing.md with the executions by state of the code."""
    found = Counter[str]()
    for target in record.values():
        found.update({state: sum(runs.values()) for state, runs in target["states"].items()})
    rows = "".join(f"| {state} | {count:,} |\n" for state, count in found.most_common())
    return "| state of the code | executions |\n|---|---:|\n" + rows
