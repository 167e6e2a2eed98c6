"""The clients of a capture: identity, library and settings, as far as the capture shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import (
    ClientIdentity,
    ConnectionKey,
    Introductions,
    client_name,
    connection_key,
)
from captures.analysis.clients import batch_settings
from captures.analysis.clients.fields import Fields, SentRequest
from captures.analysis.clients.fingerprints import Fingerprints
from captures.analysis.clients.libraries import Library, stated_library
from captures.analysis.clients.links import ActiveTimes, Links, failed_attempts, idle_before_close
from captures.analysis.clients.request_timing import TIMED, RequestTiming
from captures.analysis.clients.setting_display import DisplayedSetting, displayed_settings
from captures.analysis.clients.settings import Setting, ValueSource
from captures.exchanges import Capture, Exchange, Flag
from captures.faults import RAISED
from captures.json_objects import Time


class Client(msgspec.Struct):
    """One client: all connections with one client ID; without a client ID, those of one host.

    Frames without a client ID, such as raw SASL tokens, count for the client of their connection.

    :ivar name: the client ID, or the host
    :ivar library: its library; None if unknown
    :ivar software: names and versions from ApiVersions, most connections first
    :ivar principals: principals with the SASL mechanism: ``alice (SCRAM-SHA-256)``
    :ivar hosts: its addresses, without ports
    :ivar brokers: ``host:port`` of its brokers
    :ivar roles: producer, consumer, share consumer, connect group, replica ...
    :ivar first: time of its first exchange, ns since the epoch
    :ivar last: time of its last exchange, ns since the epoch
    """

    JSON = (
        "client=name client_id library software roles principals addresses=hosts brokers connections "
        "exchanges first last settings"
    )

    name: str
    client_id: str | None
    library: Library | None = None
    software: list[str] = []
    principals: list[str] = []
    hosts: list[str] = []
    brokers: list[str] = []
    roles: list[str] = []
    connections: int = 0
    exchanges: int = 0
    first: Time = 0
    last: Time = 0
    settings: list[DisplayedSetting] = []


class CountedExchanges(NamedTuple):
    """Exchanges of one client on one connection that were only counted.

    :ivar first: start of the first one, ns since the epoch
    :ivar last: end of the last one, ns since the epoch
    :ivar number: number of the last one
    """

    key: ConnectionKey
    client_id: str | None
    exchanges: int
    first: int
    last: int
    number: int


class _Contact(msgspec.Struct):
    """One client ID on one connection.

    :ivar number: number of its first exchange
    :ivar first: start of its first exchange, ns since the epoch
    :ivar last: end of its last exchange, and the number of that
    """

    number: int
    first: int
    count: int = 0
    last: tuple[int, int] = (0, 0)


class _Span(NamedTuple):
    """The active time of a client on a connection, in ns since the epoch, and its last exchange."""

    connection: int
    first: int
    last: int
    number: int


class Clients:
    """Collects clients and their settings.

    :param capture: shows TCP and TLS; without it, these are unknown
    """

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture
        self._faults = RAISED if capture is None else capture.faults
        self._introductions = Introductions()
        self._fingerprints = Fingerprints(capture)
        self._fields: dict[str, Fields] = {}
        self._rhythms: dict[str, RequestTiming] = {}
        self._contacts: dict[ConnectionKey, dict[str | None, _Contact]] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange; those of a connection must be in order, each once."""
        over = exchange.end
        key = connection_key(exchange)
        self.count(CountedExchanges(key, exchange.client_id, 1, exchange.time, over, exchange.number))
        self._introductions.add(exchange)
        if exchange.api_key is None or Flag.ORPHAN in exchange.flag:
            return
        name = client_name(exchange)
        self._fingerprints.add(exchange)
        if name not in self._fields:
            self._fields[name], self._rhythms[name] = Fields(), RequestTiming()
        self._fields[name].add(exchange)
        self._rhythms[name].add(exchange)

    def repeat(self, sent: SentRequest) -> None:
        """Learn from a request of a known client that repeats an earlier one; it is counted by :meth:`count`.

        :param sent: a Produce, Fetch, Heartbeat or OffsetCommit
        """
        if sent.api_key in TIMED:
            self._rhythms[sent.client].repeat(sent.api_key, sent.connection, sent.time, sent.number)
        else:
            self._fields[sent.client].read(sent)

    def learn(self, exchange: Exchange) -> None:
        """Learn from what a commit says that is not added."""
        self._fingerprints.learn(exchange)

    def count(self, seen: CountedExchanges) -> None:
        """Count exchanges that are not decoded."""
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
            self._faults.contained(describe, "describing a client", None, client.first)
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
        """Set library, roles and settings of a client."""
        fields = self._fields.get(client.name) or Fields()
        rhythm = self._rhythms.get(client.name) or RequestTiming()
        if client.software:
            client.library = stated_library(client.software[0])
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
            found.append(Setting("client.id", client.client_id, ValueSource.READ, client.exchanges))
        client.settings = displayed_settings(found, fields, client.library)

    def _links(self, clients: dict[str, Client]) -> dict[str, Links]:
        """Return facts about connections by client."""
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
            for name, spans_of_client in spans.items():
                presence = ActiveTimes((each.first, each.last) for each in spans_of_client)
                for each in spans_of_client:
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
    """Return the contacts of a connection by client; those without a client ID belong to a client with one."""
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
    """Return the hosts with a single client: failed connection attempts identify only the host."""
    by_host: dict[str, list[str]] = {}
    for client in clients:
        for host in client.hosts:
            by_host.setdefault(host, []).append(client.name)
    return {host: names[0] for host, names in by_host.items() if len(names) == 1}
