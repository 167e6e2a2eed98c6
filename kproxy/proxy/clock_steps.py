"""Detects that the wall clock was set: by hand, by NTP after a long sleep, by a hypervisor.

Recordings use the wall clock, whatever it does. Timeouts must not be affected: connections use the monotonic clock, and
the ends of rules and holds, which are wall clock times, are shifted by the step.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns

_LEAST = 100_000_000  # ns; NTP slews a clock by half a millisecond a second at most (adjtimex(2))


class ClockSteps:
    """Compares the wall clock with a monotonic clock.

    :param wall: ns since the epoch
    :param steady: ns, monotonic
    """

    def __init__(self, wall: Callable[[], int] = time_ns, steady: Callable[[], int] = monotonic_ns) -> None:
        self._wall = wall
        self._steady = steady
        self._apart = wall() - steady()

    def look(self) -> int:
        """Return by how many ns the clock was set forward since the last call, 0 if it was not set."""
        apart = self._wall() - self._steady()
        step, self._apart = apart - self._apart, apart
        return step if abs(step) >= _LEAST else 0
