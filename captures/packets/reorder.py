"""One stream whose segments did not arrive in order: the slow path, a segment at a time.

Only places of bytes wait here, never the bytes. What waits is sorted by position and does not overlap: of
bytes that arrive twice the first ones are kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace

from captures.packets.table import FIN, GapCause

GRACE = 50_000_000
"""Nanoseconds of capture time between the acknowledgment of missing bytes and giving them up.

Captures may hold an acknowledgment before the data that it acknowledges, when packets of several queues or
interfaces are merged; those are microseconds to a few milliseconds apart.
"""
MAX_WAITING_BYTES = 16 << 20
MAX_WAITING_SEGMENTS = 16_384
_AHEAD = 1 << 30  # the largest window that window scaling allows, RFC 7323 section 2.3
_BEHIND = 1 << 26
_STRANGERS = 3


@dataclass(slots=True)
class Segment:
    """A run of payload of one packet. `captured` bytes of `length` are in the file, from `offset`."""

    position: int
    length: int
    captured: int
    offset: int
    time: int
    number: int
    flags: int
    delivered: int = 0

    @property
    def end(self) -> int:
        """Position behind the last byte."""
        return self.position + self.length

    def part(self, start: int, end: int) -> Segment:
        """The bytes in [start, end) of this segment."""
        if start == self.position and end == self.end:
            return self
        skip = start - self.position
        captured = min(max(self.captured - skip, 0), end - start)
        flags = self.flags if end == self.end else self.flags & ~FIN
        return replace(
            self,
            position=start,
            length=end - start,
            captured=captured,
            offset=self.offset + skip,
            flags=flags,
        )


@dataclass(slots=True)
class Hole:
    """Bytes declared lost."""

    position: int
    missing: int
    cause: GapCause


@dataclass(slots=True)
class Repeat:
    """Bytes that came a second time: `length` bytes at stream `position`, the copy at `offset`."""

    position: int
    length: int
    offset: int


class StreamOrder:
    """Puts the segments of one stream in order.

    :param ack: last acknowledgment number of the receiver, -1 if none
    :param reset: whether the connection was reset before
    :ivar next_seq: sequence number expected next
    :ivar position: stream position expected next
    :ivar out: segments and holes ready to go, in order; the caller takes them away
    :ivar repeats: bytes captured again, to be compared with the first copy
    """

    def __init__(self, next_seq: int, position: int, ack: int, *, reset: bool) -> None:
        self.next_seq = next_seq
        self.position = position
        self.out: list[Segment | Hole] = []
        self.repeats: list[Repeat] = []
        self.retransmitted = 0
        self.reordered = 0
        self.outside = 0
        self.fin_position = -1
        self._waiting: list[Segment] = []
        self._begins: list[int] = []  # positions of the waiting segments, for bisect
        self._waiting_bytes = 0
        self._ack = ack
        self._reset = reset
        self._evidence: int | None = None  # when the first hole was seen to be hopeless
        self._strangers: list[tuple[int, Segment]] = []

    @property
    def idle(self) -> bool:
        """Nothing waits: the stream may go back to the fast path."""
        return not self._waiting and not self._strangers

    @property
    def first_waiting(self) -> int | None:
        """Number of the first packet that waits behind a hole."""
        return min((segment.number for segment in self._waiting), default=None)

    def add(self, seq: int, segment: Segment) -> None:
        """Take in the next captured segment; its position is computed from `seq`."""
        self._give_up_if_due(segment.time)
        distance = (seq - self.next_seq + (1 << 31)) % (1 << 32) - (1 << 31)
        if not -_BEHIND <= distance <= _AHEAD:
            self._stranger(seq, segment)
            return
        if self._strangers:
            self._drop_strangers()
        segment.position = self.position + distance
        if segment.flags & FIN and self.fin_position < 0:
            self.fin_position = segment.end
        if segment.position < self.position:
            self._repeat(segment, segment.position, min(segment.end, self.position))
            if segment.end <= self.position:
                return
            segment = segment.part(self.position, segment.end)
        if segment.position == self.position and not self._waiting:
            self._deliver(segment, segment.time)
        else:
            self._wait(segment)
            self._release(segment.time)
        if self._waiting:
            self._watch(segment.time)
            if self._waiting_bytes > MAX_WAITING_BYTES or len(self._waiting) > MAX_WAITING_SEGMENTS:
                self._give_up(segment.time)

    def acknowledge(self, ack: int, time: int) -> None:
        """The receiver says it has all bytes before `ack`."""
        self._give_up_if_due(time)
        self._ack = ack
        self._watch(time)

    def reset(self, time: int) -> None:
        """The connection was reset: what is missing will not come."""
        self._give_up_if_due(time)
        self._reset = True
        self._watch(time)

    def flush(self) -> None:
        """Declare every hole lost and hand out what waits."""
        while self._waiting:
            self._give_up(0)
        self._drop_strangers()

    def take_repeats(self) -> list[Repeat]:
        """The repeats whose first copy has been delivered."""
        ready = [repeat for repeat in self.repeats if repeat.position + repeat.length <= self.position]
        self.repeats = [repeat for repeat in self.repeats if repeat.position + repeat.length > self.position]
        return ready

    def _first_hole_acknowledged(self) -> bool:
        """Whether the receiver has all bytes up to the first one that waits."""
        distance = (self._ack - self.next_seq) % (1 << 32)
        return self._ack >= 0 and self._begins[0] - self.position <= distance <= _AHEAD

    def _watch(self, time: int) -> None:
        """Note the moment from which the first hole is hopeless."""
        if self._waiting and self._evidence is None and (self._reset or self._first_hole_acknowledged()):
            self._evidence = time

    def _give_up_if_due(self, now: int) -> None:
        while self._waiting and self._evidence is not None and now >= self._evidence + GRACE:
            self._give_up(now)

    def _give_up(self, now: int) -> None:
        """Declare the hole before the first waiting segment lost."""
        begin = self._begins[0]
        cause = GapCause.NOT_CAPTURED if self._first_hole_acknowledged() else GapCause.UNKNOWN
        self.out.append(Hole(self.position, begin - self.position, cause))
        self._advance(begin)
        self._release(0, filled=False)
        if now:
            self._watch(now)

    def _advance(self, position: int) -> None:
        self.next_seq = (self.next_seq + position - self.position) % (1 << 32)
        self.position = position
        self._evidence = None

    def _deliver(self, segment: Segment, time: int) -> None:
        segment.delivered = time
        self.out.append(segment)
        self._advance(segment.end)

    def _release(self, time: int, *, filled: bool = True) -> None:
        """Deliver what is in order now, at `time` if that is later than its own time."""
        count = 0
        for segment in self._waiting:
            if segment.position > self.position:
                break
            count += 1
            if segment.position < self.position:
                continue  # a FIN in the middle of data: no receiver would stop there
            time = max(time, segment.time)
            self.reordered += filled and segment.time < time
            self._waiting_bytes -= segment.length
            self._deliver(segment, time)
        del self._waiting[:count], self._begins[:count]

    def _wait(self, segment: Segment) -> None:
        """Insert the parts of `segment` that do not wait already."""
        start, end = segment.position, segment.end
        index = max(bisect_right(self._begins, start) - 1, 0)
        if start == end:  # a FIN without payload
            if start not in self._begins[index : index + 1]:
                self._insert(segment)
            return
        while start < end:
            while index < len(self._waiting) and self._waiting[index].end <= start:
                index += 1
            if index == len(self._waiting) or self._waiting[index].position >= end:
                self._insert(segment.part(start, end))
                return
            other = self._waiting[index]
            if other.position > start:
                self._insert(segment.part(start, other.position))
                index += 1
                start = other.position
            same = min(end, other.end)
            self._repeat(segment, start, same)
            start = max(same, start)
            index += 1

    def _insert(self, segment: Segment) -> None:
        index = bisect_left(self._begins, segment.position)
        self._waiting.insert(index, segment)
        self._begins.insert(index, segment.position)
        self._waiting_bytes += segment.length

    def _repeat(self, segment: Segment, start: int, end: int) -> None:
        """Count bytes [start, end) of `segment` as sent again, and remember to compare them."""
        self.retransmitted += end - start
        begin = max(start, 0)  # before 0: bytes from before the capture began
        copy = segment.part(begin, end) if end > begin else None
        if copy is not None and copy.captured:
            self.repeats.append(Repeat(begin, copy.captured, copy.offset))

    def _drop_strangers(self) -> None:
        self.outside += sum(segment.length for _, segment in self._strangers)
        self._strangers.clear()

    def _stranger(self, seq: int, segment: Segment) -> None:
        """A segment far outside of any window.

        One such packet is damage or a stray; several that follow each other are the stream after a long loss,
        or another connection whose SYN was not captured. The stream goes on with them, behind a hole of
        unknown size.
        """
        if self._strangers:
            last_seq, last = self._strangers[-1]
            if (last_seq + last.length) % (1 << 32) != seq:
                self._drop_strangers()
        self._strangers.append((seq, segment))
        if len(self._strangers) < _STRANGERS:
            return
        strangers, self._strangers = self._strangers, []
        self.flush()
        self.out.append(Hole(self.position, 0, GapCause.UNKNOWN))
        self.next_seq = strangers[0][0]
        self.fin_position = -1
        for each_seq, each in strangers:
            self.add(each_seq, each)
