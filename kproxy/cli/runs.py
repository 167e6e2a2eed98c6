"""The running proxy that a command refers to, and errors from controlling it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from kproxy.cli.command import option, options
from kproxy.cli.common import EXIT_UNREADABLE
from kproxy.output import echo, echo_error

if TYPE_CHECKING:
    from kproxy.proxy.run_folder import Run


def _complete(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
    from kproxy.proxy.run_folder import running

    return [
        CompletionItem(name, help=run.listen)
        for run in running()
        for name in (str(run.port), run.name)
        if name.startswith(text)
    ]


@options
class RunOption:
    """Selects a running proxy."""

    run_name: str | None = option(
        "--run",
        metavar="RUN",
        shell_complete=_complete,
        help="Select the proxy by port, process ID or run folder. Not needed if only one runs.",
    )


def the_run(name: str | None) -> Run:
    """Return the running proxy that the user refers to.

    :param name: value of ``--run``
    :raises click.UsageError: if several match, with a list of them
    :raises SystemExit: if none does
    """
    from kproxy.proxy.run_folder import find, running

    runs = running() if name is None else find(name)
    if len(runs) == 1:
        return runs[0]
    if not runs:
        what = "no proxy of yours is running: kproxy proxy starts one" if name is None else _unknown(name)
        echo(f"kproxy: {what}", err=True)
        sys.exit(EXIT_UNREADABLE)
    listed = "\n".join(f"  --run {run.port or run.pid}  {_about(run)}" for run in runs)
    raise click.UsageError(f"several proxies are running; select one with --run:\n{listed}")


def _unknown(name: str) -> str:
    from kproxy.proxy.run_folder import running

    others = ", ".join(str(run.port or run.pid) for run in running())
    return f"no proxy {name} is running{f'; there are {others}' if others else ''}"


def _about(run: Run) -> str:
    return f"{run.listen}, process {run.pid}, since {datetime.fromtimestamp(run.started):%Y-%m-%d %H:%M:%S}"


@contextmanager
def reported_errors() -> Iterator[None]:
    """Report why a proxy did not carry out a command, and exit."""
    from kproxy.proxy.control import ClosedError, CommandError

    try:
        yield
    except CommandError as error:
        echo_error(str(error))
    except ClosedError as error:
        echo(f"kproxy: {error}: it may have ended", err=True)
    except TimeoutError:
        echo("kproxy: the proxy does not answer", err=True)
    except (ConnectionRefusedError, FileNotFoundError):
        echo(
            "kproxy: the proxy does not listen on its control socket: it may be starting or ending", err=True
        )
    else:
        return
    sys.exit(EXIT_UNREADABLE)
