"""``kproxy request-log``: switches the request log of brokers on and off."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import click

from kproxy.addresses import Address
from kproxy.cli.command import Number, argument, command, option, options
from kproxy.cli.options import BROKERS, CommandConfigOption, Time, security_of
from kproxy.output import echo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kproxy.proxy.own_requests import OwnRequestError
    from kproxy.replay.cluster import Node
    from kproxy.request_logging import RequestLoggers

_COST = (
    "kproxy: a broker then writes a line for each request, of 0.5 to 2 kB, more for many partitions: at 10,000 "
    "requests per second about 10 MB per second. Its network threads write it. It has the fields of requests, without "
    "records."
)


@options
class RequestLogOptions(CommandConfigOption):
    """Options of ``kproxy request-log``."""

    what: Literal["on", "off", "status"] = argument(None, nargs=1)
    bootstrap: tuple[Address, ...] = option(
        "-b",
        "--bootstrap-server",
        multiple=False,
        type=BROKERS,
        required=True,
        help="Brokers of the cluster.",
    )
    brokers: tuple[Number, ...] = option(
        "--broker", metavar="ID", help="Only this broker, by its ID; repeatable. Default: all."
    )
    duration: Time | None = option("--for", help="With on: switch it off again after this time, such as 10m.")
    timeout: Time = option(
        "--timeout", default="10s", show_default=True, help="Stop waiting for a broker after this time."
    )
    yes: bool = option("-y", "--yes", help="Do not ask.")


@command(RequestLogOptions, short_help="Switch the request log of brokers on and off.")
def request_log(options: RequestLogOptions) -> None:
    """Set the level of kafka.request.logger of the brokers of a cluster while they run (Kafka 2.4 and later).

    on: set it to DEBUG until Ctrl-C or the end of --for, then put back the level that it had. off: set it to WARN, as
    in Kafka's default configuration. status: show the level of each broker.

    The user needs the permission AlterConfigs on the cluster, for status DescribeConfigs. The logging configuration of
    the broker decides where the lines go. docs/request-log.md explains what the log has.
    """
    from kproxy.proxy.own_requests import OwnRequestError

    if options.duration is not None and options.what != "on":
        raise click.UsageError("--for goes with 'on'")
    try:
        complete = _run(options)
    except OwnRequestError as error:
        echo(f"kproxy: {error}", err=True)
        complete = False
    if not complete:
        sys.exit(1)


def _run(options: RequestLogOptions) -> bool:
    """Do what was asked at each broker that can be reached.

    :returns: whether it succeeded at all of them; failures have been reported
    :raises OwnRequestError: if the cluster cannot be reached
    """
    import asyncio

    from dissectors.units import SECOND
    from kproxy.request_logging import OFF, RequestLoggers

    security, _ = security_of(options.command_config)
    loggers = RequestLoggers(security, options.timeout / SECOND)
    brokers = asyncio.run(loggers.brokers(options.bootstrap, options.brokers))
    if options.what == "on":
        echo(_COST, err=True)
    levels = _succeeded(asyncio.run(loggers.levels(brokers)))
    complete = len(levels) == len(brokers)
    if options.what == "status":
        for broker, level in levels.items():
            echo(f"broker {broker}: {_state(level)}")
        return complete
    if options.what == "off":
        changed = _succeeded(asyncio.run(loggers.set_levels(dict.fromkeys(levels, OFF))))
        for broker in changed:
            echo(f"broker {broker}: {_state(OFF)}, was {levels[broker]}")
        return complete and len(changed) == len(levels)
    if levels and not options.yes:
        click.confirm(f"Switch it on at {', '.join(map(str, levels))}?", abort=True, err=True)
    seconds = None if options.duration is None else options.duration / SECOND
    return _on_for_a_time(loggers, levels, seconds) and complete


def _on_for_a_time(loggers: RequestLoggers, levels: Mapping[Node, str], seconds: float | None) -> bool:
    """Switch it on until a time has passed or a signal ends the command, then put the levels back.

    :returns: whether both succeeded at all brokers; failures have been reported
    """
    import asyncio
    from threading import TIMEOUT_MAX, Event

    from kproxy.request_logging import ON, RefusedError
    from kproxy.signals import ended_by_signals

    end = Event()
    with ended_by_signals(end.set):
        answers = asyncio.run(loggers.set_levels(dict.fromkeys(levels, ON)))
        # a broker whose answer was lost may have changed its level
        before = {
            broker: levels[broker] for broker in levels if not isinstance(answers[broker], RefusedError)
        }
        try:
            switched_on = _succeeded(answers)
            for broker in switched_on:
                echo(f"broker {broker}: {_state(ON)}, was {levels[broker]}")
            if switched_on:
                echo("kproxy: Ctrl-C puts it back", err=True)
                end.wait(None if seconds is None else min(seconds, TIMEOUT_MAX))
        finally:
            put_back = _succeeded(asyncio.run(loggers.set_levels(before)), f"its level may still be {ON}: ")
    for broker, level in put_back.items():
        echo(f"broker {broker}: {level} again")
    return len(switched_on) == len(put_back) == len(levels)


def _succeeded(answers: Mapping[Node, str | OwnRequestError], consequence: str = "") -> dict[Node, str]:
    """Report the brokers that failed; return the levels of the others."""
    for broker, answer in answers.items():
        if not isinstance(answer, str):
            echo(f"kproxy: broker {broker}: {consequence}{answer}", err=True)
    return {broker: answer for broker, answer in answers.items() if isinstance(answer, str)}


def _state(level: str) -> str:
    from kproxy.request_logging import LOGGING

    return f"{'on' if level in LOGGING else 'off'} ({level})"
