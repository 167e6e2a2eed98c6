"""Addresses that brokers advertise to clients (``advertised.listeners``), and which of them are in use."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.attempts import Outcome, attempts
from captures.analysis.client_identity import client_name
from captures.exchanges import Capture, Exchange
from captures.meaning.exchange import Body, number, rows, text
from captures.names.names import canonical, split
from dissectors.api_keys import ApiKey

APIS = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER})
"""APIs whose responses contain addresses."""

_LOCAL = "localhost"

Reached = dict[tuple[str, int], list[Outcome]]
"""IP address and port -> outcomes of the connections to it."""


class Address(NamedTuple):
    """An advertised address.

    :ivar host: a name, or an IP address
    """

    host: str
    port: int

    @property
    def shown(self) -> str:
        """``host:port``; an IPv6 address has brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def only_local(self) -> bool:
        """Whether it refers to the client's own host."""
        try:
            found = ip_address(self.host)
        except ValueError:
            return self.host.lower().rstrip(".") == _LOCAL
        return found.is_loopback or found.is_unspecified

    def hosts(self, capture: Capture, reached: Reached) -> list[str]:
        """Return the IP addresses of the host, as far as known; empty for an unknown name."""
        try:
            return [canonical(self.host)]
        except ValueError:
            if self.host.lower().rstrip(".") == _LOCAL:
                return ["127.0.0.1", "::1"]
        return [host for host, port in reached if self.host in capture.names.of(Address(host, port).shown)]


class AddressSource(msgspec.Struct):
    """Where an address was advertised.

    :ivar exchanges: number and time of the first exchanges with it
    :ivar brokers: IDs of the brokers with this address
    :ivar clients: clients that received it: host -> client ID
    :ivar by: brokers that sent it, as ``host:port``
    """

    exchanges: list[tuple[int, int]] = []
    brokers: set[int] = set()
    clients: dict[str, str] = {}
    by: dict[str, None] = {}


class AdvertisedAddresses:
    """Collects the addresses in responses.

    :ivar sources: address -> where it was advertised
    """

    _MOST = 10

    def __init__(self) -> None:
        self.sources: dict[Address, AddressSource] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        response = exchange.response_body
        if exchange.api_key not in APIS or not response:
            return
        for row in _named(exchange.api_key, response):
            host, port = text(row, "host"), number(row, "port")
            if not host or port < 0:
                continue
            source = self.sources.setdefault(Address(host, port), AddressSource())
            if len(source.exchanges) < self._MOST:
                source.exchanges.append((exchange.number, exchange.time))
            source.brokers.add(number(row, "node_id", number(row, "broker_id")))
            source.clients[split(exchange.client)[0]] = client_name(exchange)
            source.by[exchange.broker] = None

    def outcomes(self, capture: Capture, address: Address, reached: Reached) -> list[Outcome]:
        """Return the outcomes of the connections to an address; empty if none was captured."""
        hosts = address.hosts(capture, reached)
        return [outcome for host in hosts for outcome in reached.get((host, address.port), ())]


def reached_addresses(capture: Capture) -> Reached:
    """Return the addresses to which connections were tried, with the outcomes."""
    found: Reached = {}
    for attempt in attempts(capture):
        found.setdefault(split(attempt.broker), []).append(attempt.outcome)
    for connection in np.flatnonzero(capture.connections.syn_time < 0).tolist():
        found.setdefault(split(capture.endpoints(connection)[1]), []).append(Outcome.ACCEPTED)
    return found


def is_local(host: str) -> bool:
    """Return whether the IP address is a loopback address."""
    return ip_address(host).is_loopback


def _named(key: int, response: Body) -> Iterable[Body]:
    yield from rows(response, "brokers")
    yield from rows(response, "coordinators")
    if key == ApiKey.FIND_COORDINATOR and "host" in response:
        yield response
