"""The clients of a capture: identity, library and settings, as far as the capture shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

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
from captures.analysis.clients.request_timing import TIMED, Gaps, RequestTiming
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


class _Contact(msgspec.Struct):
    """One client ID on one connection, or all exchanges of a client on it.

    :ivar number: number of its first exchange
    :ivar first: start of its first exchange, ns since the epoch
    :ivar last: end of its last exchange, and the number of that
    """

    number: int
    first: int
    count: int = 0
    last: tuple[int, int] = (0, 0)

    def include(self, count: int, number: int, first: int, last: tuple[int, int]) -> None:
        """Add exchanges."""
        self.count += count
        self.number, self.first, self.last = (
            min(self.number, number),
            min(self.first, first),
            max(self.last, last),
        )


class _Client(msgspec.Struct):
    """A client with its connections."""

    client_id: str | None
    contacts: list[tuple[ConnectionKey, _Contact]] = []


class Clients:
    """Collects clients and their settings.

    :param capture: shows TCP and TLS; without it, these are unknown
    """

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture
        self._faults = RAISED if capture is None else capture.faults
        self._introductions = Introductions()
        self._fingerprints = Fingerprints(capture)
        self._fields: dict[str, Fields] = defaultdict(Fields)
        self._rhythms: dict[str, RequestTiming] = defaultdict(RequestTiming)
        self._contacts: dict[ConnectionKey, dict[str | None, _Contact]] = defaultdict(dict)

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange; those of a connection must be in order, each once."""
        times = exchange.time, exchange.end
        self.count(connection_key(exchange), exchange.client_id, 1, *times, exchange.number)
        self._introductions.add(exchange)
        if exchange.api_key is None or Flag.ORPHAN in exchange.flag:
            return
        name = client_name(exchange)
        self._fingerprints.add(exchange)
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

    def count(
        self, key: ConnectionKey, client_id: str | None, exchanges: int, first: int, last: int, number: int
    ) -> None:
        """Count exchanges of one client on one connection.

        :param first: start of the first one, ns since the epoch
        :param last: end of the last one, ns since the epoch
        :param number: number of the last one
        """
        by_id = self._contacts[key]
        if client_id not in by_id:
            by_id[client_id] = _Contact(number, first)
        by_id[client_id].include(exchanges, number, first, (last, number))

    def result(self) -> list[Client]:
        """Return the clients, the one with the most exchanges first."""
        known = self._by_client()
        clients = {name: self._client(name, client) for name, client in known.items()}
        reconnects = self._reconnects(clients.values())
        for name, client in clients.items():
            links = partial(self._links, known[name], reconnects.get(name, Gaps()))
            describe = partial(self._describe, client, links)
            self._faults.contained(describe, "describing a client", None, client.first)
        return sorted(clients.values(), key=lambda client: (-client.exchanges, client.name))

    def _by_client(self) -> dict[str, _Client]:
        """Return the clients by name; requests without a client ID belong to the one with an ID on that connection."""
        found: dict[str, _Client] = {}
        for key, by_id in self._contacts.items():
            alone = next((client_id for client_id in by_id if client_id), None)
            here: dict[str, _Contact] = {}
            for client_id, contact in by_id.items():
                owner = client_id or alone
                name = owner or key.client.rpartition(":")[0]
                if name not in here:
                    here[name] = _Contact(contact.number, contact.first)
                    found.setdefault(name, _Client(owner)).contacts.append((key, here[name]))
                here[name].include(contact.count, contact.number, contact.first, contact.last)
        return found

    def _client(self, name: str, client: _Client) -> Client:
        identity = ClientIdentity()
        for key, _ in client.contacts:
            identity.add(key, self._introductions.of(key))
        contacts = [contact for _, contact in client.contacts]
        return Client(
            name,
            client.client_id,
            software=identity.software,
            principals=identity.principals,
            hosts=identity.hosts,
            brokers=identity.brokers,
            connections=len(contacts),
            exchanges=sum(contact.count for contact in contacts),
            first=min(contact.first for contact in contacts),
            last=max(contact.last for contact in contacts)[0],
        )

    def _describe(self, client: Client, links_of: Callable[[], Links]) -> None:
        """Set library, roles and settings of a client."""
        fields, rhythm = self._fields[client.name], self._rhythms[client.name]
        if client.software:
            client.library = stated_library(client.software[0])
        else:
            client.library = self._fingerprints.guess(client.name, client.client_id)
        client.roles = fields.roles.names()
        found = [
            *batch_settings.estimates(fields.batches),
            *rhythm.settings(streams=fields.roles.is_streams),
            *links_of().settings(),
            *(batch_settings.compression(each, fields.batches, client.library) for each in fields.settings()),
        ]
        if client.client_id is not None:
            found.append(Setting("client.id", client.client_id, ValueSource.READ, client.exchanges))
        client.settings = displayed_settings(found, fields, client.library)

    def _links(self, client: _Client, reconnects: Gaps) -> Links:
        """Return facts about the connections of a client."""
        links, capture = Links(reconnects=reconnects), self._capture
        tls = set() if capture is None else capture.decryption.tls
        for key, contact in client.contacts:
            links.secured(self._introductions.of(key), contact.number, tls=key.connection in tls)
        if capture is not None:
            presence = ActiveTimes((contact.first, contact.last[0]) for _, contact in client.contacts)
            for key, contact in client.contacts:
                idle = idle_before_close(capture, key.connection, contact.last[0], presence)
                if idle is not None:
                    links.idle.add(idle, contact.last[1])
        return links

    def _reconnects(self, clients: Iterable[Client]) -> dict[str, Gaps]:
        """Return the times between attempts to connect by client, if it is alone on its host: no more is known."""
        by_host: dict[str, list[str]] = defaultdict(list)
        for client in clients:
            for host in client.hosts:
                by_host[host].append(client.name)
        found: dict[str, Gaps] = defaultdict(Gaps)
        for host, delay in failed_attempts(self._capture) if self._capture is not None else ():
            if len(by_host[host]) == 1:
                found[by_host[host][0]].add(delay, 0)
        return found
