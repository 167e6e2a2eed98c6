"""Versions that brokers offer and clients use, and warnings about them.

Brokers announce their ranges in ApiVersions. Clients announce nothing: only the versions that a client used are known.
The versions it could use are bounded from above by the offered range, and from below by the versions it used
anywhere. A client that requests the ranges and stays below them has its own limit, or a reason in the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from captures.analysis.client_identity import Introductions, client_name, connection_key
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import ExchangeGroup, exchange_groups
from captures.analysis.offered_versions import announced_ranges, kafka_4_least, too_old
from captures.arrays import Bools
from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.equal_messages import BodyMemo
from captures.faults import RAISED
from captures.json_objects import OrNull, Range, Time
from captures.meaning.exchange import Body, number, replica_of, rows, text
from dissectors.api_keys import ASKED_BY_REPLICAS, ApiKey
from dissectors.apis import api_name
from dissectors.error_codes import ErrorCode

# ---------------------------------------------------------------- results


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


# ---------------------------------------------------------------- what messages show

BETWEEN_BROKERS = frozenset(
    {
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
        "WriteTxnMarkers",
        "AlterPartition",
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
        "FetchSnapshot",
        "UpdateRaftVoter",
        "Envelope",
        "BrokerRegistration",
        "BrokerHeartbeat",
        "ControllerRegistration",
        "AllocateProducerIds",
        "AssignReplicasToDirs",
        "InitializeShareGroupState",
        "ReadShareGroupState",
        "WriteShareGroupState",
        "DeleteShareGroupState",
        "ReadShareGroupStateSummary",
    }
)
"""APIs that only brokers and controllers use, and only among themselves."""
TAKEN = ("replica_id",)
"""The message columns that :func:`learn_versions` uses."""


class VersionLearner(Protocol):
    """Learns from the versions in use."""

    def count(self, group: ExchangeGroup) -> None: ...

    def deciding(self, rows: DecisionColumns) -> Bools: ...

    def learn(self, exchange: Exchange) -> None: ...


def learn_versions(
    learner: VersionLearner, reader: ExchangeReader, columns: ExchangeColumns
) -> Iterator[Exchange]:
    """Let `learner` learn from a whole capture; yield the few exchanges that had to be decoded.

    :param columns: of all its exchanges (:data:`TAKEN`)
    """
    indexes = np.arange(len(columns))
    for group in exchange_groups(columns, indexes + reader.first, bodies=False):
        learner.count(group)
    learn = reader.capture.faults.guarded(learner.learn, "learning versions")
    for exchange in reader.several(indexes[learner.deciding(DecisionColumns(columns))].tolist()):
        learn(exchange)
        yield exchange


class _Sighting(msgspec.Struct):
    """How often something was seen, and the first exchange with it."""

    count: int = 0
    first: int = 0

    def add(self, exchange: Exchange) -> None:
        self.first = self.first or exchange.number
        self.count += 1


class _Client(msgspec.Struct):
    """The observations about a client.

    :ivar used: broker and API -> version -> exchanges
    :ivar first: broker and API -> number of the first exchange
    :ivar at: broker, API and version -> number of the first exchange
    :ivar connections: for a client that does not ask: connection -> broker, and number of the first exchange
    """

    software: Counter[str] = msgspec.field(default_factory=Counter)
    hosts: dict[str, None] = {}
    used: dict[tuple[str, int], Counter[int]] = {}
    first: dict[tuple[str, int], int] = {}
    at: dict[tuple[str, int, int], int] = {}
    asks: bool = False
    connections: dict[int, tuple[str, int]] = {}
    is_broker: bool = False

    def count(self, group: ExchangeGroup, key: int, version: int) -> None:
        """Count a group of exchanges, and record whether the client sends ApiVersions."""
        broker = group.connection.broker
        place = broker, key
        self.used.setdefault(place, Counter())[version] += group.exchanges
        self.first.setdefault(place, group.number)
        self.at.setdefault((*place, version), group.number)
        self.hosts[group.connection.client.rpartition(":")[0]] = None
        self.is_broker = self.is_broker or group.api in BETWEEN_BROKERS
        if key == ApiKey.API_VERSIONS and not self.asks:
            self.asks = True
            self.connections.clear()
        if not self.asks:
            self.connections.setdefault(group.connection.connection, (broker, group.number))


class Negotiation:
    """Collects the versions that brokers offer and clients use.

    :param capture: knows which connections were captured from their start; without it, that is unknown
    """

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture
        self._faults = RAISED if capture is None else capture.faults
        self._introductions = Introductions()
        self._offers: dict[str, BrokerOffer] = {}
        self._clients: dict[str, _Client] = {}
        self._fallbacks: dict[tuple[str, str, int, int], _Sighting] = {}
        self._changes: dict[str, _Sighting] = {}
        self._announced = BodyMemo(announced_ranges)

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        self.count(ExchangeGroup.of(exchange))
        self.learn(exchange)

    def count(self, group: ExchangeGroup) -> None:
        """Count exchanges; groups must come in the order of their first exchanges."""
        self._offers.setdefault(group.connection.broker, BrokerOffer(group.connection.broker))
        if group.api_key is not None and group.version is not None:
            client = self._clients.setdefault(group.client_name, _Client())
            client.count(group, group.api_key, group.version)

    @staticmethod
    def deciding(rows: DecisionColumns) -> Bools:
        """Return a mask of the exchanges of a whole capture that it must learn from."""
        return rows.introducing | rows.first(rows.columns.flat("replica_id") >= 0)

    def learn(self, exchange: Exchange) -> None:
        """Learn from the content of an exchange that was counted."""
        self._introductions.add(exchange)
        key, version = exchange.api_key, exchange.version
        if key is None or version is None:
            return
        client = self._clients[client_name(exchange)]
        client.is_broker = client.is_broker or _is_broker(exchange)
        if key == ApiKey.API_VERSIONS:
            self._offer(exchange)
            software = self._introductions.of(connection_key(exchange)).software
            if software:
                client.software[software] += 1
            if exchange.errors and exchange.errors[0].code == ErrorCode.UNSUPPORTED_VERSION:
                answered = 0 if exchange.response is None else exchange.response.version or 0
                fallback = client_name(exchange), exchange.broker, version, answered
                self._fallbacks.setdefault(fallback, _Sighting()).add(exchange)

    def _offer(self, exchange: Exchange) -> None:
        response = exchange.response_body
        if exchange.response is None or number(response, "error_code", 0):
            return
        apis = self._announced(exchange.response)
        if not apis:
            return
        offer = self._offers[exchange.broker]
        if offer.apis and offer.apis != apis:
            self._changes.setdefault(exchange.broker, _Sighting()).add(exchange)
        if offer.apis != apis:
            offer.announced_by, offer.time, offer.apis = exchange.number, exchange.time, apis
        # older versions of the response have no features
        offer.supported = (
            _levels(response, "supported_features", "min_version", "max_version") or offer.supported
        )
        finalized = _levels(response, "finalized_features", "min_version_level", "max_version_level")
        offer.finalized = finalized or offer.finalized

    # ------------------------------------------------------------ results
    def result(self) -> Matrix:
        """Return the brokers by address, the clients by name, and the warnings, the worst first."""
        clients, warnings = list[ClientVersions](), list[VersionWarning]()
        for name, seen in sorted(self._clients.items()):
            try:
                client = self._client(name, seen)
                warned = self._of_client(client)
            except Exception as error:
                self._faults.note(error, "telling the versions of a client", min(seen.first.values()))
                continue
            clients.append(client)
            warnings += warned
        warnings += [*self._of_fallbacks(), *self._of_changes()]
        order = list(WarningKind)
        warnings.sort(key=lambda each: (order.index(each.kind), each.client, each.first))
        return Matrix(sorted(self._offers.values(), key=lambda each: each.broker), clients, warnings)

    def _client(self, name: str, seen: _Client) -> ClientVersions:
        asks = True if seen.asks else False if any(map(self._whole, seen.connections)) else None
        software = [each for each, _ in seen.software.most_common()]
        found = ClientVersions(name, software, list(seen.hosts), asks, seen.is_broker)
        anywhere: dict[int, set[int]] = {}
        for (_, key), used in seen.used.items():
            anywhere.setdefault(key, set()).update(used)
        for (broker, key), used in sorted(seen.used.items()):
            offered = self._offers[broker].apis.get(key)
            use = Use(broker, key, dict(sorted(used.items())), seen.first[broker, key], offered)
            use.elsewhere = sorted(anywhere[key].difference(used))
            if offered is not None and max(used) == offered[1]:
                use.limit = Limit.BROKER
            elif offered is not None and max(used) < offered[1] and asks:
                use.limit = Limit.CLIENT
            found.uses.append(use)
        return found

    def _whole(self, connection: int) -> bool:
        """Return whether a connection was captured from its start."""
        return self._capture is not None and int(self._capture.connections.syn_time[connection]) >= 0

    def _of_client(self, client: ClientVersions) -> list[VersionWarning]:
        if client.is_broker:
            return []
        seen = self._clients[client.name]
        found = [
            warning
            for use in client.uses
            for version, count in use.used.items()
            for warning in _of_use(client.name, use, version, count, seen.at[use.broker, use.key, version])
        ]
        if client.asks is False:
            whole = [place for connection, place in seen.connections.items() if self._whole(connection)]
            found.append(
                VersionWarning(
                    kind=WarningKind.NEVER_ASKED,
                    client=client.name,
                    broker=whole[0][0],
                    count=len(whole),
                    first=whole[0][1],
                    sentence="never asks what the broker offers: it uses the versions it was written or configured "
                    "for, and a broker that does not serve them closes the connection",
                )
            )
        return found

    def _of_fallbacks(self) -> list[VersionWarning]:
        return [
            VersionWarning(
                kind=WarningKind.FALLBACK,
                client=client,
                broker=broker,
                api=api_name(ApiKey.API_VERSIONS),
                version=asked,
                count=seen.count,
                first=seen.first,
                sentence=f"the broker does not know ApiVersions v{asked}, and answered in v{answered}: the client "
                "is newer than the broker, and asks a second time (KIP-511)",
            )
            for (client, broker, asked, answered), seen in self._fallbacks.items()
        ]

    def _of_changes(self) -> list[VersionWarning]:
        return [
            VersionWarning(
                kind=WarningKind.OFFER_CHANGED,
                broker=broker,
                count=seen.count,
                first=seen.first,
                sentence="the broker offers other versions than before: it was upgraded or configured anew, or "
                "another one has its address",
            )
            for broker, seen in self._changes.items()
        ]


def _is_broker(exchange: Exchange) -> bool:
    """Return whether the request was sent by a broker or controller as a replica."""
    request = exchange.request_body
    return exchange.api_key in ASKED_BY_REPLICAS and replica_of(request) >= 0


def _of_use(client: str, use: Use, version: int, count: int, first: int) -> list[VersionWarning]:
    values: dict[str, Any] = {
        "client": client,
        "broker": use.broker,
        "api": use.api,
        "version": version,
        "count": count,
        "first": first,
    }
    found = []
    # brokers answer unknown versions of ApiVersions
    asked = use.key == ApiKey.API_VERSIONS
    if use.offered is not None and not use.offered[0] <= version <= use.offered[1] and not asked:
        sentence = f"the broker offers {use.api} {shown(use.offered)} only"
        found.append(VersionWarning(kind=WarningKind.OUTSIDE_OFFERED, sentence=sentence, **values))
    if too_old(use.api, version):
        least = kafka_4_least(use.api)
        sentence = f"brokers of Kafka 4.0 and later serve {use.api} from v{least} on (KIP-896)"
        found.append(VersionWarning(kind=WarningKind.REFUSED_BY_KAFKA_4, sentence=sentence, **values))
    return found


def _levels(response: Body, name: str, least: str, most: str) -> dict[str, Range]:
    found = {text(row, "name"): (number(row, least), number(row, most)) for row in rows(response, name)}
    return dict(sorted(found.items()))
