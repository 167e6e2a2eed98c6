"""Capture time as a clock that never runs backwards, for deciding what has been waited for long enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s

STEP = 1_000_000_000
"""A packet so many ns earlier than one before it is late; less are packets of several queues, not merged in order."""

STEADY = 64
"""So many late packets in a row mean that the clock was set back; fewer, that two clocks took part."""


_MOST_LAG = 1 << 62
"""With times before 2116 (2 ** 62 ns), a reading has 64 bits; a clock set back by more, in all, only stands still."""


class ClockState(NamedTuple):
    """Where a clock stands.

    :ivar latest: its last reading
    :ivar lag: what to add to a time, since the clock was set back
    :ivar late: how many packets were late in a row
    """

    latest: int
    lag: int = 0
    late: int = 0


class CaptureClock:
    """Turns capture times into clock readings: nanoseconds that only grow, packet by packet.

    A reading is the latest time so far. Where the capturing clock was set back, readings continue from there as if
    it had not been. They depend on the packets alone, not on how these are cut into blocks.

    :param state: where a clock stood that this one continues with
    """

    def __init__(self, state: ClockState | None = None) -> None:
        self._latest = None if state is None else state.latest
        self._lag = 0 if state is None else state.lag
        self._late = 0 if state is None else state.late

    @property
    def state(self) -> ClockState | None:
        """Where it stands, None before the first packet."""
        return None if self._latest is None else ClockState(self._latest, self._lag, self._late)

    def read(self, time: Int64s) -> Int64s:
        """The readings at the next packets, captured at these times."""
        if not len(time):
            return time
        latest = int(time[0]) if self._latest is None else self._latest
        own = time + self._lag
        if own[0] >= latest and (own[1:] >= own[:-1]).all():  # as nearly always
            self._latest, self._late = int(own[-1]), 0
            return own
        reading: Int64s = np.maximum.accumulate(np.maximum(own, latest))
        at = 0
        while (set_back := self._set_back(reading[at:] - own[at:] >= STEP)) >= 0:
            at += set_back
            own[at:] += min(int(reading[at] - own[at]), _MOST_LAG - int(own[at] - time[at]))
            reading[at:] = np.maximum.accumulate(np.maximum(own[at:], reading[at]))
        self._lag = int(own[-1] - time[-1])
        self._latest = int(reading[-1])
        return reading

    def _set_back(self, late: np.ndarray) -> int:
        """Which packet shows that the clock was set back, -1 if none does."""
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
