"""Values of the negotiation of versions: what brokers offer, what clients use, and what of that will not go well.

They are made by :mod:`captures.analysis.negotiation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from captures.exchanges import rfc3339
from dissectors.apis import api_name

Range = tuple[int, int]
"""Least and highest version."""


class WarningKind(StrEnum):
    """What will not go well. The words are stable."""

    REFUSED_BY_KAFKA_4 = "refused_by_kafka_4"
    """Brokers of Kafka 4.0 and later do not serve the version (KIP-896)."""
    OUTSIDE_OFFERED = "outside_offered"
    """The broker does not offer the version."""
    FALLBACK = "fallback"
    """The broker did not know the version of ApiVersions that it was asked in, and answered in version 0 (KIP-511)."""
    NEVER_ASKED = "never_asked"
    """The client sends requests without asking what the broker offers."""
    OFFER_CHANGED = "offer_changed"
    """The broker offers something else than before: it was upgraded, or another one has its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWarning:
    """One thing that will not go well.

    :ivar client: client ID, or address without one; empty if it is about a broker
    :ivar broker: ``host:port``
    :ivar api: empty if it is about none
    :ivar version: None likewise
    :ivar count: exchanges that show it
    :ivar first: number of the first
    :ivar sentence: what it means, in words that go with every client and broker of whom it is said
    """

    kind: WarningKind
    broker: str
    count: int
    first: int
    sentence: str
    client: str = ""
    api: str = ""
    version: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/api-versions.md``."""
        return {
            "kind": self.kind,
            "client": self.client or None,
            "broker": self.broker,
            "api": self.api or None,
            "version": self.version,
            "count": self.count,
            "first": self.first,
            "sentence": self.sentence,
        }


@dataclass(slots=True)
class BrokerOffer:
    """What a broker offers, as it told last.

    :ivar told: number of the exchange in which it told it first; None if it did not tell
    :ivar apis: API key -> versions
    :ivar supported: feature -> levels that the broker supports (KIP-584)
    :ivar finalized: feature -> levels in force in the cluster
    """

    broker: str
    told: int | None = None
    time: int | None = None
    apis: dict[int, Range] = field(default_factory=dict)
    supported: dict[str, Range] = field(default_factory=dict)
    finalized: dict[str, Range] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/api-versions.md``."""
        return {
            "broker": self.broker,
            "told": self.told,
            "time": None if self.time is None else rfc3339(self.time),
            "apis": [
                {"api": api_name(key), "api_key": key, "min": least, "max": most}
                for key, (least, most) in sorted(self.apis.items())
            ],
            "supported_features": _features(self.supported),
            "finalized_features": _features(self.finalized),
        }


class Limit(StrEnum):
    """What keeps a client from a higher version."""

    BROKER = "broker"
    """It uses the highest version that the broker offers; it may know higher ones."""
    CLIENT = "client"
    """It asked what the broker offers, and uses less: it knows no higher one, or has a reason not to use it."""


@dataclass(slots=True)
class Use:
    """The versions of one API that a client uses with a broker.

    :ivar used: version -> exchanges
    :ivar elsewhere: versions that it used with other brokers, and not with this one
    :ivar offered: by the broker; None if it did not tell, or does not have the API
    :ivar limit: None if it is not known
    :ivar first: number of the first exchange
    """

    broker: str
    key: int
    used: dict[int, int]
    first: int
    offered: Range | None = None
    elsewhere: list[int] = field(default_factory=list)
    limit: Limit | None = None

    @property
    def api(self) -> str:
        """Name of the API."""
        return api_name(self.key)

    @property
    def could(self) -> Range | None:
        """Versions that the broker offers from the highest on that the client is known to speak; None if none."""
        if self.offered is None:
            return None
        known = max(
            [version for version in (*self.used, *self.elsewhere) if version <= self.offered[1]], default=None
        )
        return None if known is None or known < self.offered[0] else (known, self.offered[1])

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/api-versions.md``."""
        return {
            "broker": self.broker,
            "api": self.api,
            "api_key": self.key,
            "used": {str(version): count for version, count in self.used.items()},
            "used_elsewhere": self.elsewhere,
            "offered": _range(self.offered),
            "could_use": _range(self.could),
            "limit": self.limit,
            "first": self.first,
        }


@dataclass(slots=True)
class ClientVersions:
    """What a client uses.

    :ivar name: client ID, or address without one
    :ivar software: names and versions from ApiVersions v3+ (KIP-511); empty if not told
    :ivar asks: whether it asks for the ranges; None if the beginning of none of its connections was captured
    :ivar is_broker: whether it is a broker or controller that speaks with others; these use what
        ``inter.broker.protocol.version`` says, or know each other's versions otherwise
    :ivar uses: by broker and API
    """

    name: str
    software: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    asks: bool | None = None
    is_broker: bool = False
    uses: list[Use] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/api-versions.md``."""
        return {
            "client": self.name,
            "software": self.software,
            "hosts": self.hosts,
            "asks_for_versions": self.asks,
            "is_broker": self.is_broker,
            "versions": [use.to_json() for use in self.uses],
        }


@dataclass(frozen=True, slots=True)
class Matrix:
    """Who offers what, and who uses what."""

    brokers: list[BrokerOffer]
    clients: list[ClientVersions]
    warnings: list[VersionWarning]

    def of(self, client: str | None, broker: str | None) -> Matrix:
        """Return what is about one client, or one broker; None for all.

        :param broker: ``host:port``
        """
        clients = [
            replace(each, uses=uses)
            for each in self.clients
            if client in (None, each.name)
            and (uses := [use for use in each.uses if broker in (None, use.broker)])
        ]
        met = {use.broker for each in clients for use in each.uses}
        return Matrix(
            [
                each
                for each in self.brokers
                if each.broker in met or (client is None and each.broker == broker)
            ],
            clients,
            [
                each
                for each in self.warnings
                if (client is None or client == each.client) and broker in (None, each.broker)
            ],
        )

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/api-versions.md``."""
        return {
            "brokers": [each.to_json() for each in self.brokers],
            "clients": [each.to_json() for each in self.clients],
            "warnings": [each.to_json() for each in self.warnings],
        }


def shown(versions: Range | None) -> str:
    """Return a range in words: ``4-18``, ``3``; empty if there is none."""
    if versions is None:
        return ""
    least, most = versions
    return str(least) if least == most else f"{least}-{most}"


def _features(found: dict[str, Range]) -> dict[str, dict[str, int] | None]:
    return {name: _range(levels) for name, levels in sorted(found.items())}


def _range(found: Range | None) -> dict[str, int] | None:
    return None if found is None else {"min": found[0], "max": found[1]}
