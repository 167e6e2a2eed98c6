"""Parsing of values: numbers with units, moments, addresses.

Nothing here knows fields. Every function returns None for a text that is not of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import msgspec

from dissectors.units import SECOND

DURATIONS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "min": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86400 * SECOND,
}
"""Units of time in ns."""

SIZES = {
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
"""Units of size in bytes, in lower case; written B, kB, MB, GB, KiB, MiB, GiB."""

_NUMBER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]{1,16})|([0-9][0-9_]{0,24}(?:\.[0-9]{1,18})?))")
_PART = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,18})?)(ns|us|µs|ms|min|s|m|h|d)")
_SIZE = re.compile(r"(.+?)([kKmMgG]?[iI]?[bB])")
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:]{5,8})?)(?:\.([0-9]{1,9}))?(Z|[+-][0-9:]{4,6})?")


def number(text: str) -> Fraction | None:
    """Return a plain number: ``3``, ``-1``, ``1.5``, ``1_000``, ``0x1f``."""
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    sign, hexadecimal, decimal = found.groups()
    value = Fraction(int(hexadecimal, 16)) if hexadecimal else Fraction(decimal.replace("_", ""))
    return -value if sign == "-" else value


def duration(text: str) -> Fraction | None:
    """Return ``100ms``, ``1.5s`` or ``1m30s`` in ns."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    total, at = Fraction(0), 0
    for part in _PART.finditer(rest):
        if part.start() != at:
            return None
        total += Fraction(part[1]) * DURATIONS[part[2]]
        at = part.end()
    return sign * total if rest and at == len(rest) else None


def size(text: str) -> Fraction | None:
    """Return ``1kB``, ``1.5MiB`` or ``512B`` in bytes, ignoring case."""
    found = _SIZE.fullmatch(text)
    unit = SIZES.get(found[2].lower()) if found else None
    count = number(found[1]) if found else None
    return None if count is None or unit is None else count * unit


class Moment(msgspec.Struct, frozen=True):
    """A point in time, whose absolute value may depend on the start of the capture.

    :ivar at: ns since the epoch, ns after the start, or ns after midnight of the first day
    :ivar since: origin of ``at``: ``epoch``, ``start`` or ``midnight``
    :ivar zone: zone of a clock time; None is the local zone
    """

    at: int
    since: str = "epoch"
    zone: tzinfo | None = None

    def resolve(self, start: int | None) -> int:
        """Return ns since the epoch.

        :param start: start of the capture, in ns since the epoch
        :raises ValueError: if it is needed and None
        """
        if self.since == "epoch":
            return self.at
        if start is None:
            raise ValueError("a time relative to the capture needs the start of the capture")
        if self.since == "start":
            return start + self.at
        day = datetime.fromtimestamp(start // SECOND, self.zone)
        midnight = day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(
            seconds=self.at // SECOND
        )
        return int(midnight.timestamp()) * SECOND + self.at % SECOND


def moment(text: str, zone: tzinfo | None = None) -> Moment | None:
    """Return a time: RFC 3339, a time of day, or a duration after the start of the capture.

    :param zone: zone of times without one; None is the local zone
    """
    after = duration(text.removeprefix("+"))
    if after is not None:
        return Moment(int(after), "start")
    clock = _CLOCK.fullmatch(text)
    if clock:
        hours, minutes, seconds = (int(part or 0) for part in clock.groups()[:3])
        if hours > 23 or minutes > 59 or seconds > 59:
            return None
        at = (hours * 3600 + minutes * 60 + seconds) * SECOND
        return Moment(at + int((clock[4] or "").ljust(9, "0")), "midnight", zone)
    return _date(text, zone)


def resolved(text: str, start: int, zone: tzinfo | None) -> int | None:
    """Return a time as parsed by :func:`moment`, in ns since the epoch; None if it is not a time.

    :param start: start of the capture, in ns since the epoch
    """
    found = moment(text, zone)
    return None if found is None else found.resolve(start)


def _date(text: str, zone: tzinfo | None) -> Moment | None:
    found = _DATE.fullmatch(text)
    if not found:
        return None
    try:
        time = datetime.fromisoformat(found[1] + (found[3] or ""))
        if time.tzinfo is None:
            time = time.replace(tzinfo=zone) if zone else time.astimezone()
        # whole seconds, because a float cannot hold nanoseconds
        seconds = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    return Moment(seconds * SECOND + int((found[2] or "").ljust(9, "0")))


# ---------------------------------------------------------------- addresses
def split_endpoint(text: str) -> tuple[str, int | None]:
    """Split ``host:port`` and ``[v6]:port``; the port is None if there is none."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, port = text.split(":")
    else:
        host, port = text, ""
    return host, int(port) if re.fullmatch(r"[0-9]{1,5}", port) else None


@lru_cache(4096)
def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _same_host(text: str) -> Callable[[str], bool]:
    wanted = _ip(text)
    if wanted is None:
        return lambda host: host.lower() == text.lower()
    return lambda host: host == text or _ip(host) == wanted


def _in_network(text: str) -> Callable[[str], bool] | None:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return None

    def inside(host: str) -> bool:
        address = _ip(host)
        return address is not None and address in network

    return inside


def endpoint(text: str) -> Callable[[str], bool] | None:
    """Return a test of ``host:port`` texts: for a host, a host with its port, a port (``:9092``) or a network.

    Networks are written ``10.0.0.0/8``.
    """
    if "/" in text:
        inside = _in_network(text)
        return inside and (lambda whole: inside(split_endpoint(whole)[0]))
    host, port = split_endpoint(text)
    if not host and port is None:
        return None
    same = _same_host(host) if host else lambda _: True

    def holds(whole: str) -> bool:
        its_host, its_port = split_endpoint(whole)
        return (port is None or its_port == port) and same(its_host)

    return holds


def host(text: str) -> Callable[[str], bool] | None:
    """Return a test of hosts, for a host or a network."""
    if "/" in text:
        return _in_network(text)
    return _same_host(text.strip("[]")) if text else None
