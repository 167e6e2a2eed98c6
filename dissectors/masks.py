"""Fields that must not be shown: :class:`~dissectors.annotate.Annotations` lists them, this module answers by path.

Only the annotator decides; every view, export and copy asks here. A secret is also readable in what contains it: the
bytes of the message that it is a field of, and its compressed form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

UNDECODED = "undecoded"
"""Last step of the path of undecodable bytes."""


class Masks:
    """The paths of secret values and of everything that contains one.

    :param paths: paths of the values, starting with their side
    """

    __slots__ = ("_outer", "_paths")

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._outer = frozenset(outer for path in self._paths for outer in _prefixes(path))

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def within(self, path: str) -> bool:
        """Return whether a field contains a secret."""
        return path in self._outer

    def covers(self, path: str) -> bool:
        """Return whether a field must not be shown as a whole: it is secret, contains a secret, or lies in one."""
        return (
            path in self._paths or path in self._outer or any(map(self._paths.__contains__, _prefixes(path)))
        )


def _prefixes(path: str) -> Iterator[str]:
    for at, character in enumerate(path):
        if character in ".[":
            yield path[:at]


# ---------------------------------------------------------------- masking bytes, which reveal more than values
def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the ranges sorted, with those that overlap or touch merged."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return tuple(found)


def zeroed(data: bytes, ranges: Iterable[tuple[int, int]]) -> bytes:
    """Return `data` with `ranges` zeroed; parts of ranges beyond the end are ignored."""
    out = bytearray(data)
    for start, end in ranges:
        out[start:end] = bytes(max(min(end, len(out)) - start, 0))
    return bytes(out)
