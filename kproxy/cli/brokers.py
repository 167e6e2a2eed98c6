"""How commands are told which brokers to talk to, and how: addresses, and Kafka's own client properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.printing import echo

if TYPE_CHECKING:
    from kproxy.proxy.tls.security import Security

Address = tuple[str, int]

_DEFAULT_PORT = 9092
_MOST_PORT = 65_535


class HostPort(click.ParamType[Address]):
    """``host:port``, ``host``, ``:port`` or ``[::1]:port``.

    :param port_alone: what has no colon is a port, not a host
    """

    name = "HOST:PORT"

    def __init__(self, *, port_alone: bool = False) -> None:
        self._port_alone = port_alone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Return host and port."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # a default
        host, colon, port = value.rpartition(":")
        if not colon or value.endswith("]") or (":" in host and not host.endswith("]")):
            host, port = ("", value) if self._port_alone else (value, str(_DEFAULT_PORT))
        if not port.isdecimal() or int(port) > _MOST_PORT:
            self.fail(f"{value!r} is no address: write host:9092 or [::1]:9092", param, ctx)
        return host.removeprefix("[").removesuffix("]"), int(port)


class Brokers(click.ParamType[tuple[Address, ...]]):
    """Addresses of brokers with commas between them, as Kafka's own tools take them."""

    name = "HOST:PORT,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Address, ...]:
        """Return hosts and ports."""
        if not isinstance(value, str):
            return tuple(value)
        one = HostPort()
        found = tuple(one.convert(each.strip(), param, ctx) for each in value.split(",") if each.strip())
        if not found or not all(host and port for host, port in found):
            self.fail(f"{value!r} is no address of a broker: write broker:9092 or [::1]:9092", param, ctx)
        return found


command_config_option = click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Kafka client properties: security.protocol, ssl.*, sasl.*; JKS, PKCS12 and PEM stores.",
)


def security_of(command_config: str | None) -> tuple[Security, str]:
    """Return how brokers are reached by the file of ``--command-config``, and the brokers that it names.

    :raises click.UsageError: if the properties, or a store that they name, cannot be used
    """
    from kproxy.proxy.tls.security import PLAINTEXT

    if command_config is None:
        return PLAINTEXT, ""
    from kproxy.proxy.tls.properties import PropertiesError, client_config, read_properties

    try:
        config = client_config(read_properties(command_config))
    except PropertiesError as error:
        raise click.UsageError(f"{command_config}: {error}") from None
    for warning in config.warnings:
        echo(f"kproxy: {command_config}: {warning}", err=True)
    return config.security, config.bootstrap
