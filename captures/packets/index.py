"""The place of every stream's bytes in the file, so that payload can stay on disk.

It takes two to three bytes per segment, packed, and 16 for each stream of a block: well below 1 % of a capture, unless
all its packets are minimal. A chunk of the map is unpacked when one of its bytes is needed; the latest stay unpacked.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from captures.arrays import Bools, Bytes, Int64s, distinct_values
from captures.packets.errors import SpoolDropped
from captures.packets.source import Source
from captures.packets.table import SegmentBlock

_CHUNK_ROWS = 8192
_UNPACKED_CHUNKS = 16

_LOW_BITS, _COUNT_BITS = 22, 22
_POSITION_BITS = 48

_APART = 1 << 12
"""Distance in bytes from which two pieces are read separately."""
_READ_RANGE = 1 << 22
"""Size of the aligned range of the file in which pieces that are read together start."""


Places = tuple[Int64s, Int64s, Int64s]
"""Places of a stream's bytes: position in the stream, offset in the source, length."""


class _Chunk(NamedTuple):
    """Segments of consecutive blocks.

    :ivar begin: position of each, minus that of its run, plus ``begin`` of the run's first segment; ascending
    :ivar length: bytes
    :ivar offset: offset in the source
    """

    begin: Int64s
    length: Int64s
    offset: Int64s


class _RowRange(NamedTuple):
    """Rows [low, high) of a chunk, which belong to one stream, starting at `position`."""

    position: int
    chunk: int
    low: int
    high: int


_RUN = np.dtype([(name, np.int64) for name in _RowRange._fields])


class _Runs:
    """The runs of one stream, in ascending order of position."""

    __slots__ = ("_cells",)

    def __init__(self, cells: Int64s | None = None) -> None:
        # position, and chunk, low and count in one number
        self._cells = array("q", b"" if cells is None else cells.tobytes())

    @property
    def cells(self) -> Int64s:
        """What another one is made of."""
        return np.array(self._cells, np.int64)

    def __len__(self) -> int:
        return len(self._cells) // 2

    def __getitem__(self, at: int) -> _RowRange:
        position, pos = self._cells[2 * at], self._cells[2 * at + 1]
        low = pos >> _COUNT_BITS & (1 << _LOW_BITS) - 1
        return _RowRange(position, pos >> _LOW_BITS + _COUNT_BITS, low, low + (pos & (1 << _COUNT_BITS) - 1))

    def add(self, position: int, chunk: int, low: int, count: int) -> None:
        self._cells.append(position)
        self._cells.append(chunk << _LOW_BITS + _COUNT_BITS | low << _COUNT_BITS | count)

    def find(self, position: int) -> int:
        """Return the last run that starts at or before a position, -1 if there is none."""
        cells = self._cells
        if len(cells) == 2:
            return 0 if cells[0] <= position else -1
        return bisect_right(range(len(cells) // 2), position, key=lambda at: cells[2 * at]) - 1

    def forget(self, chunk: int) -> None:
        """Drop the runs in chunks before `chunk`."""
        first = chunk << _LOW_BITS + _COUNT_BITS
        keep = bisect_right(range(len(self)), first - 1, key=lambda at: self._cells[2 * at + 1])
        del self._cells[: 2 * keep]


class SegmentIndex:
    """Positions of all segments seen, by stream; filled block by block."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._runs: dict[int, _Runs] = {}
        self._packed: dict[int, tuple[int, bytes]] = {}
        self._unpacked: dict[int, _Chunk] = {}
        self._open: list[tuple[Int64s, Int64s, Int64s]] = []
        self._open_number = 0
        self._open_rows = 0
        self._latest: dict[int, int] = {}
        """Chunk -> capture time of its latest packet."""

    def append(self, block: SegmentBlock) -> None:
        """Add the segments of a block; blocks are added in the order in which the assembler made them."""
        if len(block):
            positions = block.position, block.offset, block.length
            self._add(block.stream, positions, int(block.time.max()))

    def put(self, stream: int, positions: Places) -> None:
        """Add places of a stream's bytes, as returned by :meth:`pieces` of another index."""
        if len(positions[0]):
            self._add(np.full(len(positions[0]), stream, np.int64), positions, 0)

    def _add(self, stream: Int64s, positions: Places, time: int) -> None:
        position, offset, length = positions
        starts = np.flatnonzero(np.append(True, stream[1:] != stream[:-1]))
        counts = np.diff(np.append(starts, len(stream)))
        hole = position - np.append(0, (position + length)[:-1])
        hole[starts] = 0
        if self._open_rows + len(stream) > _CHUNK_ROWS and self._open:
            self._pack()
        number, first = self._open_number, self._open_rows
        heads = (stream[starts], position[starts], starts + first, counts)
        for of, begin, low, count in zip(*(column.tolist() for column in heads), strict=True):
            runs = self._runs.get(of)
            if runs is None:
                runs = self._runs[of] = _Runs()
            runs.add(begin, number, low, count)
        self._open.append((length, offset, hole))
        self._open_rows += len(stream)
        self._unpacked.pop(number, None)
        self._latest[number] = max(time, self._latest.get(number, 0))

    def content(self) -> tuple[dict[int, Int64s], dict[int, tuple[int, bytes]]]:
        """Return all that it has, for :meth:`restore`: the runs of each stream, and the chunks."""
        if self._open:
            self._pack()
        return {stream: runs.cells for stream, runs in self._runs.items()}, self._packed

    def restore(self, runs: Mapping[int, Int64s], chunks: Mapping[int, tuple[int, bytes]]) -> None:
        """Take the place of another one, of the same source, of which nothing is to be forgotten."""
        self._runs = {stream: _Runs(cells) for stream, cells in runs.items()}
        self._packed = dict(chunks)
        self._open_number = max(self._packed, default=-1) + 1

    def forget(self, before: int) -> None:
        """Drop chunks captured before a moment.

        :param before: nanoseconds since the epoch
        """
        old = [chunk for chunk in self._packed if self._latest[chunk] < before]
        if not old:
            return
        for chunk in range(min(old), max(old) + 1):
            self._packed.pop(chunk, None)
            self._unpacked.pop(chunk, None)
            self._latest.pop(chunk, None)
        for stream, runs in list(self._runs.items()):
            runs.forget(max(old) + 1)
            if not len(runs):
                del self._runs[stream]

    def pieces(self, stream: int, start: int, end: int) -> Places:
        """Return the places of the bytes [start, end) of a stream.

        :returns: position, offset and length of each captured piece, in order, clipped to the range; int64
        """
        none = np.empty(0, np.int64)
        found = [(none, none, none)]
        runs = self._runs.get(stream)
        if runs is not None and start < end:
            for at in range(max(runs.find(start), 0), len(runs)):
                run = runs[at]
                if run.position >= end:
                    break
                found.append(self._clip(run, start, end))
        position, offset, length = zip(*found, strict=True)
        return np.concatenate(position), np.concatenate(offset), np.concatenate(length)

    def pieces_of_many(self, streams: Int64s, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return the places of many ranges of bytes in the file.

        :param streams: the stream of each range
        :param starts: position of its first byte
        :param ends: position after its last byte
        :returns: range, offset and length of each piece, the pieces of a range in order; a range that is incomplete
            or crosses a block of the file has none
        """
        none = np.empty(0, np.int64)
        found = [(none, none, none)]
        ranges, runs = self._runs_of(streams, starts)
        for number in distinct_values(runs["chunk"]).tolist():
            mine = runs["chunk"] == number
            chosen = ranges[mine]
            which, offset, length = _pieces(self._chunk(number), runs[mine], starts[chosen], ends[chosen])
            found.append((chosen[which], offset, length))
        which, offset, length = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return which, offset, length

    def _runs_of(self, streams: Int64s, starts: Int64s) -> tuple[Int64s, NDArray[np.void]]:
        """Return the ranges that start in a run, by stream, and these runs."""
        met, which = np.unique(streams, return_inverse=True)
        known = [self._runs.get(stream) or _Runs() for stream in met.tolist()]
        cells = np.concatenate([runs.cells for runs in known] or [np.empty(0, np.int64)])
        position, positions = cells[::2], cells[1::2]
        of = np.repeat(np.arange(len(met)), [len(runs) for runs in known])
        at = _key(of, position).searchsorted(_key(which, starts), "right") - 1
        ranges = np.flatnonzero(at >= 0)
        position, positions, of = position[at[ranges]], positions[at[ranges]], of[at[ranges]]
        there = (of == which[ranges]) & (position <= starts[ranges])
        ranges, position, positions = ranges[there], position[there], positions[there]
        made = np.empty(len(ranges), _RUN)
        made["position"] = position
        made["chunk"] = positions >> _LOW_BITS + _COUNT_BITS
        made["low"] = positions >> _COUNT_BITS & (1 << _LOW_BITS) - 1
        made["high"] = made["low"] + (positions & (1 << _COUNT_BITS) - 1)
        return ranges, made

    def read_captured(self, stream: int, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to `end`, or up to the first missing or dropped byte."""
        within = self._place(stream, start)
        if within is not None and within[1] >= end - start:  # most frames lie in one segment
            return self._read(within[0], end - start)
        position, offset, length = self.pieces(stream, start, end)
        expected = start
        parts: list[bytes] = []
        for at, place, size in zip(position.tolist(), offset.tolist(), length.tolist(), strict=True):
            if at != expected:
                break
            part = self._read(place, size)
            parts.append(part)
            expected += len(part)
            if len(part) < size:
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_where_captured(self, stream: int, start: int, end: int) -> tuple[Bytes, Bools]:
        """Return the bytes [start, end) of a stream, and a mask of those that were captured and not dropped.

        Pieces near each other in the file are read together, so that many small ones cost little more than
        the part of the file that contains them.
        """
        found, there = np.zeros(end - start, np.uint8), np.zeros(end - start, np.bool_)
        position, offset, length = self.pieces(stream, start, end)
        order = np.argsort(offset, kind="stable")
        position, offset, length = position[order] - start, offset[order], length[order]
        apart = np.flatnonzero(
            (np.diff(offset, prepend=-_APART) >= _APART) | (np.diff(offset // _READ_RANGE, prepend=-1) > 0)
        )
        for low, high in pairwise((*apart.tolist(), len(offset))):
            begin = int(offset[low])
            data = np.frombuffer(
                self._read(begin, int(offset[high - 1] + length[high - 1]) - begin), np.uint8
            )
            size = np.clip(begin + len(data) - offset[low:high], 0, length[low:high])
            which = np.repeat(np.arange(low, high), size)
            within = np.arange(len(which)) - np.repeat(np.cumsum(size) - size, size)
            found[position[which] + within] = data[offset[which] + within - begin]
            there[position[which] + within] = True
        return found, there

    def dropped(self, stream: int, position: int) -> bool:
        """Return whether a byte was captured but has been dropped from the spool."""
        within = self._place(stream, position)
        return within is not None and within[1] > 0 and not self.source.held(within[0])

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return self.source.read(offset, size)
        except SpoolDropped:
            return b""

    def _place(self, stream: int, position: int) -> tuple[int, int] | None:
        """Return the offset of a byte in the file, and the number of bytes of its segment from there on."""
        runs = self._runs.get(stream)
        at = -1 if runs is None else runs.find(position)
        if runs is None or at < 0:
            return None
        base, number, low, high = runs[at]
        chunk = self._chunk(number)
        target = position - base + chunk.begin.item(low)
        row = min(int(chunk.begin.searchsorted(target, "right")), high) - 1
        inside = target - chunk.begin.item(row)
        return chunk.offset.item(row) + inside, chunk.length.item(row) - inside

    def _clip(self, run: _RowRange, start: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the part of a run inside [start, end)."""
        chunk = self._chunk(run.chunk)
        begins = chunk.begin[run.low : run.high]
        shift = run.position - int(begins[0])
        first = run.low + max(int(begins.searchsorted(start - shift, "right")) - 1, 0)
        last = run.low + int(begins.searchsorted(end - shift, "left"))
        position = chunk.begin[first:last] + shift
        length = chunk.length[first:last]
        begin = np.maximum(position, start)
        stop = np.minimum(position + length, end)
        offset = chunk.offset[first:last] + (begin - position)
        some = stop > begin
        return begin[some], offset[some], (stop - begin)[some]

    # -- packing

    def _pack(self) -> None:
        length, offset, hole = (np.concatenate(columns) for columns in zip(*self._open, strict=True))
        # consecutive segments of a stream have similar distances in the file
        between = np.diff(offset, prepend=0) - np.append(0, length[:-1])
        columns = [length, between, hole] if hole.any() else [length, between]
        # the high bytes, mostly zero, side by side
        shuffled = b"".join(column.view(np.uint8).reshape(-1, 8).T.tobytes() for column in columns)
        self._packed[self._open_number] = len(length), zstandard.ZstdCompressor(level=1).compress(shuffled)
        self._open, self._open_rows = [], 0
        self._open_number += 1

    def _chunk(self, number: int) -> _Chunk:
        chunk = self._unpacked.get(number)
        if chunk is None:
            chunk = self._unpacked[number] = self._unpack(number)
            if len(self._unpacked) > _UNPACKED_CHUNKS:
                del self._unpacked[next(iter(self._unpacked))]
        return chunk

    def _unpack(self, number: int) -> _Chunk:
        if number == self._open_number:
            length, offset, hole = (np.concatenate(columns) for columns in zip(*self._open, strict=True))
        else:
            rows, packed = self._packed[number]
            shuffled = np.frombuffer(zstandard.ZstdDecompressor().decompress(packed), np.uint8)
            columns = np.ascontiguousarray(shuffled.reshape(-1, 8, rows).swapaxes(1, 2)).view(np.int64)[
                ..., 0
            ]
            length, between = columns[0], columns[1]
            hole = columns[2] if len(columns) > 2 else np.zeros(rows, np.int64)
            offset = np.cumsum(between + np.append(0, length[:-1]))
        return _Chunk(np.cumsum(hole + np.append(0, length[:-1])), length, offset)


def _key(stream: Int64s, position: Int64s) -> Int64s:
    """Return numbers that sort by stream and position; a position beyond the bits for it is found in no run."""
    key: Int64s = stream << _POSITION_BITS | np.clip(position, 0, (1 << _POSITION_BITS) - 1)
    return key


def _pieces(
    chunk: _Chunk, runs: NDArray[np.void], starts: Int64s, ends: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Find ranges in a chunk, each in its run; return range, offset and length of each piece.

    A range with a missing byte has no pieces.
    """
    shift = chunk.begin[runs["low"]] - runs["position"]
    starts, ends = starts + shift, ends + shift
    first = chunk.begin.searchsorted(starts, "right") - 1
    last = np.minimum(chunk.begin.searchsorted(ends, "left"), runs["high"])
    count = np.maximum(last - first, 0)  # a range that starts beyond the run has no rows in it
    which = np.repeat(np.arange(len(runs)), count)
    row = np.arange(len(which)) + np.repeat(first - np.cumsum(count) + count, count)
    begin = np.maximum(chunk.begin[row], starts[which])
    length = np.minimum(chunk.begin[row] + chunk.length[row], ends[which]) - begin
    whole = np.bincount(which, length, len(runs)) == ends - starts
    kept = whole[which]
    offset = chunk.offset[row] + begin - chunk.begin[row]
    return which[kept], offset[kept], length[kept]
