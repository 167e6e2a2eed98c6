"""Statistics per client: its ID, software, principal and addresses, and its requests.

A client is the sender of one client ID; clients without an ID are distinguished by host. Frames without a client ID
(raw SASL tokens, responses whose request was not captured) count for the client of their connection.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from captures.analysis.client_identity import ClientIdentity, ConnectionKey, Introductions
from captures.analysis.exchange_groups import Counts, ExchangeGroup
from captures.exchanges import Exchange
from captures.json_objects import Time


@dataclass(slots=True, kw_only=True)
class ClientRow(Counts):
    """The figures of one client.

    :ivar client_id: None for clients without one
    :ivar name: the client ID, or the host
    :ivar software: names and versions stated in ApiVersions, most connections first; empty if not stated
    :ivar principals: principals with the SASL mechanism: ``alice (SCRAM-SHA-256)``
    :ivar hosts: its addresses, without ports
    :ivar brokers: ``host:port`` of its brokers
    :ivar errors: exchanges with an error that does not belong to a normal conversation
    :ivar apis: exchanges by API, the most frequent first
    :ivar versions: exchanges by API and version, both ascending; frames without a version are not included
    :ivar unnamed: connections whose frames without a client ID count for it
    :ivar first: time of its first exchange, ns since the epoch
    :ivar last: time of its last exchange, ns since the epoch
    """

    JSON = (
        "client_id name software principals hosts brokers connections exchanges errors unanswered "
        "request_bytes response_bytes apis versions first last"
    )

    client_id: str | None
    name: str
    software: list[str] = field(default_factory=list)
    principals: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)
    connections: int = 0
    apis: dict[str, int] = field(default_factory=dict)
    versions: dict[str, dict[int, int]] = field(default_factory=dict)
    unnamed: list[int] = field(default_factory=list)
    first: Time = 0
    last: Time = 0


@dataclass(slots=True, kw_only=True)
class _Sums(Counts):
    """One client ID on one connection."""

    apis: Counter[str] = field(default_factory=Counter)
    versions: Counter[tuple[str, int]] = field(default_factory=Counter)
    first: int = 0
    last: int = 0


class ClientStats:
    """Counts exchanges by client.

    :ivar introductions: what clients said of themselves
    """

    def __init__(self) -> None:
        self.introductions = Introductions()
        self._sums: dict[ConnectionKey, dict[str | None, _Sums]] = {}

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        self.introduce(exchange)
        self.count(ExchangeGroup.of(exchange))

    def introduce(self, exchange: Exchange) -> None:
        """Learn the client's identity from one exchange."""
        self.introductions.add(exchange)

    def count(self, group: ExchangeGroup) -> None:
        """Count exchanges."""
        by_id = self._sums.setdefault(group.connection, {})
        sums = by_id.get(group.client_id)
        if sums is None:
            sums = by_id[group.client_id] = _Sums(first=group.first)
        sums.include(group)
        sums.apis[group.api] += group.exchanges
        if group.version is not None:
            sums.versions[group.api, group.version] += group.exchanges
        sums.last = max(sums.last, group.last)

    def result(self) -> list[ClientRow]:
        """Return the clients, the one with the most exchanges first."""
        rows: dict[tuple[str | None, str], ClientRow] = {}
        identities: dict[tuple[str | None, str], ClientIdentity] = {}
        for key, by_id in self._sums.items():
            alone = next((client_id for client_id in by_id if client_id), None)
            host = key.client.rpartition(":")[0]
            here: set[tuple[str | None, str]] = set()
            for client_id, sums in by_id.items():
                owner = client_id or alone
                identity = owner, owner or host
                row = rows.get(identity)
                if row is None:
                    row = rows[identity] = ClientRow(client_id=owner, name=owner or host, first=sums.first)
                    identities[identity] = ClientIdentity()
                here.add(identity)
                _add(row, sums)
                if not client_id:
                    row.unnamed.append(key.connection)
            intro = self.introductions.of(key)
            for identity in here:
                rows[identity].connections += 1
                identities[identity].add(key, intro)
        for identity, known in identities.items():
            row = rows[identity]
            row.software, row.principals = known.software, known.principals
            row.hosts, row.brokers = known.hosts, known.brokers
            row.apis = dict(sorted(row.apis.items(), key=lambda item: (-item[1], item[0])))
            row.versions = {api: dict(sorted(used.items())) for api, used in sorted(row.versions.items())}
        return sorted(rows.values(), key=lambda row: (-row.exchanges, row.name))


def _add(row: ClientRow, sums: _Sums) -> None:
    row.include(sums)
    row.first = min(row.first, sums.first)
    row.last = max(row.last, sums.last)
    for api, count in sums.apis.items():
        row.apis[api] = row.apis.get(api, 0) + count
    for (api, version), count in sums.versions.items():
        used = row.versions.setdefault(api, {})
        used[version] = used.get(version, 0) + count
