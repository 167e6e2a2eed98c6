"""State that several rules share: each follower is made once, on demand, and gets every exchange once.

Rules get the exchanges one after the other, so it suffices to remember the latest one. A follower can be shared if it
does not matter which of the rules passes it an exchange first.
"""

from __future__ import annotations

from functools import cached_property
from typing import Generic, Protocol, TypeVar

from captures.analysis.advertised_addresses import AdvertisedAddresses
from captures.analysis.broker_disconnects import BrokerDisconnects
from captures.analysis.client_identity import Introductions
from captures.analysis.findings.staleness import Staleness
from captures.analysis.offered_versions import OfferedVersions
from captures.exchanges import Capture, Exchange
from captures.meaning import Names


class Follower(Protocol):
    """Collects facts from exchanges."""

    def add(self, exchange: Exchange) -> None:
        """Add one exchange."""


F = TypeVar("F", bound=Follower)


class OncePerExchange(Generic[F]):
    """Passes each exchange to a follower once, however many rules pass it.

    :ivar known: the follower, for reading its results
    """

    __slots__ = ("_latest", "known")

    def __init__(self, follower: F) -> None:
        self.known = follower
        self._latest: Exchange | None = None

    def add(self, exchange: Exchange) -> None:
        """Pass on an exchange, unless it is the latest one."""
        if exchange is not self._latest:
            self._latest = exchange
            self.known.add(exchange)


class SharedFollowers:
    """The followers of one diagnosis."""

    def __init__(self, capture: Capture, names: Names) -> None:
        self._capture = capture
        self._names = names

    @cached_property
    def closings(self) -> OncePerExchange[BrokerDisconnects]:
        """Connections that brokers ended."""
        return OncePerExchange(BrokerDisconnects(self._capture))

    @cached_property
    def staleness(self) -> OncePerExchange[Staleness]:
        """Episodes of clients with stale metadata."""
        return OncePerExchange(Staleness(self._names))

    @cached_property
    def introductions(self) -> OncePerExchange[Introductions]:
        """The client of each connection."""
        return OncePerExchange(Introductions())

    @cached_property
    def offered(self) -> OncePerExchange[OfferedVersions]:
        """The API versions that brokers offer."""
        return OncePerExchange(OfferedVersions())

    @cached_property
    def advertised(self) -> OncePerExchange[AdvertisedAddresses]:
        """The addresses that responses name."""
        return OncePerExchange(AdvertisedAddresses())
