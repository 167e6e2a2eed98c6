"""A second pass over a capture file: whole packets, each with its place in the streams of the first pass.

Reassembly keeps only the bytes that arrived first. Copying and scrubbing need every packet that carried a byte,
retransmitted or not. A packet's place is computed from its sequence number, relative to the last packet of that stream
whose place is known; reassembly gives the known places, by file offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import msgspec
import numpy as np

from captures.arrays import Bools, Bytes, Int64s, distinct_values
from captures.exchanges import Capture
from captures.packets import (
    ACK,
    FIN,
    RST,
    SYN,
    PacketBlock,
    PacketReader,
    SegmentBlock,
    TcpAssembler,
    read_packets,
)
from captures.packets.records import Interface, ParsedBuffer
from captures.packets.source import KEPT

UNKNOWN = -1
_SEQUENCE = 1 << 32
_HALF = 1 << 31


@dataclass(slots=True, kw_only=True)
class FramedBlock(PacketBlock):
    """Packets with the frames that contain them.

    :ivar frame: int64, where the frame begins in the source
    :ivar frame_captured: int64, bytes of the frame in the file
    :ivar frame_wire: int64, bytes of the frame on the wire
    """

    PLACES = (*PacketBlock.PLACES, "frame")

    frame: Int64s
    frame_captured: Int64s
    frame_wire: Int64s


class PlacedPackets(msgspec.Struct):
    """The TCP packets of one block of the capture with their places; columns are parallel to the packet block.

    :ivar packets: the TCP columns
    :ivar stream: stream that the packet belongs to
    :ivar position: stream position of the first payload byte, ``UNKNOWN`` if it is not known
    :ivar acknowledged: position in the other direction's stream up to which the packet acknowledges, or ``UNKNOWN``
    :ivar interfaces: the interfaces declared so far
    """

    packets: FramedBlock
    stream: Int64s
    position: Int64s
    acknowledged: Int64s
    interfaces: list[Interface]

    def frame(self, at: int) -> bytes:
        """Return the captured part of the frame of the TCP packet `at`."""
        return self.packets.bytes_at(int(self.packets.frame[at]), int(self.packets.frame_captured[at]))

    def payload_start(self, at: int) -> int:
        """Return where the payload of packet `at` begins in its frame, -1 if the payload is not in the frame."""
        offset = int(self.packets.offset[at])
        if offset >= KEPT:
            return -1
        return offset - int(self.packets.frame[at])


class FrameReader(PacketReader):
    """A packet reader whose blocks include the frames."""

    def _block(self, data: Bytes, position: int, parsed: ParsedBuffer) -> PacketBlock:
        block = super()._block(data, position, parsed)
        records = parsed.records
        row = block.number - (self.statistics.packets - len(records) + 1)
        return FramedBlock(
            **{each.name: getattr(block, each.name) for each in fields(block)},
            frame=records.frame[row] + position,
            frame_captured=records.captured[row],
            frame_wire=records.wire[row],
        )


class CaptureReread:
    """Reads a capture again.

    :param capture: a capture that was read to its end
    :ivar done: bytes of it that were read again
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self.done = 0
        self._anchor_seq: Int64s = np.full(2 * len(capture.connections), UNKNOWN, np.int64)
        self._anchor_position: Int64s = np.zeros(2 * len(capture.connections), np.int64)
        self._pairs: dict[tuple[int, int], tuple[Int64s, Int64s, int]] = {}
        self._by_text = self._connections_by_endpoints()

    def __iter__(self) -> Iterator[PlacedPackets]:
        reader = read_packets(self._capture.source, kind=FrameReader)
        assembler = TcpAssembler()
        for block in reader:
            assert isinstance(block, FramedBlock)
            self.done = reader.done
            if len(block):
                yield self._place(block, assembler.feed(block), reader.interfaces)

    # ------------------------------------------------------------ connections
    def _connections_by_endpoints(self) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for connection in range(len(self._capture.connections)):
            first, second = sorted(self._capture.endpoints(connection))
            found.setdefault((first, second), []).append(connection)
        return found

    def _streams(self, block: PacketBlock) -> Int64s:
        """Return the stream of each packet: in the latest connection between its endpoints that had begun."""
        source, target = block.src.astype(np.int64), block.dst.astype(np.int64)
        low, high = np.minimum(source, target), np.maximum(source, target)
        pairs, inverse = np.unique(low << 32 | high, return_inverse=True)
        stream = np.empty(len(block), np.int64)
        order = np.argsort(inverse, kind="stable")
        bounds = np.cumsum(np.bincount(inverse, minlength=len(pairs))).tolist()
        start = 0
        for pair, end in zip(pairs.tolist(), bounds, strict=True):
            rows = order[start:end]
            start = end
            connections, begins, first_end = self._pair(block, pair >> 32, pair & 0xFFFFFFFF)
            connection_of_row = connections[np.searchsorted(begins, block.number[rows], "right") - 1]
            # direction 0 is what endpoint a sends; endpoint a may differ between the connections of a pair
            from_low = source[rows] == pair >> 32
            a_is_low = self._a_is(block, connection_of_row, first_end)
            stream[rows] = 2 * connection_of_row + (from_low != a_is_low)
        return stream

    def _pair(self, block: PacketBlock, low: int, high: int) -> tuple[Int64s, Int64s, int]:
        """Return the connections of two endpoints, the numbers of their first packets, and the lower endpoint."""
        known = self._pairs.get((low, high))
        if known is None:
            first, second = sorted((block.addresses.text(low), block.addresses.text(high)))
            connections = np.array(self._by_text[first, second], np.int64)
            begins = self._capture.connections.first_number[connections]
            known = self._pairs[low, high] = (connections, begins, low)
        return known

    def _a_is(self, block: PacketBlock, connections: Int64s, endpoint: int) -> Bools:
        """Return a mask of the connections in which `endpoint` sends direction 0."""
        text = block.addresses.text(endpoint)
        ids, inverse = np.unique(connections, return_inverse=True)
        sends = [self._capture.endpoints(number)[self._capture.client_stream(number) & 1] for number in ids]
        return np.array([end == text for end in sends], np.bool_)[inverse]

    # ------------------------------------------------------------ places
    def _place(
        self, block: FramedBlock, segments: SegmentBlock, interfaces: list[Interface]
    ) -> PlacedPackets:
        stream = self._streams(block)
        sequence = block.seq.astype(np.int64) + (block.flags & SYN != 0)
        position = self._known(block, segments)
        self._take_handshakes(block, stream, sequence)
        acknowledged = np.full(len(block), UNKNOWN, np.int64)
        # an anchor is a packet whose place is known; all others count from the last one before them
        for number in distinct_values(stream).tolist():
            rows = np.flatnonzero(stream == number)
            self._fill(number, rows, sequence, position)
        answers = np.flatnonzero(block.flags & ACK)
        other = stream[answers] ^ 1
        seen = self._anchor_seq[other] != UNKNOWN
        answers, other = answers[seen], other[seen]
        ahead = block.ack[answers].astype(np.int64) - self._anchor_seq[other]
        acknowledged[answers] = self._anchor_position[other] + _signed(ahead)
        return PlacedPackets(block, stream, position, acknowledged, interfaces)

    @staticmethod
    def _known(block: PacketBlock, segments: SegmentBlock) -> Int64s:
        """Return the places known from reassembly; a packet of which only a part was new has one too."""
        position = np.full(len(block), UNKNOWN, np.int64)
        low = int(block.number[0])
        rest = np.flatnonzero(segments.number >= low)
        if not len(rest):
            return position
        rows = np.searchsorted(block.number, segments.number[rest])
        fits = (rows < len(block)) & (block.number[np.minimum(rows, len(block) - 1)] == segments.number[rest])
        rows, rest = rows[fits], rest[fits]
        position[rows] = segments.position[rest] - (segments.offset[rest] - block.offset[rows])
        return position

    def _take_handshakes(self, block: PacketBlock, stream: Int64s, sequence: Int64s) -> None:
        for row in np.flatnonzero(block.flags & SYN).tolist():
            number = int(stream[row])
            if self._anchor_seq[number] == UNKNOWN and self._capture.connections.streams.syn_seen[number]:
                self._anchor_seq[number], self._anchor_position[number] = sequence[row] % _SEQUENCE, 0

    def _fill(self, stream: int, rows: Int64s, sequence: Int64s, position: Int64s) -> None:
        known = position[rows] != UNKNOWN
        if not known.any():
            if self._anchor_seq[stream] == UNKNOWN:
                return
            seq, indexes = np.full(1, self._anchor_seq[stream]), np.full(1, self._anchor_position[stream])
            before = np.zeros(len(rows), np.int64)
        else:
            seq, indexes = sequence[rows[known]], position[rows[known]]
            before = np.cumsum(known) - 1
            if self._anchor_seq[stream] != UNKNOWN:
                seq = np.append(self._anchor_seq[stream], seq)
                indexes = np.append(self._anchor_position[stream], indexes)
                before = before + 1
            before = np.maximum(before, 0)  # packets before the first known place count from it
            self._anchor_seq[stream], self._anchor_position[stream] = seq[-1] % _SEQUENCE, indexes[-1]
        position[rows] = indexes[before] + _signed(sequence[rows] - seq[before])


def _signed(ahead: Int64s) -> Int64s:
    """Return differences of sequence numbers as signed distances: those with the least magnitude."""
    distance: Int64s = (ahead + _HALF) % _SEQUENCE - _HALF
    return distance


def is_control(flags: Bytes) -> Bools:
    """Return a mask of the packets that open or close a connection."""
    control: Bools = flags & (SYN | FIN | RST) != 0
    return control
