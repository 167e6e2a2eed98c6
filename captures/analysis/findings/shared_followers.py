"""State that several rules share: each follower is made once, and gets every exchange once.

Rules get the exchanges one after the other, so it suffices to remember the latest one. A follower can be shared if it
does not matter which of the rules passes it an exchange first.
"""

from __future__ import annotations

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
        self.closings = OncePerExchange(BrokerDisconnects(capture))
        """Connections that brokers ended."""
        self.staleness = OncePerExchange(Staleness(names))
        """Episodes of clients with stale metadata."""
        self.introductions = OncePerExchange(Introductions())
        """The client of each connection."""
        self.offered = OncePerExchange(OfferedVersions())
        """The API versions that brokers offer."""
        self.advertised = OncePerExchange(AdvertisedAddresses())
        """The addresses that responses name."""
