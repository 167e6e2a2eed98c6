"""Results of version negotiation: versions that brokers offer and clients use, and warnings about them.

:mod:`captures.analysis.negotiation` creates them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import msgspec

from captures.json_objects import OrNull, Range, Time
from dissectors.apis import api_name


class OfferedApi(NamedTuple):
    """The versions of an API that a broker offers."""

    api: str
    api_key: int
    min: int
    max: int


class WarningKind(StrEnum):
    """The kind of a warning. The words are stable."""

    REFUSED_BY_KAFKA_4 = "refused_by_kafka_4"
    """Brokers of Kafka 4.0 and later do not serve the version (KIP-896)."""
    OUTSIDE_OFFERED = "outside_offered"
    """The broker does not offer the version."""
    FALLBACK = "fallback"
    """The broker did not know the requested version of ApiVersions, and answered in version 0 (KIP-511)."""
    NEVER_ASKED = "never_asked"
    """The client sends requests without asking what the broker offers."""
    OFFER_CHANGED = "offer_changed"
    """The broker offers other versions than before: it was upgraded, or another one has its address."""


class VersionWarning(msgspec.Struct, frozen=True, kw_only=True):
    """One warning.

    :ivar client: client ID, or address without one; empty if it is about a broker
    :ivar broker: ``host:port``
    :ivar api: empty if it is about none
    :ivar version: None if it is about none
    :ivar count: exchanges that show it
    :ivar first: number of the first exchange
    :ivar sentence: what it means, worded independently of client and broker
    """

    JSON = "kind client broker api version count first sentence"

    kind: WarningKind
    broker: str
    count: int
    first: int
    sentence: str
    client: OrNull[str] = ""
    api: OrNull[str] = ""
    version: int | None = None


class BrokerOffer(msgspec.Struct):
    """The latest offer of a broker.

    :ivar announced_by: number of the first exchange with this offer; None if there was none
    :ivar apis: API key -> versions
    :ivar supported: feature -> levels that the broker supports (KIP-584)
    :ivar finalized: feature -> levels in force in the cluster
    :ivar name: name of its address, None if it has none
    """

    JSON = "broker told=announced_by time apis=offered supported_features=supported finalized_features=finalized name"

    broker: str
    announced_by: int | None = None
    time: Time | None = None
    apis: dict[int, Range] = {}
    supported: dict[str, Range] = {}
    finalized: dict[str, Range] = {}
    name: str | None = None

    @property
    def offered(self) -> list[OfferedApi]:
        """The APIs, sorted by key."""
        return [OfferedApi(api_name(key), key, *versions) for key, versions in sorted(self.apis.items())]


class Limit(StrEnum):
    """What keeps a client from a higher version."""

    BROKER = "broker"
    """It uses the highest version that the broker offers; it may know higher ones."""
    CLIENT = "client"
    """It asked for the broker's versions, and uses less: it knows no higher one, or has a reason not to use it."""


class Use(msgspec.Struct):
    """The versions of one API that a client uses with a broker.

    :ivar used: version -> exchanges
    :ivar elsewhere: versions that it used with other brokers, and not with this one
    :ivar offered: versions that the broker offers; None if unknown, or it does not have the API
    :ivar limit: None if unknown
    :ivar first: number of the first exchange
    """

    JSON = "broker api api_key=key used used_elsewhere=elsewhere offered could_use=could limit first"

    broker: str
    key: int
    used: dict[int, int]
    first: int
    offered: Range | None = None
    elsewhere: list[int] = []
    limit: Limit | None = None

    @property
    def api(self) -> str:
        """Name of the API."""
        return api_name(self.key)

    @property
    def could(self) -> Range | None:
        """The offered versions from the highest one that the client is known to speak; None if there are none."""
        if self.offered is None:
            return None
        known = max(
            [version for version in (*self.used, *self.elsewhere) if version <= self.offered[1]], default=None
        )
        return None if known is None or known < self.offered[0] else (known, self.offered[1])


@dataclass(slots=True)
class ClientVersions:
    """The versions that a client uses.

    :ivar name: client ID, or address without one
    :ivar software: names and versions from ApiVersions v3+ (KIP-511); empty if not stated
    :ivar asks: whether it asks for the ranges; None if no start of its connections was captured
    :ivar is_broker: whether it is a broker or controller that speaks with others; their versions follow
        ``inter.broker.protocol.version``, or they know each other's versions otherwise
    :ivar uses: by broker and API
    """

    JSON = "client=name software hosts asks_for_versions=asks is_broker versions=uses"

    name: str
    software: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    asks: bool | None = None
    is_broker: bool = False
    uses: list[Use] = field(default_factory=list)


class Matrix(msgspec.Struct, frozen=True):
    """The versions that brokers offer, and those that clients use."""

    brokers: list[BrokerOffer]
    clients: list[ClientVersions]
    warnings: list[VersionWarning]

    def of(self, wanted: Collection[str] | None, broker: str | None) -> Matrix:
        """Return the part about some clients, or one broker; None for all.

        :param broker: ``host:port``
        """
        clients = [
            replace(each, uses=uses)
            for each in self.clients
            if (wanted is None or each.name in wanted)
            and (uses := [use for use in each.uses if broker in (None, use.broker)])
        ]
        brokers_used = {use.broker for each in clients for use in each.uses}
        return Matrix(
            [
                each
                for each in self.brokers
                if each.broker in brokers_used or (wanted is None and each.broker == broker)
            ],
            clients,
            [
                each
                for each in self.warnings
                if (wanted is None or each.client in wanted) and broker in (None, each.broker)
            ],
        )


def shown(versions: Range | None) -> str:
    """Return a range as text: ``4-18``, ``3``; empty if there is none."""
    if versions is None:
        return ""
    least, most = versions
    return str(least) if least == most else f"{least}-{most}"
