"""Times as people write them: durations, and moments of a capture."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from dissectors.units import SECOND

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)")
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?")
_FRACTION = re.compile(r"\.(\d{1,9})")


def duration_ns(text: str) -> int | None:
    """Return ``1m30s``, ``250ms`` or ``2.5s`` in nanoseconds, or None if it is not a duration."""
    total, at = 0, 0
    for match in _DURATION.finditer(text):
        if match.start() != at:
            return None
        total += round(float(match[1]) * _UNITS[match[2]])
        at = match.end()
    return total if text and at == len(text) else None


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
        day = datetime.fromtimestamp(first // SECOND, zone)
        at = day.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0), microsecond=0)
        return int(at.timestamp()) * SECOND + round(float(clock[4] or 0) * SECOND)
    fraction = _FRACTION.search(text)
    try:
        moment = datetime.fromisoformat(_FRACTION.sub("", text))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
    nanoseconds = int(fraction[1].ljust(9, "0")) if fraction else 0
    return int(moment.timestamp()) * SECOND + nanoseconds
