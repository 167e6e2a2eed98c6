"""The exchanges of one range, each with its number and connection id in the whole capture."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.exchanges.notes import NO_NOTE, Note, Notes
from captures.interventions import UNTOUCHED, Interventions
from captures.packets import JoinedSource
from captures.packets.index import Places
from captures.packets.tls import KeyLog
from captures.ranges.exchange_numbers import Context
from captures.ranges.range_reader import read_range
from captures.ranges.whole_connections import Piece, WholeConnection
from dissectors.session_context import SessionContext, SessionFacts

__all__ = ["RangeExchanges", "add_stitched"]


class NotesOfRows(Notes):
    """The notes of a range, and those of stitched exchanges.

    :ivar given: notes of stitched exchanges, by row
    """

    def __init__(self, notes: Notes) -> None:
        self.__dict__.update(notes.__dict__)
        self.given: dict[int, tuple[Note | None, Interventions | None]] = {}

    def of(self, row: int) -> Note:
        return self.given[row][0] or NO_NOTE if row in self.given else super().of(row)

    def all(self) -> dict[int, Note]:
        return super().all() | {row: note for row, (note, _) in self.given.items() if note}

    def interventions(self, row: int, values: Any = None) -> Interventions:
        return self.given[row][1] or UNTOUCHED if row in self.given else super().interventions(row, values)

    def intervened(self) -> Mapping[int, Interventions]:
        known = {row: done for row, done in super().intervened().items() if row not in self.given}
        return known | {row: done for row, (_, done) in self.given.items() if done and done.intervene}


class _Reader(ExchangeReader):
    """Reads the exchanges of a range.

    :param numbers: in the whole capture, by index
    """

    def __init__(self, capture: Capture, numbers: Int64s, **options: Any) -> None:
        super().__init__(capture, live=True, **options)
        self._numbers = numbers.tolist()

    def number(self, index: int) -> int:
        return int(self._numbers[index])


@dataclass(slots=True)
class _Order:
    """The rows of the exchange table in the order of their numbers.

    :ivar rows: rows of the table
    :ivar numbers: number of each row
    :ivar connections: id in the capture, by id in the range; one has two ids there if some exchanges were stitched
    :ivar mechanisms: SASL mechanisms by id in the range
    """

    rows: Int64s
    numbers: Int64s
    connections: Int64s
    mechanisms: dict[Hashable, str]


class RangeExchanges:
    """Reads a range again and yields its exchanges.

    :param source: all files
    :param facts: session facts of the whole capture
    :param in_place: whether the bytes of packets can be read from the files without reading everything before them
    :raises CaptureError: if the file can no longer be read
    :ivar capture: the range as a capture: exchanges finished in it, and those that start in it
    """

    def __init__(
        self,
        source: JoinedSource,
        context: Context,
        facts: SessionFacts,
        *,
        keylog: KeyLog | None = None,
        in_place: bool = True,
    ) -> None:
        self.in_place = in_place
        reading = read_range(source, context.part, keylog=keylog)
        self.capture = reading.capture
        self._context = context
        self._facts = facts
        self._order = _chosen(self.capture, reading.rows(), context)

    def __len__(self) -> int:
        return len(self._order.rows)

    @property
    def number(self) -> int:
        """The number of the range."""
        return self._context.part.number

    @property
    def numbers(self) -> Int64s:
        """The numbers of the exchanges."""
        return self._order.numbers

    @property
    def rows(self) -> Int64s:
        """The rows of the exchanges in the table of :attr:`capture`."""
        return self._order.rows

    @property
    def connections(self) -> Int64s:
        """The connections of the exchanges, with ids of the whole capture."""
        connections: Int64s = self._order.connections[
            self.capture.table.column("connection")[self._order.rows]
        ]
        return connections

    def path_of(self, number: int) -> str:
        """Return the file with the first byte of exchange `number`; empty if it is of another range, or unknown."""
        index = int(np.searchsorted(self.numbers, number))
        if index == len(self) or self.numbers[index] != number:
            return ""
        return self.capture.path_of(int(self.rows[index]))

    def exchanges(
        self, indexes: Int64s | None = None, *, apis: Collection[int] | None = None, **options: Any
    ) -> Iterator[Exchange]:
        """Decode exchanges, in the order of their numbers.

        :param indexes: indexes of exchanges; default: all
        :param apis: keys of the requested APIs; default: all
        :param options: of :class:`~captures.exchanges.ExchangeReader`
        """
        chosen = np.arange(len(self)) if indexes is None else indexes
        if apis is not None:
            keys = self.capture.table.column("api_key")[self._order.rows[chosen]]
            chosen = chosen[np.isin(keys, list(apis))]
        reader = self.reader(**options)
        connections = self._order.connections
        for made in reader.several(chosen.tolist()):
            made.connection = int(connections[made.connection])
            yield made

    def reader(self, **options: Any) -> ExchangeReader:
        """Return a reader with the same indexes as :attr:`rows`."""
        known = SessionContext()
        known.add(self._facts._replace(mechanisms=self._order.mechanisms, clusters={}))
        reader = _Reader(self.capture, self._order.numbers, knowledge=known, **options)
        reader.extend(self._order.rows)
        return reader


def _chosen(capture: Capture, good: np.ndarray[Any, Any], context: Context) -> _Order:
    """Drop rows that belong to other ranges, add stitched exchanges, and number the result."""
    table, count = capture.table, len(capture.connections)
    connections = np.full(count, -1, np.int64)
    distance = np.zeros((count, 2), np.int64)
    for each in context.locals:
        connections[each.local] = each.connection
        distance[each.local] = each.distances
        if each.upstream:  # it may have been recorded in another range
            capture.samples.upstreams[each.local] = each.upstream
    good = good & (connections[table.column("connection")] >= 0)
    renumbered = table.keep(good)
    capture.notes.renumber(renumbered)
    finished = len(table)
    table.set(slice(0, finished), packet=table.column("packet") + context.first_packet)
    added = add_stitched(capture, context)
    connections = np.append(connections, np.array(added, np.int64))
    mechanisms: dict[Hashable, str] = {each.local: each.mechanism for each in context.locals}
    mechanisms |= {local: context.connections[each].mechanism for local, each in enumerate(added, count)}
    distance = np.append(distance, np.zeros((len(added), 2), np.int64), 0)
    position = table.column("request_position") + distance[table.column("connection"), 0]
    rows = np.lexsort((position, connections[table.column("connection")], table.column("packet")))
    numbers = context.first_number + np.arange(len(rows))
    assert len(rows) == context.count, (
        f"range {context.part.number}: {len(rows)} of {context.count} exchanges"
    )
    return _Order(rows, numbers, connections, {local: name for local, name in mechanisms.items() if name})


def add_stitched(capture: Capture, context: Context) -> list[int]:
    """Add stitched exchanges to the table of a range; return the capture ids of the connections added for them."""
    if not context.stitched:
        return []
    notes = NotesOfRows(capture.notes)
    capture.notes = notes
    ids: dict[int, int] = {}
    pieces: dict[int, list[Piece]] = {}
    table = capture.table
    for each in context.stitched:
        local = ids.get(each.connection)
        if local is None:
            local = ids[each.connection] = _add_connection(capture, context.connections[each.connection])
        row = table.add_detached(each.row, local)
        notes.given[row] = each.note, each.interventions
        for side, found in enumerate(each.pieces):
            pieces.setdefault(2 * local + side, []).extend(found)
    for stream in sorted(stream for stream, found in pieces.items() if found):
        capture.index.put(stream, _places(capture, sorted(set(pieces[stream]))))
    return list(ids)


def _add_connection(capture: Capture, whole: WholeConnection) -> int:
    """Add a connection whose direction 0 is the client's."""
    client, broker = whole.ends
    book = capture.addresses
    local = capture.connections.add(
        book.intern(*client), book.intern(*broker), whole.generation, whole.first_time, whole.first_number
    )
    if whole.upstream:
        capture.samples.upstreams[local] = whole.upstream
    return local


def _places(capture: Capture, pieces: list[Piece]) -> Places:
    position, offset, length = (np.array(column, np.int64) for column in list(zip(*pieces, strict=True))[:3])
    for row, (_, _, _, data) in enumerate(pieces):
        if data is not None:
            offset[row] = capture.source.keep(data)
    return position, offset, length
