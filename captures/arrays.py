"""Types of numpy arrays, such as the columns of packets and exchanges, and the values in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
UInt16s = NDArray[np.uint16]
UInt32s = NDArray[np.uint32]
UInt64s = NDArray[np.uint64]
Floats = NDArray[np.float64]


class Columns(msgspec.Struct):
    """A table of columns: each field is an array with one element per row."""

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))

    def take(self, rows: slice | NDArray[Any]) -> Self:
        """Return some rows: a range, a mask of them, or their numbers. A mask of all rows returns the table itself."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ and rows.all():
            return self
        return type(self)(*[getattr(self, name)[rows] for name in self.__struct_fields__])

    @classmethod
    def none(cls) -> Self:
        """Return a table without rows."""
        return cls(*[np.empty(0, np.int64)] * len(cls.__struct_fields__))

    @classmethod
    def concatenated(cls, parts: Iterable[Self]) -> Self:
        """Return the rows of several tables in their order."""
        parts = [part for part in parts if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else cls.none()
        names = cls.__struct_fields__
        return cls(*[np.concatenate([getattr(part, name) for part in parts]) for name in names])


def distinct_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return the different integers of an array, sorted.

    ``np.unique`` imports ``numpy.ma``, which takes a tenth of the start-up time of a command. It is also slower if the
    integers are close together, as IDs are.
    """
    if not len(values):
        return values[:0]
    low, high = values.min(), values.max()
    if low == high:
        return values[:1].copy()
    if int(high) - int(low) <= 4 * len(values):
        # differences may exceed the signed type
        offsets = (values - low).view(f"u{values.itemsize}")
        seen = np.zeros(int(high) - int(low) + 1, bool)
        seen[offsets] = True
        return np.asarray(np.flatnonzero(seen).astype(values.dtype) + low)
    values = np.sort(values)
    return np.asarray(values[np.append(True, values[1:] != values[:-1])])
