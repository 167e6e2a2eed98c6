"""Signs outside the group protocol of how clients ended: closed fetch sessions, and lookups of coordinators."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from functools import cache, cached_property
from operator import attrgetter
from typing import NamedTuple

from captures.analysis.advertised_addresses import Address, Reached, reached_addresses
from captures.analysis.client_identity import client_name
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.groups.calls import Call
from captures.arrays import Bools
from captures.exchanges import Capture, Exchange
from captures.meaning.exchange import items, number, rows, text
from captures.names.names import split
from dissectors.api_keys import ApiKey

NEEDED = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.FIND_COORDINATOR})
"""APIs whose exchanges matter here; others need not be added."""
_CLOSES = -1
"""Epoch of the request that closes a fetch session (KIP-227); librdkafka sends it without a session, with ID 0."""
_GROUP = 0
"""Key type of FindCoordinator for groups."""


class Farewell(NamedTuple):
    """A Fetch or ShareFetch that closed its session.

    :ivar time: time of the request
    :ivar client: client ID, or address without one
    """

    time: int
    number: int
    connection: int
    client: str


class NamedCoordinator(NamedTuple):
    """A broker that FindCoordinator named as a group's coordinator.

    :ivar time: time of the response
    :ivar number: number of the exchange
    """

    time: int
    address: Address
    number: int


class Farewells:
    """Collects the latest closed fetch session of each connection."""

    def __init__(self) -> None:
        self._by_connection: dict[int, Farewell] = {}

    @staticmethod
    def deciding(rows: DecisionColumns) -> Bools:
        """Return a mask of the Fetches that close a session."""
        epoch, session = (rows.columns.flat(name) for name in ("session_epoch", "session_id"))
        found: Bools = rows.of_api({ApiKey.FETCH}) & (epoch == _CLOSES) & (session > 0)
        return found

    def add(self, exchange: Exchange) -> None:
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
        """Merge what `other` has collected about other connections."""
        self._by_connection |= other._by_connection

    def by_client(self, host_of: Callable[[int], str]) -> dict[tuple[str, str], list[Farewell]]:
        """Return the latest closed session of each connection, by client and host, in the order of time.

        :param host_of: returns the host of a connection's client
        """
        found: dict[tuple[str, str], list[Farewell]] = {}
        for farewell in sorted(self._by_connection.values()):
            found.setdefault((farewell.client, host_of(farewell.connection)), []).append(farewell)
        return found


class NamedCoordinators:
    """Collects the coordinators that FindCoordinator named, by group; only changes are kept."""

    def __init__(self) -> None:
        self._named: dict[str, list[NamedCoordinator]] = {}
        self.endpoints: dict[str, set[str]] = {}
        """Host of an address that was named -> hosts by which members were answered then, as by their coordinator."""

    def add(self, exchange: Exchange) -> None:
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
            index = bisect_right(known, exchange.end, key=_TIME)
            if not index or known[index - 1].address != address:
                known.insert(index, NamedCoordinator(exchange.end, address, exchange.number))

    def answered(self, group: str, call: Call) -> None:
        """Record that a broker answered a member as its coordinator: the address named last is one of this broker."""
        known = self._named.get(group)
        if known:
            self.endpoints.setdefault(known[-1].address.host, set()).add(split(call.broker)[0])

    def merge(self, other: NamedCoordinators, groups: Collection[str]) -> None:
        """Merge what `other` has collected.

        :param groups: groups that `other` has followed
        """
        self._named |= {group: named for group, named in other._named.items() if group in groups}
        for host, endpoints in other.endpoints.items():
            self.endpoints.setdefault(host, set()).update(endpoints)

    def within(self, group: str, begin: int, end: int) -> NamedCoordinator | None:
        """Return the latest coordinator named from `begin` to `end`, both included; None if there is none."""
        known = self._named.get(group, [])
        index = bisect_right(known, end, key=_TIME)
        return known[index - 1] if index and known[index - 1].time >= begin else None


class CapturedAddresses:
    """Addresses of the brokers whose connections are in a capture."""

    def __init__(self, capture: Capture, named: NamedCoordinators) -> None:
        self._capture = capture
        self._endpoints = named.endpoints
        self._has = cache(self._find)

    def __contains__(self, address: Address) -> bool:
        """Return whether the capture has a connection with a broker at `address`; True if that cannot be known."""
        return self._has(address)

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
        # an unresolved name may belong to any captured broker that no other name resolves to
        return any(host not in self._explained for host, _ in self._reached)


_TIME = attrgetter("time")
