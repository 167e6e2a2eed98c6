"""Options that several commands have, said once: how files are read, what is selected, how it is shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from kproxy.cli.sizes import spool_option
from kproxy.cli.times import Duration, Moment

Decorator = Callable[[Any], Any]


def _together(*options: Decorator) -> Decorator:
    """Return a decorator for several options, listed in this order by ``--help``."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _keep_to_limits(context: click.Context, _: click.Parameter, settings: tuple[str, ...]) -> None:
    """Have other limits in this process, and in those that it starts."""
    given = os.environ.get("KPROXY_LIMITS")
    if context.resilient_parsing or not (settings or given):
        return
    from dissectors.budget import ENVIRONMENT, LimitSettingError, configure, from_environment

    try:
        from_environment()
    except LimitSettingError as error:
        raise click.UsageError(f"the environment variable {ENVIRONMENT}: {error}") from None
    try:
        configure(settings)
    except LimitSettingError as error:
        raise click.BadParameter(f"{error}") from None


limit_option = click.option(
    "--limit",
    multiple=True,
    expose_value=False,
    callback=_keep_to_limits,
    metavar="NAME=VALUE",
    help="Change what foreign bytes may cost (docs/limits.md): message_records=5M; may be given several times.",
)

hosts_option = click.option(
    "--hosts",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="Name addresses: a hosts file, or what 'kubectl get pods -A -o wide' prints; may be given several times.",
)

reading_options = _together(
    click.option(
        "--keylog",
        type=click.Path(),
        metavar="FILE",
        help="Decrypt TLS with the secrets in this NSS key log.",
    ),
    hosts_option,
    click.option(
        "--align-clocks",
        is_flag=True,
        help="Bring captures of several hosts to one clock, by the packets that more than one of them has.",
    ),
    spool_option,
)

time_options = _together(
    click.option(
        "--from",
        "begin",
        type=Moment(),
        help="Leave out what came before: 5s, 09:14:03, 2026-11-21T09:14:03Z.",
    ),
    click.option("--to", "end", type=Moment(), help="Leave out what came after."),
)

surroundings_options = _together(
    click.option(
        "--before",
        type=Duration(),
        default="2m",
        metavar="TIME",
        help="How much to save before. Default: 2m.",
    ),
    click.option(
        "--after", type=Duration(), default="1m", metavar="TIME", help="How much to save after. Default: 1m."
    ),
    click.option(
        "--keep-dir",
        type=click.Path(file_okay=False),
        default=".",
        metavar="DIR",
        help="Where what is saved, and a ring, are. Default: here.",
    ),
)

diagnose_option = click.option(
    "--diagnose",
    is_flag=True,
    help="Tell what is wrong as it comes up (docs/findings.md); the UI has a view for that.",
)

utc_option = click.option("--utc", is_flag=True, help="Show times in UTC instead of the local zone.")


def _keep_colors(context: click.Context, _: click.Parameter, color: str) -> str:
    """Let colours through to what is no terminal, if they are always wanted: click would take them out again."""
    context.color = True if color == "always" else None
    return color


color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    callback=_keep_colors,
    help="Colour the output; auto: on a terminal, unless NO_COLOR is set.",
)

showing_options = _together(
    click.option("-V", "--verbose", is_flag=True, help="Show every field of requests and responses."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object per exchange (docs/json.md)."
    ),
    utc_option,
    click.option(
        "--show-secrets", is_flag=True, help="Show passwords, tokens and keys instead of masking them."
    ),
    click.option(
        "--payload",
        type=click.Choice(["full", "preview", "none"]),
        default="full",
        show_default=True,
        help="How much of record keys and values to show.",
    ),
    click.option(
        "--text", is_flag=True, help="With --json: bytes as text where they are UTF-8, instead of base64."
    ),
    color_option,
)
