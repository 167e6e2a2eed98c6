"""Reordering of one stream whose packets did not arrive in order: the slow path, a run of packets at a time.

Only the places of bytes wait here, never the bytes. Waiting runs are sorted by position and do not overlap: of
bytes that arrive twice the first ones are kept. The outcome does not depend on how packets are combined into
runs, as long as no run contains a pause of ``GRACE``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush

import msgspec
import numpy as np

from captures.arrays import Int64s, UInt32s
from captures.packets.coverage import Coverage
from captures.packets.runs import NEVER, PayloadRun, Rows
from captures.packets.table import GapCause
from dissectors.budget import limit

GRACE = 50_000_000
"""Nanoseconds of capture time between the acknowledgment of missing bytes and giving them up.

Where packets of several queues or interfaces are merged, a capture may contain an acknowledgment before the data that
it acknowledges; they are microseconds to a few milliseconds apart.
"""
PATIENCE = 60_000_000_000
"""Nanoseconds of capture time after which missing bytes are given up even without evidence that they were received.

A sender need not wait longer before it retransmits lost bytes (RFC 6298 section 2.5).
"""
AHEAD = 1 << 30  # the largest window that window scaling allows, RFC 7323 section 2.3
BEHIND = 1 << 26
_STRANGERS = 3


class LostRange(msgspec.Struct):
    """Bytes declared lost."""

    position: int
    missing: int
    cause: GapCause


class Delivery(msgspec.Struct):
    """A run whose bytes are now in order; `delivered` has the time from which each packet was, None if all came in
    order.
    """

    run: PayloadRun
    delivered: Int64s | None


class PeerAcks(msgspec.Struct):
    """Acknowledgments and resets in a block of packets, for one stream.

    :ivar clock: reading of the capture clock at each packet of the block
    :ivar number: their numbers
    :ivar rows: packets of the receiver with an acknowledgment; the first may be -1: the last one before the block
    :ivar acks: their acknowledgment numbers
    :ivar reset_row: first packet of either side with RST, ``NEVER`` if there is none
    """

    clock: Int64s
    number: Int64s
    rows: Int64s
    acks: UInt32s
    reset_row: int = NEVER

    def acknowledged(self, seq: int, row: int) -> int:
        """Return the first packet, from `row` on, by which all bytes before `seq` were acknowledged, or ``NEVER``."""
        latest = max(int(self.rows.searchsorted(row, "right")) - 1, 0)
        reached = self.acks[latest:] - np.uint32(seq) <= AHEAD
        found = int(reached.argmax()) if len(reached) else 0
        if not len(reached) or not reached[found]:
            return NEVER
        return max(int(self.rows[latest + found]), row)


_NONE = np.empty(0, np.int64)
_NO_ACKS = PeerAcks(_NONE, _NONE, _NONE, np.empty(0, np.uint32))


class StreamOrder:
    """Puts the packets of one stream in order.

    For each block of packets call :meth:`begin`, then :meth:`add` for each run of the stream, then :meth:`end`.

    :param reset: whether the connection was reset before
    :ivar next_seq: sequence number expected next
    :ivar position: stream position expected next
    :ivar out: runs and holes ready for delivery, in order; the caller removes them
    :ivar repeats: bytes captured again, to be compared with the first copy; the caller removes them
    :ivar retransmitted: bytes captured again; the caller resets this and the next two to 0
    :ivar reordered: packets that arrived before preceding bytes
    :ivar outside: bytes too far from the others to belong to the stream
    :ivar fin_position: stream position of the first FIN, -1 if none arrived
    :ivar fin_time: time of that FIN
    """

    def __init__(self, next_seq: int, position: int, *, reset: bool) -> None:
        self.next_seq = next_seq
        self.position = position
        self.out: list[Delivery | LostRange] = []
        self.repeats: list[PayloadRun] = []
        self.retransmitted = 0
        self.reordered = 0
        self.outside = 0
        self.fin_position = -1
        self.fin_time = -1
        self._rows = Rows.none()
        self._witness = _NO_ACKS
        self._reset = -NEVER if reset else NEVER  # clock reading
        self._waiting: list[PayloadRun] = []
        self._begins: list[int] = []  # positions of the waiting runs, for bisect
        self._there = Coverage()  # the bytes of the waiting runs
        self._most_bytes, self._most_packets = limit("waiting_bytes"), limit("waiting_packets")
        self._waiting_bytes = 0
        self._waiting_packets = 0
        self._most_since = limit("waiting_packets_in_all")
        self._arrivals: list[tuple[int, int]] = []  # heap of the first packets of runs and their positions
        self._due: int | None = None  # row at which the first hole is given up, None if unknown
        self._not_before = 0  # first row at which it may be: a hole is checked only once it is the first
        self._strangers: list[PayloadRun] = []

    @property
    def idle(self) -> bool:
        """Whether nothing waits, so that the stream may return to the fast path."""
        return not self._waiting and not self._strangers

    @property
    def has_strays(self) -> bool:
        """Whether the last packets were too far from the others to belong to the stream."""
        return bool(self._strangers)

    @property
    def first_waiting(self) -> int | None:
        """Number of the first packet that waits behind a hole."""
        arrivals = self._arrivals
        while arrivals and arrivals[0][1] <= self.position:
            heappop(arrivals)
        return arrivals[0][0] if arrivals else None

    @property
    def kept(self) -> list[PayloadRun]:
        """The runs whose packets are needed in the next block."""
        return self._waiting + self._strangers

    def moved(self, rows: Rows, first: int) -> int:
        """Point the runs in :attr:`kept` to their packets in `rows`, from `first` on; return the end of these."""
        self._rows = rows
        for run in self.kept:
            run.low, run.high, run.shift = first, first + run.high - run.low, 0
            first = run.high
        return first

    @property
    def holes(self) -> list[tuple[int, int]]:
        """The missing bytes before waiting runs, as [start, end) in order; the last one starts after all runs."""
        edges = [self.position]
        for there in self._there.ranges:
            edges += there
        edges.append(NEVER)
        return [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high]

    @property
    def furthest(self) -> int:
        """The position after all waiting runs, a FIN without payload included."""
        return self._waiting[-1].end if self._waiting else self.position

    # -- block by block

    def begin(self, rows: Rows, witness: PeerAcks) -> None:
        """Start a block of packets: those in :attr:`kept` come first in `rows`."""
        self._rows, self._witness, self._due, self._not_before = rows, witness, None, 0
        if witness.reset_row < NEVER:
            self._reset = min(self._reset, int(witness.clock[witness.reset_row]))

    def add(self, run: PayloadRun) -> None:
        """Add the next captured run; its position follows from its sequence number."""
        rest: PayloadRun | None = run
        while rest is not None:
            self._give_up_due(rest.row)
            distance = (rest.seq - self.next_seq + (1 << 31)) % (1 << 32) - (1 << 31)
            if not -BEHIND <= distance <= AHEAD:
                packet, rest = rest.first(self._rows, 1)
                self._stranger(packet)
                continue
            self._drop_strangers()
            rest.moved(self.position + distance - rest.start)
            now, rest = rest.first(self._rows, self._at_once(rest))
            self._take(now)

    def end(self, row: int) -> None:
        """End the block: give up holes that are due at `row`, and record the acknowledgments of waiting runs."""
        self._give_up_due(row)
        end = self.position
        for run in self._waiting:
            if run.start > end:
                run.acked_row = None if self._acked_row(run) == NEVER else -1
            run.row = -1
            end = run.end
        self._witness = _NO_ACKS

    def flush(self) -> None:
        """Declare every hole lost and deliver the waiting runs."""
        self._flush(NEVER)
        self._drop_strangers()

    # -- arrivals

    def _at_once(self, run: PayloadRun) -> int:
        """Return how many packets of a run can be added together.

        This is bounded by the packet at which a hole is given up, a waiting run is reached, or too much waits.
        """
        most = run.high - run.low
        if run.start <= self.position and not self._waiting:
            return most
        if self._waiting and self._due_row() <= self._rows.row[run.high - 1]:
            most = int(self._rows.row[run.low : run.high].searchsorted(self._due_row()))
        following = bisect_right(self._begins, run.start)
        if following < len(self._begins) and run.end > self._begins[following]:
            most = min(most, run.packets_before(self._rows, self._begins[following]))
        if run.end > self.position + AHEAD:
            most = min(most, run.packets_before(self._rows, self.position + AHEAD + 1))
        if run.end - run.start > self._most_bytes - self._waiting_bytes:
            full = run.start + self._most_bytes - self._waiting_bytes
            most = min(most, run.packets_before(self._rows, full + 1) - 1)
        return max(min(most, self._most_packets - self._waiting_packets), 1)

    def _take(self, run: PayloadRun) -> None:
        last = run.high - 1
        if run.fin and self.fin_position < 0:
            self.fin_position, self.fin_time = run.end, int(self._rows.time[last])
        if run.start < self.position:
            self._repeat(run, run.start, min(run.end, self.position))
            if run.end <= self.position:
                return
            run = run.part(self._rows, self.position, run.end)
        if run.start == self.position:
            self._fill(run)
        else:
            self._wait(run)
        while self._waiting_bytes > self._most_bytes or self._waiting_packets > self._most_packets:
            self._give_up(int(self._rows.row[last]))
            self._not_before = int(self._rows.row[last]) + 1

    def _fill(self, run: PayloadRun) -> None:
        """Add the next run of the stream, and deliver the runs that waited for it."""
        if not self._waiting:
            self._deliver(run)
            return
        last, following = run.high - 1, self._waiting[0]
        edge = min(run.end, following.start)
        if edge < run.end:
            self._wait(run.part(self._rows, edge, run.end))
        self._deliver(run.part(self._rows, run.start, edge))
        if self.position == following.start:
            self._release(int(self._rows.time[last]), filled=True)
            self._not_before = int(self._rows.row[last]) + 1
        else:
            following.since = int(self._rows.clock[last])
        self._due = None

    def _wait(self, run: PayloadRun) -> None:
        """Insert the parts of `run` that do not wait already; the parts between them are repeats."""
        start, end = run.start, run.end
        if start == end:  # a FIN without payload
            index = max(bisect_right(self._begins, start) - 1, 0)
            if start not in self._begins[index : index + 1]:
                self._insert(run)
            return
        for low, high in self._there.add(start, end):
            if start < low:
                self._repeat(run, start, low)
            start = high
            # runs that already wait there have no bytes: each FIN ends a run
            between = slice(bisect_right(self._begins, low), bisect_left(self._begins, high))
            for edge in [*self._begins[between], high]:
                if low < edge:
                    self._insert(run.part(self._rows, low, edge))
                low = edge
        if start < end:
            self._repeat(run, start, end)

    def _insert(self, run: PayloadRun) -> None:
        index = bisect_left(self._begins, run.start)
        heappush(self._arrivals, (int(self._rows.number[run.low]), run.start))
        self._waiting.insert(index, run)
        self._begins.insert(index, run.start)
        self._waiting_bytes += run.end - run.start
        self._waiting_packets += run.high - run.low
        if not index:
            self._due = None

    def _repeat(self, run: PayloadRun, start: int, end: int) -> None:
        """Count bytes [start, end) of `run` as sent again, and keep them for comparison."""
        self.retransmitted += end - start
        begin = max(start, 0)  # negative positions precede the capture
        if end > begin:
            self.repeats.append(run.part(self._rows, begin, end))

    # -- giving up holes

    def _acked_row(self, run: PayloadRun) -> int:
        """Return the first packet by which all bytes before a waiting run were acknowledged, ``NEVER`` if not in this
        block.
        """
        if run.acked_row is None:
            seq = (self.next_seq + run.start - self.position) % (1 << 32)
            run.acked_row = self._witness.acknowledged(seq, run.row)
            if run.acked_row < NEVER:
                run.acked = int(self._witness.clock[run.acked_row]) if run.acked_row >= 0 else run.since
        return run.acked_row

    def _due_row(self) -> int:
        """Return the first packet of the block at which the first hole is due to be given up."""
        if self._due is None:
            first = self._waiting[0]
            self._acked_row(first)
            hopeless = max(min(first.acked, self._reset), first.since)
            due = self._witness.clock.searchsorted(min(hopeless + GRACE, first.since + PATIENCE))
            # this bounds the packets waiting in all streams by the number of the latest packets of the capture
            assert self.first_waiting is not None
            full = self._witness.number.searchsorted(self.first_waiting + self._most_since)
            self._due = max(min(int(due), int(full)), self._not_before)
        return self._due

    def _give_up_due(self, row: int) -> None:
        while self._waiting and (due := self._due_row()) <= row:
            self._give_up(due)
            self._not_before = due

    def _give_up(self, row: int) -> None:
        """Declare the hole before the first waiting run lost at packet `row` of the block."""
        first = self._waiting[0]
        cause = GapCause.NOT_CAPTURED if self._acked_row(first) < row else GapCause.UNKNOWN
        self.out.append(LostRange(self.position, first.start - self.position, cause))
        self._advance(first.start)
        self._release(-NEVER, filled=False)

    def _flush(self, row: int) -> None:
        while self._waiting:
            self._give_up(row)

    # -- delivery

    def _advance(self, position: int) -> None:
        self.next_seq = (self.next_seq + position - self.position) % (1 << 32)
        self.position = position

    def _deliver(self, run: PayloadRun, delivered: Int64s | None = None) -> None:
        self.out.append(Delivery(run, delivered))
        self._advance(run.end)

    def _release(self, time: int, *, filled: bool) -> None:
        """Deliver the runs that are now in order, at `time` if that is later than their own time."""
        count = 0
        for run in self._waiting:
            if run.start > self.position:
                break
            count += 1
            self._waiting_bytes -= run.end - run.start
            self._waiting_packets -= run.high - run.low
            if run.start < self.position:
                continue  # a FIN in the middle of data: no receiver would stop there
            own = self._rows.time[run.low : run.high]
            delivered = np.maximum.accumulate(np.maximum(own, time))
            time = int(delivered[-1])
            if filled:
                self.reordered += int(np.count_nonzero(delivered > own))
            self._deliver(run, delivered)
        del self._waiting[:count], self._begins[:count]
        self._there.forget(self.position)
        self._due = None

    # -- packets outside the window

    def _drop_strangers(self) -> None:
        if self._strangers:
            self.outside += sum(run.end - run.start for run in self._strangers)
            self._strangers.clear()

    def _stranger(self, packet: PayloadRun) -> None:
        """Add a packet far outside any window.

        One such packet is damage or a stray; several consecutive ones are the stream after a long loss,
        or another connection whose SYN was not captured. The stream continues with them, after a hole of
        unknown size.
        """
        if self._strangers:
            last = self._strangers[-1]
            if (last.seq + last.end - last.start) % (1 << 32) != packet.seq:
                self._drop_strangers()
        self._strangers.append(packet)
        if len(self._strangers) < _STRANGERS:
            return
        strangers, self._strangers = self._strangers, []
        self._flush(packet.row)
        self.out.append(LostRange(self.position, 0, GapCause.UNKNOWN))
        self.next_seq = strangers[0].seq
        self.fin_position = -1
        for each in strangers:
            self.add(each)
