"""``kproxy doctor``: what this installation can do, and the command that gets what is missing."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kproxy.cli.common import EXIT_UNREADABLE
from kproxy.cli.options import color_option
from kproxy.cli.printing import echo, echo_json, style
from kproxy.cli.reading import colored, terminal_width
from kproxy.cli.tables import GAP, INDENT

if TYPE_CHECKING:
    from kproxy.doctor import Check, Examination

_COLORS = {"ok": None, "limited": "yellow", "missing": "yellow", "broken": "red"}
_STATE_WIDTH = max(map(len, _COLORS))
_LEAST = 20  # columns that are worth wrapping to


@click.command(short_help="Show what this installation can do, and how to get the rest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/install.md).")
@color_option
def doctor(*, as_json: bool, color: str) -> None:
    """Show what this installation can do, and how to get what is missing.

    Looked at are the packages, the reading of a sample, the terminal, live capture and its privilege, the proxy, the
    ciphers of TLS, and Spark with its Java. What is missing or limited is told with what that means, and with
    the one command that changes it. Nothing is changed, and nothing is asked of the network.

    The exit code is 0 if nothing is broken: captures can be read, whatever else is missing. Else it is 1.
    """
    from kproxy.doctor import examine

    found = examine()
    if as_json:
        echo_json(shape(found))
    else:
        for line in lines(found, terminal_width(), color=colored(color)):
            echo(line)
    sys.exit(0 if found.works else EXIT_UNREADABLE)


def shape(found: Examination) -> dict[str, object]:
    """Return the object of ``--json``."""
    return {
        "kproxy": found.version,
        "python": found.python,
        "executable": found.executable,
        "system": found.system,
        "works": found.works,
        "checks": [
            {"area": area, **check.to_json()} for area, checks in found.areas.items() for check in checks
        ],
    }


def lines(found: Examination, width: int | None, *, color: bool) -> Iterator[str]:
    """Yield what was found for people, area by area.

    :param width: columns of the terminal, or None for a pipe, where nothing is wrapped
    """
    yield f"kproxy {found.version or '(not installed)'}, Python {found.python}, {found.system}"
    names = max(len(check.name) for check in found.checks)
    for area, checks in found.areas.items():
        yield ""
        yield style(area, bold=True) if color else area
        for check in checks:
            yield from _told(check, names, width, color=color)
    yield ""
    yield from _wrapped(conclusion(list(found.checks)), "", "", width)


def _told(check: Check, names: int, width: int | None, *, color: bool) -> Iterator[str]:
    state = check.state.value
    head = f"{INDENT}{check.name:<{names}}{GAP}{state:<{_STATE_WIDTH}}{GAP}"
    room = " " * len(head)
    first, *more = _wrapped(check.found, head, room, width)
    if color and (shade := _COLORS[state]):
        place = len(head) - len(GAP) - _STATE_WIDTH
        first = f"{first[:place]}{style(state, fg=shade)}{first[place + len(state) :]}"
    yield first
    yield from more
    if check.about:
        yield from _wrapped(f"{check.about}.", room, room, width)
    if check.command:
        # on one line, however long, so that it can be copied
        yield f"{room}{style(check.command, bold=True) if color else check.command}"


def _wrapped(text: str, first: str, room: str, width: int | None) -> list[str]:
    """Return a text in lines that fit: the first behind `first`, the others behind `room`."""
    if width is None or width < len(room) + _LEAST:
        return [f"{first}{text}"]
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=room,
        break_on_hyphens=False,
        break_long_words=False,
    )


def conclusion(checks: list[Check]) -> str:
    """Return the closing line."""
    broken = [check.name for check in checks if check.state == "broken"]
    if broken:
        return f"Broken: {', '.join(broken)}."
    less = [f"{check.name} ({check.state})" for check in checks if check.state != "ok"]
    return f"kproxy works. Not there or less than it could be: {', '.join(less)}." if less else "All works."
