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
        _run(options)
    except OwnRequestError as error:
        echo(f"kproxy: {error}", err=True)
        sys.exit(1)


def _run(options: RequestLogOptions) -> None:
    """Do what was asked.

    :raises OwnRequestError: if a broker cannot be reached, or refuses
    """
    import asyncio

    from dissectors.units import SECOND
    from kproxy.request_logging import OFF, RequestLoggers

    security, _ = security_of(options.command_config)
    loggers = RequestLoggers(security, options.timeout / SECOND)
    brokers = asyncio.run(loggers.brokers(list(options.bootstrap), options.brokers))
    levels = {broker: asyncio.run(loggers.level(broker)) for broker in brokers}
    if options.what == "status":
        for broker, level in levels.items():
            echo(f"broker {broker}: {_state(level)}")
        return
    if options.what == "off":
        for broker in brokers:
            asyncio.run(loggers.set_level(broker, OFF))
            echo(f"broker {broker}: {_state(OFF)}, was {levels[broker]}")
        return
    echo(_COST, err=True)
    if not options.yes:
        click.confirm(f"Switch it on at {', '.join(map(str, brokers))}?", abort=True, err=True)
    _on_for_a_time(loggers, levels, None if options.duration is None else options.duration / SECOND)


def _on_for_a_time(loggers: RequestLoggers, levels: dict[Node, str], seconds: float | None) -> None:
    """Switch it on until a time has passed or a signal ends the command; put the levels back, also after an error.

    :raises OwnRequestError: if a broker cannot be reached, or refuses
    """
    import asyncio
    from threading import TIMEOUT_MAX, Event

    from kproxy.proxy.own_requests import OwnRequestError
    from kproxy.request_logging import ON
    from kproxy.signals import ended_by_signals

    end, failed = Event(), list[str]()
    changed: list[Node] = []
    with ended_by_signals(end.set):
        try:
            for broker in levels:
                changed.append(broker)
                asyncio.run(loggers.set_level(broker, ON))
                echo(f"broker {broker}: {_state(ON)}, was {levels[broker]}")
            echo("kproxy: Ctrl-C puts it back", err=True)
            end.wait(None if seconds is None else min(seconds, TIMEOUT_MAX))
        finally:
            for broker in changed:
                try:
                    asyncio.run(loggers.set_level(broker, levels[broker]))
                    echo(f"broker {broker}: {levels[broker]} again")
                except OwnRequestError as error:
                    failed.append(f"broker {broker} is left at {ON}: {error}")
    if failed:
        raise OwnRequestError("; ".join(failed))


def _state(level: str) -> str:
    from kproxy.request_logging import LOGGING

    return f"{'on' if level in LOGGING else 'off'} ({level})"
