"""Searching in the fields and bytes of an exchange. Nothing here is quick enough for the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kproxy.tui.detail.lines import searched
from kproxy.tui.detail.nodes import FieldNode, SideDetail

_WINDOW = 1 << 20
"""Bytes that are searched at once: other threads have their turn in between."""
_OVERLAP = 1 << 12
"""Bytes that a match may have to be found wherever it lies."""


class TextPattern(Protocol):
    """What is looked for, as :class:`kproxy.tui.search.Search` is."""

    def in_text(self, text: str) -> tuple[int, int] | None:
        """Return where it is first met in a text."""

    def in_bytes(self, data: bytes, at: int = 0) -> tuple[int, int] | None:
        """Return where it is first met in bytes from an offset on."""

    def before(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Return where it is last met in bytes, beginning before an offset."""


class ByteMatch(NamedTuple):
    """Bytes that were looked for.

    :ivar buffer: index of what they are in
    """

    buffer: int
    start: int
    end: int


def next_field(
    wanted: TextPattern, sides: list[SideDetail], after: FieldNode | None, *, forward: bool
) -> tuple[SideDetail, FieldNode] | None:
    """Return the next field that shows what is looked for, with its side; after the last comes the first again.

    :param sides: in the order in which they are looked at, the first is that of ``after``
    :param after: where to begin, at the beginning if None
    """
    nodes = [
        (side, node) for side in sides if side.root is not None for node in side.root.walk() if node.path
    ]
    at = next((place for place, (_, node) in enumerate(nodes) if node is after), -1)
    first = at + 1 if forward else max(at, 0)
    ordered = nodes[first:] + nodes[:first]
    if not forward:
        ordered.reverse()
    return next((each for each in ordered if wanted.in_text(searched(each[1])) is not None), None)


def next_bytes(
    wanted: TextPattern, side: SideDetail, buffer: int, offset: int, *, forward: bool
) -> ByteMatch | None:
    """Return the next bytes that are looked for; after the last of one buffer come those of the next.

    :param buffer: where to begin: index of the bytes
    :param offset: and the byte that is selected; what begins with it is not looked at before all else
    """
    count = len(side.buffers)
    if not count:
        return None
    search = _forward if forward else _backward
    data = side.buffers[buffer].data
    found = search(wanted, data, offset + 1, len(data)) if forward else search(wanted, data, 0, offset)
    if found is not None:
        return ByteMatch(buffer, *found)
    for step in range(1, count + 1):
        other = (buffer + (step if forward else -step)) % count
        found = search(wanted, side.buffers[other].data, 0, len(side.buffers[other].data))
        if found is not None:
            return ByteMatch(other, *found)
    return None


def _windows(begin: int, end: int) -> Iterator[tuple[int, int]]:
    for start in range(begin, end, _WINDOW):
        yield start, min(start + _WINDOW, end)


def _forward(wanted: TextPattern, data: bytes, begin: int, end: int) -> tuple[int, int] | None:
    """Return the first match that begins in a range."""
    for start, stop in _windows(begin, end):
        found = wanted.in_bytes(data[start : stop + _OVERLAP])
        if found is not None and found[0] < stop - start:
            return start + found[0], start + found[1]
    return None


def _backward(wanted: TextPattern, data: bytes, begin: int, end: int) -> tuple[int, int] | None:
    """Return the last match that begins in a range."""
    for start, stop in reversed(list(_windows(begin, end))):
        found = wanted.before(data[start : stop + _OVERLAP], stop - start)
        if found is not None:
            return start + found[0], start + found[1]
    return None
