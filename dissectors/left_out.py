"""Placeholders for bytes of which the source of a capture has only the size, such as records in a request log."""

from __future__ import annotations

import struct

MARK = b"kproxy\0\0"
"""Start of a placeholder. Read as the base offset of a batch it is 7.7 quintillion, which no log has."""
SIZE = 17
"""Bytes of a placeholder: as many as a batch has up to its magic."""

_HEAD = struct.Struct(f">{len(MARK)}sI")
_ZEROS = bytes(SIZE - _HEAD.size)


def placeholder(size: int) -> bytes:
    """Return a placeholder for bytes of which only the number is known."""
    return _HEAD.pack(MARK, size) + _ZEROS


def is_placeholder(data: bytes) -> bool:
    """Return whether bytes are a placeholder."""
    return len(data) == SIZE and data.startswith(MARK) and data.endswith(_ZEROS)


def original_size(data: bytes) -> int:
    """Return the number of bytes where they were sent."""
    size: int = _HEAD.unpack_from(data)[1] if is_placeholder(data) else len(data)
    return size
