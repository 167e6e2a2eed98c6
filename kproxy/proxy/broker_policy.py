"""Addresses that brokers announce for one another: which are invalid, which are allowed, and which look odd.

Any peer that answers as a broker determines where kproxy connects next. One method judges all responses, those to
clients and the one to kproxy's own request at the start: :meth:`BrokerPolicy.refusal`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from kproxy.proxy.address_map import AddressMap
from kproxy.proxy.tls.sni import host_name

_MOST_PORT = 65_535
_SCOPED = re.compile(r"[0-9a-fA-F:.]+(?:%[A-Za-z0-9_.-]{1,15})?")
"""An IP address, maybe with a zone (RFC 4007); Python would accept any character in the zone."""
_LONGEST_SHOWN = 60

_NETWORKS = tuple(
    (ip_network(text), name)
    for text, name in (
        ("127.0.0.0/8", "loopback"),
        ("::1/128", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("fe80::/10", "link-local"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("172.16.0.0/12", "172.16.0.0/12"),
        ("192.168.0.0/16", "192.168.0.0/16"),
        ("100.64.0.0/10", "100.64.0.0/10"),
        ("fc00::/7", "fc00::/7"),
    )
)
"""Networks that are not the Internet (RFC 6890), and their names."""
_INTERNET = "the public Internet"
_SUSPECT = ("loopback", "link-local")

_Ip = IPv4Address | IPv6Address


class AllowedError(ValueError):
    """A value of ``--allow-brokers`` is neither a network nor a host."""


def ip_of(host: str) -> _Ip | None:
    """Return the IP address that `host` is, None if it is a name. IPv4 wrapped in IPv6 is returned as IPv4."""
    if not _SCOPED.fullmatch(host):
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def network(host: str) -> str:
    """Return the network of an address, in words; empty if `host` is not an IP address."""
    address = ip_address("127.0.0.1") if host == "localhost" else ip_of(host)
    if address is None:
        return ""
    return next((name for within, name in _NETWORKS if address in within), _INTERNET)


class BrokerPolicy:
    """Judges announced addresses.

    :param allowed: networks, addresses and names (``*.example.com`` too) in which brokers may be; anything if empty
    :param bootstrap: hosts of the bootstrap servers, which are always allowed
    :param mapped: addresses mapped by the user, which are always allowed
    :raises AllowedError: if an entry is neither a network nor a name
    :ivar home: networks of the user's own brokers, as :func:`network` calls them
    """

    def __init__(
        self, allowed: Iterable[str] = (), bootstrap: Iterable[str] = (), mapped: AddressMap | None = None
    ) -> None:
        allowed = tuple(allowed)
        self._mapped = mapped or AddressMap()
        self._networks = [found for text in allowed if (found := _network(text)) is not None]
        self._names = [_pattern(text) for text in allowed if _network(text) is None]
        self._any = not allowed
        self._bootstrap = frozenset(host.lower() for host in bootstrap)
        self.home = {where for host in self._bootstrap if (where := network(host))}

    def refusal(self, node_id: int, host: str, port: int, role: str = "broker") -> str:
        """Return why a broker's address is refused, empty if it is accepted. Nothing is resolved.

        If networks are allowed, a name that matches no pattern is accepted: its IP address decides, see
        :meth:`permits`.
        """
        if node_id < 0:
            return f"node ID {node_id} is invalid"
        if not 0 < port <= _MOST_PORT:
            return f"port {port} is invalid"
        address = ip_of(host)
        if address is None and host_name(host) is None:
            return f"{_shown(host)} is not a host name"
        if self._any or self._is_named(host) or (address is None and self._networks):
            return ""
        if address is not None and self._is_in_network(address):
            return ""
        if self._mapped.lookup(host, port, (role, node_id)) is not None:
            return ""
        return f"{host} is not allowed (--allow-brokers)"

    def permits(self, host: str, address: str) -> bool:
        """Return whether a connection may go to `address`, which `host` resolves to, or is."""
        if self._any or self._is_named(host):
            return True
        found = ip_of(address)
        return found is not None and self._is_in_network(found)

    def oddity(self, address: str) -> str:
        """Return what is odd about a broker's address, empty if nothing is, or if it is not an IP address."""
        where = network(address)
        if not where or where in self.home:
            return ""
        if where in _SUSPECT:
            return f"a {where} address"
        return f"in another network ({where}) than the bootstrap servers" if self.home else ""

    def _is_named(self, host: str) -> bool:
        name = host.lower()
        if name in self._bootstrap:
            return True
        name = name.removesuffix(".")
        return any(name.endswith(each) if each.startswith(".") else name == each for each in self._names)

    def _is_in_network(self, address: _Ip) -> bool:
        return any(address in each for each in self._networks)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _pattern(text: str) -> str:
    """Return a name as it is compared; a leading dot matches all names with that ending."""
    name = host_name(text.removeprefix("*."))
    if name is None or ip_of(name) is not None:
        raise AllowedError(
            f"{text!r} is neither a network nor a host: 10.0.0.0/8, kafka1.example.com, *.example.com"
        )
    return f".{name}" if text.startswith("*.") else name


def _shown(host: str) -> str:
    """Return untrusted text for a sentence: escaped except for ASCII, and cut if it is long."""
    cut = f" ... ({len(host):,} letters)" if len(host) > _LONGEST_SHOWN else ""
    return ascii(host[:_LONGEST_SHOWN]) + cut
