"""Compact logs of many batches, fetches and commits, with numpy access."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.void]
"""A structured array, with fields as named columns."""

_CODES = {"i8": "q", "i4": "i", "i2": "h", "i1": "b", "u4": "I"}


def by_time(rows: Rows) -> Rows:
    """Return rows in the order of their times."""
    ordered: Rows = rows[np.argsort(rows["time"], kind="stable")]
    return ordered


class Layout:
    """Names and numpy types (``i8`` ...) of the fields of a log; there is no padding between them."""

    __slots__ = ("dtype", "pack")

    def __init__(self, **fields: str) -> None:
        self.dtype = np.dtype([(name, f"<{kind}") for name, kind in fields.items()])
        self.pack = struct.Struct("<" + "".join(_CODES[kind] for kind in fields.values())).pack


class Log:
    """Rows of one layout, in the order in which they were added."""

    __slots__ = ("_data", "_layout")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data) // self._layout.dtype.itemsize

    def add(self, *values: Any) -> bool:
        """Add a row, a value for each field; return False for garbage: a number too large for its field."""
        try:
            self._data += self._layout.pack(*values)
        except struct.error:
            return False
        return True

    def include(self, other: Log) -> None:
        """Add all rows of another log of the same layout."""
        self._data += other._data

    def rows(self) -> Rows:
        """Return all rows; a copy, because an exported buffer cannot grow."""
        return np.frombuffer(bytes(self._data), self._layout.dtype)
