"""A memory buffer that is read at many places at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bytes, Int64s

SPARE = 64
"""Number of bytes that a read may extend beyond valid data."""


class Memory:
    """The bytes of a block, followed by bytes added later, to be read at many places at once.

    :ivar view: the bytes of the block; places from :attr:`size` on refer to added bytes
    :param data: the block's bytes, uint8, with at least :data:`SPARE` spare bytes at the end
    """

    def __init__(self, data: Bytes) -> None:
        self.view = data.data
        self.size = len(data)
        self._added = bytearray()

    def add(self, data: bytes) -> int:
        """Append bytes; return their place."""
        position = self.size + len(self._added)
        self._added += data
        self._added += bytes(SPARE)
        return position

    def gather(self, dtype: np.dtype[Any], positions: Int64s) -> NDArray[Any]:
        """Read an item of at most :data:`SPARE` bytes at each place."""
        found: NDArray[Any] = _gather(self.view, dtype, np.minimum(positions, self.size - dtype.itemsize))
        beside = np.flatnonzero(positions >= self.size)
        if len(beside):
            found[beside] = _gather(self._added, dtype, positions[beside] - self.size)
        return found

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position` on."""
        if position >= self.size:
            position -= self.size
            return bytes(self._added[position : position + size])
        return bytes(self.view[position : position + size])


def _gather(buffer: Any, dtype: np.dtype[Any], at: Int64s) -> NDArray[Any]:
    return np.ndarray((max(len(buffer) - dtype.itemsize + 1, 0),), dtype, buffer, 0, (1,))[at]
