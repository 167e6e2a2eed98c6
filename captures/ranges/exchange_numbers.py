"""Everything counted over the whole capture: connections by their first packet, exchanges by their first byte."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
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
    :ivar client: the endpoint that asks
    :ivar broker: the endpoint that answers
    :ivar distances: what to add to positions of requests and responses
    """

    local: int
    connection: int
    client: Endpoint
    broker: Endpoint
    distances: tuple[int, int]


@dataclass(slots=True)
class Context:
    """What has to be known of the others to give out the exchanges of a range.

    :ivar first_packet: how many packets come before the range
    :ivar first_number: number of its first exchange
    :ivar count: how many it has
    :ivar locals: its connections whose exchanges are finished there
    :ivar stitched: exchanges that begin there but are not finished there; their connections have ids of the capture
    :ivar connections: connections of those
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
        """Numbers of the files that have bytes of these exchanges: what begins in a range may end in another file."""
        pieces = (piece for each in self.stitched for side in each.pieces for piece in side)
        ends = {file_at(offset) for _, offset, _, data in pieces if data is None and offset < KEPT}
        return ends.union(range(*self.part.files))


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was counted before the first range.

    :ivar ids: of the connections that continue: what :attr:`~captures.ranges.stitcher.WholeConnection.key` says -> id
    """

    packets: int = 0
    exchanges: int = 0
    connections: int = 0
    ids: Mapping[tuple[Pair, int], int] = field(default_factory=dict)


NOTHING = Earlier()


@dataclass(slots=True)
class NumberedRanges:
    """A capture whose ranges were put together.

    :ivar connections: by id
    :ivar contexts: one for each range
    :ivar facts: what exchanges reveal about others
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
        """How many exchanges there are."""
        return sum(context.count for context in self.contexts)

    def knowledge(self) -> SessionContext:
        """Return what exchanges reveal about others, as readers take it."""
        known = SessionContext()
        known.add(self.facts)
        return known


def bases(marks: Sequence[SyncPoint], earlier: int = 0) -> list[int]:
    """Return how many packets come before each range.

    :param earlier: how many come before the first one
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
    """Count connections and exchanges over the whole capture.

    :param marks: of all ranges, in order
    :param together: from all that have put connections together
    :param facts: what the exchanges of each range tell, if that was asked for
    :param earlier: what was counted before the first range
    """
    before = bases(marks, earlier.packets)
    contexts = [Context(part, base, 0, 0) for part, base in zip(plan.ranges, before, strict=True)]
    connections, ids = _in_order(together, earlier)
    for each in together:
        for part, count in each.counts.items():
            contexts[part].count += count
    starts = np.array(before, np.int64)
    for which, each in enumerate(together):
        _give_out(each, ids[which], starts, contexts)
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
    """Return all connections by id, by first packet where they are new; and the id of each of all connections."""
    everyone = [whole for each in together for whole in each.connections]
    known = np.array([earlier.ids.get(whole.key, -1) for whole in everyone], np.int64)
    order = np.argsort([whole.first_number for whole in everyone], kind="stable")
    new = order[known[order] < 0]
    known[new] = earlier.connections + np.arange(len(new))
    edges = np.cumsum([len(each.connections) for each in together])[:-1]
    by_id = {int(known[index]): everyone[index] for index in np.argsort(known, kind="stable").tolist()}
    return by_id, np.split(known, edges) if together else []


def _give_out(made: StitchedConnections, ids: Int64s, starts: Int64s, contexts: list[Context]) -> None:
    """Give exchanges that no range is sure of to the ranges in which they begin."""
    packets = np.array([each.row["packet"] for each in made.exchanges], np.int64)
    # several ranges may begin with the same packet, of which only the last has any
    parts = np.maximum(np.searchsorted(starts, packets, "left") - 1, 0)  # what began in an earlier batch, too
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
        known.add(_renamed(each, {local.local: local.connection for local in context.locals}))
    for made, numbers in zip(together, ids, strict=True):
        if made.facts is not None:
            known.add(_renamed(made.facts, dict(enumerate(numbers.tolist()))))
    return known.facts


def _renamed(facts: SessionFacts, ids: dict[int, int]) -> SessionFacts:
    """Return facts about connections by other ids; those without are left out."""
    mechanisms: dict[Hashable, str] = {
        new: facts.mechanisms[old] for old, new in ids.items() if old in facts.mechanisms
    }
    return facts._replace(mechanisms=mechanisms)
