"""The modes of the proxy, one class each: the values of ``--mode``, and how the broker of a connection is found.

``--mode``, its help, the check of options, the documentation and the data plane all read :data:`MODES`. Importing this
module is cheap: commands read it for their help.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from kproxy.addresses import Address
from kproxy.proxy.address_map import Target
from kproxy.proxy.transparent import Upstreams, address_of, make_transparent, original_destination

if TYPE_CHECKING:
    from kproxy.proxy.brokers import UpstreamAddress
    from kproxy.proxy.cluster import Cluster
    from kproxy.proxy.settings import Settings

ANY_HOST = ("0.0.0.0", "::", "")  # noqa: S104  # hosts that mean all addresses; one cannot connect to them


class Route(NamedTuple):
    """The way to a broker.

    :ivar targets: tried one after another; the first that answers is used
    :ivar begin: returns a socket that is already connecting to an address, None to have one made
    """

    targets: list[Target]
    begin: Callable[[Address], socket.socket | None] = lambda _: None


class Mode(ABC):
    """How clients find the proxy, and the proxy the brokers.

    :param cluster: the cluster that clients reach
    :cvar name: value of ``--mode``
    :cvar summary: what the mode does, for the help
    :cvar needs: requirements: privileges, systems, settings of clients
    :cvar options: fields of the settings that only this mode reads -> their options
    :cvar needs_bootstrap: whether the user has to name a broker
    :cvar rewrites: whether the brokers' addresses in responses are replaced with the proxy's
    :cvar keeps_names: whether clients reach brokers by the brokers' own names
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}
    needs_bootstrap: ClassVar[bool] = True
    rewrites: ClassVar[bool] = False
    keeps_names: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._settings = cluster.settings

    @classmethod
    def refusal(cls, settings: Settings) -> str:
        """Return why this mode cannot run with `settings`; empty if it can."""
        for mode in MODES.values():
            for field, option in mode.options.items():
                if mode is not cls and any(getattr(each, field, False) for each in settings.clusters):
                    return f"{option} is for --mode {mode.name}"
        if cls.needs_bootstrap and settings.forward and not all(each.bootstrap for each in settings.clusters):
            return "say with -b which broker to connect to"
        return ""

    @classmethod
    def notices(cls, settings: Settings, listening: Address) -> Iterator[str]:
        """Yield sentences that say what the user has to do at the start.

        :param listening: address of the first listener
        """
        yield from ()

    def open(self) -> list[socket.socket]:
        """Return the listening sockets for the bootstrap address.

        :raises OSError: if they cannot be opened
        """
        from kproxy.proxy.listeners import bind

        return bind(*self._settings.listen)

    @abstractmethod
    async def route(
        self, client: socket.socket, listening: Address, upstream: UpstreamAddress | None, named: str
    ) -> Route:
        """Return the way to the broker of a connection.

        :param client: the accepted socket
        :param listening: address of the socket that accepted it
        :param upstream: the broker that the client asked for by port or name; None at the bootstrap address
        :param named: host name that the client asked for in TLS, or empty
        :raises NotRedirectedError: if the client did not ask for any broker
        """


class Rewrite(Mode):
    """Clients get the proxy's addresses, with a port or a host name for each broker."""

    name = "rewrite"
    summary = "rewrite addresses, so that clients reach every broker through kproxy"
    needs = "clients that have kproxy's address as `bootstrap.servers`"
    options: ClassVar[Mapping[str, str]] = {
        "sni": "--sni",
        "allowed_brokers": "--allow-brokers",
        "mapped": "--map",
        "ports": "--ports",
    }
    rewrites = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._turn = 0

    @classmethod
    def refusal(cls, settings: Settings) -> str:
        for cluster in settings.clusters:
            host = cluster.listen[0]
            if host in ANY_HOST and not cluster.advertised and not cluster.sni:
                return (
                    f"--listen {host or ANY_HOST[0]} takes connections on all addresses, and clients need one "
                    "that they can reach: say which with --advertise HOST"
                )
        return super().refusal(settings)

    async def route(
        self, client: socket.socket, listening: Address, upstream: UpstreamAddress | None, named: str
    ) -> Route:
        if upstream is not None:
            return Route([self._cluster.target_of(upstream)])
        addresses = list(self._settings.bootstrap)  # a different one is first each time
        self._turn = (self._turn + 1) % len(addresses)
        return Route(
            [
                self._cluster.bootstrap_target(each)
                for each in addresses[self._turn :] + addresses[: self._turn]
            ]
        )


class Transparent(Mode):
    """Clients use the brokers' own addresses, and the firewall brings their connections here."""

    name = "transparent"
    summary = "take connections that a firewall redirects, and leave all addresses as they are"
    needs = (
        "Linux, and firewall rules that root adds: kproxy prints them and runs none "
        "([proxy-transparent.md](proxy-transparent.md)). `--tproxy` needs the capability `CAP_NET_ADMIN`"
    )
    options: ClassVar[Mapping[str, str]] = {
        "tproxy": "--tproxy",
        "keep_client_address": "--keep-client-address",
    }
    needs_bootstrap = False
    keeps_names = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._upstreams = Upstreams()

    @classmethod
    def refusal(cls, settings: Settings) -> str:
        if settings.keep_client_address and not settings.tproxy:
            return "--keep-client-address needs --tproxy"
        if settings.others:
            return "--mode transparent takes connections to any broker: name no clusters"
        if settings.authenticate:
            return "--authenticate would send the password to any address that clients connect to: use another mode"
        return super().refusal(settings)

    @classmethod
    def notices(cls, settings: Settings, listening: Address) -> Iterator[str]:
        """Yield the firewall rules that redirect connections to kproxy."""
        from kproxy.proxy.firewall import FirewallError, resolve, rules, tool_here

        if not settings.bootstrap:
            yield "with -b and a broker's address the firewall rules are shown that bring connections here"
            return
        brokers, why = _brokers(settings)
        if why:
            yield f"the rules are for the brokers of -b alone: {why}"
        try:
            shown = rules(
                tool_here(),
                "tproxy" if settings.tproxy else "redirect",
                resolve(brokers),
                [listening],
                os.getuid(),
                keep_client=settings.keep_client_address,
            )
        except FirewallError as error:
            yield str(error)
            return
        yield f"firewall rules to be run as root:\n\n{shown.add}"
        yield f"to take them away again:\n\n{shown.remove}"
        yield from shown.notes

    def open(self) -> list[socket.socket]:
        from kproxy.proxy.listeners import bind

        return bind(
            *self._settings.listen,
            both=True,
            prepare=make_transparent if self._cluster.plane.settings.tproxy else None,
        )

    async def route(
        self, client: socket.socket, listening: Address, upstream: UpstreamAddress | None, named: str
    ) -> Route:
        settings = self._cluster.plane.settings
        wanted = original_destination(client, settings.tproxy, listening, self._upstreams)
        seen_as = address_of(client.getpeername()) if settings.keep_client_address else None
        target = Target(wanted, named or wanted[0])
        return Route([target], lambda address: self._upstreams.begin(address, seen_as))


class Passthrough(Mode):
    """One address for one broker; no byte is changed."""

    name = "passthrough"
    summary = "forward to one broker and change no byte; clients learn the brokers' own addresses"
    needs = "clients that have kproxy's address as that of the one broker"

    @classmethod
    def refusal(cls, settings: Settings) -> str:
        if any(len(each.bootstrap) > 1 for each in settings.clusters):
            return "--mode passthrough forwards to one broker: give one address with -b"
        return super().refusal(settings)

    async def route(
        self, client: socket.socket, listening: Address, upstream: UpstreamAddress | None, named: str
    ) -> Route:
        return Route([Target(each, each[0]) for each in self._settings.bootstrap])


def _brokers(settings: Settings) -> tuple[list[Address], str]:
    """Return the addresses of all brokers; if they cannot be learned, those of ``-b`` and the reason."""
    import asyncio

    from kproxy.proxy.own_requests import OwnRequestError, cluster_of

    given = list(settings.bootstrap)
    try:
        view = asyncio.run(cluster_of(given, settings.security, settings.connect_timeout))
    except OwnRequestError as error:
        return given, str(error)
    return [*given, *((host, port) for _, host, port in view.brokers)], ""


_ALL: tuple[type[Mode], ...] = (Rewrite, Transparent, Passthrough)
MODES: Mapping[str, type[Mode]] = {mode.name: mode for mode in _ALL}
"""All modes by name; the first is the default."""


def reference() -> str:
    """Return a Markdown table of all modes, for docs/proxy.md."""
    rows = [f"| `--mode {mode.name}` | {mode.summary} | {mode.needs} |" for mode in MODES.values()]
    return "\n".join(["| mode | what it does | what it needs |", "|---|---|---|", *rows])
