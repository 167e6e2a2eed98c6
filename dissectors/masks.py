"""Which fields of a message must not be shown: what :class:`~dissectors.annotate.Annotations` lists, asked for by path.

The annotator alone decides; every view, export and copy asks here. A secret is also in what it is inside of: in the
bytes of the message it is a field of, in what it was compressed to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

UNDECODED = "undecoded"
"""Last step of the path of what could not be decoded."""


class Masks:
    """The paths of secret values, and those of what they are in.

    :param paths: of the values, with their side
    """

    __slots__ = ("_outer", "_paths")

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._outer = frozenset(outer for path in self._paths for outer in _prefixes(path))

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def within(self, path: str) -> bool:
        """Return whether a secret is inside a field."""
        return path in self._outer

    def covers(self, path: str) -> bool:
        """Return whether a field must not be shown as a whole: it is secret, or has a secret in it, or is in one."""
        return (
            path in self._paths or path in self._outer or any(map(self._paths.__contains__, _prefixes(path)))
        )


def _prefixes(path: str) -> Iterator[str]:
    for at, character in enumerate(path):
        if character in ".[":
            yield path[:at]


# ---------------------------------------------------------------- of bytes, which tell more than values do
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
