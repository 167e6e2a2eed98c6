"""When commands open the terminal UI, and how. Where they do not, they print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.cli.config import current
from kproxy.cli.options import LiveOptions
from kproxy.output import notice, use_color

if TYPE_CHECKING:
    from captures.filters import Filter
    from kproxy.session import Session
    from kproxy.tui.run import Outcome

_KEYS = "/dev/tty"


def opens_ui(options: LiveOptions | None = None, *, printing: bool = False) -> bool:
    """Return whether a command opens the UI: on a terminal that can show it and has keys, unless it is to print.

    :param options: of a command that prints if asked to
    :param printing: whether it was asked for something else that is printed
    """
    if options is not None:
        printing |= options.no_ui or options.as_json or options.verbose or options.text
    if printing or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return sys.stdin.isatty() or os.access(_KEYS, os.R_OK)


def run_ui(
    session: Session,
    *,
    wanted: Filter | None = None,
    color: Any = "auto",
    control_socket: Path | None = None,
    controls: bool = True,
    recorder: Callable[[], None] | None = None,
    run_name: str = "",
    ends_proxy: bool = False,
) -> Outcome:
    """Show a session until the user leaves; returns how.

    :param wanted: what is shown first
    :param control_socket: of the proxy that the session is of
    :param controls: whether the UI may change what that proxy does
    :param recorder: lets a flight recorder of this process keep the moment
    :param run_name: by which the proxy is found again
    :param ends_proxy: whether the proxy ends with the UI, unless the user wants it otherwise
    """
    from kproxy.tui.run import run

    use_color("never")  # of texts that it shows
    with _terminal():
        outcome = run(
            session,
            wanted=wanted,
            configuration=current(),
            color=color,
            control_socket=control_socket,
            controls=controls,
            recorder=recorder,
            run_name=run_name,
            ends_proxy=ends_proxy,
        )
    for line in session.faults.lines():
        notice(line)
    return outcome


@contextmanager
def _terminal() -> Iterator[None]:
    """Have keys read from the terminal, and the UI drawn on it, while standard input or error is something else.

    Standard input may be a capture in a pipe; Textual draws on standard error.
    """
    with ExitStack() as stack:
        if not sys.stdin.isatty():
            keys = os.open(_KEYS, os.O_RDWR)
            stack.callback(os.close, keys)
            stack.enter_context(_replaced(0, keys))
        if not sys.stderr.isatty():
            stack.enter_context(_replaced(2, 1))
        yield


@contextmanager
def _replaced(fd: int, by: int) -> Iterator[None]:
    before = os.dup(fd)
    try:
        os.dup2(by, fd)
        yield
    finally:
        os.dup2(before, fd)
        os.close(before)
