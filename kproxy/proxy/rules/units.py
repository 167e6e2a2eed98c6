"""Durations and sizes as rules write them, so that reading them gives the same number again."""

from __future__ import annotations

_DURATIONS = (("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))


def duration_text(ns: int) -> str:
    """Return a duration: ``200ms``, ``1m30s``."""
    parts, left = [], ns
    for unit, size in _DURATIONS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0ms"


def bytes_text(count: int) -> str:
    """Return a size in the largest unit that divides it: ``100kB``, ``1500B``."""
    unit, size = next((unit, size) for unit, size in _SIZES if not count % size)
    return f"{count // size}{unit}"
