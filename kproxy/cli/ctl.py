"""``kproxy ctl``: queries and controls a running proxy (docs/ctl.md)."""

from __future__ import annotations

import sys
from base64 import b64encode
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import click

from kproxy.cli.command import NoOptions, TextParam, argument, command, group, option, options
from kproxy.cli.common import usage_errors
from kproxy.cli.options import FILTER
from kproxy.cli.runs import RunOption, reported_errors, the_run
from kproxy.output import echo, echo_json

if TYPE_CHECKING:
    from kproxy.proxy.run_folder import Run

_LOOK = 0.3  # seconds


@options
class ControlOptions(RunOption):
    """Selects a proxy and the output format; may be given before or after the command."""

    as_json: bool = option("--json", help="Print JSON, as in a pipe.")

    @property
    def _before(self) -> ControlOptions:
        """The options given before the command."""
        return click.get_current_context().find_object(ControlOptions) or self

    @property
    def proxy(self) -> str | None:
        """The proxy's name, None if there is no need to name it."""
        return self.run_name or self._before.run_name

    @property
    def prints_json(self) -> bool:
        """Whether JSON is printed."""
        return self.as_json or self._before.as_json or not sys.stdout.isatty()

    def do(self, name: str, *, control: bool = False, **parameters: Any) -> None:
        """Run a command of the control socket, and print its result."""
        run = the_run(self.proxy)
        from kproxy.proxy.control import ControlClient
        from kproxy.text.control import lines_of

        with reported_errors():
            # not lasting: a client that leaves at once must neither keep holds alive nor end them
            with ControlClient(run.control_socket, control, lasting=False) as client:
                answer = client.call(name, **parameters)
            if self.prints_json:
                echo_json(answer)
            else:
                for line in lines_of(name, answer):
                    echo(line)


@group(ControlOptions, short_help="Query and control a running proxy.")
def ctl(options: ControlOptions) -> None:
    """Query and control a running proxy.

    Results are tables on a terminal, JSON in a pipe and with --json. If several proxies run, select one with --run.
    """
    click.get_current_context().obj = options


@group(NoOptions, parent=ctl, short_help="Add and remove fault rules.")
def rule(_: NoOptions) -> None:
    """Add and remove fault rules."""


def _plain(name: str, short_help: str, about: str, called: str = "", **parameters: Any) -> None:
    """Add a command without options of its own.

    :param called: name of the proxy's command, if it differs
    :param parameters: of the proxy's command
    """

    def run(options: ControlOptions) -> None:
        options.do(called or name, **parameters)

    command(ControlOptions, name, parent=ctl, short_help=short_help, help=about)(run)


_plain(
    "status",
    "What the proxy does and has done.",
    "Show the state of the proxy: counts, listeners, recording.",
)
_plain("connections", "The connections that are open.", "List the connections that are open.")
_plain(
    "brokers",
    "The brokers, where clients find them, and whether they can be reached.",
    "List the brokers: what they advertise, where clients find them, and whether they can be reached.",
)
_plain("rules", "The fault rules.", "List the fault rules, with how often each was applied.")


@options
class AddRuleOptions(ControlOptions):
    """Options of ``kproxy ctl rule add``."""

    rule: str = argument("'FILTER => ACTION'", nargs=1, type=FILTER)
    force: bool = option("--force", help="Add the rule even if it matches everything.")


@command(AddRuleOptions, parent=rule, short_help="Add a fault rule.")
def add(options: AddRuleOptions) -> None:
    """Add a fault rule, such as 'api == Produce => delay 200ms'."""
    options.do("add_rule", control=True, rule=options.rule, force=options.force)


def _number_or_all(text: str) -> int | str:
    try:
        return text if text == "all" else int(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor all") from None


@options
class NumberOrAllOptions(ControlOptions):
    """Options of commands about one message or all."""

    number: int | str = argument("NUMBER|all", nargs=1, type=TextParam("number", _number_or_all))


@options
class RemoveRuleOptions(ControlOptions):
    """Options of ``kproxy ctl rule remove``."""

    which: str = argument("NUMBER|NAME|all", nargs=1)


@command(RemoveRuleOptions, parent=rule, short_help="Remove a fault rule.")
def remove(options: RemoveRuleOptions) -> None:
    """Remove a fault rule by its number or name, or all of them."""
    which = options.which
    options.do("remove_rule", control=True, number=int(which) if which.isdecimal() else which)


_plain("holds", "What is held.", "List held requests and responses.")


@options
class HoldOptions(ControlOptions):
    """Options of ``kproxy ctl hold``."""

    wanted: str = argument("FILTER", nargs=1, type=FILTER)


@command(HoldOptions, parent=ctl, short_help="Hold matching messages while this runs.")
def hold(options: HoldOptions) -> None:
    """Hold requests that match FILTER, or responses: 'response: FILTER'.

    This command shows held messages until Ctrl-C, which stops holding and releases them. Meanwhile, kproxy ctl release,
    edit and kill act on single messages from another terminal.
    """
    run = the_run(options.proxy)
    with reported_errors():
        hold_until_interrupted(run, options.wanted, as_json=options.prints_json)


def hold_until_interrupted(run: Run, condition: str, *, as_json: bool) -> None:
    """Hold matching messages until Ctrl-C, and print each held message once.

    :raises CommandError: if the filter is invalid
    :raises ClosedError: if the proxy ends
    """
    from kproxy.proxy.control import ControlClient
    from kproxy.signals import ended_by_signals
    from kproxy.text.control import held_line

    ended = Event()
    with ControlClient(run.control_socket, True) as client, ended_by_signals(ended.set):
        side = client.call("set_hold", filter=condition)["side"]
        echo(f"kproxy: holding matching {side}s until Ctrl-C", err=True)
        shown: set[int] = set()
        try:
            while not ended.wait(_LOOK):
                held: list[dict[str, Any]] = client.call("holds")["held"]
                for hold in held:
                    if hold["number"] not in shown:
                        echo_json(hold) if as_json else echo(held_line(hold))
                shown = {hold["number"] for hold in held}
        finally:
            client.call("set_hold", filter=None, side=side)
            released = client.call("release", number="all")["released"]
    echo(f"kproxy: holding ended, {released} released", err=True)


_plain(
    "unhold",
    "Hold nothing any more.",
    "Stop holding; messages already held wait until they are released.",
    "set_hold",
    control=True,
    filter=None,
)


@command(NumberOrAllOptions, parent=ctl, short_help="Release a held message.")
def release(options: NumberOrAllOptions) -> None:
    """Release a held request or response, or all of them."""
    options.do("release", control=True, number=options.number)


@options
class NumberOptions(ControlOptions):
    """Options of commands about one message."""

    number: int = argument(None, nargs=1, type=int)


@command(NumberOptions, parent=ctl, short_help="Close the connection of a held message.")
def kill(options: NumberOptions) -> None:
    """Close the connection of a held request or response."""
    options.do("kill", control=True, number=options.number)


@options
class EditOptions(NumberOptions):
    """Options of ``kproxy ctl edit``."""

    number: int = argument(None, nargs=1, type=int)
    changes: tuple[str, ...] = argument("[PATH=VALUE]...", required=False)
    body: BinaryIO | None = option(
        "--body", type=click.File("rb"), metavar="FILE", help="JSON of the whole body; - is standard input."
    )
    frame: BinaryIO | None = option(
        "--frame",
        type=click.File("rb"),
        metavar="FILE",
        help="The whole frame as bytes, with its size field.",
    )


@command(EditOptions, parent=ctl, short_help="Change a held message, and release it.")
def edit(options: EditOptions) -> None:
    """Change a held request or response, and release it.

    Values are JSON, or else text: kproxy ctl edit 3 topics[0].name=orders timeout_ms=100
    """
    if sum(map(bool, (options.changes, options.body, options.frame))) != 1:
        raise click.UsageError("give fields (PATH=VALUE), or --body, or --frame")
    import msgspec

    parameters: dict[str, Any] = {}
    if options.changes:
        parameters["changes"] = dict(map(_change, options.changes))
    elif options.body is not None:
        with usage_errors(msgspec.MsgspecError, before="--body: "):
            parameters["body"] = msgspec.json.decode(options.body.read(), type=dict[str, Any])
    elif options.frame is not None:
        parameters["frame"] = b64encode(options.frame.read()).decode()
    options.do("edit", control=True, number=options.number, **parameters)


def _change(text: str) -> tuple[str, Any]:
    import msgspec

    path, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} is not a change: write PATH=VALUE")
    try:
        return path, msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return path, value


@options
class ForwardingStateOptions(ControlOptions):
    """Options of ``kproxy ctl forwarding``."""

    state: Literal["on", "off"] = argument(None, nargs=1)


@command(ForwardingStateOptions, parent=ctl, short_help="Switch forwarding on and off.")
def forwarding(options: ForwardingStateOptions) -> None:
    """Switch forwarding on or off. While it is off, requests are recorded and not forwarded."""
    options.do("forwarding", control=True, on=options.state == "on")


_plain(
    "keep",
    "Let the flight recorder keep this moment.",
    "Let the flight recorder save the traffic around this moment.",
    control=True,
)


@options
class DrainOptions(ControlOptions):
    """Options of ``kproxy ctl drain``."""

    seconds: float | None = option(
        "--seconds",
        type=click.FloatRange(0),
        metavar="N",
        help="Time for requests in flight. Default: as the proxy was started.",
    )


@command(DrainOptions, parent=ctl, short_help="End the proxy after requests in flight are answered.")
def drain(options: DrainOptions) -> None:
    """End the proxy: no new connections, and requests in flight get their answers."""
    options.do("drain", control=True, seconds=options.seconds)
