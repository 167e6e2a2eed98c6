"""Types of numpy arrays, such as the columns of packets and exchanges, and the values in them."""

from __future__ import annotations

from typing import Any

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
