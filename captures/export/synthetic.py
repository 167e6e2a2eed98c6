"""Synthetic TCP: frames as packets that were never on a wire, for traffic that was decrypted or not seen as packets.

Packets are Ethernet, IPv4 or IPv6 and TCP with correct lengths and checksums; endpoints and times are the real ones. A
connection gets a handshake if its own was captured, and ends as it ended: by FIN, by RST or not at all.

Bytes that the capture lacks are missing here too: they are packets cut after their headers, as by a snapshot length.
This includes the bytes between the frames of a connection that is written whole; if only some of its exchanges are
written, or frames in it are those of a request log, the frames follow each other without holes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from captures.arrays import Int64s
from captures.exchanges import Capture
from captures.exchanges.logged_exchanges import BEYOND_PACKETS
from captures.export.segments import MAX_SEGMENT, Conversation
from captures.export.selection import whole_connections
from dissectors.sides import SIDES, Side

ETHERNET_SEGMENT = 1_460

_MOST_HOLE = 1 << 20  # larger holes show only in the sequence numbers
_LAST = 1 << 63  # after every offset of a capture


class Piece(NamedTuple):
    """Captured bytes of a frame.

    :ivar start: offset of the first byte in the frame
    :ivar data: the bytes
    :ivar place: offset of the first byte in the capture file: orders packets of the same time
    """

    start: int
    data: bytes
    place: int = 0


#: returns the captured bytes of a frame; arguments: row of the exchange table, side, stream position, size
ReadFrame = Callable[[int, Side, int, int], list[Piece]]


class SyntheticPacket(NamedTuple):
    """A synthetic packet: an Ethernet frame.

    :ivar time: ns since the epoch
    :ivar place: file offset of its payload, which orders packets of the same time
    :ivar data: the frame
    :ivar comment: text, or empty
    :ivar missing: bytes of the frame beyond ``data``
    """

    time: int
    place: int
    data: bytes
    comment: str = ""
    missing: int = 0


def captured_frames(capture: Capture) -> ReadFrame:
    """Return a reader of the frames of a capture."""

    def read(row: int, side: Side, position: int, size: int) -> list[Piece]:
        connection = int(capture.table.column("connection")[row])
        stream = capture.client_stream(connection) ^ SIDES.index(side)
        positions = capture.decryption.index_of(connection).pieces(stream, position, position + size)
        pieces = zip(*(column.tolist() for column in positions), strict=True)
        return [
            Piece(at - position, capture.source.read(offset, length), offset) for at, offset, length in pieces
        ]

    return read


def synthetic_packets(
    capture: Capture,
    rows: Int64s,
    *,
    read: ReadFrame | None = None,
    segment_size: int = ETHERNET_SEGMENT,
    comments: Mapping[tuple[int, int], str] | None = None,
) -> Iterator[SyntheticPacket]:
    """Return packets of the given exchanges, ordered by time.

    :param rows: indexes in the exchange table
    :param read: reads frames; default: from the capture
    :param segment_size: payload bytes of the largest packet, at most :data:`MAX_SEGMENT`
    :param comments: (row, 0 for its request or 1 for its response) -> comment on the first packet of that frame
    """
    maker = _Maker(
        capture,
        read or captured_frames(capture),
        min(segment_size, MAX_SEGMENT),
        comments or {},
        frozenset(whole_connections(capture, rows).tolist()),
    )
    made = [maker.packets(connection, sides) for connection, sides in _by_connection(capture, rows).items()]
    return heapq.merge(*made, key=_when)


class _Frame(NamedTuple):
    """A frame to be sent; ``row`` is the row of its exchange."""

    first: int
    last: int
    side: int
    position: int
    size: int
    row: int


class _Segment(NamedTuple):
    """One packet of a frame; ``position`` is in the synthetic stream."""

    time: int
    place: int
    side: int
    position: int
    data: bytes
    missing: int
    push: bool
    comment: str


def _when(packet: SyntheticPacket | _Segment) -> tuple[int, int]:
    return packet.time, packet.place


def _by_connection(capture: Capture, rows: Int64s) -> dict[int, tuple[list[_Frame], list[_Frame]]]:
    """Return the frames of each connection and side, in stream order; by time if some are those of a request log."""
    found: dict[int, tuple[list[_Frame], list[_Frame]]] = {}
    table = capture.table
    connection = table.column("connection")[rows].tolist()
    for side, name in enumerate(SIDES):
        columns = (
            table.column(f"{name}_{what}")[rows].tolist() for what in ("first", "last", "position", "size")
        )
        cells = zip(connection, *columns, rows.tolist(), strict=True)
        for number, first, last, position, size, row in cells:
            if size:
                sides = found.setdefault(number, ([], []))
                sides[side].append(_Frame(first, last, side, position, size, row))
    for sides in found.values():
        for frames in sides:
            frames.sort(key=lambda frame: frame.position)
            if _has_logged(frames):
                frames.sort(key=lambda frame: (frame.first, frame.position))
    return dict(sorted(found.items()))


def _has_logged(frames: list[_Frame]) -> bool:
    """Return whether frames of one side include some of a request log, which are not where the packets lack them."""
    return any(frame.position >= BEYOND_PACKETS for frame in frames)


class _Maker(msgspec.Struct, frozen=True):
    capture: Capture
    read: ReadFrame
    segment_size: int
    comments: Mapping[tuple[int, int], str]
    whole: frozenset[int]

    def packets(self, connection: int, sides: tuple[list[_Frame], list[_Frame]]) -> Iterator[SyntheticPacket]:
        """Yield all packets of one connection, with times that never decrease."""
        capture, conversation = self.capture, Conversation(*self.capture.endpoints(connection), connection)
        latest = min(frames[0].first for frames in sides if frames)
        streams = capture.connections.streams
        if streams.syn_seen[2 * connection : 2 * connection + 2].all():
            start, delay = int(capture.connections.syn_time[connection]), self._delay(connection)
            if not 0 <= start <= latest - delay:
                start = latest - delay
            times = (start, start + delay, start + delay)
            for time, data in zip(times, conversation.handshake(), strict=True):
                yield SyntheticPacket(time, -1, data)
        spaced = connection in self.whole and not any(map(_has_logged, sides))
        both = [
            self._segments(frames, self._stream_end(connection, side, frames), spaced=spaced)
            for side, frames in enumerate(sides)
        ]
        for segment in heapq.merge(*both, key=_when):
            _, pos, side, position, payload, missing, push, comment = segment
            data = conversation.segment(side, position, payload, push=push, missing=missing)
            latest = max(latest, segment.time)
            yield SyntheticPacket(latest, pos, data, comment, missing)
        yield from self._end(connection, conversation, latest)

    def _delay(self, connection: int) -> int:
        return max(int(self.capture.connections.handshake[connection]), 0)

    def _stream_end(self, connection: int, side: int, frames: list[_Frame]) -> int:
        """Return the position after the last byte that a side sent, as far as the capture shows."""
        stream = self.capture.client_stream(connection) ^ side
        if connection not in self.capture.decryption.tls:
            return int(self.capture.connections.streams.end[stream])
        if not frames:
            return 0
        last = frames[-1]  # positions count plaintext; only the decrypted part is known
        index = self.capture.decryption.index_of(connection)
        position, _, length = index.pieces(stream, last.position, last.position + last.size)
        return int(position[-1] + length[-1]) if len(position) else last.position

    def _segments(self, frames: list[_Frame], end: int, *, spaced: bool) -> Iterator[_Segment]:
        """Yield one side's stream: its frames one after another.

        :param end: position at which the stream ends, possibly inside a frame
        :param spaced: whether the bytes between frames remain as a hole
        """
        expected, sent, latest = 0, 0, frames[0].first if frames else 0
        for frame in frames:
            if spaced and frame.position > expected:
                yield from self._hole(latest, frame.side, sent, frame.position - expected)
                sent += frame.position - expected
            first = max(frame.first, latest)
            latest = max(frame.last, first)
            size = frame.size
            if frame.position < BEYOND_PACKETS:
                size = max(min(size, end - frame.position), 0)
            yield from self._frame(frame._replace(first=first, last=latest), sent, size)
            sent += size
            expected = frame.position + size
        if spaced and frames and end > expected:
            yield from self._hole(latest, frames[0].side, sent, end - expected)

    def _hole(self, time: int, side: int, position: int, size: int) -> Iterator[_Segment]:
        """Yield packets without payload."""
        for at, missing in self._lacking(position, position + size):
            yield _Segment(time, 0, side, at, b"", missing, False, "")

    def _lacking(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Split a hole into packets: yield start and size of each, nothing if the hole is too large for packets."""
        for at in range(start, end if end - start <= _MOST_HOLE else start, self.segment_size):
            yield at, min(self.segment_size, end - at)

    def _frame(self, frame: _Frame, sent: int, size: int) -> Iterator[_Segment]:
        """Yield one frame, or its first ``size`` bytes, with times spread from its first to its last."""
        name: Side = "response" if frame.side else "request"
        parts = list(self._parts(self.read(frame.row, name, frame.position, size), size))
        steps = max(sum(1 for part in parts if part[2]) - 1, 1)
        step, time, text = 0, frame.first, self.comments.get((frame.row, frame.side), "")
        for start, position, data, missing in parts:
            if data:
                time = frame.first + (frame.last - frame.first) * step // steps
                step += 1
            push = start + len(data) + missing == size
            yield _Segment(time, position, frame.side, sent + start, data, missing, push, text)
            text = ""

    def _parts(self, pieces: list[Piece], size: int) -> Iterator[tuple[int, int, bytes, int]]:
        """Split a frame into packets: offset in the frame, offset in the file, bytes, number of missing bytes."""
        at = position = 0
        for piece in (*pieces, Piece(size, b"", -1)):
            for hole, missing in self._lacking(at, piece.start):
                yield hole, position, b"", missing
            for start in range(0, len(piece.data), self.segment_size):
                yield (
                    piece.start + start,
                    piece.place + start,
                    piece.data[start : start + self.segment_size],
                    0,
                )
            at, position = piece.start + len(piece.data), piece.place + len(piece.data)

    def _end(self, connection: int, conversation: Conversation, latest: int) -> Iterator[SyntheticPacket]:
        streams, client = self.capture.connections.streams, self.capture.client_stream(connection)
        ends = sorted(
            (int(times[client ^ side]), reset, side)
            for reset, times in ((False, streams.fin_time), (True, streams.reset_time))
            for side in (0, 1)
            if times[client ^ side] >= 0
        )
        for time, reset, side in ends:
            latest = max(time, latest)
            if reset:
                yield SyntheticPacket(latest, _LAST, conversation.reset(side))
                return
            for data in conversation.finish(side):
                yield SyntheticPacket(latest, _LAST, data)
