"""Numbers over the whole capture: connections by their first packet, exchanges by their first byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.checkpoints import Endpoint
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
    """

    local: int
    connection: int
    client: Endpoint
    broker: Endpoint
    distances: tuple[int, int]


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

    @property
    def files(self) -> set[int]:
        """Numbers of the files with bytes of these exchanges: an exchange of a range may end in another file."""
        pieces = (piece for each in self.stitched for side in each.pieces for piece in side)
        ends = {file_at(offset) for _, offset, _, data in pieces if data is None and offset < KEPT}
        return ends.union(range(*self.part.files))


@dataclass(frozen=True, slots=True)
class Earlier:
    """Counts before the first range.

    :ivar ids: ids of the connections that continue, by :attr:`~captures.ranges.whole_connections.WholeConnection.key`
    """

    packets: int = 0
    exchanges: int = 0
    connections: int = 0
    ids: Mapping[tuple[Pair, int], int] = field(default_factory=dict)


NOTHING = Earlier()


@dataclass(slots=True)
class NumberedRanges:
    """A capture whose ranges were stitched and numbered.

    :ivar connections: by id
    :ivar contexts: one for each range
    :ivar facts: session facts of all exchanges
    :ivar start: time of the earliest exchange, None if there is none
    :ivar links: pairs of files: a connection has packets in the first and, later, in the second
    """

    connections: dict[int, WholeConnection]
    contexts: list[Context]
    facts: SessionFacts
    start: int | None
    links: set[tuple[int, int]] = field(default_factory=set)

    @property
    def exchanges(self) -> int:
        """Number of exchanges."""
        return sum(context.count for context in self.contexts)

    def knowledge(self) -> SessionContext:
        """Return a session context with the facts of all exchanges."""
        known = SessionContext()
        known.add(self.facts)
        return known


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
    together: Sequence[StitchedConnections],
    facts: Sequence[SessionFacts] = (),
    earlier: Earlier = NOTHING,
) -> NumberedRanges:
    """Number connections and exchanges over the whole capture.

    :param marks: of all ranges, in order
    :param together: stitched connections of all buckets
    :param facts: session facts of each range, if they were requested
    :param earlier: counts before the first range
    """
    before = bases(marks, earlier.packets)
    contexts = [Context(part, base, 0, 0) for part, base in zip(plan.ranges, before, strict=True)]
    connections, ids = _in_order(together, earlier)
    for each in together:
        for part, count in each.counts.items():
            contexts[part].count += count
    starts = np.array(before, np.int64)
    for which, each in enumerate(together):
        _assign_stitched(each, ids[which], starts, contexts)
    for connection, whole in connections.items():
        for part, local, distances in whole.parts:
            contexts[part].locals.append(Local(local, connection, *whole.ends, distances))
    first = earlier.exchanges + 1
    for context in contexts:
        context.first_number = first
        first += context.count
    times = [mark.first_exchange for mark in marks] + [
        each.time for made in together for each in made.exchanges
    ]
    start = min((time for time in times if time is not None), default=None)
    known = _all_facts(together, ids, facts, contexts)
    return NumberedRanges(
        connections, contexts, known, start, set().union(*(made.links for made in together))
    )


def _in_order(
    together: Sequence[StitchedConnections], earlier: Earlier
) -> tuple[dict[int, WholeConnection], list[Int64s]]:
    """Return all connections by id, with new ids in order of first packets; and the ids per element of `together`."""
    everyone = [whole for each in together for whole in each.connections]
    known = np.array([earlier.ids.get(whole.key, -1) for whole in everyone], np.int64)
    order = np.argsort([whole.first_number for whole in everyone], kind="stable")
    new = order[known[order] < 0]
    known[new] = earlier.connections + np.arange(len(new))
    edges = np.cumsum([len(each.connections) for each in together])[:-1]
    by_id = {int(known[index]): everyone[index] for index in np.argsort(known, kind="stable").tolist()}
    return by_id, np.split(known, edges) if together else []


def _assign_stitched(made: StitchedConnections, ids: Int64s, starts: Int64s, contexts: list[Context]) -> None:
    """Assign stitched exchanges to the ranges in which they start."""
    packets = np.array([each.row["packet"] for each in made.exchanges], np.int64)
    # ranges without packets have the same base as the next one; the last with this base has the packet
    parts = np.maximum(
        np.searchsorted(starts, packets, "left") - 1, 0
    )  # exchanges of earlier batches belong to range 0
    for each, part in zip(made.exchanges, parts.tolist(), strict=True):
        context = contexts[part]
        context.connections[int(ids[each.connection])] = made.connections[each.connection]
        each.connection = int(ids[each.connection])
        context.stitched.append(each)
        context.count += 1


def _all_facts(
    together: Sequence[StitchedConnections],
    ids: Sequence[Int64s],
    facts: Sequence[SessionFacts],
    contexts: Sequence[Context],
) -> SessionFacts:
    known = SessionContext()
    for each, context in zip(facts, contexts, strict=False):
        known.add(each.renamed({local.local: local.connection for local in context.locals}))
    for made, numbers in zip(together, ids, strict=True):
        if made.facts is not None:
            known.add(made.facts.renamed(dict(enumerate(numbers.tolist()))))
    return known.facts
