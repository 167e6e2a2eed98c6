"""What several rules follow: each is made once, as they are asked for, and takes every exchange in once.

Rules are shown an exchange one after the other, so that it is enough to know the latest one. A follower is shared where
it does not matter which of the rules has shown it the exchange already.
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
    """Learns from exchanges."""

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""


F = TypeVar("F", bound=Follower)


class Once(Generic[F]):
    """Shows a follower each exchange once, however many rules show it.

    :ivar known: the follower, to be asked for what it has learnt
    """

    __slots__ = ("_latest", "known")

    def __init__(self, follower: F) -> None:
        self.known = follower
        self._latest: Exchange | None = None

    def add(self, exchange: Exchange) -> None:
        """Show it an exchange; does nothing if it was the last one that it was shown."""
        if exchange is not self._latest:
            self._latest = exchange
            self.known.add(exchange)


class SharedFollowers:
    """The followers of one diagnosis."""

    def __init__(self, capture: Capture, names: Names) -> None:
        self._capture = capture
        self._names = names

    @cached_property
    def closings(self) -> Once[BrokerDisconnects]:
        """Connections that brokers ended."""
        return Once(BrokerDisconnects(self._capture))

    @cached_property
    def staleness(self) -> Once[Staleness]:
        """What clients do when their metadata is out of date."""
        return Once(Staleness(self._names))

    @cached_property
    def introductions(self) -> Once[Introductions]:
        """Who speaks on a connection."""
        return Once(Introductions())

    @cached_property
    def offered(self) -> Once[OfferedVersions]:
        """Which versions brokers offer."""
        return Once(OfferedVersions())

    @cached_property
    def advertised(self) -> Once[AdvertisedAddresses]:
        """Which addresses answers name."""
        return Once(AdvertisedAddresses())
