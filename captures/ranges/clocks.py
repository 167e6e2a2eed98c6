"""The capture clock over all ranges, each of which was read with a clock of its own.

What is missing in a stream is given up when it was waited for long enough, by a clock that reads the latest time of
all packets so far (:mod:`captures.packets.clock`). A range does not know what came before. Where its times go on from
there, as nearly always, its readings differ from the true ones by nothing, or by what the clock was set back before;
where packets of several queues cross its edge in another order, the first readings are too low by a little. Only a
range that begins by more than :data:`~captures.packets.clock.STEP` too early has to be read again, with what is known
by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from captures.arrays import Int64s
from captures.packets.clock import STEP, CaptureClock, ClockState

_ALWAYS = -(1 << 63)


class ClockSpan(NamedTuple):
    """The clock of a range.

    :ivar begin: where it was set before, None if it was not
    :ivar first: time of the first packet, in ns as all here
    :ivar lowest: the lowest time of a packet
    :ivar after: where it stood at the end
    """

    begin: ClockState | None
    first: int
    lowest: int
    after: ClockState


class ClockStart(NamedTuple):
    """What makes readings in a range those in the whole capture.

    :ivar lag: what is to be added
    :ivar floor: below which no reading is
    """

    lag: int = 0
    floor: int = _ALWAYS

    def readings(self, clock: Int64s) -> Int64s:
        """Return the true readings."""
        return np.maximum(clock + self.lag, self.floor)

    def is_true(self, reading: int) -> bool:
        """Return whether readings from some of the range on are true ones, but for the lag."""
        return reading + self.lag >= self.floor


class SpanClock:
    """Reads the clock of a range, and remembers what :class:`ClockSpan` tells.

    :param begin: where it continues, None if unknown
    """

    def __init__(self, begin: ClockState | None) -> None:
        self._begin = begin
        self._clock = CaptureClock(begin)
        self._first: int | None = None
        self._lowest = 0

    def read(self, time: Int64s) -> Int64s:
        """Return the readings at the next packets, captured at these times."""
        if len(time):
            lowest = int(time.min())
            self._lowest = lowest if self._first is None else min(self._lowest, lowest)
            self._first = int(time[0]) if self._first is None else self._first
        return self._clock.read(time)

    @property
    def span(self) -> ClockSpan | None:
        """What came of it, None without packets."""
        after = self._clock.state
        if self._first is None or after is None:
            return None
        return ClockSpan(self._begin, self._first, self._lowest, after)


class GivenClock:
    """Gives readings that are known already.

    :ivar readings: at the next packets
    """

    def __init__(self) -> None:
        self.readings: Int64s = np.empty(0, np.int64)

    def read(self, time: Int64s) -> Int64s:
        """Return the readings at the next packets, which are those given."""
        assert len(time) == len(self.readings)
        return self.readings


class Clocks(NamedTuple):
    """How the clocks of ranges are brought to one.

    :ivar starts: one for each range
    :ivar wrong: index of the first range that has to be read again, None if none has
    :ivar state: where its clock begins
    """

    starts: list[ClockStart]
    wrong: int | None = None
    state: ClockState | None = None


class HasClock(Protocol):
    """What has the clock of a range: a :class:`~captures.ranges.edges.SyncPoint`."""

    @property
    def clock(self) -> ClockSpan | None: ...


def clocks_of(marks: Sequence[HasClock]) -> Clocks:
    """Return how the clocks of ranges are brought to one.

    :param marks: of all ranges, in order
    """
    state: ClockState | None = None
    starts: list[ClockStart] = []
    for mark in marks:
        span = mark.clock
        if span is None:
            starts.append(ClockStart())
            continue
        if span.begin == state:  # the first, or one that is known
            starts.append(ClockStart())
            state = span.after
            continue
        if state is None or span.begin is not None or _is_too_early(span, state):
            missing = len(marks) - len(starts)
            return Clocks([*starts, *[ClockStart()] * missing], len(starts), state)
        latest, after = state.latest - state.lag, span.after
        starts.append(ClockStart(state.lag, state.latest))
        state = ClockState(max(latest, after.latest) + state.lag, after.lag + state.lag, after.late)
    return Clocks(starts)


def _is_too_early(span: ClockSpan, state: ClockState) -> bool:
    """Return whether packets of a range are late by so much that the clock may have been set back."""
    latest = state.latest - state.lag
    return latest > span.first and latest - span.lowest >= STEP
