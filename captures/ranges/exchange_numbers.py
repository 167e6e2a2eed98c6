"""Numbers over the whole capture: connections by their first packet, exchanges by their first byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.checkpoints import Endpoint
from captures.interventions import NO_UPSTREAM, UpstreamBroker
from captures.packets.joined_source import file_at
from captures.packets.source import KEPT
from captures.ranges.edges import Pair, SyncPoint
from captures.ranges.plan import Plan, Range
from captures.ranges.whole_connections import StitchedConnections, StitchedExchange, WholeConnection
from dissectors.session_context import SessionContext, SessionFacts


@dataclass(slots=True)
class Local:
    """A connection of a range.

    :ivar local: id in the range
    :ivar connection: id in the capture
    :ivar client: endpoint that sends requests
    :ivar broker: endpoint that sends responses
    :ivar distances: added to stream positions of requests and responses
    :ivar mechanism: its SASL mechanism, or empty
    :ivar upstream: its broker, if kproxy's proxy has recorded it
    """

    local: int
    connection: int
    client: Endpoint
    broker: Endpoint
    distances: tuple[int, int]
    mechanism: str = ""
    upstream: UpstreamBroker | None = None


class RangePiece(NamedTuple):
    """The part of a :class:`Context` that one bucket of connections contributes; ids are indexes into the bucket."""

    locals: list[Local]
    stitched: list[StitchedExchange]
    connections: dict[int, WholeConnection]


@dataclass(slots=True)
class Context:
    """Facts from other ranges that are needed to produce the exchanges of a range.

    :ivar first_packet: number of packets before the range
    :ivar first_number: number of its first exchange
    :ivar count: number of its exchanges
    :ivar locals: its connections whose exchanges are finished there
    :ivar stitched: exchanges that start there but are not finished there; their connections have ids of the capture
    :ivar connections: connections of the stitched exchanges
    """

    part: Range
    first_packet: int
    first_number: int
    count: int
    locals: list[Local] = field(default_factory=list)
    stitched: list[StitchedExchange] = field(default_factory=list)
    connections: dict[int, WholeConnection] = field(default_factory=dict)

    def add(self, piece: RangePiece, ids: Int64s) -> None:
        """Add the piece of a bucket.

        :param ids: ids of the bucket's connections in the capture
        """
        self.locals += [replace(each, connection=int(ids[each.connection])) for each in piece.locals]
        self.stitched += [replace(each, connection=int(ids[each.connection])) for each in piece.stitched]
        self.connections |= {int(ids[index]): whole for index, whole in piece.connections.items()}

    @property
    def files(self) -> set[int]:
        """Numbers of the files with bytes of these exchanges: an exchange of a range may end in another file."""
        pieces = (piece for each in self.stitched for side in each.pieces for piece in side)
        ends = {file_at(offset) for _, offset, _, data in pieces if data is None and offset < KEPT}
        return ends.union(range(*self.part.files))


class BucketSummary(NamedTuple):
    """What the numbering of the whole capture needs of a bucket of stitched connections.

    :ivar known: ids of connections that continue from earlier batches, -1 for others
    :ivar first_numbers: number of the first packet of each connection
    :ivar counts: number of a range -> number of exchanges that start there
    :ivar first_exchange: the earliest time of an exchange that no range has read reliably, None if there is none
    :ivar links: as :attr:`StitchedConnections.links`
    :ivar facts: as :attr:`StitchedConnections.facts`
    :ivar clusters: cluster ID in a response on a connection, and the name that kproxy's proxy has recorded for its
        cluster, either may be empty -> index of one such connection
    :ivar lost_bytes: bytes of payload that were not captured
    :ivar foreign: number of connections that do not carry Kafka
    """

    known: Int64s
    first_numbers: Int64s
    counts: Mapping[int, int]
    first_exchange: int | None
    links: set[tuple[int, int]]
    facts: SessionFacts
    clusters: Mapping[tuple[str, str], int]
    lost_bytes: int
    foreign: int


class NumberedBucket(NamedTuple):
    """A bucket of stitched connections, divided by what needs it.

    :ivar pieces: by number of the range
    """

    summary: BucketSummary
    pieces: dict[int, RangePiece]

    @classmethod
    def of(
        cls,
        made: StitchedConnections,
        before: Sequence[int],
        ids: Mapping[tuple[Pair, int], int],
    ) -> NumberedBucket:
        """Divide stitched connections.

        :param before: number of packets before each range
        :param ids: as :attr:`PriorCounts.ids`
        """
        pieces: dict[int, RangePiece] = {}
        for index, whole in enumerate(made.connections):
            for part, local, distances in whole.parts:
                piece = pieces.setdefault(part, RangePiece([], [], {}))
                piece.locals.append(
                    Local(local, index, *whole.ends, distances, whole.mechanism, whole.upstream)
                )
        packets = np.array([each.row["packet"] for each in made.exchanges], np.int64)
        # ranges without packets have the same base as the next one; the last with this base has the packet
        parts = np.maximum(
            np.searchsorted(np.array(before, np.int64), packets, "left") - 1, 0
        )  # exchanges of earlier batches belong to range 0
        for each, part in zip(made.exchanges, parts.tolist(), strict=True):
            piece = pieces.setdefault(part, RangePiece([], [], {}))
            piece.connections[each.connection] = made.connections[each.connection]
            piece.stitched.append(each)
        streams = (stream for whole in made.connections for stream in whole.streams)
        summary = BucketSummary(
            np.array([ids.get(whole.key, -1) for whole in made.connections], np.int64),
            np.array([whole.first_number for whole in made.connections], np.int64),
            Counter(made.counts) + Counter(parts.tolist()),
            min((each.time for each in made.exchanges), default=None),
            made.links,
            made.facts or SessionContext().facts,
            {
                (whole.cluster, (whole.upstream or NO_UPSTREAM).cluster): index
                for index, whole in enumerate(made.connections)
            },
            sum(stream["lost"] + stream["cut"] for stream in streams),
            sum(bool(whole.foreign) for whole in made.connections),
        )
        return cls(summary, pieces)


@dataclass(frozen=True, slots=True)
class PriorCounts:
    """Counts before the first range.

    :ivar ids: ids of the connections that continue, by :attr:`~captures.ranges.whole_connections.WholeConnection.key`
    """

    packets: int = 0
    exchanges: int = 0
    connections: int = 0
    ids: dict[tuple[Pair, int], int] = field(default_factory=dict)


NOTHING = PriorCounts()


@dataclass(slots=True)
class NumberedRanges:
    """A capture whose ranges were stitched and numbered.

    :ivar contexts: one for each range; without the pieces of buckets until :meth:`add`
    :ivar ids: for each bucket, the ids of its connections
    :ivar facts: session facts of all exchanges; of those about connections only cluster IDs, of one connection for
        each pair of cluster ID and recorded name
    :ivar upstreams: the recorded names of the clusters of the same connections
    :ivar start: time of the earliest exchange, None if there is none
    :ivar links: pairs of files: a connection has packets in the first and, later, in the second
    :ivar lost_bytes: bytes of payload that were not captured
    :ivar foreign: number of connections that do not carry Kafka
    :ivar connections: by id; empty until :meth:`add`
    """

    contexts: list[Context]
    ids: list[Int64s]
    facts: SessionFacts
    upstreams: dict[int, UpstreamBroker]
    start: int | None
    links: set[tuple[int, int]]
    lost_bytes: int
    foreign: int
    connections: dict[int, WholeConnection] = field(default_factory=dict)

    @property
    def exchanges(self) -> int:
        """Number of exchanges."""
        return sum(context.count for context in self.contexts)

    def add(self, together: Sequence[StitchedConnections], buckets: Sequence[NumberedBucket]) -> None:
        """Add the connections of all buckets, and what they contribute to the contexts of ranges."""
        for made, bucket, ids in zip(together, buckets, self.ids, strict=True):
            for part, piece in bucket.pieces.items():
                self.contexts[part].add(piece, ids)
            self.connections |= zip(ids.tolist(), made.connections, strict=True)
        self.connections = dict(sorted(self.connections.items()))


def bases(marks: Sequence[SyncPoint], earlier: int = 0) -> list[int]:
    """Return the number of packets before each range.

    :param earlier: number of packets before the first one
    """
    counts = np.array([mark.statistics.packets for mark in marks], np.int64)
    before: list[int] = (np.cumsum(counts) - counts + earlier).tolist()
    return before


def number(
    plan: Plan,
    marks: Sequence[SyncPoint],
    buckets: Sequence[BucketSummary],
    facts: Sequence[SessionFacts] = (),
    earlier: PriorCounts = NOTHING,
) -> NumberedRanges:
    """Number connections and exchanges over the whole capture.

    :param marks: of all ranges, in order
    :param facts: session facts of each range, if they were requested
    :param earlier: counts before the first range
    """
    contexts = [
        Context(part, base, 0, sum(each.counts.get(part.number, 0) for each in buckets))
        for part, base in zip(plan.ranges, bases(marks, earlier.packets), strict=True)
    ]
    first = earlier.exchanges + 1
    for context in contexts:
        context.first_number = first
        first += context.count
    ids = _ids(buckets, earlier.connections)
    times = [*(mark.first_exchange for mark in marks), *(each.first_exchange for each in buckets)]
    session = SessionContext()
    for each in (*facts, *(bucket.facts for bucket in buckets)):
        session.add(each)
    clusters = {
        pair: int(of[index])
        for bucket, of in zip(buckets, ids, strict=True)
        for pair, index in bucket.clusters.items()
    }
    return NumberedRanges(
        contexts,
        ids,
        session.facts._replace(
            clusters={connection: text for (text, _), connection in clusters.items() if text}
        ),
        {connection: UpstreamBroker(cluster=name) for (_, name), connection in clusters.items() if name},
        min((time for time in times if time is not None), default=None),
        set().union(*(each.links for each in buckets)),
        sum(each.lost_bytes for each in buckets),
        sum(each.foreign for each in buckets),
    )


def _ids(buckets: Sequence[BucketSummary], count: int) -> list[Int64s]:
    """Return the ids of the connections of each bucket, new ones in the order of their first packets.

    :param count: number of ids in use
    """
    if not buckets:
        return []
    ids = np.concatenate([each.known for each in buckets])
    order = np.argsort(np.concatenate([each.first_numbers for each in buckets]), kind="stable")
    new = order[ids[order] < 0]
    ids[new] = count + np.arange(len(new))
    return np.split(ids, np.cumsum([len(each.known) for each in buckets])[:-1])
