"""How users specify brokers and security: addresses, and Kafka's own client properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import click

from kproxy.addresses import Address, address, addresses
from kproxy.cli.command import ExistingFile, option, options
from kproxy.cli.common import usage_errors
from kproxy.output import echo

if TYPE_CHECKING:
    from kproxy.proxy.tls.security import Security


class HostPort(click.ParamType[Address]):
    """``host:port``, ``host``, ``:port`` or ``[::1]:port``.

    :param port_alone: a text without a colon is a port, not a host
    """

    def __init__(self, *, port_alone: bool = False) -> None:
        self.name = "[HOST:]PORT" if port_alone else "HOST:PORT"
        self._port_alone = port_alone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # a default
        try:
            return address(value, port_alone=self._port_alone)
        except ValueError as error:
            self.fail(str(error), param, ctx)


ListenAddress = Annotated[Address, HostPort(port_alone=True)]
"""An address to listen at."""


class Brokers(click.ParamType[tuple[Address, ...]]):
    """A comma-separated list of broker addresses, as Kafka's own tools accept."""

    name = "HOST:PORT,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Address, ...]:
        if not isinstance(value, str):
            return tuple(value)
        try:
            return addresses(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@options
class CommandConfigOption:
    """Security towards brokers."""

    title = "Brokers"
    command_config: ExistingFile | None = option(
        "--command-config",
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
