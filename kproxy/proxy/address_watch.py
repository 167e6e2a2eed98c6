"""A watch for broker addresses in bytes that go to clients.

Addresses in Kafka's messages are a length-prefixed host followed by a port of 4 bytes. The watch looks for these bytes,
not for fields: it finds addresses that rewriting has missed, in any message.
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
"""Bytes in which one host or port is looked for, of which the others take their share."""
_MOST_PLACES = 4
"""Addresses of one broker that are looked for: it may move."""


class AddressWatch:
    """Knows the addresses that clients must not see.

    Brokers often have a port in common, or a host: it looks for hosts or for ports, whichever are fewer, and at the
    rest of an address only where it finds one.
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
        """Look for the address of a broker from now on; of very many the oldest are looked for no longer."""
        address = _encoded(broker.host, broker.port)
        if broker.host and 0 < broker.port < 65536 and address not in self._brokers:
            self._brokers[address] = broker
            if len(self._brokers) > _MOST_PLACES * limit("brokers"):
                del self._brokers[next(iter(self._brokers))]
            self._is_grouped = False

    def allow(self, host: str, port: int) -> None:
        """Let an address pass from now on, that of the proxy itself, even if a broker has the same."""
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
        """Return the brokers whose addresses are in some bytes, each once, in the order in which they were found.

        An address that lies half in one call's bytes and half in the next one's is not found. Of very many bytes, or
        for very many addresses, only so much is inspected as takes a few milliseconds.
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
    """Whether what lies before ``at`` can be the length of a string: ``b1`` is not in ``web1``."""
    if not at:
        return True  # it may have been in the bytes before
    compact = length + 1  # one more than the length (KIP-482); the high bits are in the last byte
    return data[at - 1] in (length & 0xFF, compact if compact < 128 else compact >> 7)
