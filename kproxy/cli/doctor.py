"""``kproxy doctor``: what this installation can do, and the commands that install what is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kproxy.cli.command import command, option, options
from kproxy.cli.common import EXIT_UNREADABLE
from kproxy.cli.config import current, problems
from kproxy.cli.options import ColorOption
from kproxy.output import echo, echo_json, style, terminal_width
from kproxy.text.blocks import GAP, INDENT, wrapped

if TYPE_CHECKING:
    from kproxy.doctor import Check, Examination

_COLORS = {"ok": None, "limited": "yellow", "missing": "yellow", "broken": "red"}
_STATE_WIDTH = max(map(len, _COLORS))


@options
class DoctorOptions(ColorOption):
    """Options of ``kproxy doctor``."""

    as_json: bool = option("--json", help="Print one JSON object (docs/install.md).")


@command(DoctorOptions, short_help="Show what this installation can do, and how to get the rest.")
def doctor(options: DoctorOptions) -> None:
    """Show what this installation can do, and how to get what is missing.

    It checks the packages, reads a sample, and tests the terminal, live capture and its privilege, the proxy, the TLS
    ciphers, and Spark with its Java. For anything missing or limited it says what that means, and which command fixes
    it. It changes nothing and does not use the network.

    The exit code is 0 if captures can be read, even if optional parts are missing, else 1.
    """
    from kproxy.doctor import examine
    from kproxy.doctor.examination import check_of

    found = examine()
    configuration = current()
    file = str(configuration.path or "no configuration file")
    found.areas.setdefault("configuration", []).append(
        check_of("options", file, list(problems(configuration)))
    )
    if options.as_json:
        from kproxy.cli.results import DoctorResult

        echo_json(DoctorResult(found))
    else:
        for line in lines(found, terminal_width()):
            echo(line)
    sys.exit(0 if found.works else EXIT_UNREADABLE)


def lines(found: Examination, width: int | None) -> Iterator[str]:
    """Yield the results for people, area by area.

    :param width: columns of the terminal, or None for a pipe, where nothing is wrapped
    """
    yield f"kproxy {found.version or '(not installed)'}, Python {found.python}, {found.system}"
    names = max(len(check.name) for check in found.checks)
    for area, checks in found.areas.items():
        yield ""
        yield style(area, bold=True)
        for check in checks:
            yield from _lines(check, names, width)
    yield ""
    yield from wrapped(conclusion(list(found.checks)), width)


def _lines(check: Check, names: int, width: int | None) -> Iterator[str]:
    state = check.state.value
    head = f"{INDENT}{check.name:<{names}}{GAP}{state:<{_STATE_WIDTH}}{GAP}"
    room = " " * len(head)
    first, *more = wrapped(check.found, width, room, first=head)
    index = len(head) - len(GAP) - _STATE_WIDTH
    yield f"{first[:index]}{style(state, fg=_COLORS[state])}{first[index + len(state) :]}"
    yield from more
    if check.about:
        yield from wrapped(f"{check.about}.", width, room)
    if check.command:
        # on one line, however long, so that it can be copied
        yield f"{room}{style(check.command, bold=True)}"


def conclusion(checks: list[Check]) -> str:
    """Return the closing line."""
    broken = [check.name for check in checks if check.state == "broken"]
    if broken:
        return f"Broken: {', '.join(broken)}."
    less = [f"{check.name} ({check.state})" for check in checks if check.state != "ok"]
    return f"kproxy works. Not there or less than it could be: {', '.join(less)}." if less else "All works."
