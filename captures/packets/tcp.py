"""TCP reassembly: packet blocks in, segments in stream order out.

Streams whose packets follow each other without a break, nearly all of them, are handled together with numpy.
The others go through :mod:`captures.packets.disorder` until none of their packets waits. Except for the block in which
a segment is returned, the outcome does not depend on how the packets are cut into blocks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from captures.arrays import Int64s
from captures.packets.clock import CaptureClock
from captures.packets.connections import Connections
from captures.packets.disorder import (
    Disorder,
    Groups,
    Outcome,
    Repeats,
    by_stream,
    captured_and_cut,
    sequence,
)
from captures.packets.errors import SpoolDropped
from captures.packets.handshakes import Handshakes
from captures.packets.index import SegmentIndex
from captures.packets.reorder import GRACE
from captures.packets.source import Source
from captures.packets.table import ACK, FIN, RST, SYN, GapCause, Gaps, PacketBlock, SegmentBlock

__all__ = ["GRACE", "Conflict", "TcpAssembler"]

_SEQ = 1 << 32
_HALF = 1 << 31
_MAX_TAIL = 1 << 30
_STREAM_SPAN = 1 << 40
"""More than the bytes of any stream."""

# number of columns of segments and of gaps in _rows, in the order of SegmentBlock and Gaps
_SEGMENT_COLUMNS = 8
_GAP_COLUMNS = 5


class Clock(Protocol):
    """The time source for timeouts."""

    def read(self, time: Int64s) -> Int64s:
        """Return the readings at the next packets, captured at `time`."""


class Conflict(NamedTuple):
    """A packet with bytes [start, end) of a stream, some of which differ from the first captured ones."""

    stream: int
    start: int
    end: int


class TcpAssembler:
    """Reassembles the streams of a capture.

    :param index: records the place of every segment; needed to compare retransmitted bytes
    :ivar connections: all connections found so far
    :ivar conflicts: bytes captured again with different content; the caller removes them
    :ivar stream: the stream of each packet of the latest block
    :ivar clock: clock for timeouts; it may be replaced before the first block
    :ivar readings: its reading at each packet of the latest block
    """

    def __init__(self, index: SegmentIndex | None = None) -> None:
        self.clock: Clock = CaptureClock()
        self.readings: Int64s = np.empty(0, np.int64)
        self.connections = Connections()
        self.conflicts: list[Conflict] = []
        self.stream: Int64s = np.empty(0, np.int64)
        self._index = index
        self._handshakes = Handshakes(self.connections)
        self._disorder = Disorder(self.connections.streams)
        self._rows: list[Outcome] = []
        self._source: Source | None = None

    def feed(self, block: PacketBlock) -> SegmentBlock:
        """Return the segments delivered by the next block of packets."""
        self._source = block.source
        known = len(self.connections)
        connection, replaced = self._handshakes.connections_of(block)
        stream = self.stream = connection * 2 + (block.src != self.connections.a[connection])
        ended = [2 * old + side for old in replaced for side in (0, 1)]
        self._reassemble(block, stream, ended)
        self._update_connections(block, connection, stream)
        return self._result(range(known, len(self.connections)), block)

    def finish(self) -> SegmentBlock:
        """End the capture: declare missing bytes lost, and return the segments that waited for them."""
        self._rows = [self._disorder.finish()]
        self._add_tail_gaps()
        end = len(self.connections)
        return self._result(range(end, end), None)

    @property
    def waiting(self) -> dict[int, int]:
        """Streams that wait behind a hole, each with the number of the first waiting packet."""
        return self._disorder.waiting

    def give_up_per_connection(self) -> None:
        """Give up missing bytes only at packets of their own connection, not at those of others.

        The outcome is the same; but packets of other connections may arrive here first.
        """
        self._disorder.give_up_per_connection = True

    @property
    def disordered(self) -> list[int]:
        """Streams with waiting packets, for whatever reason."""
        return list(self._disorder.orders)

    def enter(self, a: int, b: int, generation: int, time: int, number: int) -> int:
        """Add a connection that another assembler has started to reassemble; return its id.

        The caller fills its columns. Packets between these endpoints belong to it from now on.
        """
        new = self.connections.add(a, b, generation, time, number)
        self._handshakes.enter(new)
        return new

    # -- reassembly

    def _reassemble(self, block: PacketBlock, stream: Int64s, ended: list[int]) -> None:
        streams = self.connections.streams
        carries = np.flatnonzero((block.length > 0) | (block.flags & FIN != 0))
        data = by_stream(carries, stream[carries], len(streams))
        seq = sequence(block, data.row)
        unknown = streams.next_seq[data.stream] < 0
        streams.next_seq[data.stream[unknown]] = seq[data.begin[unknown]]
        expected = np.empty(len(seq), np.uint32)
        expected[1:] = seq[:-1] + block.length[data.row[:-1]].astype(np.uint32)
        expected[data.begin] = streams.next_seq[data.stream]
        busy = np.zeros(len(streams), bool)
        broken = expected != seq
        if broken.any():
            busy[data.spread(data.stream)[broken]] = True
        busy[list(self._disorder.orders)] = True
        clock = self.readings = self.clock.read(block.time)
        clean = ~busy[data.stream]
        self._fast(block, data if clean.all() else data.take(clean))
        self._rows.append(self._disorder.feed(block, stream, clock, data.take(~clean), ended))

    def _fast(self, block: PacketBlock, data: Groups) -> None:
        if not len(data.row):
            return
        streams = self.connections.streams
        row, stream = data.row, data.spread(data.stream)
        length, captured = block.length[row].astype(np.int64), block.captured[row].astype(np.int64)
        position = np.cumsum(length) - length
        position += data.spread(streams.end[data.stream] - position[data.begin])
        time, flags = block.time[row], block.flags[row]
        segments = [stream, position, block.offset[row], captured, time, time, block.number[row]]
        self._rows.append(captured_and_cut([*segments, flags.astype(np.int64)], length, streams))
        last = data.begin + data.count - 1
        ends = position[last] + length[last]
        sent = ends - streams.end[data.stream]
        streams.next_seq[data.stream] = (streams.next_seq[data.stream] + sent) % _SEQ
        streams.end[data.stream] = ends
        for index in np.flatnonzero(flags & FIN).tolist():
            number = int(stream[index])
            if streams.fin_time[number] < 0:
                streams.fin_time[number] = time[index]
                streams.fin_position[number] = position[index] + length[index]

    def _add_tail_gaps(self) -> None:
        """Add gaps for bytes that the peer acknowledged but after which nothing was captured."""
        streams = self.connections.streams
        acked = streams.ack.reshape(-1, 2)[:, ::-1].ravel()
        missing = (acked - streams.next_seq + _HALF) % _SEQ - _HALF
        # a FIN takes a sequence number too; the last ACK may cover one that was not captured
        has_fin = streams.fin_position == streams.end
        missing -= has_fin | (missing == 1)
        found = (acked >= 0) & (streams.next_seq >= 0) & (missing > 0) & (missing <= _MAX_TAIL)
        stream = np.flatnonzero(found)
        if len(stream):
            cause = np.full(len(stream), GapCause.NOT_CAPTURED), np.full(len(stream), -1)
            self._rows.append(([], [stream, streams.end[stream], missing[stream], *cause]))
            streams.lost[stream] += missing[stream]
            streams.end[stream] += missing[stream]
            streams.next_seq[stream] = (streams.next_seq[stream] + missing[stream]) % _SEQ

    # -- per-block results

    def _update_connections(self, block: PacketBlock, connection: Int64s, stream: Int64s) -> None:
        connections, streams = self.connections, self.connections.streams
        connections.last_time[connection] = block.time
        seen = connections.observation.take(block.offset, block.time, connections.last_file[connection])
        connections.last_file[connection] = seen
        streams.packets += np.bincount(stream, minlength=len(streams))
        flags = block.flags
        closed = np.flatnonzero((block.window == 0) & (flags & (SYN | RST) == 0))
        if len(closed):
            np.add.at(streams.zero_windows, stream[closed], 1)
        acks = flags & (ACK | RST) == ACK
        if acks.all():
            streams.ack[stream] = block.ack
        else:
            streams.ack[stream[acks]] = block.ack[acks]
        for row in np.flatnonzero(flags & RST).tolist():
            if streams.reset_time[stream[row]] < 0:
                streams.reset_time[stream[row]] = block.time[row]

    def _result(self, connections: range, block: PacketBlock | None) -> SegmentBlock:
        segments = _joined([part for part, _ in self._rows if part], _SEGMENT_COLUMNS)
        gaps = _joined([part for _, part in self._rows if part], _GAP_COLUMNS)
        # out-of-order streams are appended in the order in which they became so, and holes of each cause separately
        if (segments[0][1:] < segments[0][:-1]).any():
            order = np.argsort(segments[0], kind="stable")
            segments = [column[order] for column in segments]
        if len(gaps[0]) > 1:
            order = np.lexsort((gaps[1], gaps[0]))
            gaps = [column[order] for column in gaps]
        self._rows = []
        before = _gap_rows(segments, gaps)
        stream, position, offset, length, time, delivered, number, flags = segments
        gap_stream, gap_position, missing, cause, cut = gaps
        result = SegmentBlock(
            stream=stream,
            position=position,
            offset=offset,
            length=length,
            time=time,
            delivered=delivered,
            number=number,
            flags=flags.astype(np.uint8),
            gaps=Gaps(gap_stream, gap_position, missing, cause.astype(np.uint8), cut, before),
            connections=connections,
            source=self._source,
            block=block,
        )
        repeats = self._disorder.take_repeats()
        if self._index is not None:
            self._index.append(result)
            self._compare(repeats, self._index)
        return result

    def _compare(self, repeats: Repeats, index: SegmentIndex) -> None:
        """Count repeated bytes whose content differs from the first copy.

        The first copies of bytes repeated several times are read once.
        """
        order = np.lexsort((repeats.position, repeats.stream))
        _, stream = np.unique(repeats.stream[order], return_inverse=True)
        start = repeats.position[order] + stream * _STREAM_SPAN
        reach = np.maximum.accumulate(start + repeats.length[order])
        edges = np.flatnonzero(np.append(True, start[1:] > reach[:-1])) if len(order) else order
        for low, high in pairwise((*edges.tolist(), len(order))):
            self._compare_stretch(repeats.take(np.sort(order[low:high])), index)

    def _compare_stretch(self, repeats: Repeats, index: SegmentIndex) -> None:
        """Compare repeats of one stream that overlap or follow each other, in the order of arrival."""
        stream, begin = int(repeats.stream[0]), int(repeats.position.min())
        first, there = index.read_where_captured(
            stream, begin, int((repeats.position + repeats.length).max())
        )
        columns = repeats.position, repeats.length, repeats.offset
        for position, length, offset in zip(*(column.tolist() for column in columns), strict=True):
            try:
                earlier = np.frombuffer(index.source.read(offset, length), np.uint8)
            except SpoolDropped:  # nothing left to compare
                continue
            place = slice(position - begin, position - begin + len(earlier))
            differ = int(np.count_nonzero((first[place] != earlier) & there[place]))
            if differ:
                self.connections.streams.conflicting[stream] += differ
                self.conflicts.append(Conflict(stream, position, position + length))


def _joined(parts: list[list[Int64s]], width: int) -> list[Int64s]:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return [np.empty(0, np.int64) for _ in range(width)]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _gap_rows(segments: list[Int64s], gaps: list[Int64s]) -> Int64s:
    """Return for each gap the row of the first segment that does not precede it."""
    count = len(gaps[0])
    if not count:
        return np.empty(0, np.int64)
    stream = np.concatenate([gaps[0], segments[0]])
    position = np.concatenate([gaps[1], segments[1]])
    order = np.lexsort((np.arange(len(stream)), position, stream))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[:count] - np.arange(count)
