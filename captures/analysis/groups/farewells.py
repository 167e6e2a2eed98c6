"""What clients say beside their group that tells how they ended: fetch sessions that they close, coordinators they ask
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from captures.analysis.advertised_addresses import Address, reached_addresses
from captures.analysis.groups.calls import Call
from captures.exchanges import Capture, Exchange
from captures.meaning.exchange import items, number, rows, text
from captures.names.names import split
from dissectors.api_keys import ApiKey

NEEDED = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.FIND_COORDINATOR})
"""APIs whose exchanges tell something; others need not be added."""
_CLOSES = -1
"""Epoch of the request that closes a fetch session (KIP-227); librdkafka sends it without a session, with ID 0."""
_GROUP = 0
"""Key type of FindCoordinator: a group's."""


class Farewell(NamedTuple):
    """A Fetch or ShareFetch that closed its session.

    :ivar time: when it was sent
    """

    time: int
    number: int


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
        request = (exchange.request.value if exchange.request else None) or {}
        if exchange.api_key == ApiKey.FETCH:
            closes = number(request, "session_epoch", 0) == _CLOSES and number(request, "session_id", 0) > 0
        elif exchange.api_key == ApiKey.SHARE_FETCH:
            closes = number(request, "share_session_epoch", 0) == _CLOSES
        else:
            return
        if closes:
            self._by_connection[exchange.connection] = Farewell(exchange.time, exchange.number)

    def of(self, connection: int) -> Farewell | None:
        """Return the session that was closed last on a connection."""
        return self._by_connection.get(connection)


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
        request = (exchange.request.value if exchange.request else None) or {}
        response = (exchange.response.value if exchange.response else None) or {}
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
            if not known or known[-1].address != address:
                known.append(CoordinatorSighting(exchange.end, address, exchange.number))

    def answered(self, group: str, call: Call) -> None:
        """Note that a broker answered a member as its coordinator: its address is what was named last."""
        known = self._named.get(group)
        if known:
            self._endpoints.setdefault(known[-1].address.host, set()).add(split(call.broker)[0])

    def of(self, group: str) -> Sequence[CoordinatorSighting]:
        """Return the brokers that were named, one for each change."""
        return self._named.get(group, ())

    def elsewhere(self, group: str, begin: int, end: int, capture: Capture) -> CoordinatorSighting | None:
        """Return the coordinator that was named last in a time, if the capture has no connection with it."""
        named = [each for each in self.of(group) if begin <= each.time <= end]
        return None if not named or self._is_captured(named[-1].address, capture) else named[-1]

    def _is_captured(self, address: Address, capture: Capture) -> bool:
        """Whether the capture has a connection with a broker; where that cannot be told, it is taken to have one."""
        reached = reached_addresses(capture)
        hosts = {*address.hosts(capture, reached), *self._endpoints.get(address.host, ())}
        if hosts:
            return any((host, address.port) in reached for host in hosts)
        # a name that nothing explains: it may be of any captured broker that no other name explains
        explained = set().union(*self._endpoints.values())
        return any(host not in explained for host, _ in reached)
