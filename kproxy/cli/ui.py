"""When commands open the terminal UI, and how. Where they do not, they print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.notices import notice

if TYPE_CHECKING:
    from captures.filters import Filter
    from kproxy.tui.live.link import Link
    from kproxy.tui.run import Outcome
    from kproxy.tui.session import Session

_KEYS = "/dev/tty"

no_ui_option = click.option("--no-ui", is_flag=True, help="Print exchanges, also on a terminal.")

config_option = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings of the UI. Default: $XDG_CONFIG_HOME/kproxy/config.toml.",
)


def opens_ui(*, no_ui: bool = False, printing: bool = False) -> bool:
    """Tell whether a command opens the UI: on a terminal that can show it and has keys, unless it is to print.

    :param printing: whether it was asked for something that is printed
    """
    if no_ui or printing or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return sys.stdin.isatty() or os.access(_KEYS, os.R_OK)


def run_ui(
    session: Session,
    *,
    wanted: Filter | None = None,
    config: Path | None = None,
    color: Any = "auto",
    link: Link | None = None,
    recorder: Callable[[], None] | None = None,
    run_name: str = "",
    ends_proxy: bool = False,
) -> Outcome:
    """Show a session until the user leaves; returns how.

    :param wanted: what is shown first
    :param link: to the proxy that the session is of
    :param recorder: lets a flight recorder of this process keep the moment
    :param run_name: by which the proxy is found again
    :param ends_proxy: whether the proxy ends with the UI, unless the user wants it otherwise
    """
    from kproxy.tui.run import run

    with _terminal():
        outcome = run(
            session,
            wanted=wanted,
            config=config,
            color=color,
            link=link,
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


def printing_options(options: dict[str, Any]) -> bool:
    """Tell whether options of a command ask for something that is printed."""
    return any(options.get(name) for name in ("as_json", "verbose", "quiet", "count", "text"))
