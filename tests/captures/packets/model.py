"""The specification of reassembly in its simplest form: one stream, packet by packet and byte by byte.

No runs, no blocks, no sorted lists. :mod:`captures.packets.reorder` and :mod:`captures.packets.disorder` do the same,
fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from captures.packets import GapCause
from captures.packets.reorder import GRACE, PATIENCE


@dataclass
class Byte:
    """The first copy of a byte: its packet, the time, and the clock."""

    number: int
    time: int
    clock: int


@dataclass
class Model:
    """One stream.

    :ivar delivered: (packet number, when it was in order) of each byte; None for bytes declared lost
    :ivar gaps: (position, missing, cause)
    """

    position: int = 0
    delivered: list[tuple[int, int] | None] = field(default_factory=list)
    gaps: list[tuple[int, int, GapCause]] = field(default_factory=list)
    retransmitted: int = 0
    reordered: set[int] = field(default_factory=set)
    _here: dict[int, Byte] = field(default_factory=dict)  # bytes that wait
    _ack: int = -1
    _reset: bool = False
    _acked: dict[int, int] = field(default_factory=dict)  # hole, by its end -> clock when it was acknowledged
    _was_reset: dict[int, int] = field(default_factory=dict)  # likewise, when no more data could come
    _progress: dict[int, int] = field(default_factory=dict)  # likewise, when a part of it came

    def tick(self, clock: int) -> None:
        """Any packet of the capture: time passes."""
        while self._here:
            end = min(self._here)
            since = self._progress.get(end, self._here[end].clock)
            known = [table[end] for table in (self._acked, self._was_reset) if end in table]
            if clock < min([since + PATIENCE, *(max(since, at) + GRACE for at in known)]):
                return
            self._give_up(end)

    def data(self, start: int, size: int, number: int, time: int, clock: int) -> None:
        """A packet of the stream."""
        end = min(self._here, default=0)
        for at in range(start, start + size):
            if at < self.position or at in self._here:
                self.retransmitted += 1
            else:
                self._here[at] = Byte(number, time, clock)
        if start <= self.position < start + size:
            self._deliver(time, filled=True)
            if self.position < end:  # the hole became smaller
                self._progress[end] = clock
        self._look(clock)

    def acknowledge(self, ack: int, clock: int) -> None:
        """The receiver has all before `ack`."""
        self._ack = ack
        self._look(clock)

    def reset(self, clock: int) -> None:
        """The connection was reset by either side."""
        self._reset = True
        self._look(clock)

    def finish(self) -> None:
        """The end of the capture."""
        while self._here:
            self._give_up(min(self._here))

    def _look(self, clock: int) -> None:
        for end in self._here:
            if end - 1 not in self._here:
                if self._ack >= end:
                    self._acked.setdefault(end, clock)
                if self._reset:
                    self._was_reset.setdefault(end, clock)

    def _give_up(self, end: int) -> None:
        cause = GapCause.NOT_CAPTURED if end in self._acked else GapCause.UNKNOWN
        self.gaps.append((self.position, end - self.position, cause))
        self.delivered += [None] * (end - self.position)
        self.position = end
        self._deliver(0, filled=False)

    def _deliver(self, time: int, *, filled: bool) -> None:
        while self.position in self._here:
            byte = self._here.pop(self.position)
            time = max(time, byte.time)
            if filled and byte.time < time:
                self.reordered.add(byte.number)
            self.delivered.append((byte.number, time))
            self.position += 1
