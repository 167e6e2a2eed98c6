"""The results of stitching ranges: whole connections, as objects and as columns, and exchanges that cross edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.checkpoints import (
    CONNECTION_COLUMNS,
    COUNTERS,
    STREAM_COLUMNS,
    ConnectionColumns,
    Endpoint,
)
from captures.exchanges.notes import Note
from captures.exchanges.samples import Sample
from captures.exchanges.table import DetachedRow
from captures.interventions import Interventions, UpstreamBroker
from captures.packets.tls.events import TlsInfo
from captures.ranges.edges import Pair, pack, pair_of
from dissectors.session_context import SessionFacts

Piece = tuple[int, int, int, bytes | None]
"""Position in the stream, offset in the source, length, and the bytes themselves if no file has them."""


@dataclass(slots=True)
class StitchedExchange:
    """An exchange that no range has read reliably by itself.

    :ivar connection: index into :attr:`StitchedConnections.connections`
    :ivar row: row of the exchange table; packet numbers are those of the capture
    :ivar pieces: locations of the bytes of both frames
    """

    connection: int
    row: DetachedRow
    pieces: tuple[list[Piece], list[Piece]]
    note: Note | None = None
    interventions: Interventions | None = None

    @property
    def time(self) -> int:
        """Time of its first byte, ns since the epoch."""
        return int(self.row["request_first"] if self.row["request_size"] else self.row["response_first"])


@dataclass(slots=True)
class WholeConnection(ConnectionColumns):
    """A connection over all ranges; its columns are those that a reading of the whole capture would give.

    :ivar client_direction: the direction of the requests
    :ivar streams: columns of :class:`~captures.packets.connections.Streams`, of both directions
    :ivar parts: ranges with exchanges of it: number, its id there, and what to add to positions there of requests and
        responses
    :ivar foreign: protocol it speaks instead of Kafka, or empty
    :ivar ended_by_kproxy: whether kproxy closed it, reset it or let it fall silent
    :ivar tls: TLS information, None if it does not use TLS
    :ivar skipped: bytes that belong to no frame: direction, position, size, reason, and whether they end the stream
    :ivar samples: the kernel's TCP statistics of it; their connection ids are meaningless
    :ivar upstream: its broker, if kproxy's proxy has recorded it
    :ivar mechanism: its SASL mechanism, or empty
    :ivar cluster: the cluster ID in a response on it, or empty
    """

    client_direction: int
    streams: tuple[dict[str, int], dict[str, int]]
    parts: list[tuple[int, int, tuple[int, int]]] = field(default_factory=list)
    foreign: str = ""
    ended_by_kproxy: bool = False
    tls: TlsInfo | None = None
    skipped: list[tuple[int, int, int, str, bool]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    upstream: UpstreamBroker | None = None
    mechanism: str = ""
    cluster: str = ""

    @property
    def key(self) -> tuple[Pair, int]:
        """Its identity: endpoints and number of its first packet."""
        return pair_of(self.a, self.b), self.first_number

    @property
    def ends(self) -> tuple[Endpoint, Endpoint]:
        """Client and broker."""
        return (self.b, self.a) if self.client_direction else (self.a, self.b)


@dataclass(slots=True)
class StitchedConnections:
    """The result of stitching.

    :ivar connections: connections of the bucket
    :ivar exchanges: exchanges that no range has read reliably by itself
    :ivar refused: connections of ranges, as number and id there, whose exchanges are not taken from there
    :ivar counts: number of a range -> number of exchanges that are taken from there
    :ivar links: pairs of files: a connection has packets in the first and, later, in the second
    :ivar facts: session facts of these exchanges, except those of single connections
    """

    connections: list[WholeConnection] = field(default_factory=list)
    exchanges: list[StitchedExchange] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    links: set[tuple[int, int]] = field(default_factory=set)
    facts: SessionFacts | None = None


_RARE = ("foreign", "ended_by_kproxy", "tls", "skipped", "samples", "upstream", "mechanism", "cluster")


class ConnectionTable(NamedTuple):
    """Connections as columns, which take a tenth of the memory of :class:`WholeConnection` objects.

    :ivar hosts: IP addresses
    :ivar ends: for both endpoints, index into ``hosts`` and port
    :ivar columns: columns of :class:`~captures.packets.connections.Connections`, and ``client_direction``
    :ivar streams: columns of :class:`~captures.packets.connections.Streams`, of both directions of each connection
    :ivar rare: other attributes of :class:`WholeConnection` -> their values by index, without false ones
    """

    hosts: list[bytes]
    ends: tuple[tuple[Int64s, Int64s], tuple[Int64s, Int64s]]
    columns: dict[str, Int64s]
    streams: dict[str, Int64s]
    rare: Mapping[str, Mapping[int, Any]]

    @classmethod
    def of(cls, connections: Sequence[WholeConnection]) -> ConnectionTable:
        """Return the columns of connections."""
        hosts: dict[bytes, int] = {}
        one, other = (
            (
                np.array([hosts.setdefault(host, len(hosts)) for host, _ in ends], np.int64),
                np.array([port for _, port in ends], np.int64),
            )
            for ends in ([each.a for each in connections], [each.b for each in connections])
        )
        return cls(
            list(hosts),
            (one, other),
            {
                name: np.array([getattr(each, name) for each in connections], np.int64)
                for name in (*CONNECTION_COLUMNS, "client_direction")
            },
            {
                name: np.array([stream[name] for each in connections for stream in each.streams], np.int64)
                for name in (*STREAM_COLUMNS, *COUNTERS)
            },
            {
                name: {
                    index: value for index, each in enumerate(connections) if (value := getattr(each, name))
                }
                for name in _RARE
            },
        )


class PackedConnections(NamedTuple):
    """Connections of a capture.

    :ivar data: a packed :class:`ConnectionTable`
    :ivar ids: their ids in the capture
    """

    data: bytes
    ids: Int64s

    @classmethod
    def of(cls, connections: Mapping[int, WholeConnection]) -> PackedConnections:
        """Return connections, given by their ids."""
        return cls(pack(ConnectionTable.of(list(connections.values()))), np.fromiter(connections, np.int64))
