"""What clients say beside their group that shows how they ended: fetch sessions that they close, coordinators they ask
for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from captures.analysis.advertised_addresses import Address, Reached, reached_addresses
from captures.analysis.client_identity import client_name
from captures.analysis.groups.calls import Call
from captures.exchanges import Capture, Exchange
from captures.meaning.exchange import items, number, rows, text
from captures.names.names import split
from dissectors.api_keys import ApiKey

NEEDED = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.FIND_COORDINATOR})
"""APIs whose exchanges count; others need not be added."""
_CLOSES = -1
"""Epoch of the request that closes a fetch session (KIP-227); librdkafka sends it without a session, with ID 0."""
_GROUP = 0
"""Key type of FindCoordinator: a group's."""


class Farewell(NamedTuple):
    """A Fetch or ShareFetch that closed its session.

    :ivar time: when it was sent
    :ivar client: client ID, or address without one
    """

    time: int
    number: int
    connection: int
    client: str


class CoordinatorSighting(NamedTuple):
    """A broker that FindCoordinator named as a group's coordinator.

    :ivar time: of the answer
    :ivar number: of the exchange
    """

    time: int
    address: Address
    number: int


class Farewells:
    """Collects the latest fetch sessions that were closed, by connection."""

    def __init__(self) -> None:
        self._by_connection: dict[int, Farewell] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        request = exchange.request_body
        if exchange.api_key == ApiKey.FETCH:
            closes = number(request, "session_epoch", 0) == _CLOSES and number(request, "session_id", 0) > 0
        elif exchange.api_key == ApiKey.SHARE_FETCH:
            closes = number(request, "share_session_epoch", 0) == _CLOSES
        else:
            return
        if closes:
            self._by_connection[exchange.connection] = Farewell(
                exchange.time, exchange.number, exchange.connection, client_name(exchange)
            )

    def merge(self, other: Farewells) -> None:
        """Take in what another has collected of other connections."""
        self._by_connection |= other._by_connection

    def by_client(self, host_of: Callable[[int], str]) -> dict[tuple[str, str], list[Farewell]]:
        """Return the sessions that were closed last on each connection, by client and host, in the order of time.

        :param host_of: returns the host of the client of a connection
        """
        found: dict[tuple[str, str], list[Farewell]] = {}
        for farewell in sorted(self._by_connection.values()):
            found.setdefault((farewell.client, host_of(farewell.connection)), []).append(farewell)
        return found


class NamedCoordinators:
    """Collects which brokers FindCoordinator named, by group; only changes are kept."""

    def __init__(self) -> None:
        self._named: dict[str, list[CoordinatorSighting]] = {}
        self._endpoints: dict[str, set[str]] = {}
        """Host of an address that was named -> hosts by which members were answered then."""

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        if exchange.api_key != ApiKey.FIND_COORDINATOR:
            return
        request = exchange.request_body
        response = exchange.response_body
        if number(request, "key_type", _GROUP) != _GROUP or not response:
            return
        asked = [text(request, "key")] if "key" in request else [*items(request, "coordinator_keys")]
        for row in [response, *rows(response, "coordinators")]:
            group = text(row, "key") or (asked[0] if len(asked) == 1 else "")
            host, port = text(row, "host"), number(row, "port")
            if not group or not host or port < 0 or row.get("error_code"):
                continue
            known = self._named.setdefault(group, [])
            address = Address(host, port)
            place = bisect_right(known, exchange.end, key=_TIME)
            if not place or known[place - 1].address != address:
                known.insert(place, CoordinatorSighting(exchange.end, address, exchange.number))

    def answered(self, group: str, call: Call) -> None:
        """Note that a broker answered a member as its coordinator: its address is what was named last."""
        known = self._named.get(group)
        if known:
            self._endpoints.setdefault(known[-1].address.host, set()).add(split(call.broker)[0])

    def merge(self, other: NamedCoordinators, groups: Collection[str]) -> None:
        """Take in what another has collected.

        :param groups: that it has followed
        """
        self._named |= {group: named for group, named in other._named.items() if group in groups}
        for host, endpoints in other._endpoints.items():
            self._endpoints.setdefault(host, set()).update(endpoints)

    def within(self, group: str, begin: int, end: int) -> CoordinatorSighting | None:
        """Return the coordinator that was named last from one time to another, both included."""
        known = self._named.get(group, [])
        place = bisect_right(known, end, key=_TIME)
        return known[place - 1] if place and known[place - 1].time >= begin else None

    def endpoints(self) -> Mapping[str, set[str]]:
        """Return the hosts of addresses that were named, each with the hosts by which members were answered then."""
        return self._endpoints


class CapturedAddresses:
    """Addresses of the brokers with which a capture has connections."""

    def __init__(self, capture: Capture, named: NamedCoordinators) -> None:
        self._capture = capture
        self._endpoints = named.endpoints()
        self._known: dict[Address, bool] = {}

    def __contains__(self, address: Address) -> bool:
        """Whether the capture has a connection with a broker; where that cannot be known, it is taken to have one."""
        known = self._known.get(address)
        if known is None:
            known = self._known[address] = self._find(address)
        return known

    @cached_property
    def _reached(self) -> Reached:
        return reached_addresses(self._capture)

    @cached_property
    def _explained(self) -> set[str]:
        return set().union(*self._endpoints.values())

    def _find(self, address: Address) -> bool:
        hosts = {*address.hosts(self._capture, self._reached), *self._endpoints.get(address.host, ())}
        if hosts:
            return any((host, address.port) in self._reached for host in hosts)
        # a name that nothing explains: it may be of any captured broker that no other name explains
        return any(host not in self._explained for host, _ in self._reached)


_TIME = attrgetter("time")
