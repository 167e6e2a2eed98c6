"""When and how commands open the terminal UI. Otherwise they print."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Unpack

import click

from kproxy.addresses import Address
from kproxy.cli.config import current
from kproxy.cli.options import LiveOptions
from kproxy.output import dumb_terminal, notice, use_color

if TYPE_CHECKING:
    from captures.live.capture import GrowingCapture
    from kproxy.cli.live_output import LiveOutput
    from kproxy.session import Session
    from kproxy.tui.run import Outcome, RunOptions

_KEYS = "/dev/tty"
_DRIVER, _BROWSER = "TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver"
"""The variable that selects Textual's driver, and its value under textual-serve."""


def opens_ui(options: LiveOptions | None = None, *, printing: bool = False) -> bool:
    """Return whether a command opens the UI: on a terminal that can show it and has a keyboard, unless it is to print.

    :param options: of a command with options for printing
    :param printing: whether other options ask for printed output
    """
    if options is not None:
        printing |= options.no_ui or options.as_json or options.verbose or options.text
    if _in_browser():
        return True
    if printing or not sys.stdout.isatty() or dumb_terminal():
        return False
    return sys.stdin.isatty() or os.access(_KEYS, os.R_OK)


def _in_browser() -> bool:
    """Return whether this process draws on a page of :func:`serve_ui`, to which its pipes lead."""
    return os.environ.get(_DRIVER) == _BROWSER


def serve_ui(arguments: Sequence[str], *, title: str, listen: Address, guarded: bool = True) -> None:
    """Show the UI in browsers until a signal ends it.

    :param arguments: arguments of kproxy for each page
    :param guarded: whether a page needs the token
    :raises OSError: if the address cannot be listened on
    :raises click.ClickException: if the server is not installed
    """
    try:
        from kproxy.browser import Browsers
    except ImportError:
        raise click.ClickException(
            "the UI in a browser needs more packages: pip install 'kproxy[web]'"
        ) from None
    Browsers(arguments, title=f"kproxy: {title}", listen=listen, guarded=guarded).serve()


@contextmanager
def pages_beside(arguments: Sequence[str]) -> Iterator[None]:
    """Run another process that serves pages meanwhile, and print its notices.

    :param arguments: arguments of kproxy in that process
    """
    try:
        process = subprocess.Popen(  # noqa: S603  # kproxy itself
            [sys.executable, "-P", "-m", "kproxy", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process
        )
    except OSError as error:  # sniff has dropped its privileges, and Python may be in a folder of root's
        notice(f"no pages for browsers: {sys.executable} cannot be started here: {error.strerror}")
        yield
        return
    assert process.stderr is not None
    pipe = process.stderr

    def listen() -> None:
        for line in pipe:
            notice(line.rstrip().removeprefix("kproxy: "))

    listener = Thread(target=listen, name="pages", daemon=True)
    listener.start()
    try:
        yield
    finally:
        process.terminate()
        listener.join()
        process.wait()


def run_ui(session: Session, **options: Unpack[RunOptions]) -> Outcome:
    """Show a session until the user leaves; return how."""
    session.start()  # reads while the UI is imported, which takes half a second
    from kproxy.tui.run import run

    use_color("never")  # for texts that the UI shows
    with _terminal():
        outcome = run(session, current(), **options)
    for line in session.faults.lines():
        notice(line)
    return outcome


def show_live(
    output: LiveOutput, capture: GrowingCapture, title: str, **options: Unpack[RunOptions]
) -> Outcome:
    """Show a growing capture until the user leaves; return how.

    :param output: observes all exchanges; its flight recorder can be asked to keep the moment
    """
    session = output.showing.session(capture, title)
    output.observe(session)
    options["wanted"], options["color"] = output.wanted, output.showing.chosen_color
    options["recorder"] = None if output.recorder is None else output.keep_now
    outcome = run_ui(session, **options)
    output.conclude_spans()
    return outcome


@contextmanager
def _terminal() -> Iterator[None]:
    """Connect the UI to the terminal for keys and drawing, even if standard input or standard error is redirected.

    Standard input may be a capture in a pipe; Textual draws on standard error.
    """
    if _in_browser():
        yield
        return
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
