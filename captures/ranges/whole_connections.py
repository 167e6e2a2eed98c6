"""The results of stitching ranges: whole connections, and the exchanges that cross edges."""

from __future__ import annotations

from dataclasses import dataclass, field

from captures.exchanges.checkpoints import ConnectionColumns, Endpoint
from captures.exchanges.notes import Note
from captures.exchanges.samples import Sample
from captures.exchanges.table import DetachedRow
from captures.interventions import Interventions, UpstreamBroker
from captures.packets.tls.info import TlsInfo
from captures.ranges.edges import Pair, pair_of
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
    :ivar facts: session facts of these exchanges; connections are indexes into ``connections``
    """

    connections: list[WholeConnection] = field(default_factory=list)
    exchanges: list[StitchedExchange] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    links: set[tuple[int, int]] = field(default_factory=set)
    facts: SessionFacts | None = None
