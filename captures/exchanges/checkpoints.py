"""The state of a connection between two packets, frozen by one capture and thawed by another.

If a capture is read in parts, in parallel, a connection that crosses an edge has to be continued where it was left. Its
state is small while it is ordinary: the next position of both streams, unfinished frames, and requests in flight. Only
:meth:`captures.exchanges.Capture.freeze` and :meth:`~captures.exchanges.Capture.thaw` convert it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from captures.exchanges.frame_cutter import PartialFrame
from captures.exchanges.notes import CommentedBytes
from captures.exchanges.table import DetachedRow
from captures.packets.index import Places

Endpoint = tuple[bytes, int]
"""IP address (4 or 16 bytes) and port."""

NOWHERE: Places = (np.zeros(0, np.int64),) * 3
"""No bytes; the same object for all streams, so that it is packed once."""

COUNTERS = ("packets", "retransmitted", "reordered", "lost", "cut", "conflicting", "outside", "zero_windows")
"""Columns of streams that are counters."""

TAIL = 1 << 16
"""How many bytes before the next one of a stream keep their places, in case they are retransmitted."""


@dataclass(slots=True)
class StreamColumns:
    """Columns of :class:`~captures.packets.connections.Streams` for one direction."""

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
    """Columns of :class:`~captures.packets.connections.Connections` for one connection, with its endpoints."""

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

    :ivar frame: position at which the next frame begins, or the unfinished one began
    :ivar carry: the part of that frame that was seen
    :ivar places: places of the bytes from the first that may still be needed, and of some before it
    :ivar needed: position of the first byte that may still be needed
    :ivar notes: comments of packets with bytes from there on
    :ivar conflicts: byte ranges [start, end) from `frame` on that were captured again with other content
    """

    frame: int
    carry: PartialFrame | None
    places: Places
    needed: int
    notes: list[CommentedBytes]
    conflicts: list[tuple[int, int]]

    def misses(self, ack: int) -> bool:
        """Return whether the receiver has acknowledged bytes that were not captured, as at the end of a capture."""
        missing = (ack - self.next_seq) % (1 << 32)
        if ack < 0 or self.next_seq < 0 or not 0 < missing <= 1 << 30:
            return False
        # the FIN takes a sequence number too; the last ACK may acknowledge one that was not captured
        return missing > 1 + (self.fin_position == self.end)

    def needed_only(self) -> StreamState:
        """Return the state without the places of bytes that are needed only if they are retransmitted."""
        position, offset, length = self.places
        kept = position + length > self.needed
        return replace(self, places=(position[kept], offset[kept], length[kept]))

    def moved(self, distance: int, packets: int) -> StreamState:
        """Return the state with stream positions shifted by `distance` and packet numbers by `packets`."""
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
            notes=[each.moved(distance, packets) for each in self.notes],
            conflicts=[(start + distance, end + distance) for start, end in self.conflicts],
            fin_position=self.fin_position + distance if self.fin_time >= 0 else self.fin_position,
            carry=carry,
            places=(position + distance, offset, length) if len(position) else NOWHERE,
        )


@dataclass(slots=True)
class ConnectionState(ConnectionColumns):
    """An ordinary connection between two packets.

    :ivar framed: whether it has sent anything yet
    :ivar client_direction: the direction of the requests
    :ivar whole: whether both directions were captured from their first byte on
    :ivar waiting: the requests in flight, in order
    :ivar silent: the latest requests that need no response, in order
    :ivar latest: the latest request, and the latest answered one
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
        """Whether ending the capture or replacing the connection here would leave its exchanges unchanged."""
        one, other = self.streams
        missing = one.misses(other.ack) or other.misses(one.ack)
        return not (missing or self.waiting or any(stream.carry is not None for stream in self.streams))

    def moved(self, distances: tuple[int, int], packets: int) -> ConnectionState:
        """Return the state with stream positions shifted by `distances` and packet numbers by `packets`."""
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
        """Return the state with the endpoints swapped."""
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
