"""Names of addresses and endpoints.

Addresses stay unchanged in tables and in JSON; names are shown beside them, or instead of them in text for people. An
address may have several names: the first one given is shown, filters match all.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from dissectors.printable import printable


class Names:
    """Names of hosts, and of single endpoints, which take precedence over those of their host.

    Endpoints are texts as :meth:`captures.packets.AddressBook.text` returns them: ``10.0.0.1:9092``, ``[::1]:9092``.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[str, int | None], list[str]] = {}
        self._holders: dict[tuple[str, int], tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._given or self._holders)

    def add(self, address: str, *names: str, port: int | None = None) -> None:
        """Name a host, or only one endpoint of it if a port is given.

        :param address: IPv4 or IPv6, in any notation
        :raises ValueError: if it is not an IP address
        """
        known = self._given.setdefault((canonical(address), port), [])
        known += [name for name in dict.fromkeys(map(printable, names)) if name not in known]

    def hold(self, address: str, port: int, *names: str) -> None:
        """Name the current holder of an endpoint, replacing the previous one; names from :meth:`add` take precedence.

        :raises ValueError: if it is not an IP address
        """
        self._holders[canonical(address), port] = tuple(map(printable, names))

    def of_host(self, host: str) -> tuple[str, ...]:
        """Return the names of an address, the one to be shown first; an IPv6 address may have brackets."""
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
        """Return an endpoint with the name of its host, ``orders-0:9092``; unchanged if it has none."""
        names = self.of(endpoint)
        return with_port(names[0], endpoint) if names else endpoint

    def shown_host(self, host: str) -> str:
        """Return the name of an address; the address itself if it has none."""
        return next(iter(self.of_host(host)), host)


def with_port(name: str, endpoint: str) -> str:
    """Return an endpoint with a name instead of the address."""
    return f"{name}:{split(endpoint)[1]}"


@lru_cache(4096)
def canonical(address: str) -> str:
    """Return an IP address in canonical notation, as captures have it; IPv4 in IPv6 (``::ffff:10.0.0.1``) becomes IPv4.

    :raises ValueError: if it is not an IP address
    """
    found = ip_address(address.partition("%")[0])  # a zone (RFC 4007) is meaningful only on its own machine
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def split(endpoint: str) -> tuple[str, int]:
    """Return address and port of an endpoint; an IPv6 address without its brackets."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)
