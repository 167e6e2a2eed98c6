"""Storage of message columns: growing arrays, ragged arrays, and dictionaries of texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bools, Int32s, Int64s

NO_VALUE = np.iinfo(np.int64).min
"""A missing value in int64 columns."""
Index: TypeAlias = "int | Int64s"
"""Index of a row, or indexes of several."""


class GrowingArray:
    """A numpy array that supports appending; capacity grows by half, so that most appends copy nothing else."""

    def __init__(self, dtype: Any) -> None:
        self._room = np.empty(64, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def array(self) -> NDArray[Any]:
        """The current values, without a copy; later appends do not change it."""
        return self._room[: self._size]

    @property
    def content(self) -> tuple[NDArray[Any]]:
        """The arguments that make another array's :meth:`append` add these values."""
        return (self.array,)

    def append(self, values: Any) -> None:
        end = self._size + len(values)
        if end > len(self._room):
            room = np.empty(max(end, len(self._room) * 3 // 2), self._room.dtype)
            room[: self._size] = self.array
            self._room = room
        self._room[self._size : end] = values
        self._size = end

    def keep(self, chosen: Bools) -> None:
        """Keep only the chosen values."""
        self._room = self.array[chosen]
        self._size = len(self._room)


class RaggedArray:
    """Several values per row: those of row ``i`` are ``values[offsets[i] : offsets[i + 1]]``.

    The layout of Arrow's LargeList: ``pyarrow.LargeListArray.from_arrays(offsets, values)`` takes it without a copy.

    :ivar values: values of all rows, concatenated
    :ivar offsets: int64, one more than rows; the first is 0
    """

    def __init__(self, values: NDArray[Any], offsets: Int64s) -> None:
        self.values = values
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def counts(self) -> Int64s:
        """Number of values in each row."""
        return np.diff(self.offsets)

    @property
    def filled(self) -> Bools:
        """Mask of the rows that have values."""
        found: Bools = self.offsets[1:] != self.offsets[:-1]
        return found

    @cached_property
    def rows(self) -> Int32s:
        """The row of each value."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.counts)

    def any(self, chosen: Bools) -> Bools:
        """Return a mask of the rows with at least one chosen value.

        :param chosen: a mask over ``values``
        """
        found = np.zeros(len(self), np.bool_)
        found[self.rows[chosen]] = True
        return found

    def take(self, rows: Int64s) -> RaggedArray:
        """Return some rows, as a copy."""
        counts = self.counts[rows]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], counts)
        return RaggedArray(self.values[np.repeat(self.offsets[:-1][rows], counts) + within], offsets)


class GrowingRagged:
    """A ragged array that supports appending rows."""

    def __init__(self, dtype: Any) -> None:
        self._values = GrowingArray(dtype)
        self._offsets = GrowingArray(np.int64)
        self._offsets.append([0])
        self._made: RaggedArray | None = None  # also keeps its cached properties

    @property
    def content(self) -> tuple[NDArray[Any], Int64s]:
        """The arguments that make another array's :meth:`append` add these rows."""
        return self.ragged.values, self.ragged.counts

    def append(self, values: Sequence[int] | NDArray[Any], counts: Sequence[int] | Int64s) -> None:
        """Add rows: all their values, and the number of values of each."""
        self._values.append(values)
        self._offsets.append(int(self._offsets.array[-1]) + np.cumsum(counts))
        self._made = None

    @property
    def ragged(self) -> RaggedArray:
        """The current rows, without a copy."""
        if self._made is None:
            self._made = RaggedArray(self._values.array, self._offsets.array)
        return self._made


class Dictionary(dict[str, int]):
    """Codes of texts: ``dictionary[text]`` is the code of a text, a new one for a new text.

    :ivar texts: text by code
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self.texts)
        self.texts.append(text)
        return code


def without_repeats(ragged: RaggedArray, *keys: NDArray[Any]) -> Bools:
    """Return a mask over the values of a ragged array that drops repetitions within a row.

    :param keys: arrays parallel to the values; values are equal if all their keys are
    """
    if not len(ragged.values):
        return np.zeros(0, np.bool_)
    by: list[NDArray[Any]] = [*reversed(keys), ragged.rows]
    order = np.lexsort(by)  # stable, so the first of equal values stays first
    new = np.diff(ragged.rows[order], prepend=-1) != 0
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    found = np.zeros(len(order), np.bool_)
    found[order[new]] = True
    return found


class FlatBlocks:
    """A column with one number per row, filled block by block."""

    def __init__(self, blank: int = NO_VALUE, dtype: Any = np.int64) -> None:
        self.grown = GrowingArray(dtype)
        self.block = np.empty(0, dtype)
        self._blank = blank

    def begin(self, count: int) -> None:
        self.block = np.full(count, self._blank, self.block.dtype)

    def end(self) -> None:
        self.grown.append(self.block)


class ListBlocks:
    """A column with several numbers per row, filled block by block."""

    def __init__(self, dtype: Any) -> None:
        self.grown = GrowingRagged(dtype)
        self._dtype = dtype
        self.begin(0)

    def begin(self, count: int) -> None:
        self._values: list[int] = []
        self._counts = [0]
        self._which = np.zeros(count, np.int64)
        """For each row the index of its list; list 0 is empty."""

    def add(self, index: Index, values: list[int]) -> None:
        self._which[index] = len(self._counts)
        self._values += values
        self._counts.append(len(values))

    def end(self) -> None:
        offsets = np.concatenate(([0], np.cumsum(self._counts)))
        made = RaggedArray(np.array(self._values, self._dtype), offsets).take(self._which)
        self.grown.append(made.values, made.counts)


class TableBlocks:
    """A column with several tuples of `width` numbers per row, filled block by block."""

    def __init__(self, width: int) -> None:
        self.grown = GrowingRagged(np.int64)
        self._width = width
        self.begin(0)

    def begin(self, count: int) -> None:
        self._counts = np.zeros(count, np.int64)
        self._found: list[tuple[Int64s, Int64s]] = []

    def add(self, index: Index, numbers: Int64s) -> None:
        """Add numbers by row, tuple, and position in the tuple."""
        self._counts[index] = numbers.shape[1] * self._width
        self._found.append((np.atleast_1d(index), numbers.reshape(len(numbers), -1)))

    def end(self) -> None:
        offsets = np.concatenate(([0], np.cumsum(self._counts)))
        values = np.zeros(int(offsets[-1]), np.int64)
        for index, numbers in self._found:
            values[offsets[index][:, None] + np.arange(numbers.shape[1])] = numbers
        self.grown.append(values, self._counts)
