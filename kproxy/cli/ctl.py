"""``kproxy ctl``: asks a running proxy what it does, and tells it what to do (docs/ctl.md)."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable
from functools import wraps
from typing import Any, BinaryIO

import click

from kproxy.cli.filtering import FILTER
from kproxy.cli.printing import echo, echo_json
from kproxy.cli.runs import run_option, the_run, told_errors

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, as is done in a pipe.")


class _Proxy:
    """The proxy that a command is for, and how its answer is printed."""

    def __init__(self, run_name: str | None, as_json: bool) -> None:
        self.run_name = run_name
        self.as_json = as_json or not sys.stdout.isatty()

    def do(self, command: str, *, control: bool = False, **parameters: Any) -> None:
        """Let a command be carried out, and print what it returns."""
        run = the_run(self.run_name)
        from kproxy.cli.ctl_tables import lines_of
        from kproxy.proxy.control import ControlClient

        with told_errors():
            # not lasting: who leaves at once does not keep holds alive, nor end them
            with ControlClient(run.control_socket, control, lasting=False) as client:
                answer = client.call(command, **parameters)
            if self.as_json:
                echo_json(answer)
            else:
                for line in lines_of(command, answer):
                    echo(line)


def _command(group: click.Group, name: str, short_help: str) -> Callable[[Any], click.Command]:
    """Make a function a command of a group; its first argument is the proxy."""

    def decorate(function: Any) -> click.Command:
        @wraps(function)
        @click.pass_context
        def run(context: click.Context, /, run_name: str | None, as_json: bool, **options: Any) -> None:
            given: dict[str, Any] = context.find_object(dict) or {}
            proxy = _Proxy(run_name or given.get("run_name"), as_json or given.get("as_json", False))
            function(proxy, **options)

        return group.command(name, short_help=short_help)(run_option(_json_option(run)))

    return decorate


@click.group(short_help="Ask and tell a running proxy.")
@run_option
@_json_option
@click.pass_context
def ctl(context: click.Context, run_name: str | None, as_json: bool) -> None:
    """Ask a running proxy what it does, and tell it what to do.

    Answers are tables on a terminal, JSON in a pipe and with --json. Where several proxies run, --run says which.
    """
    context.obj = {"run_name": run_name, "as_json": as_json}


@ctl.group(short_help="Add and remove fault rules.")
def rule() -> None:
    """Add and remove fault rules."""


@_command(ctl, "status", "What the proxy does and has done.")
def status(proxy: _Proxy) -> None:
    """Show what the proxy does and has done: counts, listeners, recording."""
    proxy.do("status")


@_command(ctl, "connections", "The connections that are open.")
def connections(proxy: _Proxy) -> None:
    """List the connections that are open."""
    proxy.do("connections")


@_command(ctl, "brokers", "The brokers, and where clients find them.")
def brokers(proxy: _Proxy) -> None:
    """List the brokers, and the addresses at which clients find them."""
    proxy.do("brokers")


@_command(ctl, "rules", "The fault rules.")
def rules(proxy: _Proxy) -> None:
    """List the fault rules, with how often each was applied."""
    proxy.do("rules")


@_command(rule, "add", "Add a fault rule.")
@click.argument("rule", metavar="'FILTER => ACTION'")
@click.option("--force", is_flag=True, help="Even if it matches everything.")
def add(proxy: _Proxy, rule: str, force: bool) -> None:
    """Add a fault rule, such as 'api == Produce => delay 200ms'."""
    proxy.do("add_rule", control=True, rule=rule, force=force)


class _NumberOrAll(click.ParamType[int | str]):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "all":
            return "all"
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor all", param, ctx)


@_command(rule, "remove", "Remove a fault rule.")
@click.argument("number", type=_NumberOrAll(), metavar="NUMBER|all")
def remove(proxy: _Proxy, number: int | str) -> None:
    """Remove a fault rule, or all of them."""
    proxy.do("remove_rule", control=True, number=number)


@_command(ctl, "holds", "What is held.")
def holds(proxy: _Proxy) -> None:
    """List the requests and responses that are held."""
    proxy.do("holds")


@_command(ctl, "hold", "Hold what fits, as long as this runs.")
@click.argument("wanted", type=FILTER, metavar="FILTER")
def hold(proxy: _Proxy, wanted: str) -> None:
    """Hold requests that fit FILTER, or responses: 'response: FILTER'.

    This command stays and shows what is held, until Ctrl-C: then nothing is held any more, and what is held goes on.
    From elsewhere, kproxy ctl release, edit and kill decide about a single one.
    """
    run = the_run(proxy.run_name)
    from kproxy.cli.holding import hold_until_interrupted

    with told_errors():
        hold_until_interrupted(run, wanted, as_json=proxy.as_json)


@_command(ctl, "unhold", "Hold nothing any more.")
def unhold(proxy: _Proxy) -> None:
    """Hold nothing any more; what is held stays so until it is released."""
    proxy.do("set_hold", control=True, filter=None)


@_command(ctl, "release", "Let something that is held go on.")
@click.argument("number", type=_NumberOrAll(), metavar="NUMBER|all")
def release(proxy: _Proxy, number: int | str) -> None:
    """Let a request or response that is held go on, or all of them."""
    proxy.do("release", control=True, number=number)


@_command(ctl, "kill", "Close the connection of something that is held.")
@click.argument("number", type=int)
def kill(proxy: _Proxy, number: int) -> None:
    """Close the connection of a request or response that is held."""
    proxy.do("kill", control=True, number=number)


@_command(ctl, "edit", "Change something that is held, and let it go on.")
@click.argument("number", type=int)
@click.argument("changes", nargs=-1, metavar="[PATH=VALUE]...")
@click.option(
    "--body", type=click.File("rb"), metavar="FILE", help="JSON of the whole body; - is standard input."
)
@click.option("--frame", type=click.File("rb"), metavar="FILE", help="The bytes, with their size field.")
def edit(
    proxy: _Proxy, number: int, changes: tuple[str, ...], body: BinaryIO | None, frame: BinaryIO | None
) -> None:
    """Change a request or response that is held, and let it go on.

    Values are JSON, or text if they are not: kproxy ctl edit 3 topics[0].name=orders timeout_ms=100
    """
    if sum(map(bool, (changes, body, frame))) != 1:
        raise click.UsageError("give fields (PATH=VALUE), or --body, or --frame")
    import msgspec

    parameters: dict[str, Any] = {}
    if changes:
        parameters["changes"] = dict(map(_change, changes))
    elif body is not None:
        try:
            parameters["body"] = msgspec.json.decode(body.read(), type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise click.UsageError(f"--body: {error}") from None
    elif frame is not None:
        parameters["frame"] = b64encode(frame.read()).decode()
    proxy.do("edit", control=True, number=number, **parameters)


def _change(text: str) -> tuple[str, Any]:
    import msgspec

    path, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} is no change: write PATH=VALUE")
    try:
        return path, msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return path, value


@_command(ctl, "forwarding", "Switch forwarding on and off.")
@click.argument("state", type=click.Choice(["on", "off"]))
def forwarding(proxy: _Proxy, state: str) -> None:
    """Switch forwarding on or off. While it is off, what clients send is recorded and goes nowhere."""
    proxy.do("forwarding", control=True, on=state == "on")


@_command(ctl, "keep", "Let the flight recorder keep this moment.")
def keep(proxy: _Proxy) -> None:
    """Let the flight recorder keep what surrounds this moment."""
    proxy.do("keep", control=True)


@_command(ctl, "drain", "End the proxy when requests in flight are answered.")
@click.option(
    "--seconds", type=click.FloatRange(0), metavar="N", help="How long they have. Default: as it was started."
)
def drain(proxy: _Proxy, seconds: float | None) -> None:
    """End the proxy: no new connections, and requests in flight get their answers."""
    proxy.do("drain", control=True, seconds=seconds)
