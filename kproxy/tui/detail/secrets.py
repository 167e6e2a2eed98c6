"""Ranges of bytes that must not be seen.

Annotations list the values that are secret (:class:`dissectors.masks.Masks`). Bytes tell more than values do: a secret
is also in what it was compressed to, and in a bytes field that holds the message it is a field of.
"""

from __future__ import annotations

from collections.abc import Iterable


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges in order, with those put together that touch."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return tuple(found)


def zeroed(data: bytes, ranges: Iterable[tuple[int, int]]) -> bytes:
    """Return bytes with ranges of them zeroed, as far as these exist."""
    out = bytearray(data)
    for start, end in ranges:
        out[start:end] = bytes(max(min(end, len(out)) - start, 0))
    return bytes(out)
