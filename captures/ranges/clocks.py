"""The capture clock over all ranges, each of which was read with its own clock.

A gap in a stream is given up after a timeout on a clock that shows the latest time of all packets so far
(:mod:`captures.packets.clock`). A range does not know the earlier packets. If its times continue from there, as they
nearly always do, its readings are correct up to a constant: the lag by which the clock was set back earlier. If packets
of several queues are out of order across its edge, the first readings are slightly low. Only a range that starts more
than :data:`~captures.packets.clock.STEP` too early has to be read again, with the clock's state at its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.packets.clock import STEP, CaptureClock, ClockState

_ALWAYS = -(1 << 63)


class ClockSpan(NamedTuple):
    """The clock of a range; all times in ns.

    :ivar begin: its given state at the start, None if it was not given
    :ivar first: time of the first packet
    :ivar lowest: the lowest time of a packet
    :ivar after: its state at the end
    """

    begin: ClockState | None
    first: int
    lowest: int
    after: ClockState


class ClockStart(NamedTuple):
    """Correction from readings in a range to those of the whole capture.

    :ivar lag: added to readings
    :ivar floor: lower limit of readings
    """

    lag: int = 0
    floor: int = _ALWAYS

    def readings(self, clock: Int64s) -> Int64s:
        """Return the corrected readings."""
        return np.maximum(clock + self.lag, self.floor)

    def is_true(self, reading: int) -> bool:
        """Return whether `reading` and all later ones differ from the corrected readings only by the lag."""
        return reading + self.lag >= self.floor


class SpanClock:
    """The capture clock of a range, which also records its :class:`ClockSpan`.

    :param begin: its state at the start, None if unknown
    """

    def __init__(self, begin: ClockState | None) -> None:
        self._begin = begin
        self._clock = CaptureClock(begin)
        self._first: int | None = None
        self._lowest = 0

    def read(self, time: Int64s) -> Int64s:
        """Return the readings at the next packets, whose times are given."""
        if len(time):
            lowest = int(time.min())
            self._lowest = lowest if self._first is None else min(self._lowest, lowest)
            self._first = int(time[0]) if self._first is None else self._first
        return self._clock.read(time)

    @property
    def span(self) -> ClockSpan | None:
        """The recorded span, None without packets."""
        after = self._clock.state
        if self._first is None or after is None:
            return None
        return ClockSpan(self._begin, self._first, self._lowest, after)


class GivenClock:
    """A clock whose readings are already known.

    :ivar readings: at the next packets
    """

    def __init__(self) -> None:
        self.readings: Int64s = np.empty(0, np.int64)

    def read(self, time: Int64s) -> Int64s:
        """Return the known readings; `time` must be as long."""
        assert len(time) == len(self.readings)
        return self.readings


class Clocks(NamedTuple):
    """Corrections that map the clocks of ranges to one.

    :ivar starts: one for each range
    :ivar wrong: index of the first range that has to be read again, None if none has
    :ivar state: the clock's state at the start of that range
    """

    starts: list[ClockStart]
    wrong: int | None = None
    state: ClockState | None = None


def clocks_of(spans: Sequence[ClockSpan | None]) -> Clocks:
    """Return the corrections that map the clocks of ranges to one.

    :param spans: of all ranges, in order; None for those without packets
    """
    state: ClockState | None = None
    starts: list[ClockStart] = []
    for span in spans:
        if span is None:
            starts.append(ClockStart())
            continue
        if span.begin == state:  # the first range, or one read with a known state
            starts.append(ClockStart())
            state = span.after
            continue
        if state is None or span.begin is not None or _is_too_early(span, state):
            missing = len(spans) - len(starts)
            return Clocks([*starts, *[ClockStart()] * missing], len(starts), state)
        latest, after = state.latest - state.lag, span.after
        starts.append(ClockStart(state.lag, state.latest))
        state = ClockState(max(latest, after.latest) + state.lag, after.lag + state.lag, after.late)
    return Clocks(starts)


def _is_too_early(span: ClockSpan, state: ClockState) -> bool:
    """Return whether packets of a range are so late that the clock may have been set back."""
    latest = state.latest - state.lag
    return latest > span.first and latest - span.lowest >= STEP
