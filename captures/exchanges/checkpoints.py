"""The state of a connection between two packets, which one capture freezes and another one thaws.

If a capture is read in parts, side by side, a connection that continues beyond an edge has to be taken up where it
was left. Its state is small as long as nothing is out of the ordinary: what comes next in both streams, the frames
that are not whole yet, and the requests that wait for their response. :meth:`captures.exchanges.Capture.freeze` and
:meth:`~captures.exchanges.Capture.thaw` are the only ways out and in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from captures.exchanges.frame_cutter import Carry
from captures.exchanges.notes import CommentedBytes
from captures.exchanges.table import DetachedRow
from captures.packets.index import Places

Endpoint = tuple[bytes, int]
"""IP address, 4 or 16 bytes, and port."""

NOWHERE: Places = (np.zeros(0, np.int64),) * 3
"""No bytes; the same object for all streams, so that it is packed once."""

COUNTERS = ("packets", "retransmitted", "reordered", "lost", "cut", "conflicting", "outside", "zero_windows")
"""Columns of streams that count something."""

TAIL = 1 << 16
"""Bytes before the next one of a stream whose places are kept, in case they are sent again."""


@dataclass(slots=True)
class StreamColumns:
    """Columns of :class:`~captures.packets.connections.Streams`, of one direction."""

    syn_seen: bool
    end: int
    next_seq: int
    isn: int
    ack: int
    fin_time: int
    fin_position: int
    reset_time: int


@dataclass(slots=True)
class ConnectionColumns:
    """Columns of :class:`~captures.packets.connections.Connections`, of one connection, with its endpoints."""

    a: Endpoint
    b: Endpoint
    generation: int
    client_known: bool
    first_number: int
    first_time: int
    last_time: int
    last_file: int
    syn_time: int
    handshake: int


STREAM_COLUMNS = tuple(each.name for each in fields(StreamColumns))
CONNECTION_COLUMNS = tuple(each.name for each in fields(ConnectionColumns))[2:]


@dataclass(slots=True)
class StreamState(StreamColumns):
    """One direction of a connection.

    :ivar frame: position at which the next frame begins, or began that is not whole yet
    :ivar carry: what was seen of that frame
    :ivar places: where the bytes are, from the first that may still be needed, and some before it
    :ivar needed: the first that may still be needed
    :ivar notes: comments of packets with bytes from there on
    :ivar conflicts: bytes [start, end) from `frame` on that came again with other content
    """

    frame: int
    carry: Carry | None
    places: Places
    needed: int
    notes: list[CommentedBytes]
    conflicts: list[tuple[int, int]]

    def misses(self, ack: int) -> bool:
        """Return whether the receiver has acknowledged bytes that were not captured, as the end of a capture finds."""
        missing = (ack - self.next_seq) % (1 << 32)
        if ack < 0 or self.next_seq < 0 or not 0 < missing <= 1 << 30:
            return False
        # the FIN takes a sequence number too; one that was not captured may hide behind the last ACK
        return missing > 1 + (self.fin_position == self.end)

    def needed_only(self) -> StreamState:
        """Return the same without the places of bytes that are needed only if they come again."""
        position, offset, length = self.places
        kept = position + length > self.needed
        return replace(self, places=(position[kept], offset[kept], length[kept]))

    def moved(self, distance: int, packets: int) -> StreamState:
        """Return the same with positions and packet numbers that count from elsewhere."""
        carry = self.carry
        if carry is not None:
            marks = tuple((at + distance, time, packet + packets) for at, time, packet in carry.marks)
            carry = carry._replace(
                position=carry.position + distance, packet=carry.packet + packets, marks=marks
            )
        position, offset, length = self.places
        return replace(
            self,
            end=self.end + distance,
            frame=self.frame + distance,
            needed=self.needed + distance,
            notes=[
                each._replace(
                    start=each.start + distance, end=each.end + distance, packet=each.packet + packets
                )
                for each in self.notes
            ],
            conflicts=[(start + distance, end + distance) for start, end in self.conflicts],
            fin_position=self.fin_position + distance if self.fin_time >= 0 else self.fin_position,
            carry=carry,
            places=(position + distance, offset, length) if len(position) else NOWHERE,
        )


@dataclass(slots=True)
class ConnectionState(ConnectionColumns):
    """A connection between two packets, when nothing of it was out of the ordinary.

    :ivar framed: whether it has sent anything yet
    :ivar client_direction: the direction of the requests
    :ivar whole: whether both directions were captured from their first byte on
    :ivar waiting: the requests that wait for a response, in order
    :ivar silent: the latest requests that need no response, in order
    :ivar latest: the latest request, and the latest one answered
    :ivar client_ids: the first client IDs, in order
    """

    framed: bool
    client_direction: int
    whole: bool
    streams: tuple[StreamState, StreamState]
    waiting: list[DetachedRow] = field(default_factory=list)
    silent: list[DetachedRow] = field(default_factory=list)
    latest: tuple[DetachedRow | None, DetachedRow | None] = (None, None)
    client_ids: list[str] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether the end of the capture, or another connection in its place, would change nothing of its exchanges."""
        one, other = self.streams
        missing = one.misses(other.ack) or other.misses(one.ack)
        return not (missing or self.waiting or any(stream.carry is not None for stream in self.streams))

    def moved(self, distances: tuple[int, int], packets: int) -> ConnectionState:
        """Return the same with positions in both streams, and packet numbers, that count from elsewhere."""
        by_side = (distances[self.client_direction], distances[1 - self.client_direction])
        one, other = self.streams
        state = replace(
            self,
            first_number=self.first_number + packets,
            streams=(one.moved(distances[0], packets), other.moved(distances[1], packets)),
            waiting=[_row_moved(row, by_side, packets) for row in self.waiting],
            silent=[_row_moved(row, by_side, packets) for row in self.silent],
        )
        request, answered = (row and _row_moved(row, by_side, packets) for row in self.latest)
        state.latest = request, answered
        return state

    def turned(self) -> ConnectionState:
        """Return the same with the endpoints the other way round."""
        return replace(
            self,
            a=self.b,
            b=self.a,
            client_direction=1 - self.client_direction,
            streams=self.streams[::-1],
        )


def _row_moved(row: DetachedRow, by_side: tuple[int, int], packets: int) -> DetachedRow:
    return row | {
        "request_position": row["request_position"] + by_side[0],
        "response_position": row["response_position"] + by_side[1],
        "packet": row["packet"] + packets,
    }
