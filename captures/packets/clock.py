"""Capture time as a clock that never runs backwards, for timeouts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s

STEP = 1_000_000_000
"""ns by which a late packet precedes an earlier one; smaller steps come from several queues merged out of order."""

STEADY = 64
"""More consecutive late packets mean that the clock was set back; fewer, that two clocks took part."""


_MAX_LAG = 1 << 62
"""With times before 2116 (2 ** 62 ns), readings fit 64 bits; a clock set back by more in total stands still."""


class ClockState(NamedTuple):
    """State of a clock.

    :ivar latest: its last reading
    :ivar lag: ns to add to times, because the clock was set back
    :ivar late: number of consecutive late packets
    """

    latest: int
    lag: int = 0
    late: int = 0


class CaptureClock:
    """Converts capture times into clock readings: nanoseconds that never decrease, packet by packet.

    A reading is the latest time so far. If the capturing clock was set back, readings continue as if
    it had not been. They depend only on the packets, not on how these are cut into blocks.

    :param state: state of the clock that this one continues
    """

    def __init__(self, state: ClockState | None = None) -> None:
        self._latest = None if state is None else state.latest
        self._lag = 0 if state is None else state.lag
        self._late = 0 if state is None else state.late

    @property
    def state(self) -> ClockState | None:
        """The state, None before the first packet."""
        return None if self._latest is None else ClockState(self._latest, self._lag, self._late)

    def read(self, time: Int64s) -> Int64s:
        """Return the readings at the next packets, captured at `time`."""
        if not len(time):
            return time
        latest = int(time[0]) if self._latest is None else self._latest
        own = time + self._lag
        if own[0] >= latest and (own[1:] >= own[:-1]).all():  # the usual case
            self._latest, self._late = int(own[-1]), 0
            return own
        reading: Int64s = np.maximum.accumulate(np.maximum(own, latest))
        at = 0
        while (set_back := self._set_back(reading[at:] - own[at:] >= STEP)) >= 0:
            at += set_back
            own[at:] += min(int(reading[at] - own[at]), _MAX_LAG - int(own[at] - time[at]))
            reading[at:] = np.maximum.accumulate(np.maximum(own[at:], reading[at]))
        self._lag = int(own[-1] - time[-1])
        self._latest = int(reading[-1])
        return reading

    def _set_back(self, late: np.ndarray) -> int:
        """Return the index of the packet that shows that the clock was set back, -1 if none does."""
        if not late.any():
            self._late = 0
            return -1
        edges = np.concatenate([[-1 - self._late], np.flatnonzero(~late), [len(late)]])
        steady = np.flatnonzero(np.diff(edges) > STEADY)
        if not len(steady):
            self._late = len(late) - 1 - int(edges[-2])
            return -1
        self._late = 0
        return int(edges[steady[0]]) + STEADY
