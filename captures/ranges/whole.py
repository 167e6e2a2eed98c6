"""A capture whose ranges were stitched, for analyses that need all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import ExchangeTable
from captures.exchanges.checkpoints import CONNECTION_COLUMNS, Endpoint
from captures.exchanges.samples import Samples
from captures.exchanges.single import Skip
from captures.faults import Faults
from captures.interventions import Interventions
from captures.names import Names
from captures.packets import AddressBook, Connections, JoinedSource, Statistics
from captures.packets.observation import Observation
from captures.packets.tls.events import TlsInfo
from captures.ranges.edges import SyncPoint, unpack
from captures.ranges.exchange_numbers import NumberedRanges
from captures.ranges.whole_connections import ConnectionTable, PackedConnections
from dissectors.session_context import SessionFacts


class _Tls(NamedTuple):
    """A TLS connection."""

    info: TlsInfo


class _Decryption(NamedTuple):
    """The TLS connections, by id."""

    tls: dict[int, _Tls]


class WholeNotes(NamedTuple):
    """Interventions of kproxy in the capture as a whole; those in an exchange belong to the exchange.

    :ivar ended_connections: connections that kproxy closed, reset or let fall silent
    """

    ended_connections: set[int]

    def intervened(self) -> Mapping[int, Interventions]:
        """Return the interventions in exchanges in flight, by row: there are none."""
        return {}


class WholeCapture:
    """A capture as a whole: its connections, its losses, and the headers of its exchanges.

    It takes the place of a :class:`~captures.exchanges.Capture` in analyses; it has no bytes of exchanges.

    :param source: all files, because some analyses read packets again
    :ivar table: headers of the exchanges passed to :meth:`take`, which suffice for analyses
    :ivar facts: session facts of all exchanges
    """

    def __init__(self, source: JoinedSource, whole: WholeCaptureData) -> None:
        self.table = ExchangeTable()
        self.addresses = AddressBook()
        self.names = Names()
        self.faults = Faults()
        self.show(source, whole)

    def show(self, source: JoinedSource, whole: WholeCaptureData) -> None:
        """Set the data of the whole capture; called again with each batch of a growing one."""
        self.source = source
        self.statistics = whole.statistics
        self.latest = whole.latest
        self.connections = Connections()
        self.connections.observation = whole.observation
        self._swapped: set[int] = set()
        rare: dict[str, dict[Any, Any]] = {}
        book = self.addresses
        numbers = {(book.address(each), book.port(each)): each for each in range(len(book))}
        count = sum(len(each.ids) for each in whole.connections)
        self.connections.grow(count)
        self.connections.streams.grow(2 * count)
        for each in whole.connections:
            table: ConnectionTable = unpack(each.data)
            self._add(table, each.ids, numbers)
            for name, values in table.rare.items():
                rare.setdefault(name, {}).update((int(each.ids[index]), values[index]) for index in values)
        book.restore(list(numbers))
        found = {name: dict(sorted(values.items())) for name, values in rare.items()}
        self.facts = whole.facts._replace(
            mechanisms=found.get("mechanism", {}), clusters=found.get("cluster", {})
        )
        self.notes = WholeNotes(set(found.get("ended_by_kproxy", ())))
        self.foreign: dict[int, str] = found.get("foreign", {})
        self.decryption = _Decryption({number: _Tls(tls) for number, tls in found.get("tls", {}).items()})
        samples = [
            sample._replace(connection=number)
            for number, of_connection in found.get("samples", {}).items()
            for sample in of_connection
        ]
        self.samples = Samples(self.connections)
        self.samples.restore(sorted(samples, key=lambda sample: sample.packet), found.get("upstream", {}))
        self.skipped = [
            Skip(2 * number + side, position, size, reason, at_end)
            for number, of_connection in found.get("skipped", {}).items()
            for side, position, size, reason, at_end in of_connection
        ]

    def _add(self, table: ConnectionTable, ids: Int64s, numbers: dict[Endpoint, int]) -> None:
        """Add connections.

        :param numbers: ids of endpoints; new ones are added
        """
        made = self.connections
        for name, (hosts, ports) in zip("ab", table.ends, strict=True):
            ends = zip((table.hosts[host] for host in hosts.tolist()), ports.tolist(), strict=True)
            getattr(made, name)[ids] = [numbers.setdefault(end, len(numbers)) for end in ends]
        for name in CONNECTION_COLUMNS:
            getattr(made, name)[ids] = table.columns[name]
        streams = (2 * ids[:, np.newaxis] + np.arange(2)).ravel()
        for name, column in table.streams.items():
            getattr(made.streams, name)[streams] = column
        self._swapped.update(ids[table.columns["client_direction"] > 0].tolist())

    def observed_until(self, connections: Int64s | int) -> Int64s:
        """Return until when connections were observed; see :meth:`Connections.observed_until`."""
        return self.connections.observed_until(connections, self.latest)

    def client_stream(self, connection: int) -> int:
        """Return the stream with the requests of a connection."""
        return 2 * connection + (connection in self._swapped)

    def endpoints(self, connection: int) -> tuple[str, str]:
        """Return client and broker of a connection as ``host:port``."""
        ends = int(self.connections.a[connection]), int(self.connections.b[connection])
        one, other = (self.addresses.text(end) for end in ends)
        return (other, one) if connection in self._swapped else (one, other)

    def shown_endpoints(self, connection: int) -> tuple[str, str]:
        """Return client and broker of a connection as ``host:port``, with names in place of hosts that have one."""
        client, broker = self.endpoints(connection)
        return self.names.shown(client), self.names.shown(broker)

    def unfinished_rows(self) -> Any:
        """Return the rows of requests in flight: none."""
        return np.empty(0, np.int64)

    def take(self, table: ExchangeTable, rows: Int64s, connections: Int64s) -> None:
        """Add the headers of exchanges, in the order of their numbers.

        :param table: table that contains them
        :param connections: connection of each, in the whole capture
        """
        columns = {name: table.column(name)[rows] for name in _HEADERS}
        numbers = np.array([*map(self.table.number_of_text, table.client_ids), -1])
        columns["client_id"] = numbers[table.column("client_id")[rows]]
        self.table.append(len(rows), connection=connections, **columns)


_HEADERS = (
    "api_key",
    "version",
    "flags",
    "correlation_id",
    "request_size",
    "response_size",
    "request_first",
    "request_last",
    "response_first",
    "response_last",
    "packet",
)


class WholeCaptureData(NamedTuple):
    """The data of a :class:`WholeCapture`.

    :ivar connections: all connections
    :ivar facts: session facts, except those of single connections
    :ivar latest: the latest time of a packet
    :ivar observation: time spans that the files cover
    """

    connections: Sequence[PackedConnections]
    facts: SessionFacts
    statistics: Statistics
    latest: int
    observation: Observation


def whole_of(
    numbered: NumberedRanges,
    marks: Sequence[SyncPoint],
    connections: Sequence[PackedConnections] | None = None,
) -> WholeCaptureData:
    """Return the data of a capture as a whole.

    :param connections: all connections, if `numbered` does not have them
    """
    if connections is None:
        connections = (PackedConnections.of(numbered.connections),)
    statistics, observation = Statistics(), Observation()
    for mark in marks:
        statistics.add(mark.statistics)
        observation.add(mark.observation)
    observation.links |= numbered.links
    latest = max((mark.latest for mark in marks), default=0)
    return WholeCaptureData(connections, numbered.facts, statistics, latest, observation)
