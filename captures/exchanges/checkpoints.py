"""Connections that go from the reading of one capture into that of another.

Where a capture is read in parts, side by side, a connection that continues beyond an edge has to be taken up where it
was left. What has to be known of it is little as long as nothing is out of the ordinary: what comes next in both
streams, the frames that are not whole yet, and the requests that wait for their response.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bools, Int64s
from captures.exchanges.bulk import Handover
from captures.exchanges.capture import Capture
from captures.exchanges.frame_cutter import Carry
from captures.exchanges.notes import CommentedBytes
from captures.exchanges.single import SingleConnection
from captures.exchanges.table import COLUMNS
from captures.packets import Gaps, SegmentBlock

Endpoint = tuple[bytes, int]
"""IP address, 4 or 16 bytes, and port."""
Row = dict[str, Any]
"""A row of the exchange table, with the client ID as text."""
Places = tuple[Int64s, Int64s, Int64s]
"""Where bytes of a stream are: their position, offset in the source, length."""

NOWHERE: Places = (np.zeros(0, np.int64),) * 3
"""No bytes; the same object for all streams, so that it is packed once."""

COUNTERS = ("packets", "retransmitted", "reordered", "lost", "cut", "conflicting", "outside", "zero_windows")
"""Columns of streams that count something."""

TAIL = 1 << 16
"""Bytes before the next one of a stream whose places are kept, in case they are sent again."""


@dataclass(slots=True)
class StreamState:
    """One direction of a connection.

    The first eight are columns of :class:`~captures.packets.connections.Streams`.

    :ivar frame: position at which the next frame begins, or began that is not whole yet
    :ivar carry: what was seen of that frame
    :ivar places: where the bytes are, from the first that may still be needed, and some before it
    :ivar needed: the first that may still be needed
    :ivar notes: comments of packets with bytes from there on
    :ivar conflicts: bytes [start, end) from `frame` on that came again with other content
    """

    syn_seen: bool
    end: int
    next_seq: int
    isn: int
    ack: int
    fin_time: int
    fin_position: int
    reset_time: int
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
class ConnectionState:
    """A connection between two packets, when nothing of it was out of the ordinary.

    The first eight are columns of :class:`~captures.packets.connections.Connections`, with endpoints instead of
    their ids.

    :ivar framed: whether it has sent anything yet
    :ivar client_direction: the direction of the requests
    :ivar whole: whether both directions were captured from their first byte on
    :ivar waiting: the requests that wait for a response, in order
    :ivar silent: the latest requests that need no response, in order
    :ivar latest: the latest request, and the latest one answered
    :ivar client_ids: the first client IDs, in order
    """

    a: Endpoint
    b: Endpoint
    generation: int
    client_known: bool
    first_number: int
    first_time: int
    syn_time: int
    handshake: int
    framed: bool
    client_direction: int
    whole: bool
    streams: tuple[StreamState, StreamState]
    waiting: list[Row]
    silent: list[Row]
    latest: tuple[Row | None, Row | None]
    client_ids: list[str]

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


def _row_moved(row: Row, by_side: tuple[int, int], packets: int) -> Row:
    return row | {
        "request_position": row["request_position"] + by_side[0],
        "response_position": row["response_position"] + by_side[1],
        "packet": row["packet"] + packets,
    }


# ---------------------------------------------------------------- out
def stand_still(capture: Capture) -> Bools:
    """Return which connections of a capture stand in the ordinary way, so that :func:`state_of` says all of them.

    Connections that have sent nothing yet do too, if both sides of their handshake were captured.
    """
    connections = capture.connections
    still = np.zeros(len(connections), np.bool_)
    still[: len(capture.ordinary)] = capture.ordinary
    known = connections.streams.isn >= 0
    silent = np.all((connections.streams.end == 0).reshape(-1, 2), axis=1)
    fresh = silent & np.all(known.reshape(-1, 2), axis=1)
    if capture.singles:
        fresh[list(capture.singles)] = False
    still |= fresh
    busy = [stream >> 1 for stream in (*capture.assembler.disordered, *capture.in_step.holding)]
    still[busy] = False
    still[list(capture.decryption.tls)] = False
    return still


def state_of(capture: Capture, connection: int) -> ConnectionState:
    """Return where a connection stands that :func:`stand_still` tells of."""
    connections, table = capture.connections, capture.table
    framed = connection < len(capture.ordinary) and bool(capture.ordinary[connection])
    handover = capture.bulk.standing(connection) if framed else None
    client_direction = capture.client_stream(connection) & 1
    waiting = [] if handover is None else handover.waiting
    oldest = min((int(table.column("request_position")[row]) for row in waiting), default=None)
    book = capture.addresses
    ends = (int(connections.a[connection]), int(connections.b[connection]))
    single = capture.singles.get(connection)
    seen = connections.streams.syn_seen[2 * connection : 2 * connection + 2]
    a, b = ((book.address(end), book.port(end)) for end in ends)
    streams = [
        _stream_state(capture, 2 * connection + side, handover, oldest if side == client_direction else None)
        for side in (0, 1)
    ]
    latest = (-1, -1) if handover is None else handover.latest
    return ConnectionState(
        a=a,
        b=b,
        generation=int(connections.generation[connection]),
        client_known=bool(connections.client_known[connection]),
        first_number=int(connections.first_number[connection]),
        first_time=int(connections.first_time[connection]),
        syn_time=int(connections.syn_time[connection]),
        handshake=int(connections.handshake[connection]),
        framed=framed,
        client_direction=client_direction,
        whole=single.whole if single is not None else bool(seen.all()),
        streams=(streams[0], streams[1]),
        waiting=[row_of(capture, row) for row in waiting],
        silent=[] if handover is None else [row_of(capture, row) for row in handover.silent],
        latest=(
            row_of(capture, latest[0]) if latest[0] >= 0 else None,
            row_of(capture, latest[1]) if latest[1] >= 0 else None,
        ),
        client_ids=[] if handover is None else client_ids_of(capture, handover),
    )


def client_ids_of(capture: Capture, handover: Handover) -> list[str]:
    """Return the first client IDs of a connection as text."""
    texts = (capture.table.client_ids[number] for number in handover.client_ids)
    return [text for text in texts if text is not None]


def row_of(capture: Capture, row: int) -> Row:
    """Return a row of the exchange table, with the client ID as text."""
    values = capture.table.row(row)
    number = values["client_id"]
    return values | {"client_id": capture.table.client_ids[number] if number >= 0 else -1}


def _stream_state(
    capture: Capture, stream: int, handover: Handover | None, oldest: int | None
) -> StreamState:
    """Return where a stream stands.

    :param oldest: position of the first request that waits for a response, if it is the client's
    """
    streams = capture.connections.streams
    end = int(streams.end[stream])
    frame = end if handover is None else handover.positions[stream & 1]
    first = needed = frame if oldest is None else min(oldest, frame)
    if not _is_closed(capture, stream):
        first = max(min(first, end - TAIL), 0)
    return StreamState(
        syn_seen=bool(streams.syn_seen[stream]),
        end=end,
        next_seq=int(streams.next_seq[stream]),
        isn=int(streams.isn[stream]),
        ack=int(streams.ack[stream]),
        fin_time=int(streams.fin_time[stream]),
        fin_position=int(streams.fin_position[stream]),
        reset_time=int(streams.reset_time[stream]),
        frame=frame,
        carry=None if handover is None else handover.carries[stream & 1],
        places=capture.index.pieces(stream, first, end) if first < end else NOWHERE,
        needed=needed,
        notes=capture.notes.told_of(stream, needed),
        conflicts=capture.differing.open_from(stream, frame),
    )


def _is_closed(capture: Capture, stream: int) -> bool:
    """Return whether nothing more is expected of the connection of a stream."""
    fin, reset = capture.connections.streams.fin_time, capture.connections.streams.reset_time
    both = stream, stream ^ 1
    return all(fin[each] >= 0 for each in both) or any(reset[each] >= 0 for each in both)


# ---------------------------------------------------------------- in
def resume(capture: Capture, state: ConnectionState) -> tuple[int, list[int]]:
    """Let a capture continue with a connection.

    Rows are added to the table for the requests that wait, and for others that have to be known.

    :returns: its id there, and the rows that are only there to be known
    """
    book, connections = capture.addresses, capture.connections
    a, b = book.intern(*state.a), book.intern(*state.b)
    new = capture.assembler.enter(a, b, state.generation, state.first_time, state.first_number)
    connections.client_known[new] = state.client_known
    connections.syn_time[new], connections.handshake[new] = state.syn_time, state.handshake
    streams = connections.streams
    for stream, one in zip((2 * new, 2 * new + 1), state.streams, strict=True):
        streams.syn_seen[stream] = one.syn_seen
        for name in ("end", "next_seq", "isn", "ack", "fin_time", "fin_position", "reset_time"):
            getattr(streams, name)[stream] = getattr(one, name)
    missing = new + 1 - len(capture.ordinary)
    capture.ordinary = np.append(capture.ordinary, np.zeros(max(missing, 0), np.bool_))
    return new, _resume_frames(capture, new, state) if state.framed else []


def _resume_frames(capture: Capture, new: int, state: ConnectionState) -> list[int]:
    capture.decryption.pass_over(new)
    for stream, one in zip((2 * new, 2 * new + 1), state.streams, strict=True):
        capture.index.append(segments_at(stream, one.places))
        capture.notes.take_over(stream, one.notes)
        capture.differing.take_over(stream, one.conflicts)
    single = SingleConnection(
        new, capture.table, capture.index, capture.limits, client_known=False, whole=state.whole
    )
    single.stand_by(state.client_direction)
    capture.singles[new] = single
    rows: dict[int, int] = {}
    for row in (*state.silent, *state.latest, *state.waiting):
        if row is not None and row["request_position"] not in rows:
            rows[row["request_position"]] = _add_row(capture, new, row)
    latest = [rows[row["request_position"]] if row is not None else -1 for row in state.latest]
    one, other = state.streams
    handover = Handover(
        new,
        [rows[row["request_position"]] for row in state.waiting],
        (one.frame, other.frame),
        (one.carry, other.carry),
        [rows[row["request_position"]] for row in state.silent],
        (latest[0], latest[1]),
        [capture.table.client_number(text.encode()) for text in state.client_ids],
    )
    take_back(capture, handover, state.client_direction)
    return [row for row in rows.values() if row not in handover.waiting]


def _add_row(capture: Capture, connection: int, row: Row) -> int:
    table, client_id = capture.table, row["client_id"]
    if client_id != -1:
        client_id = table.client_number(None if client_id is None else client_id.encode())
    values = {name: row[name] for name in COLUMNS} | {"connection": connection, "client_id": client_id}
    return table.add(**values)


def segments_at(stream: int, places: Places) -> SegmentBlock:
    """Return bytes of a stream as an index takes them."""
    position, offset, length = places
    none: NDArray[Any] = np.zeros(0, np.int64)
    nothing = np.zeros(len(position), np.int64)
    return SegmentBlock(
        stream=np.full(len(position), stream, np.int64),
        position=position,
        offset=offset,
        length=length,
        time=nothing,
        delivered=nothing,
        number=nothing,
        flags=nothing.astype(np.uint8),
        gaps=Gaps(none, none, none, none.astype(np.uint8), none, none),
        connections=range(0),
        source=None,
        block=None,
    )


def take_out(capture: Capture, connection: int) -> Handover:
    """Take a connection out of the fast way; return where it stands."""
    (handover,) = capture.bulk.hand_over({connection})
    capture.ordinary[connection] = False
    return handover


def take_back(capture: Capture, handover: Handover, client_direction: int) -> None:
    """Let a connection take the fast way on."""
    capture.bulk.take_over([(handover, client_direction)])
    capture.ordinary[handover.connection] = True


def forget(capture: Capture, connection: int) -> None:
    """Let the end of the capture find nothing to do about a connection that was taken out."""
    streams = capture.connections.streams
    streams.ack[2 * connection : 2 * connection + 2] = -1
