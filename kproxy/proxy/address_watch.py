"""Detects broker addresses in bytes sent to clients.

Kafka's messages encode an address as a length-prefixed host followed by a port of 4 bytes. The watch searches for these
bytes, not for fields, so it finds addresses that rewriting has missed, in any message.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

from dissectors.budget import limit
from kproxy.proxy.addresses import Broker

_PORT = struct.Struct(">i")
_PORT_HEAD = b"\x00\x00"  # ports have 16 bits
_MOST_SEARCHED = 64 << 20
"""Bytes searched in all; several hosts or ports share them."""
_MOST_PLACES = 4
"""Addresses kept per broker, which may move."""


class AddressWatch:
    """Searches for addresses that clients must not see.

    Brokers often share a port or a host: the watch searches for hosts or for ports, whichever are fewer, and compares
    the rest of an address only where one is found.
    """

    def __init__(self) -> None:
        self._brokers: dict[tuple[bytes, bytes], Broker] = {}
        self._own: set[tuple[bytes, bytes]] = set()
        self._by_host: dict[bytes, dict[bytes, Broker]] = {}
        self._by_port: dict[bytes, dict[bytes, Broker]] = {}
        self._goes_by_host = True
        self._searched = _MOST_SEARCHED
        self._is_grouped = True

    def learn(self, broker: Broker) -> None:
        """Search for the broker's address from now on; beyond the limit, the oldest addresses are dropped."""
        address = _encoded(broker.host, broker.port)
        if broker.host and 0 < broker.port < 65536 and address not in self._brokers:
            self._brokers[address] = broker
            if len(self._brokers) > _MOST_PLACES * limit("brokers"):
                del self._brokers[next(iter(self._brokers))]
            self._is_grouped = False

    def allow(self, host: str, port: int) -> None:
        """Let an address of the proxy itself pass from now on, even if a broker has the same."""
        address = _encoded(host, port)
        if address not in self._own:
            self._own.add(address)
            self._is_grouped = False

    def _group(self) -> None:
        by_host: defaultdict[bytes, dict[bytes, Broker]] = defaultdict(dict)
        by_port: defaultdict[bytes, dict[bytes, Broker]] = defaultdict(dict)
        for (host, port), broker in self._brokers.items():
            if (host, port) not in self._own:
                by_host[host][port] = broker
                by_port[port][host] = broker
        self._by_host, self._by_port = by_host, by_port
        self._goes_by_host = len(by_host) <= len(by_port)
        self._searched = _MOST_SEARCHED // max(min(len(by_host), len(by_port)), 1)
        self._is_grouped = True

    def escaped(self, data: bytes) -> list[Broker]:
        """Return the brokers whose addresses occur in `data`, each once, in the order found.

        An address split between the data of two calls is not found. Of very large data, or with very many addresses,
        only as much is searched as takes a few milliseconds.
        """
        if not self._is_grouped:
            self._group()
        data = data[: self._searched]
        found = self._at_hosts(data) if self._goes_by_host else self._at_ports(data)
        return list(dict.fromkeys(found))

    def _at_hosts(self, data: bytes) -> Iterator[Broker]:
        for host, ports in self._by_host.items():
            for at in _all(host + _PORT_HEAD, data):
                end = at + len(host)
                broker = ports.get(data[end : end + 4])
                if broker is not None and _is_length(data, at, len(host)):
                    yield broker

    def _at_ports(self, data: bytes) -> Iterator[Broker]:
        for port, hosts in self._by_port.items():
            lengths = {len(host) for host in hosts}
            for at in _all(port, data):
                for length in lengths:
                    broker = hosts.get(data[at - length : at]) if at >= length else None
                    if broker is not None and _is_length(data, at - length, length):
                        yield broker


def _encoded(host: str, port: int) -> tuple[bytes, bytes]:
    return host.encode(), _PORT.pack(port)


def _all(part: bytes, data: bytes) -> Iterator[int]:
    at = data.find(part)
    while at >= 0:
        yield at
        at = data.find(part, at + 1)


def _is_length(data: bytes, at: int, length: int) -> bool:
    """Return whether the bytes before `at` can be the length of a string: ``b1`` does not count in ``web1``."""
    if not at:
        return True  # the length may have been in the data of the call before
    compact = length + 1  # as a varint (KIP-482), whose high bits are in the last byte
    return data[at - 1] in (length & 0xFF, compact if compact < 128 else compact >> 7)
