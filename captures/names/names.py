"""What addresses and endpoints are called.

Addresses stay what they are, in tables and in JSON; names stand beside them, or in their place where a person reads.
An address may have several names: the first one given is shown, filters know them all.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from dissectors.printable import printable


class Names:
    """Names of hosts, and of single endpoints, which go before those of their host.

    Endpoints are texts as :meth:`captures.packets.AddressBook.text` makes them: ``10.0.0.1:9092``, ``[::1]:9092``.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[str, int | None], list[str]] = {}
        self._holders: dict[tuple[str, int], tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._given or self._holders)

    def add(self, address: str, *names: str, port: int | None = None) -> None:
        """Name a host, or one endpoint of it if a port is given.

        :param address: IPv4 or IPv6, in any notation
        :raises ValueError: if it is no IP address
        """
        known = self._given.setdefault((canonical(address), port), [])
        known += [name for name in dict.fromkeys(map(printable, names)) if name not in known]

    def hold(self, address: str, port: int, *names: str) -> None:
        """Name who holds an endpoint now, instead of who held it before; names that were added go before it.

        :raises ValueError: if it is no IP address
        """
        self._holders[canonical(address), port] = tuple(map(printable, names))

    def of_host(self, host: str) -> tuple[str, ...]:
        """Return the names of an address, the one to be shown first; of an IPv6 address in brackets too."""
        try:
            return tuple(self._given.get((canonical(host.strip("[]")), None), ()))
        except ValueError:
            return ()

    def of(self, endpoint: str) -> tuple[str, ...]:
        """Return the names of an endpoint, its own before those of its host."""
        if not self:
            return ()
        host, port = split(endpoint)
        end = canonical(host), port
        return tuple(
            dict.fromkeys((*self._given.get(end, ()), *self._holders.get(end, ()), *self.of_host(host)))
        )

    def shown(self, endpoint: str) -> str:
        """Return an endpoint for people: ``orders-0:9092``, or as it is if it has no name."""
        names = self.of(endpoint)
        return with_port(names[0], endpoint) if names else endpoint

    def shown_host(self, host: str) -> str:
        """Return an address for people: its name, or as it is."""
        return next(iter(self.of_host(host)), host)


def with_port(name: str, endpoint: str) -> str:
    """Return a name instead of the address of an endpoint."""
    return f"{name}:{split(endpoint)[1]}"


@lru_cache(4096)
def canonical(address: str) -> str:
    """Return an IP address in the one notation that captures have; IPv4 in IPv6 (``::ffff:10.0.0.1``) is IPv4.

    :raises ValueError: if it is none
    """
    found = ip_address(address.partition("%")[0])  # a zone (RFC 4007) means something on its own machine only
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def split(endpoint: str) -> tuple[str, int]:
    """Return address and port of an endpoint; an IPv6 address without its brackets."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)
