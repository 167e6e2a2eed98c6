"""Where in the file the bytes of every stream are: the map that lets payload stay on disk.

24 bytes a segment, plus a small entry per stream and block.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from captures.packets.source import Source
from captures.packets.table import Int64s, SegmentBlock, UInt32s


class MissingBytes(LookupError):  # noqa: N818  # says what is wrong, reads well at the raise
    """Bytes of a stream were asked for that were not captured.

    :ivar stream: the stream
    :ivar position: position of the first byte that is missing
    """

    def __init__(self, stream: int, position: int) -> None:
        self.stream = stream
        self.position = position
        super().__init__(f"byte {position} of stream {stream} was not captured")


@dataclass(slots=True)
class _Chunk:
    """The segments of one block. `relative` is the position less that of the run it belongs to."""

    relative: UInt32s
    length: UInt32s
    offset: Int64s
    time: Int64s


@dataclass(slots=True)
class _Runs:
    """The runs of one stream: rows [low, high) of a chunk, whose positions begin at `position`, rising."""

    position: list[int]
    place: list[tuple[int, int, int]]


class SegmentIndex:
    """Positions of all segments seen, by stream; filled block by block."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._chunks: list[_Chunk] = []
        self._runs: dict[int, _Runs] = {}

    def append(self, block: SegmentBlock) -> None:
        """Take in the segments of a block; blocks come in the order the assembler made them."""
        if not len(block):
            return
        starts = np.flatnonzero(np.append(True, block.stream[1:] != block.stream[:-1]))
        stops = np.append(starts[1:], len(block))
        base = np.repeat(block.position[starts], stops - starts)
        relative = block.position - base
        if relative[-1] >> 32 or relative.max() >> 32:  # holes of gigabytes: begin a run anew where they are
            wide = np.flatnonzero(np.diff(relative, prepend=0) >> 30) if len(block) else starts
            starts = np.union1d(starts, wide)
            stops = np.append(starts[1:], len(block))
            relative = block.position - np.repeat(block.position[starts], stops - starts)
        chunk = len(self._chunks)
        # the time column is of the carrying packet; its number is found again by its offset
        self._chunks.append(
            _Chunk(
                relative.astype(np.uint32),
                block.length.astype(np.uint32),
                block.offset.copy(),
                block.time.copy(),
            )
        )
        heads = zip(
            block.stream[starts].tolist(),
            block.position[starts].tolist(),
            starts.tolist(),
            stops.tolist(),
            strict=True,
        )
        for stream, position, low, high in heads:
            runs = self._runs.get(stream)
            if runs is None:
                runs = self._runs[stream] = _Runs([], [])
            runs.position.append(position)
            runs.place.append((chunk, low, high))

    def pieces(self, stream: int, start: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Where the bytes [start, end) of a stream are.

        :returns: position, offset and length of each captured piece, in order, clipped to the range; int64
        """
        none = np.empty(0, np.int64)
        found = [(none, none, none)]
        runs = self._runs.get(stream)
        if runs is not None and start < end:
            run = max(bisect_right(runs.position, start) - 1, 0)
            while run < len(runs.position) and runs.position[run] < end:
                found.append(self._clip(runs, run, start, end))
                run += 1
        position, offset, length = zip(*found, strict=True)
        return np.concatenate(position), np.concatenate(offset), np.concatenate(length)

    def read(self, stream: int, start: int, end: int) -> bytes:
        """The bytes [start, end) of a stream.

        :raises MissingBytes: if some of them were not captured, or lie beyond what was delivered so far
        """
        data = self.read_captured(stream, start, end)
        if len(data) < end - start:
            raise MissingBytes(stream, start + len(data))
        return data

    def read_captured(self, stream: int, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, or up to the first of them that is missing."""
        within = self._place(stream, start)
        if within is not None and within[1] >= end - start:  # in one segment, as most frames are
            return self.source.read(within[0], end - start)
        position, offset, length = self.pieces(stream, start, end)
        expected = start
        parts: list[bytes] = []
        for at, place, size in zip(position.tolist(), offset.tolist(), length.tolist(), strict=True):
            if at != expected:
                break
            part = self.source.read(place, size)
            parts.append(part)
            expected += len(part)
            if len(part) < size:
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _place(self, stream: int, position: int) -> tuple[int, int] | None:
        """Offset of a byte in the file, and how many bytes of its segment there are from it on."""
        runs = self._runs.get(stream)
        if runs is None:
            return None
        run = bisect_right(runs.position, position) - 1
        if run < 0:
            return None
        number, low, high = runs.place[run]
        chunk, relative = self._chunks[number], position - runs.position[run]
        row = low + int(chunk.relative[low:high].searchsorted(relative, "right")) - 1
        inside = relative - int(chunk.relative[row])
        return int(chunk.offset[row]) + inside, int(chunk.length[row]) - inside

    def time_at(self, stream: int, position: int) -> int:
        """Capture time of the packet that carried the byte at `position`.

        :raises MissingBytes: if that byte was not captured
        """
        runs = self._runs.get(stream)
        if runs is not None:
            run = bisect_right(runs.position, position) - 1
            if run >= 0:
                number, low, high = runs.place[run]
                chunk = self._chunks[number]
                row = low + int(
                    np.searchsorted(chunk.relative[low:high], position - runs.position[run], "right") - 1
                )
                if position - runs.position[run] < int(chunk.relative[row]) + int(chunk.length[row]):
                    return int(chunk.time[row])
        raise MissingBytes(stream, position)

    def _clip(self, runs: _Runs, run: int, start: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """The part of a run inside [start, end)."""
        number, low, high = runs.place[run]
        chunk, base = self._chunks[number], runs.position[run]
        relative = chunk.relative[low:high]
        first = max(int(np.searchsorted(relative, max(start - base, 0), "right")) - 1, 0)
        last = int(np.searchsorted(relative, min(end - base, 1 << 32), "left"))
        position = relative[first:last].astype(np.int64) + base
        length = chunk.length[low + first : low + last].astype(np.int64)
        begin = np.maximum(position, start)
        stop = np.minimum(position + length, end)
        offset = chunk.offset[low + first : low + last] + (begin - position)
        some = stop > begin
        return begin[some], offset[some], (stop - begin)[some]
