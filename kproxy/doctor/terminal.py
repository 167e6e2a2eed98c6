"""The terminal: its type, size, colours, characters and mouse.

Colours are derived from the environment, by the rules of Rich, which the UI draws with. The terminal itself is asked
whether it shows UTF-8 and reports the mouse (:mod:`kproxy.doctor.terminal_queries`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from kproxy.doctor.examination import Check, State
from kproxy.doctor.terminal_queries import Answers, ask

_TERMINAL = "/dev/tty"
_LEAST = (80, 24)  # docs/ui.md
_COLORS = {"truecolor": "16 million", "256color": "256", "kitty": "256", "16color": "16"}
_PALETTES = ("16 million", "256")


def checks() -> Iterator[Check]:
    """Check the terminal that the UI would open on."""
    with _opened() as terminal:
        if terminal is None:
            about = "The terminal UI opens on a terminal; without one kproxy prints"
            yield Check("terminal", State.MISSING, "none", about)
            return
        yield kind()
        yield size(os.get_terminal_size(terminal))
        yield colors(os.environ)
        answers = ask(terminal)
        yield characters(answers)
        yield mouse(answers)


@contextmanager
def _opened() -> Iterator[int | None]:
    """Open the terminal of this process, even if standard input and output are redirected."""
    terminal = None
    with suppress(OSError):
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
    try:
        yield terminal
    finally:
        if terminal is not None:
            os.close(terminal)


def kind() -> Check:
    """Check whether the UI opens on it."""
    name = os.environ.get("TERM", "")
    program = os.environ.get("TERM_PROGRAM", "")
    found = f"{name or 'TERM is not set'}{f' ({program})' if program else ''}"
    if name in ("", "dumb"):
        about = "The terminal UI does not open, kproxy prints instead"
        return Check("terminal", State.LIMITED, found, about, "export TERM=xterm-256color")
    return Check("terminal", State.OK, found)


def size(have: os.terminal_size) -> Check:
    """Check whether the UI fits."""
    if not have.columns or not have.lines:
        return Check(
            "size", State.LIMITED, "the terminal does not report it", "80 columns and 24 lines are assumed"
        )
    found = f"{have.columns} columns, {have.lines} lines"
    columns, lines = _LEAST
    if have.columns < columns or have.lines < lines:
        about = f"The terminal UI needs {columns} columns and {lines} lines to show everything"
        return Check("size", State.LIMITED, found, about)
    return Check("size", State.OK, found)


def number_of_colors(environment: Mapping[str, str]) -> str:
    """Return how many colours the environment indicates, as Rich's ``Console`` reads it; empty for none."""
    term = environment.get("TERM", "").strip().lower()
    if term in ("dumb", "unknown"):
        return ""
    if environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return _COLORS["truecolor"]
    return _COLORS.get(term.rpartition("-")[2], "16")


def colors(environment: Mapping[str, str]) -> Check:
    """Check how many colours there are."""
    number = number_of_colors(environment)
    if environment.get("NO_COLOR"):
        return Check("colours", State.LIMITED, "none", "NO_COLOR is set", "unset NO_COLOR")
    if number in _PALETTES:
        return Check("colours", State.OK, number)
    about = "Themes are drawn with the nearest of these; most terminals have more than TERM says"
    return Check("colours", State.LIMITED, number or "none", about, "export COLORTERM=truecolor")


def characters(answers: Answers) -> Check:
    """Check whether characters beyond ASCII are written and shown."""
    name = "characters"
    encoding = sys.stdout.encoding or "none"
    command = "export LC_ALL=C.UTF-8"
    if encoding.lower().replace("-", "") != "utf8":
        about = "Lines, arrows and names beyond ASCII cannot be written"
        return Check(name, State.LIMITED, encoding, about, command)
    if answers.width not in (None, 1):
        about = f"The terminal takes one UTF-8 character for {answers.width}: it is set to another encoding"
        return Check(name, State.LIMITED, encoding, about)
    return Check(name, State.OK, "UTF-8" if answers.width else "UTF-8 (the terminal does not say)")


def mouse(answers: Answers) -> Check:
    """Check whether the terminal reports the mouse."""
    if answers.mouse:
        return Check("mouse", State.OK, "reported")
    found = "not known to the terminal" if answers.mouse is False else "the terminal does not say"
    about = "All can be done with keys; the mouse may work all the same"
    return Check("mouse", State.LIMITED, found, about)
