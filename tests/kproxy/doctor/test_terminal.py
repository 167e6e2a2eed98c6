"""Colours are counted as in Rich, and missing capabilities of a terminal are reported."""

from __future__ import annotations

import io
import os
from types import SimpleNamespace

import pytest
from rich.console import Console

from kproxy.doctor import State, terminal
from kproxy.doctor.terminal_queries import Answers

_NAMES = {None: "", "standard": "16", "256": "256", "truecolor": "16 million"}


@pytest.mark.parametrize("colorterm", ["", "truecolor", "24bit", "yes"])
@pytest.mark.parametrize(
    "term",
    [
        "",
        "dumb",
        "unknown",
        "xterm",
        "xterm-256color",
        "xterm-16color",
        "xterm-kitty",
        "tmux-256color",
        "linux",
    ],
)
def test_colors_are_those_the_ui_draws_with(term: str, colorterm: str) -> None:
    environment = {"TERM": term, "COLORTERM": colorterm}
    console = Console(file=io.StringIO(), force_terminal=True, _environ=environment)
    assert terminal.number_of_colors(environment) == _NAMES[console.color_system]


def test_few_colors_are_told() -> None:
    assert terminal.colors({"TERM": "xterm-256color"}).state is State.OK
    assert terminal.colors({"TERM": "linux"}).command == "export COLORTERM=truecolor"
    without = terminal.colors({"TERM": "xterm-256color", "NO_COLOR": "1"})
    assert (without.state, without.command) == (State.LIMITED, "unset NO_COLOR")


@pytest.mark.parametrize(
    ("columns", "lines", "state"),
    [(80, 24, State.OK), (79, 24, State.LIMITED), (200, 23, State.LIMITED), (0, 0, State.LIMITED)],
)
def test_size(columns: int, lines: int, state: State) -> None:
    assert terminal.size(os.terminal_size((columns, lines))).state is state


def test_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", SimpleNamespace(encoding="utf-8"))
    assert terminal.characters(Answers(width=1)).state is State.OK
    assert terminal.characters(Answers()).state is State.OK
    assert terminal.characters(Answers(width=3)).state is State.LIMITED
    monkeypatch.setattr("sys.stdout", SimpleNamespace(encoding="ANSI_X3.4-1968"))
    assert terminal.characters(Answers(width=1)).command == "export LC_ALL=C.UTF-8"


def test_the_mouse() -> None:
    states = [terminal.mouse(Answers(mouse=each)).state for each in (True, False, None)]
    assert states == [State.OK, State.LIMITED, State.LIMITED]


def test_a_terminal_that_can_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.kind().state is State.LIMITED
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("TERM_PROGRAM", "WezTerm")
    assert terminal.kind().found == "xterm-256color (WezTerm)"


def test_without_a_terminal_there_is_nothing_else_to_tell() -> None:
    (check,) = terminal.checks()
    assert (check.name, check.state) == ("terminal", State.MISSING)
