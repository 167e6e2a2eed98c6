"""When commands open the terminal UI, and how. Where they do not, they print."""

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
    from kproxy.session import Session
    from kproxy.tui.run import Outcome, RunOptions

_KEYS = "/dev/tty"
_DRIVER, _BROWSER = "TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver"
"""The variable that tells Textual what to draw on, and what textual-serve sets it to."""


def opens_ui(options: LiveOptions | None = None, *, printing: bool = False) -> bool:
    """Return whether a command opens the UI: on a terminal that can show it and has keys, unless it is to print.

    :param options: of a command that prints if asked to
    :param printing: whether it was asked for something else that is printed
    """
    if options is not None:
        printing |= options.no_ui or options.as_json or options.verbose or options.text
    if _in_browser():
        return True
    if printing or not sys.stdout.isatty() or dumb_terminal():
        return False
    return sys.stdin.isatty() or os.access(_KEYS, os.R_OK)


def _in_browser() -> bool:
    """Return whether this process draws on a page of :func:`serve_ui`, which is at the other end of its pipes."""
    return os.environ.get(_DRIVER) == _BROWSER


def serve_ui(arguments: Sequence[str], *, title: str, listen: Address, guarded: bool = True) -> None:
    """Show the UI in browsers until a signal ends it.

    :param arguments: what kproxy is called with, for each page
    :param guarded: whether a page needs the token
    :raises OSError: if the address cannot be had
    :raises click.ClickException: if what serves is not installed
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
    """Have another process serve pages meanwhile; what it says is said here.

    :param arguments: what kproxy is called with there
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
    except OSError as error:  # sniff has given up its privileges, and Python may be in a folder of root's
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
    """Show a session until the user leaves; returns how."""
    from kproxy.tui.run import run

    use_color("never")  # of texts that it shows
    with _terminal():
        outcome = run(session, current(), **options)
    for line in session.faults.lines():
        notice(line)
    return outcome


@contextmanager
def _terminal() -> Iterator[None]:
    """Have keys read from the terminal, and the UI drawn on it, while standard input or error is something else.

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
