"""Moments and stretches of time in words. Imports nothing of weight: the command line needs it at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

NANOSECONDS = 1_000_000_000


def clock(time: int, zone: tzinfo | None) -> str:
    """Return the time of day with milliseconds."""
    seconds, rest = divmod(time, NANOSECONDS)
    return f"{datetime.fromtimestamp(seconds, zone):%H:%M:%S}.{rest // 1_000_000:03d}"


def day(time: int, zone: tzinfo | None) -> str:
    """Return the date: ``2026-11-21``."""
    return f"{datetime.fromtimestamp(time // NANOSECONDS, zone):%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class Clock:
    """Shows the moments of something: with the date, if they are not all of one day."""

    zone: tzinfo | None
    dated: bool

    @classmethod
    def of(cls, first: int, last: int, zone: tzinfo | None) -> Clock:
        """Return the clock for what went on from one moment to another."""
        return cls(zone, day(first, zone) != day(last, zone))

    def __call__(self, time: int) -> str:
        """Return a moment in words."""
        return f"{day(time, self.zone)} {clock(time, self.zone)}" if self.dated else clock(time, self.zone)


def zone_name(time: int, zone: tzinfo | None) -> str:
    """Return the zone in which :func:`clock` shows a time: ``UTC``, ``UTC+02:00``."""
    offset = datetime.fromtimestamp(time // NANOSECONDS, zone).astimezone(zone).strftime("%z")
    return "UTC" if offset in ("", "+0000") else f"UTC{offset[:3]}:{offset[3:5]}"


def span(nanoseconds: int) -> str:
    """Return a stretch of time for people: ``3.9 s``, ``2 min 5 s``."""
    seconds = nanoseconds / NANOSECONDS
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
