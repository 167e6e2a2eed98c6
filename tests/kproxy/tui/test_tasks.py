"""The tasks of docs/ui.md, with the documented keys, in a real terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kproxy.cli.terminal import Terminal
from tests.kproxy.tui.kit import REBALANCE

UI = Path(__file__).parents[3] / "docs" / "ui.md"
KEYS = {"enter": "\r", "tab": "\t", "left": "\x1b[D"}
FETCHES = ("-Y", "api == Fetch")
SHOWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "The slowest Fetch, and why": (
        (),
        ("left out: 67", "API Fetch: latency", "excess 85.7 ms"),
    ),
    "Who caused the rebalance three before the last": (
        (),
        ("The group has no members left", "", "", "", "trigger      session_timeout"),
    ),
    "The first error, and what the client did next": ((), ("Heartbeat again: ok",)),
    "The bytes of a field": ((), ("unfold", "response.header")),
    "The value of a record as text": ((), ('"n": 0',)),
    "Write what is shown to a file": ((), ("write exchanges to a file", "402 exchanges written")),
    "Follow a record through the cluster": ((), ('"n": 0', "acknowledged")),
    "Compare two responses": (FETCHES, ("1 marked", "2 marked", "session_id")),
}
"""By task: further arguments, and the text on the screen after each key; empty texts are not waited for."""


def tasks() -> dict[str, list[str]]:
    """Return the keys of each task in the documentation."""
    section = UI.read_text().partition("\n## Tasks\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ((?:`[^`|]+` ?)+) \| ", section, re.MULTILINE)
    return {task.strip(): re.findall(r"`([^`]+)`", keys) for task, keys in rows}


def test_every_task_of_the_documentation_is_tried() -> None:
    assert {task: len(keys) for task, keys in tasks().items()} == {
        task: len(shown) for task, (_, shown) in SHOWN.items()
    }


@pytest.mark.turns(1)
@pytest.mark.slow
@pytest.mark.parametrize("task", SHOWN)
def test_the_keys_of_a_task_lead_there(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, shown = SHOWN[task]
    monkeypatch.chdir(tmp_path)
    with Terminal(["open", str(REBALANCE), *arguments], tmp_path, size=(150, 45)) as terminal:
        terminal.shows("402 exchanges")
        terminal.shows("✓ ok")
        terminal.shows("response")
        for key, text in zip(tasks()[task], shown, strict=True):
            terminal.type(KEYS.get(key, key))
            terminal.shows(text)
