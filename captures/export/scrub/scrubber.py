"""A capture's streams, blanked: frame by frame within frames, zeroed elsewhere.

The bytes of a packet are looked up by their place in the stream. So retransmitted bytes are blanked in the same way
each time, and bytes with unknown place are zeroed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Capture, Flag
from captures.export.checksum import tcp_checksum
from captures.export.passes import UNKNOWN, PlacedPackets
from captures.export.scrub.frames import FrameScrubber, enveloped
from captures.export.synthetic import Piece
from dissectors.api_keys import ApiKey
from dissectors.sides import SIDES, Side

_CACHE_BYTES = 64 << 20
_MAX_HEADER, _MIN_HEADER = 60, 20
_SIZE = 4
_FAILURES_TOLD = 3


class _Frame(NamedTuple):
    """A frame of a stream; ``row`` is the row of its exchange, or -1 if the capture ends inside the frame."""

    position: int
    size: int
    row: int
    side: int


class Scrubber:
    """Blanks the frames and packets of one capture."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._scrub = FrameScrubber()
        self._frames = _frames_by_stream(capture)
        self._positions = {
            stream: [frame.position for frame in frames] for stream, frames in self._frames.items()
        }
        self._cache: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._cached = 0
        self._order: Int64s | None = None
        self._counted: set[tuple[int, int]] = set()
        self._outside = 0
        self._failures: list[str] = []
        self.failed = 0
        """Number of frames and packets that were blanked whole because scrubbing them failed."""

    def notes(self) -> list[str]:
        """Return sentences about what was blanked, and what could not be decoded and was zeroed."""
        counts = self._scrub.counts
        records, batches, secrets = (f"{counts[name]:,}" for name in ("records", "batches", "secrets"))
        notes = [f"scrubbed {records} records in {batches} batches, and {secrets} secrets"]
        if counts["recoded"]:
            notes.append(f"{counts['recoded']:,} batches were compressed by another codec to keep their size")
        zeroed = counts["zeroed"] + self._outside
        if zeroed:
            notes.append(f"{zeroed:,} bytes that could not be decoded were zeroed")
        if self.failed:
            notes.append(
                f"{self.failed:,} frames or packets could not be scrubbed and were blanked whole: "
                + "; ".join(self._failures)
            )
        return notes

    def _blank_whole(self, size: int, what: str, error: Exception) -> bytes:
        """Return zeros in place of bytes that could not be scrubbed: none of them is known to be harmless."""
        self.failed += 1
        if len(self._failures) < _FAILURES_TOLD:
            self._failures.append(f"{what}: {type(error).__name__}: {error}")
        self._outside += size
        return bytes(size)

    # ------------------------------------------------------------ frames
    def pieces(self, row: int, side: Side, position: int, size: int) -> list[Piece]:
        """Return the captured bytes of a frame, blanked. Matches :data:`captures.export.synthetic.ReadFrame`."""
        connection = int(self._capture.table.column("connection")[row])
        stream = self._capture.client_stream(connection) ^ SIDES.index(side)
        indexes = self._capture.decryption.index_of(connection).pieces(stream, position, position + size)
        return [
            Piece(at - position, self.stream(stream, at, at + length), offset)
            for at, offset, length in zip(*(column.tolist() for column in indexes), strict=True)
        ]

    def stream(self, stream: int, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a stream, blanked. Bytes that belong to no frame are zeroed."""
        out = bytearray(end - start)
        frames = self._frames.get(stream, [])
        index = max(bisect_right(self._positions.get(stream, []), start) - 1, 0)
        covered = 0
        while index < len(frames) and frames[index].position < end:
            frame = frames[index]
            low, high = max(start, frame.position), min(end, frame.position + frame.size)
            if low < high:
                # announced bytes of the frame that were not captured stay zero
                data = self._frame(stream, frame)[low - frame.position : high - frame.position]
                out[low - start : low - start + len(data)] = data
                covered += high - low
            index += 1
        self._outside += len(out) - covered
        return bytes(out)

    def _frame(self, stream: int, frame: _Frame) -> bytes:
        key = stream, frame.position
        found = self._cache.get(key)
        if found is not None:
            self._cache.move_to_end(key)
            return found
        before = self._scrub.counts.copy()
        made = self._blanked(frame, stream)
        if key in self._counted:  # blanked before and evicted from the cache: count it once
            self._scrub.counts.clear()
            self._scrub.counts.update(before)
        self._counted.add(key)
        self._cache[key] = made
        self._cached += len(made)
        while self._cached > _CACHE_BYTES and len(self._cache) > 1:
            self._cached -= len(self._cache.popitem(last=False)[1])
        return made

    def _blanked(self, frame: _Frame, stream: int) -> bytes:
        """Return a frame with its size field, up to the first byte that was not captured."""
        index = self._capture.decryption.index_of(stream >> 1)
        data = index.read_captured(stream, frame.position, frame.position + frame.size)
        size, payload = data[:_SIZE], data[_SIZE:]
        before = self._scrub.counts.copy()
        try:
            return size + self._payload(frame, payload, complete=len(data) == frame.size)
        except Exception as error:  # a bug must neither end the export nor leave this frame in clear
            self._scrub.counts.clear()
            self._scrub.counts.update(before)
            what = "the end of a stream" if frame.row < 0 else f"exchange {self._number(frame.row)}"
            return self._blank_whole(len(data), f"{what}, {SIDES[frame.side]}", error)

    def _number(self, row: int) -> int:
        """Return the number of the exchange in a row of the table."""
        if self._order is None:
            self._order = self._capture.table.order()
        return int(np.flatnonzero(self._order == row)[0]) + 1

    def _payload(self, frame: _Frame, payload: bytes, *, complete: bool) -> bytes:
        scrub = self._scrub
        if frame.row < 0:
            return scrub.head(payload, response=bool(frame.side))
        row = self._capture.table.row(frame.row)
        if row["flags"] & Flag.SASL_TOKEN:
            return scrub.token(payload)
        if not frame.side:
            return scrub.request(payload, complete=complete)
        if row["api_key"] < 0:
            return scrub.head(payload, response=True)
        inner = None
        if row["api_key"] == ApiKey.ENVELOPE:
            asked = self._capture.frame(
                row["connection"], "request", row["request_position"], row["request_size"]
            )
            inner = enveloped(asked.payload) if asked is not None else None
        return scrub.response(payload, row["api_key"], row["version"], complete=complete, inner=inner)

    # ------------------------------------------------------------ packets
    def rewrite(self, placed: PlacedPackets, at: int) -> bytes:
        """Return the frame of a packet with its payload blanked. Matches :data:`captures.export.packets.Rewrite`.

        The TCP checksum is recomputed if it was right. It was wrong if the network card computes it, and cannot be
        checked if the packet was cut.
        """
        frame = bytearray(placed.frame(at))
        try:
            return self._rewritten(placed, at, frame)
        except Exception as error:  # as for frames
            what = f"packet {int(placed.packets.number[at])}"
            return self._blank_whole(len(frame), what, error)

    def _rewritten(self, placed: PlacedPackets, at: int, frame: bytearray) -> bytes:
        block = placed.packets
        start = placed.payload_start(at)
        length, captured = int(block.length[at]), int(block.captured[at])
        if start < 0:  # reassembled from IP fragments: which part is in this frame is unknown
            self._outside += len(frame)
            return bytes(len(frame))
        captured = min(captured, max(len(frame) - start, 0))
        header = _tcp_header(placed, at, frame, start)
        right = (
            captured == length and header >= 0 and _checksum_fits(placed, at, frame, header, start + length)
        )
        # padding may contain anything; a packet that was cut inside its headers ends before its payload begins
        frame[start + captured :] = bytes(max(len(frame) - start - captured, 0))
        if captured:
            frame[start : start + captured] = self._carried(placed, at, captured)
        if right:
            _set_checksum(placed, at, frame, header, start + length)
        return bytes(frame)

    def _carried(self, placed: PlacedPackets, at: int, size: int) -> bytes:
        position = int(placed.position[at])
        if position == UNKNOWN or position + size <= 0:
            self._outside += size
            return bytes(size)
        before = max(-position, 0)
        return bytes(before) + self.stream(int(placed.stream[at]), position + before, position + size)


def _frames_by_stream(capture: Capture) -> dict[int, list[_Frame]]:
    """Return all frames of a capture in stream order, including those cut off by the end of the capture."""
    table = capture.table
    found: dict[int, list[_Frame]] = {}
    connections = table.column("connection").tolist()
    for side, name in enumerate(SIDES):
        positions, sizes = (table.column(f"{name}_{what}").tolist() for what in ("position", "size"))
        for row, (connection, position, size) in enumerate(zip(connections, positions, sizes, strict=True)):
            if size:
                stream = capture.client_stream(connection) ^ side
                found.setdefault(stream, []).append(_Frame(position, size, row, side))
    for skip in capture.skipped:
        if skip.at_end:
            side = skip.stream ^ capture.client_stream(skip.stream >> 1)
            found.setdefault(skip.stream, []).append(_Frame(skip.position, skip.size, -1, side))
    for frames in found.values():
        frames.sort()
    return found


def _tcp_header(placed: PlacedPackets, at: int, frame: bytearray, start: int) -> int:
    """Return the offset of the TCP header that ends at ``start``, -1 if none is found.

    The header's length is inside it, so every length is tried; ports and sequence number identify the right one.
    """
    block = placed.packets
    ports = (block.addresses.port(int(block.src[at])), block.addresses.port(int(block.dst[at])))
    known = ports[0].to_bytes(2) + ports[1].to_bytes(2) + int(block.seq[at]).to_bytes(4)
    for size in range(_MIN_HEADER, _MAX_HEADER + 1, 4):
        header = start - size
        if (
            0 <= header <= len(frame) - _MIN_HEADER
            and frame[header + 12] >> 4 == size // 4
            and frame[header : header + 8] == known
        ):
            return header
    return -1


def _checksum_fits(placed: PlacedPackets, at: int, frame: bytearray, header: int, end: int) -> bool:
    return _checksum(placed, at, frame, header, end) == int.from_bytes(frame[header + 16 : header + 18])


def _set_checksum(placed: PlacedPackets, at: int, frame: bytearray, header: int, end: int) -> None:
    frame[header + 16 : header + 18] = _checksum(placed, at, frame, header, end).to_bytes(2)


def _checksum(placed: PlacedPackets, at: int, frame: bytearray, header: int, end: int) -> int:
    block = placed.packets
    segment = frame[header:end]
    segment[16:18] = b"\0\0"
    address = block.addresses.address
    return tcp_checksum(address(int(block.src[at])), address(int(block.dst[at])), bytes(segment))
