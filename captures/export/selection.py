"""The exchanges to be written, and the positions of their bytes in the streams."""

from __future__ import annotations

from collections.abc import Generator

import msgspec
import numpy as np

from captures.arrays import Bools, Int64s, distinct_values
from captures.exchanges import Capture, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.packets.source import KEPT
from dissectors.session_context import TOPIC_NAMES, SessionContext
from dissectors.sides import SIDES
from dissectors.wire import ZERO_UUID

_POSITION_BITS = 42  # enough for 4 TB per stream, and two million streams
_MOST = (1 << _POSITION_BITS) - 1


class Ranges(msgspec.Struct):
    """Disjoint ranges of all streams, sorted by stream and position.

    :ivar stream: stream of each range
    :ivar start: stream position of its first byte
    :ivar end: position after its last byte
    """

    stream: Int64s
    start: Int64s
    end: Int64s

    def touches(self, stream: Int64s, start: Int64s, end: Int64s) -> Bools:
        """Return a mask of the given ranges that share a byte with one of these."""
        if not len(self.stream):
            return np.zeros(len(stream), np.bool_)
        known = distinct_values(self.stream)
        # only the first of these that ends after the start can overlap
        keys = _keys(known, self.stream, self.end)
        at = np.searchsorted(keys, _keys(known, stream, np.maximum(start, 0)), "right")
        inside = np.minimum(at, len(keys) - 1)
        found: Bools = (
            (at < len(keys)) & (self.stream[inside] == stream) & (self.start[inside] < end) & (start < end)
        )
        return found


class Selection:
    """Exchanges of one capture.

    :param rows: indexes in the exchange table; None selects all
    :ivar rows: indexes in the exchange table, in the order of numbering
    :ivar connections: sorted connections of these exchanges
    :ivar ranges: ranges of their frames' bytes
    :ivar whole: connections with every exchange selected
    :ivar elsewhere: connections whose bytes are not in the packets as such: decrypted TLS, joined IP fragments
    """

    def __init__(self, capture: Capture, rows: Int64s | list[int] | None = None) -> None:
        table = capture.table
        order = table.order()
        if rows is not None:
            chosen = np.zeros(len(table), np.bool_)
            chosen[np.asarray(rows, np.int64)] = True
            order = order[chosen[order]]
        self.capture = capture
        self.rows: Int64s = order
        connection = table.column("connection").astype(np.int64)
        self.connections: Int64s = distinct_values(connection[order])
        self.whole = whole_connections(capture, order)
        self.ranges = frame_ranges(capture, order)
        self.elsewhere = self._kept()

    def __len__(self) -> int:
        return len(self.rows)

    def _kept(self) -> set[int]:
        index_of = self.capture.decryption.index_of
        found: set[int] = set()
        cells = zip(
            self.ranges.stream.tolist(), self.ranges.start.tolist(), self.ranges.end.tolist(), strict=True
        )
        for stream, start, end in cells:
            if stream >> 1 in found:
                continue
            if (index_of(stream >> 1).pieces(stream, start, end)[1] >= KEPT).any():
                found.add(stream >> 1)
        return found


def naming_rows(capture: Capture, rows: Int64s) -> Generator[int, None, list[int]]:
    """Find the first exchanges outside a selection that name its topic IDs, in steps of some milliseconds.

    A Fetch since v13 has no names of topics (KIP-516): without these exchanges a part of a capture shows only the IDs.
    Yields 0 after each step: nothing was written.

    :param rows: the selected rows of the exchange table
    :returns: rows of the exchange table
    """
    table = capture.table
    order, keys = table.order(), table.column("api_key")
    answered = np.isin(keys, list(TOPIC_NAMES)) & (table.column("response_size") > 0)
    naming = order[answered[order]]
    if np.isin(naming, rows).all():
        return []
    columns = ExchangeColumns(capture, rows[~answered[rows]], cached=False)
    for _ in columns.preparing(["topics"]):
        yield 0
    unknown = {text for text in columns.texts("topics") if text is not None and len(text) == len(ZERO_UUID)}
    reader = ExchangeReader(capture, annotate=False, summary=False, knowledge=SessionContext())
    found = []
    for row, _ in zip(naming.tolist(), reader.learn_from(naming), strict=True):
        named = {each for each in unknown if reader.knowledge.topic_name(each)}
        unknown -= named
        if named:
            found.append(row)
        if not unknown:
            break
        yield 0
    return [row for row in found if row not in rows]


def whole_connections(capture: Capture, rows: Int64s) -> Int64s:
    """Return the connections with all exchanges among ``rows``."""
    connection = capture.table.column("connection").astype(np.int64)
    in_all = np.bincount(connection, minlength=len(capture.connections))
    selected = np.bincount(connection[rows], minlength=len(capture.connections))
    return np.flatnonzero((selected > 0) & (selected == in_all))


def frame_ranges(capture: Capture, rows: Int64s) -> Ranges:
    """Return the ranges of the exchanges' frames, with adjacent ones joined."""
    table = capture.table
    connection = table.column("connection")[rows].astype(np.int64)
    ids, inverse = np.unique(connection, return_inverse=True)
    client = np.array([capture.client_stream(number) for number in ids.tolist()], np.int64)[inverse]
    streams, starts, ends = [], [], []
    for side, name in enumerate(SIDES):
        size = table.column(f"{name}_size")[rows].astype(np.int64)
        position = table.column(f"{name}_position")[rows]
        there = size > 0
        streams.append((client ^ side)[there])
        starts.append(position[there])
        ends.append((position + size)[there])
    return _joined(np.concatenate(streams), np.concatenate(starts), np.concatenate(ends))


def _joined(stream: Int64s, start: Int64s, end: Int64s) -> Ranges:
    order = np.lexsort((start, stream))
    stream, start, end = stream[order], start[order], end[order]
    if not len(stream):
        return Ranges(stream, start, end)
    new = np.append(True, (stream[1:] != stream[:-1]) | (start[1:] > end[:-1]))
    first = np.flatnonzero(new)
    return Ranges(stream[first], start[first], np.maximum.reduceat(end, first))


def _keys(known: Int64s, stream: Int64s, position: Int64s) -> Int64s:
    """Return numbers that sort by stream, then position.

    :param known: sorted streams; other streams get the number of a neighbour
    """
    keys: Int64s = np.searchsorted(known, stream) << _POSITION_BITS | np.minimum(position, _MOST)
    return keys
