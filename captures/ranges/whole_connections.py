"""What comes of putting ranges together: whole connections, and the exchanges that cross edges."""

from __future__ import annotations

from dataclasses import dataclass, field

from captures.exchanges.checkpoints import ConnectionColumns, Endpoint
from captures.exchanges.notes import Note
from captures.exchanges.samples import Sample
from captures.exchanges.table import DetachedRow
from captures.interventions import Interventions
from captures.packets.tls.info import TlsInfo
from captures.ranges.edges import Pair, pair_of
from dissectors.session_context import SessionFacts

Piece = tuple[int, int, int, bytes | None]
"""Position in the stream, offset in the source, length, and the bytes themselves where they are nowhere else."""


@dataclass(slots=True)
class StitchedExchange:
    """An exchange that no range is sure of.

    :ivar connection: index into :attr:`StitchedConnections.connections`
    :ivar row: of the exchange table; packets count from the first of the capture
    :ivar pieces: where the bytes of both frames are
    """

    connection: int
    row: DetachedRow
    pieces: tuple[list[Piece], list[Piece]]
    note: Note | None = None
    interventions: Interventions | None = None

    @property
    def time(self) -> int:
        """When it began, ns since the epoch."""
        return int(self.row["request_first"] if self.row["request_size"] else self.row["response_first"])


@dataclass(slots=True)
class WholeConnection(ConnectionColumns):
    """A connection, over all ranges; its columns are those of a reading of the whole capture.

    :ivar client_direction: the direction of the requests
    :ivar streams: columns of :class:`~captures.packets.connections.Streams`, of both directions
    :ivar parts: ranges that have exchanges of it: number, its id there, and what to add to positions there of requests
        and responses
    :ivar foreign: what it speaks instead of Kafka, or empty
    :ivar ended_by_kproxy: whether kproxy closed it, reset it or let it fall silent
    :ivar tls: what is known of its TLS, None if it is none
    :ivar skipped: bytes that belong to no frame: direction, position, size, reason, and whether the stream ended so
    :ivar samples: the kernel's TCP statistics of it; their connections have any ids
    """

    client_direction: int
    streams: tuple[dict[str, int], dict[str, int]]
    parts: list[tuple[int, int, tuple[int, int]]] = field(default_factory=list)
    foreign: str = ""
    ended_by_kproxy: bool = False
    tls: TlsInfo | None = None
    skipped: list[tuple[int, int, int, str, bool]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    @property
    def key(self) -> tuple[Pair, int]:
        """What it is known by: its endpoints, and the number of its first packet."""
        return pair_of(self.a, self.b), self.first_number

    @property
    def ends(self) -> tuple[Endpoint, Endpoint]:
        """Client and broker."""
        return (self.b, self.a) if self.client_direction else (self.a, self.b)


@dataclass(slots=True)
class StitchedConnections:
    """What came of putting together.

    :ivar connections: those that this one was asked about
    :ivar exchanges: those of which no range is sure
    :ivar refused: connections of ranges, as number and id there, whose exchanges are not to be taken from there
    :ivar counts: number of a range -> exchanges that are taken from there
    :ivar links: pairs of files: a connection has packets in the first and, later, in the second
    :ivar facts: what the exchanges here tell of others; connections are indexes into ``connections``
    """

    connections: list[WholeConnection] = field(default_factory=list)
    exchanges: list[StitchedExchange] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    links: set[tuple[int, int]] = field(default_factory=set)
    facts: SessionFacts | None = None
