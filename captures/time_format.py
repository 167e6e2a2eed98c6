"""Times and durations as text. Imports only light modules: the command line needs it at once."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from dissectors.units import SECOND

_DAYS_FROM = 48
"""Hours from which on days are shown."""


def clock(time: int, zone: tzinfo | None) -> str:
    """Return the time of day with milliseconds."""
    seconds, rest = divmod(time, SECOND)
    return f"{_time_of_day(seconds, zone)}.{rest // 1_000_000:03d}"


@lru_cache(64)
def _time_of_day(seconds: int, zone: tzinfo | None) -> str:
    return f"{datetime.fromtimestamp(seconds, zone):%H:%M:%S}"


def day(time: int, zone: tzinfo | None) -> str:
    """Return the date: ``2026-11-21``."""
    return f"{datetime.fromtimestamp(time // SECOND, zone):%Y-%m-%d}"


class Clock(NamedTuple):
    """Formats times, with the date if they are not all of one day."""

    zone: tzinfo | None
    dated: bool

    @classmethod
    def of(cls, first: int, last: int, zone: tzinfo | None) -> Clock:
        """Return the clock for times from `first` to `last`."""
        return cls(zone, day(first, zone) != day(last, zone))

    def __call__(self, time: int) -> str:
        """Return a time as text."""
        return f"{day(time, self.zone)} {clock(time, self.zone)}" if self.dated else clock(time, self.zone)


def zone_name(time: int, zone: tzinfo | None) -> str:
    """Return the zone in which :func:`clock` shows a time: ``UTC``, ``UTC+02:00``."""
    offset = datetime.fromtimestamp(time // SECOND, zone).astimezone(zone).strftime("%z")
    return "UTC" if offset in ("", "+0000") else f"UTC{offset[:3]}:{offset[3:5]}"


def span(nanoseconds: float) -> str:
    """Return a duration as text: ``0.4 ms``, ``3.9 s``, ``15 min``, ``2 min 5 s``, ``2 h 3 min``, ``3 d``."""
    seconds = nanoseconds / SECOND
    if seconds < 99.95:
        value, unit = (seconds * 1000, "ms") if seconds < 0.99995 else (seconds, "s")
        return f"{f'{value:.1f}'.removesuffix('.0')} {unit}"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24) if hours >= _DAYS_FROM else (0, hours)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next(at for at, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def latency(nanoseconds: float) -> str:
    """Return a latency with three digits: ``950 ns``, ``84 µs``, ``1.25 ms``, ``31.4 s``, ``2 min 5 s``."""
    if nanoseconds >= 100 * SECOND:
        return span(nanoseconds)
    for least, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= least * 0.9995:
            return f"{nanoseconds / least:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def milliseconds(nanoseconds: int) -> str:
    """Return a latency for a column of milliseconds: ``0.042``, ``3012.4``."""
    value = nanoseconds / 1_000_000
    return f"{value:.3f}" if abs(value) < 0.1 else f"{value:.1f}"


def milliseconds_range(nanoseconds: Collection[int]) -> str:
    """Return the range of latencies: ``1.2 ms``, ``0.8 to 3012.4 ms``."""
    low, high = milliseconds(min(nanoseconds)), milliseconds(max(nanoseconds))
    return f"{low} ms" if low == high else f"{low} to {high} ms"
