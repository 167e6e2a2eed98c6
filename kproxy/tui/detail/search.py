"""Searching in the fields and bytes of an exchange. Too slow for the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kproxy.tui.detail.lines import searched
from kproxy.tui.detail.nodes import FieldNode, SideDetail
from kproxy.tui.search import Search

_WINDOW = 1 << 20
"""Bytes searched at once; other threads run in between."""
_OVERLAP = 1 << 12
"""Longest match in bytes that is found across the end of a window."""


class ByteMatch(NamedTuple):
    """A match in bytes.

    :ivar buffer: index of the byte buffer
    """

    buffer: int
    start: int
    end: int


def next_field(
    wanted: Search, sides: list[SideDetail], after: FieldNode | None, *, forward: bool
) -> tuple[SideDetail, FieldNode] | None:
    """Return the next matching field with its side, None if there is none; wraps around.

    :param sides: in search order, starting with the side of ``after``
    :param after: field to start after, None for the start
    """
    nodes = [
        (side, node) for side in sides if side.root is not None for node in side.root.walk() if node.path
    ]
    at = next((index for index, (_, node) in enumerate(nodes) if node is after), -1)
    first = at + 1 if forward else max(at, 0)
    ordered = nodes[first:] + nodes[:first]
    if not forward:
        ordered.reverse()
    return next((each for each in ordered if wanted.in_text(searched(each[1])) is not None), None)


def next_bytes(
    wanted: Search, side: SideDetail, buffer: int, offset: int, *, forward: bool
) -> ByteMatch | None:
    """Return the next match in the bytes, None if there is none; continues in the next buffers and wraps around.

    :param buffer: index of the buffer to start in
    :param offset: the selected byte; a match that starts there is found last
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


def _forward(search: Search, data: bytes, begin: int, end: int) -> tuple[int, int] | None:
    """Return the first match that starts in a range."""
    for start, stop in _windows(begin, end):
        found = search.in_bytes(data[start : stop + _OVERLAP])
        if found is not None and found[0] < stop - start:
            return start + found[0], start + found[1]
    return None


def _backward(search: Search, data: bytes, begin: int, end: int) -> tuple[int, int] | None:
    """Return the last match that starts in a range."""
    for start, stop in reversed(list(_windows(begin, end))):
        found = search.before(data[start : stop + _OVERLAP], stop - start)
        if found is not None:
            return start + found[0], start + found[1]
    return None
