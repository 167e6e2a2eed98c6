"""Times as people write and read them: durations, moments of a capture, time zones."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

import click

from captures.moments import NANOSECONDS, clock, span, zone_name

__all__ = [
    "NANOSECONDS",
    "Duration",
    "Moment",
    "clock",
    "duration_ns",
    "milliseconds",
    "resolve",
    "span",
    "zone_name",
]

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)")
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?")
_FRACTION = re.compile(r"\.(\d{1,9})")


def duration_ns(text: str) -> int | None:
    """Return ``1m30s``, ``250ms`` or ``2.5s`` in nanoseconds, or None if it is no duration."""
    total, at = 0, 0
    for match in _DURATION.finditer(text):
        if match.start() != at:
            return None
        total += round(float(match[1]) * _UNITS[match[2]])
        at = match.end()
    return total if text and at == len(text) else None


class Duration(click.ParamType[int]):
    """A stretch of time, in nanoseconds."""

    name = "TIME"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return it in nanoseconds."""
        found = value if isinstance(value, int) else duration_ns(value)
        if found is None:
            self.fail(f"{value!r} is no stretch of time: write 90s, 2m or 1m30s", param, ctx)
        return found


class Moment(click.ParamType[str]):
    """A time given absolutely, or relative to the first packet: a function of that packet's time and the zone."""

    name = "TIME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the form; the moment itself is known when the capture is."""
        if resolve(value, 0, UTC) is None:
            self.fail(
                f"{value!r} is no time: write 5s or 1m30s after the first packet, 09:14:03, "
                "or 2026-11-21T09:14:03Z",
                param,
                ctx,
            )
        return value


def resolve(text: str, first: int, zone: tzinfo | None) -> int | None:
    """Return a moment in ns since the epoch, or None if ``text`` is none.

    :param first: time of the first packet, what durations count from, and whose day a clock time is of
    :param zone: zone of times that state none; None is the local one
    """
    duration = duration_ns(text.removeprefix("+"))
    if duration is not None:
        return first + duration
    clock = _CLOCK.fullmatch(text)
    if clock:
        day = datetime.fromtimestamp(first // NANOSECONDS, zone)
        at = day.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0), microsecond=0)
        return int(at.timestamp()) * NANOSECONDS + round(float(clock[4] or 0) * NANOSECONDS)
    fraction = _FRACTION.search(text)
    try:
        moment = datetime.fromisoformat(_FRACTION.sub("", text))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
    nanoseconds = int(fraction[1].ljust(9, "0")) if fraction else 0
    return int(moment.timestamp()) * NANOSECONDS + nanoseconds


def milliseconds(nanoseconds: int) -> str:
    """Return a latency in ms, with as many digits as its size deserves."""
    value = nanoseconds / 1_000_000
    return f"{value:.3f}" if value < 0.1 else f"{value:.1f}"
