"""Cutting of in-order streams into frames, many at a time, without copying their bytes together.

Only the sizes are read sequentially, which is inherent. A frame's head, the bytes from which its header is read, is
mostly contiguous in memory; other heads are copied together in a :class:`Memory` beside the block.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from captures.arrays import Bools, Int64s
from captures.packets import Memory, SegmentBlock
from dissectors.headers import SIZE_BYTES

#: contiguous bytes from the start of a frame: enough for a header and the first fields of a Produce
HEAD_BYTES = 1 << 9

_SIZE = struct.Struct(">i")
_SIZES = np.dtype(">i4")


class PartialFrame(NamedTuple):
    """The start of a frame whose end has not arrived yet.

    :ivar head: its first bytes, at most :data:`HEAD_BYTES`
    :ivar have: how many of its bytes have been seen
    :ivar position: stream position of its first byte
    :ivar packet: packet with its first byte
    :ivar time: time of that packet, ns since the epoch
    :ivar marks: stream positions of its segments, their capture times and packets: three columns per block
    """

    head: bytes
    have: int
    position: int
    packet: int
    time: int
    marks: tuple[tuple[Int64s, Int64s, Int64s], ...]


class StreamPosition(NamedTuple):
    """The position of a stream before a block: its unfinished frame, and the position of its next byte."""

    carry: PartialFrame | None
    end: int


class Frames(msgspec.Struct):
    """Frames as columns.

    :ivar head: where the frame's first bytes are in the :class:`Memory`
    :ivar have: how many contiguous bytes are there; at least the smaller of size and :data:`HEAD_BYTES`
    :ivar stream: the stream
    :ivar position: stream position of the first byte
    :ivar size: bytes, with the size field
    :ivar first: time of the packet with the first byte, ns since the epoch
    :ivar last: time of the packet with the last byte
    :ivar packet: number of the packet with the first byte
    """

    head: Int64s
    have: Int64s
    stream: Int64s
    position: Int64s
    size: Int64s
    first: Int64s
    last: Int64s
    packet: Int64s

    def select(self, rows: Any) -> Frames:
        """Return the chosen frames."""
        return Frames(*(getattr(self, name)[rows] for name in self.__struct_fields__))


class _SegmentRun:
    """The segments of one block to be cut, as if they were contiguous.

    Offsets count over all of them, stream by stream; row ``r`` has the offsets ``[starts[r], ends[r])``.
    """

    def __init__(self, block: SegmentBlock, rows: Bools, indexes: Int64s, memory: Memory) -> None:
        picked = np.flatnonzero(rows)
        self.memory = memory
        self.stream = block.stream[picked]
        length = block.length[picked]
        self.ends = np.cumsum(length)
        self.starts = self.ends - length
        self.shift = indexes[picked] - self.starts
        self.position, self.time, self.packet = (
            block.position[picked],
            block.time[picked],
            block.number[picked],
        )
        self.end_list: list[int] = self.ends.tolist()
        self.shift_list: list[int] = self.shift.tolist()

    def edges(self) -> Int64s:
        """Return the first row of each stream, then the number of rows."""
        found: Int64s = np.flatnonzero(np.diff(self.stream, prepend=-1, append=-1))
        return found

    def one_frame_each(self, least: Int64s, most: int) -> Bools:
        """Return a mask of the rows that hold exactly one frame, by its size."""
        length = self.ends - self.starts
        size = self.memory.gather(_SIZES, self.starts + self.shift).astype(np.int64)
        whole: Bools = (size + SIZE_BYTES == length) & (size >= least) & (size <= most)
        return whole

    def row_of(self, offset: int, low: int, high: int) -> int:
        """Return the row of an offset, between `low` and `high`."""
        return bisect_right(self.end_list, offset, low, high)

    def marks(self, low: int, high: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return positions, times and packets of the rows [low, high)."""
        return self.position[low:high], self.time[low:high], self.packet[low:high]

    def bytes_at(self, offset: int, row: int, size: int) -> bytes:
        """Return `size` bytes from `offset` in `row` on; they may span several segments."""
        parts = []
        while size > 0:
            end = self.end_list[row]
            part = min(size, end - offset)
            parts.append(self.memory.read(offset + self.shift_list[row], part))
            offset, size, row = offset + part, size - part, row + 1
        return b"".join(parts)


class _FrameStarts:
    """Frames found so far: offset and row of the first byte, offset after the last one.

    Frames that began in an earlier block have their head elsewhere: ``carried`` has their indexes and carries.
    """

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.rows: list[int] = []
        self.stops: list[int] = []
        self.carried: list[tuple[int, PartialFrame]] = []

    def forget(self, count: int) -> None:
        """Keep only the first ``count`` frames."""
        del self.offsets[count:], self.rows[count:], self.stops[count:]
        while self.carried and self.carried[-1][0] >= count:
            self.carried.pop()


class PositionsBefore:
    """The positions of a block's streams before it."""

    def __init__(self, stream: Int64s, position: Int64s) -> None:
        self.carries: dict[int, PartialFrame] = {}
        self._stream, self._position = stream, position

    def of(self, stream: int) -> StreamPosition | None:
        """Return the position of a stream, None if the block has no bytes of it."""
        at = int(np.searchsorted(self._stream, stream))
        if at == len(self._stream) or self._stream[at] != stream:
            return None
        return StreamPosition(self.carries.get(stream), int(self._position[at]))


class FrameCutter:
    """Cuts streams into frames, block by block; unfinished frames are carried on to the next.

    :param least: returns the smallest frame sizes of streams, without the size field
    :param most: largest plausible size
    :ivar begun: streams whose latest block ends inside a frame, and the first bytes of that frame
    """

    def __init__(self, least: Callable[[Int64s], Int64s], most: int) -> None:
        self._least = least
        self._most = most
        self.begun: list[tuple[int, bytes]] = []
        self._carries: dict[int, PartialFrame] = {}
        self._ends = np.zeros(0, np.int64)

    def begin(self, stream: int, position: int, carry: PartialFrame | None) -> None:
        """Start with a stream whose next frame begins at `position`, of which `carry` was seen already."""
        if stream >= len(self._ends):
            self._ends = np.append(self._ends, np.zeros(max(stream + 2, len(self._ends)), np.int64))
        self._ends[stream] = position + (carry.have if carry else 0)
        if carry is not None:
            self._carries[stream] = carry

    def position_of(self, stream: int) -> StreamPosition:
        """Return the position of a stream."""
        return StreamPosition(self._carries.get(stream), int(self._ends[stream]))

    def end(self, stream: int) -> StreamPosition:
        """Drop a stream; return its last position."""
        return StreamPosition(self._carries.pop(stream, None), int(self._ends[stream]))

    @property
    def unfinished(self) -> list[int]:
        """The streams with an unfinished frame."""
        return list(self._carries)

    def split(
        self, block: SegmentBlock, rows: Bools, indexes: Int64s, memory: Memory
    ) -> tuple[Frames, set[int], PositionsBefore]:
        """Cut the segments in `rows`.

        :param indexes: where each row of the block is in the memory
        :returns: the frames, by stream and in order; the streams with an impossible size, which get no frames; and the
            position of each stream before the block
        """
        run = _SegmentRun(block, rows, indexes, memory)
        edges = run.edges()
        first, last = edges[:-1], edges[1:] - 1
        stream = run.stream[first]
        self._ends[stream] = run.position[last] + run.ends[last] - run.starts[last]
        before = PositionsBefore(stream, run.position[first])
        least = self._least(run.stream)
        whole = run.one_frame_each(least, self._most)
        easy = np.logical_and.reduceat(whole, first) if len(first) else np.zeros(0, np.bool_)
        if self._carries:
            easy &= ~np.isin(stream, list(self._carries))
        found = _FrameStarts()
        broken: set[int] = set()
        self.begun = []
        for index in np.flatnonzero(~easy).tolist():
            number, low, high = int(stream[index]), int(edges[index]), int(edges[index + 1])
            carry = self._carries.pop(number, None)
            if carry is not None:
                before.carries[number] = carry
            count = len(found.offsets)
            if not self._cut(run, number, (low, high), int(least[low]), carry, found):
                broken.add(number)
                found.forget(count)
            elif (begun := self._carries.get(number)) is not None:
                self.begun.append((number, begun.head))
        return _columns(run, found, np.flatnonzero(np.repeat(easy, np.diff(edges)))), broken, before

    def _cut(
        self,
        run: _SegmentRun,
        stream: int,
        rows: tuple[int, int],
        least: int,
        carry: PartialFrame | None,
        found: _FrameStarts,
    ) -> bool:
        """Cut the rows [low, high) of one stream; return False for an impossible size."""
        low, high = rows
        at, end, most = int(run.starts[low]), run.end_list[high - 1], self._most
        if carry is not None:
            missing = HEAD_BYTES - len(carry.head)
            head = carry.head + run.bytes_at(at, low, min(missing, end - at))
            if len(head) >= SIZE_BYTES and not least <= _SIZE.unpack_from(head)[0] <= most:
                return False
            carry = carry._replace(head=head)
            stop = (
                at + _SIZE.unpack_from(head)[0] + SIZE_BYTES - carry.have
                if len(head) >= SIZE_BYTES
                else end + 1
            )
            if not at <= stop <= end:  # still unfinished
                marks = (*carry.marks, run.marks(low, high))
                self._carries[stream] = carry._replace(have=carry.have + end - at, marks=marks)
                return True
            found.carried.append((len(found.offsets), carry))
            found.offsets.append(at)
            found.rows.append(low)
            found.stops.append(stop)
            at = stop
        at = self._whole_frames(run, at, end, rows, (least, most), found)
        if at < 0:
            return False
        if at < end:
            row = run.row_of(at, low, high)
            self._carries[stream] = PartialFrame(
                run.bytes_at(at, row, min(HEAD_BYTES, end - at)),
                end - at,
                int(run.position[row] + at - run.starts[row]),
                int(run.packet[row]),
                int(run.time[row]),
                (run.marks(row, high),),
            )
        return True

    @staticmethod
    def _whole_frames(
        run: _SegmentRun,
        at: int,
        end: int,
        rows: tuple[int, int],
        sizes: tuple[int, int],
        found: _FrameStarts,
    ) -> int:
        """Add the frames that end by `end`; return where the rest begins, -1 for an impossible size."""
        row, high = rows
        least, most = sizes
        ends, shift, unpack = run.end_list, run.shift_list, _SIZE.unpack_from
        view, in_view = run.memory.view, run.memory.size
        add_offset, add_row, add_stop = found.offsets.append, found.rows.append, found.stops.append
        while at + SIZE_BYTES <= end:
            if at >= ends[row]:
                row = bisect_right(ends, at, row, high)
            index = at + shift[row]
            if at + SIZE_BYTES <= ends[row] and index < in_view:
                (size,) = unpack(view, index)
            else:
                (size,) = unpack(run.bytes_at(at, row, SIZE_BYTES))
            if not least <= size <= most:
                return -1
            stop = at + SIZE_BYTES + size
            if stop > end:
                break
            add_offset(at)
            add_row(row)
            add_stop(stop)
            at = stop
        return at


def _columns(run: _SegmentRun, found: _FrameStarts, whole: Int64s) -> Frames:
    """Return the found frames as columns, with contiguous heads, together with the rows that are one frame each."""
    offset = np.concatenate((np.array(found.offsets, np.int64), run.starts[whole]))
    row = np.concatenate((np.array(found.rows, np.int64), whole))
    stop = np.concatenate((np.array(found.stops, np.int64), run.ends[whole]))
    frames = Frames(
        head=offset + run.shift[row],
        have=run.ends[row] - offset,
        stream=run.stream[row],
        position=run.position[row] + offset - run.starts[row],
        size=stop - offset,
        first=run.time[row],
        last=run.time[np.searchsorted(run.ends, stop - 1, "right")],
        packet=run.packet[row],
    )
    for index, carry in found.carried:
        frames.head[index] = run.memory.add(carry.head)
        frames.have[index] = len(carry.head)
        frames.size[index] += carry.have
        frames.position[index], frames.first[index] = carry.position, carry.time
        frames.packet[index] = carry.packet
    reach = np.minimum(frames.size, HEAD_BYTES)
    for index in np.flatnonzero(frames.have < reach).tolist():
        head = run.bytes_at(int(offset[index]), int(row[index]), int(reach[index]))
        frames.head[index], frames.have[index] = run.memory.add(head), len(head)
    # offsets count over all streams, so they sort by stream and position
    return frames.select(np.argsort(offset)) if len(found.offsets) and len(whole) else frames
