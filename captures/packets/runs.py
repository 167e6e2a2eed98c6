"""Runs of payload: packets of one stream that follow each other without a break, handled together.

Even a stream out of order is mostly in order. Work that takes time per step is done once per run; the
columns of its packets are accessed only when the run is delivered, together with all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from captures.arrays import Bytes, Columns, Int64s
from captures.packets.table import FIN

NEVER = 1 << 62


class Rows(Columns):
    """Packets with payload or FIN of out-of-order streams; those of a run are adjacent.

    :ivar ahead: payload bytes before this packet's, with an arbitrary origin; within a run it increases by `length`
    :ivar length: payload bytes
    :ivar captured: payload bytes in the file
    :ivar offset: their offset in the source
    :ivar time: capture time
    :ivar clock: reading of the capture clock
    :ivar number: packet number
    :ivar row: row of the packet block, -1 for a packet of an earlier one
    :ivar flags: TCP flags
    """

    ahead: Int64s
    length: Int64s
    captured: Int64s
    offset: Int64s
    time: Int64s
    clock: Int64s
    number: Int64s
    row: Int64s
    flags: Bytes

    def of(self, runs: Sequence[PayloadRun]) -> Rows:
        """Return copies of the rows of `runs`, run by run; `ahead` becomes the position of a row in its stream."""
        if not runs:
            return Rows.none()
        table = np.array([(run.low, run.high, run.shift) for run in runs], np.int64)
        row, run = spread_out(table[:, 0], table[:, 1])
        kept = self.take(row)
        kept.ahead += table[run, 2]
        kept.row[:] = -1
        return kept


class PayloadRun(msgspec.Struct):
    """Consecutive payload: bytes [start, end) of the stream, which are in the rows [low, high).

    The payload of row ``i`` starts at position ``rows.ahead[i] + shift``; the first and last row may extend beyond the
    run. A run without bytes is a FIN without payload. Until its position in the stream is known, a run starts at 0.

    :ivar seq: sequence number of the byte at `start`
    :ivar fin: whether the last row has a FIN
    :ivar row: row of the run's first packet in the packet block, -1 if that was an earlier one
    :ivar since: clock reading at that packet, or later, when the hole before this run last shrank
    :ivar acked_row: first row, from `row` on, by which the receiver had acknowledged everything before this run: -1 if
        in an earlier block, ``NEVER`` if not in this one; None if unknown
    :ivar acked: clock reading at that row
    """

    low: int
    high: int
    shift: int
    start: int
    end: int
    seq: int
    fin: bool
    row: int
    since: int
    acked_row: int | None = None
    acked: int = NEVER

    def part(self, rows: Rows, start: int, end: int) -> PayloadRun:
        """Return the bytes [start, end) of this run."""
        if start == self.start and end == self.end:
            return self
        low, high = self.low, self.high
        if start > self.start:
            low = self._row_at(rows, start, "right") - 1
        if end < self.end:
            high = self._row_at(rows, end, "left")
        return PayloadRun(
            low=low,
            high=high,
            shift=self.shift,
            start=start,
            end=end,
            seq=(self.seq + start - self.start) % (1 << 32),
            fin=self.fin and end == self.end,
            row=self.row if low == self.low else int(rows.row[low]),
            since=self.since if low == self.low else int(rows.clock[low]),
        )

    def first(self, rows: Rows, count: int) -> tuple[PayloadRun, PayloadRun | None]:
        """Return the first `count` packets of this run, and the rest of it."""
        if count >= self.high - self.low:
            return self, None
        edge = int(rows.ahead[self.low + count]) + self.shift
        return self.part(rows, self.start, edge), self.part(rows, edge, self.end)

    def packets_before(self, rows: Rows, position: int) -> int:
        """Return how many packets of this run start before a position."""
        return self._row_at(rows, position, "left") - self.low

    def moved(self, distance: int) -> None:
        """Move the run to another position."""
        self.start += distance
        self.end += distance
        self.shift += distance

    def _row_at(self, rows: Rows, position: int, side: str) -> int:
        ahead = rows.ahead[self.low : self.high]
        return self.low + int(ahead.searchsorted(position - self.shift, side))  # type: ignore[call-overload]


def spread_out(low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """Return the numbers of all ranges [low, high), range by range, and the range of each number."""
    count = high - low
    which = np.repeat(np.arange(len(low)), count)
    return np.arange(len(which)) + np.repeat(low - np.cumsum(count) + count, count), which


class RunPayload(msgspec.Struct):
    """The packets of several runs, one row each, clipped to their runs; all int64.

    :ivar first: first row of each run
    :ivar run: index of the run
    :ivar row: row in :class:`Rows`
    :ivar position: first byte
    :ivar length: payload bytes
    :ivar captured: payload bytes in the file
    :ivar offset: their offset
    :ivar flags: TCP flags, without FIN if the last bytes of the packet are clipped
    """

    first: Int64s
    run: Int64s
    row: Int64s
    position: Int64s
    length: Int64s
    captured: Int64s
    offset: Int64s
    flags: Int64s


def payload_of(runs: Sequence[PayloadRun], rows: Rows) -> RunPayload:
    """Return the packets of `runs`, in their order."""
    table = np.array([(run.low, run.high, run.shift, run.start, run.end) for run in runs], np.int64)
    low, high, shift, start, end = table.reshape(-1, 5).T
    row, run = spread_out(low, high)
    count = high - low
    first = np.cumsum(count) - count
    position = rows.ahead[row] + shift[run]
    length, captured, offset = rows.length[row], rows.captured[row], rows.offset[row]
    flags = rows.flags[row].astype(np.int64)
    if len(low):
        _cut_front(first, start, position, length, captured, offset)
        _cut_back(first + count - 1, end, position, length, captured, flags)
    return RunPayload(first, run, row, position, length, captured, offset, flags)


def _cut_front(
    at: Int64s, start: Int64s, position: Int64s, length: Int64s, captured: Int64s, offset: Int64s
) -> None:
    skip = start - position[at]
    if skip.any():
        position[at] += skip
        length[at] -= skip
        offset[at] += skip
        captured[at] = np.maximum(captured[at] - skip, 0)


def _cut_back(
    at: Int64s, end: Int64s, position: Int64s, length: Int64s, captured: Int64s, flags: Int64s
) -> None:
    beyond = position[at] + length[at] - end
    if beyond.any():
        length[at] -= beyond
        captured[at] = np.minimum(captured[at], length[at])
        flags[at[beyond > 0]] &= ~FIN
