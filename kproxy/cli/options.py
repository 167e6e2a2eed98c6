"""Options that several commands share: how files are read, which exchanges are selected, and how they are shown;
brokers, and security towards them by Kafka's own client properties."""

from __future__ import annotations

import os
import re
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import click
from click.shell_completion import CompletionItem

from kproxy.addresses import Address, address, addresses
from kproxy.cli.command import (
    AnyFile,
    ConfigurationOptions,
    Count,
    ExistingFile,
    TextParam,
    argument,
    option,
    options,
)
from kproxy.cli.common import usage_errors
from kproxy.output import echo, use_color

if TYPE_CHECKING:
    from kproxy.proxy.tls.security import Security


def _duration(text: str) -> int:
    from captures.filters.values import duration

    found = duration(text)
    if found is None or found < 0:
        raise ValueError(f"{text!r} is not a duration: write 90s, 2m or 1m30s")
    return round(found)


DURATION = TextParam("TIME", _duration)
Time = Annotated[int, DURATION]
"""A duration, in nanoseconds."""


def checked_moment(text: str) -> str:
    """Check the form of a time; it can be resolved only when the capture is open.

    :raises ValueError: if it is invalid
    """
    from captures.filters.values import moment

    if moment(text) is None:
        raise ValueError(
            f"{text!r} is not a time: write 5s or 1m30s after the first packet, 09:14:03, "
            "or 2026-11-21T09:14:03Z"
        )
    return text


Moment = Annotated[str, TextParam("TIME", checked_moment)]
"""A time, absolute or relative to the first packet."""


LEAST_SPOOL = 64 << 20
"""Bytes. Data must stay available until it has been processed: blocks, and data that waits behind gaps."""

Color = Literal["auto", "always", "never"]
Payload = Literal["full", "preview", "none"]


# ---------------------------------------------------------------- values of options
def size_type(least: int) -> TextParam[int]:
    """Return the type of sizes as people write them, ``512MiB`` or ``5GB``, in bytes.

    :param least: the smallest size allowed
    """

    def parse(text: str) -> int:
        from captures.filters.values import size

        found = size(text)
        if found is None:
            raise ValueError(f"{text!r} is not a size: write 500MB or 8GiB")
        if found < least:
            raise ValueError(f"{text} is too small: use at least {least >> 20}MiB")
        return int(found)

    return TextParam("SIZE", parse, lambda value: f"{value}B")


SpoolSize = Annotated[int, size_type(LEAST_SPOOL)]
"""Disk space for data in transit, in bytes."""


class FilterText(click.ParamType[str]):
    """A filter, as text: completed in the shell as in the terminal UI; ``@name`` stands for a saved filter.

    It is parsed when the capture is open (:func:`kproxy.cli.common.filter_option`).
    """

    name = "filter"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it with saved filters in place of their names."""
        if "@" not in value:
            return value
        from captures.filters import FilterError
        from kproxy.cli.config import current
        from kproxy.configuration import ConfigurationError
        from kproxy.proxy.rules.parser import with_saved_filters
        from kproxy.saved_choices import saved_filters

        try:
            return with_saved_filters(value, saved_filters(current()))
        except (FilterError, ConfigurationError) as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return completions, each with one line about the last word."""
        from captures.filters.complete import complete

        return [
            CompletionItem(f"{incomplete[: each.start]}{each.text}", help=each.doc or None)
            for each in complete(incomplete)
        ]


FILTER = FilterText()
FilterString = Annotated[str, FILTER]
"""A filter, as text."""


HOST_PORT = TextParam("HOST:PORT", address)
"""``host:port``, ``host``, ``:port`` or ``[::1]:port``."""
LISTEN = TextParam("[HOST:]PORT", partial(address, port_alone=True))
"""An address to listen at; a text without a colon is a port."""
ListenAddress = Annotated[Address, LISTEN]
BROKERS = TextParam("HOST:PORT,...", addresses)
"""A comma-separated list of broker addresses, as Kafka's own tools accept."""


def _named_brokers(text: str) -> tuple[str, tuple[Address, ...]]:
    name, equals, brokers = text.rpartition("=")
    if equals and not CLUSTER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a name for a cluster: use letters, digits, - . _, and a letter first"
        )
    return name, addresses(brokers)


CLUSTER_NAME = re.compile(r"[A-Za-z][\w.-]*")
NamedBrokers = Annotated[tuple[str, tuple[Address, ...]], TextParam("[NAME=]HOST:PORT,...", _named_brokers)]
"""The name of a cluster, empty if none is given, and addresses of its brokers."""


def _collector(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is not a URL: write http://collector:4318")
    try:
        import_module("captures.export.otlp")
    except ImportError:
        raise click.ClickException("--otlp needs more packages: pip install 'kproxy[otlp]'") from None
    return text


Collector = Annotated[str, TextParam("URL", _collector)]
"""The URL of an OpenTelemetry collector."""


@options
class CommandConfigOption:
    """Security towards brokers."""

    title = "Brokers"
    command_config: ExistingFile | None = option(
        "--command-config",
        of_cluster=True,
        help="Kafka client properties: security.protocol, ssl.*, sasl.*; JKS, PKCS12 and PEM stores.",
    )


def security_of(command_config: str | None) -> tuple[Security, str]:
    """Return the security settings in the file of ``--command-config``, and the brokers that it names.

    :raises click.UsageError: if the properties, or a store that they name, cannot be used
    """
    from kproxy.proxy.tls.security import PLAINTEXT

    if command_config is None:
        return PLAINTEXT, ""
    from kproxy.proxy.tls.properties import PropertiesError, client_config, read_properties

    with usage_errors(PropertiesError, before=f"{command_config}: "):
        config = client_config(read_properties(command_config))
    for warning in config.warnings:
        echo(f"kproxy: {command_config}: {warning}", err=True)
    return config.security, config.bootstrap


# ---------------------------------------------------------------- limits
def _keep_to_limits(context: click.Context, _: click.Parameter, settings: tuple[str, ...]) -> None:
    """Set limits for this process and its child processes."""
    given = os.environ.get("KPROXY_LIMITS")
    if context.resilient_parsing or not (settings or given):
        return
    from dissectors.budget import ENVIRONMENT, LimitSettingError, configure, from_environment

    with usage_errors(LimitSettingError, before=f"the environment variable {ENVIRONMENT}: "):
        from_environment()
    try:
        configure(settings)
    except LimitSettingError as error:
        raise click.BadParameter(f"{error}") from None


@options
class ProgramOptions(ConfigurationOptions):
    """Options before the command."""

    limit: tuple[str, ...] = option(
        "--limit",
        expose_value=False,
        callback=_keep_to_limits,
        metavar="NAME=VALUE",
        help="Change a limit on untrusted input (docs/limits.md): message_records=5M; may be given several times.",
    )


# ---------------------------------------------------------------- reading
@options
class HostsOption:
    """Names for addresses."""

    title = "Reading"
    hosts: tuple[AnyFile, ...] = option(
        "--hosts",
        help="Name addresses: a hosts file, or what 'kubectl get pods -A -o wide' prints; "
        "may be given several times.",
    )


@options
class ReadingOptions(HostsOption):
    """How a capture is read."""

    title = "Reading"
    files: tuple[str, ...] = argument("CAPTURE...", type=click.Path(allow_dash=True))
    keylog: AnyFile | None = option("--keylog", help="Decrypt TLS with the secrets in this NSS key log.")
    align_clocks: bool = option(
        "--align-clocks",
        help="Align the clocks of captures from several hosts, by the packets that they have in common.",
    )
    cache: bool = option(
        "--cache",
        help="Keep what was read of large captures, without payload, in a private folder, so that the next command "
        "begins at once (docs/cache.md).",
    )
    spool: SpoolSize | None = option(
        "--spool",
        help="Disk space for input that cannot be read twice: pipes, compressed files, decrypted TLS. "
        "Default: 8GiB, if there is room.",
    )


@options
class JobsOption:
    """The number of processes that work on a capture."""

    title = "Reading"
    jobs: Count | None = option(
        "-j",
        "--jobs",
        help="Decode in N processes. Default: one for each processor, but 1 for captures below 32 MiB. Pipes, "
        "growing and remote files always take one.",
    )


@options
class TimeOptions:
    """A time range."""

    begin: Moment | None = option("--from", help="Start at this time: 5s, 09:14:03, 2026-11-21T09:14:03Z.")
    end: Moment | None = option("--to", help="End at this time.")


@options
class GroupOption:
    """The groups that a command shows."""

    groups: tuple[str, ...] = option(
        "-g",
        "--group",
        metavar="GROUP",
        help="Show only this group, or those that match 'orders-*'; may be given several times.",
    )


@options
class ClientOption:
    """The clients that a command shows."""

    clients: tuple[str, ...] = option(
        "--client",
        former=("-c",),
        metavar="CLIENT",
        help="Show only this client, or those that match 'orders-*': a client ID, or an address if it has none; "
        "may be given several times.",
    )


# ---------------------------------------------------------------- showing
def _keep_colors(context: click.Context, _: click.Parameter, color: str) -> str:
    """Keep colours in pipes and files with ``always``; click would remove them otherwise."""
    context.color = True if color == "always" else None
    use_color(color)
    return color


@options
class ColorOption:
    """Whether there are colours."""

    title = "Showing"
    color: Color = option(
        "--color",
        default="auto",
        callback=_keep_colors,
        help="Colour the output; auto: on a terminal, unless NO_COLOR is set.",
    )


@options
class ReportOptions(ColorOption):
    """The format of results."""

    as_markdown: bool = option("--markdown", help="Print Markdown, for tickets.")


@options
class UtcOption:
    """The time zone."""

    title = "Showing"
    utc: bool = option("--utc", help="Read and show times in UTC instead of the local zone.")


@options
class ContentOptions(UtcOption, ColorOption):
    """How much of the content of messages is shown."""

    title = "Showing"
    show_secrets: bool = option(
        "--show-secrets", help="Show passwords, tokens and keys instead of masking them."
    )
    payload: Payload = option(
        "--payload", default="full", show_default=True, help="How much of record keys and values to show."
    )


@options
class ReadOnlyOption:
    """What the UI may do in addition to showing."""

    title = "Showing"
    read_only: bool = option(
        "--read-only",
        help="Leave out commands of the UI that write files, send requests, change a proxy or read other captures.",
    )


@options
class ShowingOptions(ContentOptions):
    """How exchanges are printed."""

    title = "Showing"
    verbose: bool = option("-V", "--verbose", help="Show every field of requests and responses.")
    as_json: bool = option("--json", help="Print one JSON object per exchange (docs/json.md).")
    text: bool = option("--text", help="With --json: bytes as text where they are UTF-8, instead of base64.")


@options
class NoUiOption:
    """Whether to print where the UI would open."""

    title = "Showing"
    no_ui: bool = option("--no-ui", help="Print exchanges, also on a terminal.")


@options
class LiveOptions(ShowingOptions, HostsOption, NoUiOption):
    """How live traffic is shown."""

    title = "Showing"
    wanted: FilterString | None = option(
        "-Y", "--filter", help="Show only exchanges that match: 'error and topic ~ orders'."
    )
    diagnose: bool = option(
        "--diagnose", help="Report problems as they appear (docs/findings.md); the UI has a view for that."
    )


@options
class OtlpOption:
    """Where spans are sent."""

    title = "Traces"
    otlp: Collector | None = option(
        "--otlp",
        help="Send exchanges, rebalances and incidents as spans to this OpenTelemetry collector (docs/otlp.md). "
        "Needs kproxy[otlp].",
    )


@options
class WebOption:
    """Where browsers find the UI."""

    title = "Showing"
    web: ListenAddress | None = option(
        "--web",
        help="Show the UI in browsers, at this address; prints the URL. Needs kproxy[web] (docs/serve.md).",
    )


@options
class RecorderOptions:
    """What a flight recorder saves, and where."""

    title = "Flight recorder"
    before: Time = option("--before", default="2m", help="Time to save before a match. Default: 2m.")
    after: Time = option("--after", default="1m", help="Time to save after a match. Default: 1m.")
    keep_dir: str = option(
        "--keep-dir",
        type=click.Path(file_okay=False),
        default=".",
        metavar="DIR",
        help="Folder for saved files and the ring. Default: the current one.",
    )
