"""The clients of a capture: who they are, what they run, and how they are configured, as far as that shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from captures.analysis.client_identity import (
    ClientIdentity,
    ConnectionKey,
    Introductions,
    client_name,
    connection_key,
)
from captures.analysis.clients import batch_settings
from captures.analysis.clients.fields import Fields
from captures.analysis.clients.fingerprints import Fingerprints
from captures.analysis.clients.libraries import Library, told_library
from captures.analysis.clients.links import Links, Presence, failed_attempts, idle_before_close
from captures.analysis.clients.rhythm import Rhythm
from captures.analysis.clients.setting_display import DisplayedSetting, told_settings
from captures.analysis.clients.settings import How, Setting
from captures.exchanges import Capture, Exchange, Flag
from captures.faults import RaisedFaults
from captures.json_objects import Time


@dataclass(slots=True)
class Client:
    """One client: all connections with one client ID; without a client ID, those of one host.

    Frames without a client ID, such as raw SASL tokens, count for the client of their connection.

    :ivar name: the client ID, or the host
    :ivar library: what it runs; None if that is not known
    :ivar software: names and versions as ApiVersions tells them, most connections first
    :ivar principals: what SASL shows, with the mechanism: ``alice (SCRAM-SHA-256)``
    :ivar hosts: its addresses, without ports
    :ivar brokers: ``host:port`` of those it talked to
    :ivar roles: producer, consumer, share consumer, connect group, replica ...
    :ivar first: ns since the epoch, of its first exchange
    :ivar last: of its last
    """

    JSON = (
        "client=name client_id library software roles principals addresses=hosts brokers connections "
        "exchanges first last settings"
    )

    name: str
    client_id: str | None
    library: Library | None = None
    software: list[str] = field(default_factory=list)
    principals: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    connections: int = 0
    exchanges: int = 0
    first: Time = 0
    last: Time = 0
    settings: list[DisplayedSetting] = field(default_factory=list)


class Steady(NamedTuple):
    """Exchanges of one client on one connection that were not looked into.

    :ivar first: ns since the epoch, when the first of them began
    :ivar last: likewise, when the last of them was over
    :ivar number: of the last of them
    """

    key: ConnectionKey
    client_id: str | None
    exchanges: int
    first: int
    last: int
    number: int


@dataclass(slots=True)
class _Contact:
    """One client ID on one connection.

    :ivar number: of its first exchange
    :ivar first: ns since the epoch, when it began
    :ivar last: when the last of its exchanges was over, and the number of that
    """

    number: int
    first: int
    count: int = 0
    last: tuple[int, int] = (0, 0)


class _Span(NamedTuple):
    """How long a client talked on a connection, in ns since the epoch, and the last exchange of that."""

    connection: int
    first: int
    last: int
    number: int


class Clients:
    """Collects clients and their settings.

    :param capture: tells what TCP and TLS show; without it, that is not known
    """

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture
        self._faults = RaisedFaults() if capture is None else capture.faults
        self._introductions = Introductions()
        self._fingerprints = Fingerprints(capture)
        self._fields: dict[str, Fields] = {}
        self._rhythms: dict[str, Rhythm] = {}
        self._contacts: dict[ConnectionKey, dict[str | None, _Contact]] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange; those of a connection in their order, each once."""
        over = exchange.end
        key = connection_key(exchange)
        self.count(Steady(key, exchange.client_id, 1, exchange.time, over, exchange.number))
        self._introductions.add(exchange)
        if exchange.api_key is None or Flag.ORPHAN in exchange.flag:
            return
        name = client_name(exchange)
        self._fingerprints.add(exchange)
        if name not in self._fields:
            self._fields[name], self._rhythms[name] = Fields(), Rhythm()
        self._fields[name].add(exchange)
        self._rhythms[name].add(exchange)

    def count(self, seen: Steady) -> None:
        """Count exchanges that are not looked into."""
        by_id = self._contacts.get(seen.key)
        if by_id is None:
            by_id = self._contacts[seen.key] = {}
        contact = by_id.get(seen.client_id)
        if contact is None:
            contact = by_id[seen.client_id] = _Contact(seen.number, seen.first)
        contact.count += seen.exchanges
        contact.first = min(contact.first, seen.first)
        contact.last = max(contact.last, (seen.last, seen.number))

    def result(self) -> list[Client]:
        """Return the clients, the one with the most exchanges first."""
        clients = self._inventory()
        links = self._links(clients)
        for name, client in clients.items():
            describe = partial(self._describe, client, links.get(name) or Links())
            self._faults.made(describe, "describing a client", None, client.first)
        return sorted(clients.values(), key=lambda client: (-client.exchanges, client.name))

    def _inventory(self) -> dict[str, Client]:
        clients: dict[str, Client] = {}
        identities: dict[str, ClientIdentity] = defaultdict(ClientIdentity)
        for key, by_id in self._contacts.items():
            intro = self._introductions.of(key)
            for name, contacts in _owners(key, by_id).items():
                first = min(contact.first for _, contact in contacts)
                client = clients.get(name)
                if client is None:
                    client = clients[name] = Client(name, contacts[0][0], first=first)
                _count(client, [contact for _, contact in contacts])
                identities[name].add(key, intro)
        for name, client in clients.items():
            known = identities[name]
            client.software, client.principals = known.software, known.principals
            client.hosts, client.brokers = known.hosts, known.brokers
        return clients

    def _describe(self, client: Client, links: Links) -> None:
        """Tell library, roles and settings of a client."""
        fields = self._fields.get(client.name) or Fields()
        rhythm = self._rhythms.get(client.name) or Rhythm()
        if client.software:
            client.library = told_library(client.software[0])
        else:
            client.library = self._fingerprints.guess(client.name, client.client_id)
        client.roles = fields.roles.names()
        found = [
            *batch_settings.estimates(fields.batches),
            *rhythm.settings(streams=fields.roles.is_streams),
            *links.settings(),
            *(batch_settings.compression(each, fields.batches, client.library) for each in fields.settings()),
        ]
        if client.client_id is not None:
            found.append(Setting("client.id", client.client_id, How.READ, client.exchanges))
        client.settings = told_settings(found, fields, client.library)

    def _links(self, clients: dict[str, Client]) -> dict[str, Links]:
        """Return what connections tell, by client."""
        links: dict[str, Links] = defaultdict(Links)
        capture = self._capture
        tls = set(capture.decryption.tls) if capture is not None else set()
        spans: dict[str, list[_Span]] = defaultdict(list)
        for key, by_id in self._contacts.items():
            for name, contacts in _owners(key, by_id).items():
                number = min(contact.number for _, contact in contacts)
                links[name].secured(self._introductions.of(key), number, tls=key.connection in tls)
                first = min(contact.first for _, contact in contacts)
                spans[name].append(
                    _Span(key.connection, first, *max(contact.last for _, contact in contacts))
                )
        if capture is not None:
            for name, mine in spans.items():
                presence = Presence((each.first, each.last) for each in mine)
                for each in mine:
                    idle = idle_before_close(capture, each.connection, each.last, presence)
                    if idle is not None:
                        links[name].idle.add(idle, each.number)
            alone = _alone(clients.values())
            for host, delay in failed_attempts(capture):
                if host in alone:
                    links[alone[host]].reconnects.add(delay, 0)
        return links


def _owners(
    key: ConnectionKey, by_id: dict[str | None, _Contact]
) -> dict[str, list[tuple[str | None, _Contact]]]:
    """Return what was said on a connection by client; what has no client ID belongs to one that has."""
    alone = next((client_id for client_id in by_id if client_id), None)
    found: dict[str, list[tuple[str | None, _Contact]]] = {}
    for client_id, contact in by_id.items():
        owner = client_id or alone
        found.setdefault(owner or key.client.rpartition(":")[0], []).append((owner, contact))
    return found


def _count(client: Client, contacts: list[_Contact]) -> None:
    client.connections += 1
    client.exchanges += sum(contact.count for contact in contacts)
    client.first = min(client.first, *(contact.first for contact in contacts))
    client.last = max(client.last, *(contact.last[0] for contact in contacts))


def _alone(clients: Iterable[Client]) -> dict[str, str]:
    """Return the hosts with a single client: attempts to connect that fail tell no more than the host."""
    by_host: dict[str, list[str]] = {}
    for client in clients:
        for host in client.hosts:
            by_host.setdefault(host, []).append(client.name)
    return {host: names[0] for host, names in by_host.items() if len(names) == 1}
