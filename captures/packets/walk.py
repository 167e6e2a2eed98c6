"""Finding the records of a capture: following a chain of lengths, fast.

Both capture formats are chains: each record contains its length, and so the start of the next one. Following it
record by record in Python takes 0.2 us each, too much if records are small. :func:`walk` therefore follows
many stretches of the chain at once: it guesses a record boundary near each of many evenly spaced places,
follows all the stretches in lockstep with numpy, and checks that each stretch ends exactly where the next
started. After a wrong guess the stretch is followed again record by record, so the outcome never depends on the
guesses.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.lib.stride_tricks import as_strided

from captures.arrays import Bools, Bytes, Int64s, UInt32s

_SAMPLE_RECORDS = 256
"""Number of records followed one by one to estimate their size."""
_FEW_RECORDS = 8_192
"""Number of records in a buffer up to which one by one is faster."""
_MIN_STRETCHES = 64
"""Number of stretches below which a step of all of them costs more than the same records one by one."""
_CHAIN_RECORDS = 4
"""Number of consecutive records that must be believable at a guessed boundary."""
REACH = 1 << 20
"""Bytes after a place that show whether records continue there: more than four of the largest usual frames."""


class RecordLayout(Protocol):
    """How the records of one format are chained and recognised."""

    big_endian: bool
    length_field: int
    """Offset of the 32-bit length in a record."""
    base: int
    """Bytes of a record that the length excludes."""
    minimum: int
    maximum: int
    """Bounds of a believable length."""
    multiple: int
    """Lengths are multiples of this."""
    marker: tuple[int, int, int]
    """A byte that cheaply distinguishes records from other bytes: its offset, lowest value, and span of values."""

    def believable(self, data: Bytes, positions: Int64s, end: int | Int64s) -> Bools:
        """Return a mask of the places that look like a record header; headers must be complete, records need not be.

        :param end: end of the bytes to inspect; for each place, or the same for all
        """


class WalkedRecords(msgspec.Struct):
    """Records found in a buffer.

    :ivar offsets: int64, start of each complete record
    :ivar end: start of the record after the last one
    :ivar damaged: True if the length found at `end` is not believable; False if bytes are missing
    """

    offsets: Int64s
    end: int
    damaged: bool


def view(data: Bytes, dtype: np.dtype[np.void] | str) -> np.ndarray[Any, Any]:
    """Return `data` as items of `dtype` at every byte offset: ``view(data, dtype)[offsets]`` gathers them."""
    item = np.dtype(dtype)
    return np.ndarray((max(len(data) - item.itemsize + 1, 0),), item, data.data, 0, (1,))


def lengths(data: Bytes, layout: RecordLayout) -> UInt32s:
    """Return the 32-bit integer at every byte offset of `data`, in the byte order of the layout."""
    return view(data, ">u4" if layout.big_endian else "<u4")


def walk(data: Bytes, start: int, end: int, layout: RecordLayout) -> WalkedRecords:
    """Return all complete records of `data` in [start, end), the first of which starts at `start`."""
    sample = _walk_one_by_one(data, start, end, end, layout, _SAMPLE_RECORDS)
    count = len(sample.offsets)
    if count < _SAMPLE_RECORDS:
        return sample
    mean = (sample.end - start) / count
    expected = (end - sample.end) / mean
    if expected <= _FEW_RECORDS:
        rest = _walk_one_by_one(data, sample.end, end, end, layout)
    else:
        # a lockstep costs as much as some records one by one, so there should be neither many
        # steps nor many stretches
        guesses = _guesses(data, sample.end, end, int(expected**0.5), int(4 * mean), layout)
        if len(guesses) < _MIN_STRETCHES:
            rest = _walk_one_by_one(data, sample.end, end, end, layout)
        else:
            rest = _join(data, guesses, end, layout)
    return WalkedRecords(np.concatenate([sample.offsets, rest.offsets]), rest.end, rest.damaged)


def resync(
    data: Bytes, start: int, end: int, layout: RecordLayout, *, limit: int | None = None, reach: int = REACH
) -> int:
    """Return the first place at or after `start` where a chain of records seems to start, or -1.

    :param end: end of the data
    :param limit: only places before it are inspected; all of them if None
    :param reach: bytes from a place on by which it is judged. They must all be available unless the capture ends
        before, so that the outcome does not depend on how much is read at a time
    """
    offset, lowest, span = layout.marker
    low, step = start, 1 << 12
    stop = end if limit is None else limit
    while low < stop:
        high = min(low + step, stop)
        marked = data[low + offset : high + offset] - np.uint8(lowest) <= span
        positions = np.flatnonzero(marked) + low
        positions = positions[_begins_chain(data, positions, np.minimum(positions + reach, end), layout)]
        if len(positions):
            return int(positions[0])
        low, step = high, min(step * 4, 1 << 20)
    return -1


def _guesses(data: Bytes, start: int, end: int, count: int, window: int, layout: RecordLayout) -> Int64s:
    """Return `start`, and a likely record boundary near each of `count` evenly spaced places that has one."""
    stretch = (end - start) // count
    window = min(window, stretch)
    offset, lowest, span = layout.marker
    windows = as_strided(data[start + offset :], (count, window), (stretch, 1))
    which, where = np.nonzero(windows - np.uint8(lowest) <= span)
    positions = start + which * stretch + where
    good = _begins_chain(data, positions, np.full(len(positions), end, np.int64), layout)
    which, first = np.unique(which[good], return_index=True)
    positions = positions[good][first]
    return np.append(start, positions[positions > start])


def _begins_chain(data: Bytes, places: Int64s, ends: Int64s, layout: RecordLayout) -> Bools:
    """Return a mask of the places that start a chain of believable records; a chain may exceed its end."""
    good = layout.believable(data, places, ends)
    running = np.flatnonzero(good)
    positions = places[running]
    table = lengths(data, layout)
    for _ in range(_CHAIN_RECORDS - 1):
        positions = positions + table[positions + layout.length_field] + layout.base
        inside = positions + layout.base + 12 <= ends[running]
        running, positions = running[inside], positions[inside]
        believable = layout.believable(data, positions, ends[running])
        good[running[~believable]] = False
        running, positions = running[believable], positions[believable]
    return good


def _walk_one_by_one(
    data: Bytes, start: int, limit: int, end: int, layout: RecordLayout, most: int = 1 << 62
) -> WalkedRecords:
    """Return the records that start in [start, limit) and end by `end`, at most `most`."""
    unpack = Struct(">I" if layout.big_endian else "<I").unpack_from
    field, base = layout.length_field, layout.base
    low, high, mask = layout.minimum, layout.maximum, layout.multiple - 1
    buffer = data.data
    found: list[int] = []
    position, damaged = start, False
    limit = min(limit, end - field - 3)
    while position < limit and len(found) < most:
        (length,) = unpack(buffer, position + field)
        if length < low or length > high or length & mask:
            damaged = True
            break
        after = position + base + length
        if after > end:
            break
        found.append(position)
        position = after
    return WalkedRecords(np.array(found, np.int64), position, damaged)


def _join(data: Bytes, starts: Int64s, end: int, layout: RecordLayout) -> WalkedRecords:
    """Follow the stretches from all `starts` in lockstep, check their joints, and repeat those with a wrong guess."""
    offsets, first, counts, ends = _lockstep(data, starts, end, layout)
    limits = np.append(starts[1:], end)
    pieces: list[Int64s] = []
    position = int(starts[0])
    for stretch, (begin, limit) in enumerate(zip(starts.tolist(), limits.tolist(), strict=True)):
        if position >= limit:
            continue
        if position == begin:
            pieces.append(offsets[first[stretch] : first[stretch] + counts[stretch]])
            position = int(ends[stretch])
        if position < limit:  # a wrong guess, a long stretch, or the chain breaks here: settle it one by one
            part = _walk_one_by_one(data, position, limit, end, layout)
            pieces.append(part.offsets)
            position = part.end
            if position < limit:
                return WalkedRecords(np.concatenate(pieces), position, part.damaged)
    return WalkedRecords(np.concatenate(pieces), position, False)


def _lockstep(
    data: Bytes, starts: Int64s, end: int, layout: RecordLayout
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Follow all stretches, one record of each per step, as long as there are enough of them.

    :returns: record offsets grouped by stretch; per stretch the index of its first record, the number of records,
        and its end: at or after its limit, where the chain breaks, or, for the last few stretches, where the
        lockstep ended
    """
    table = lengths(data, layout)
    limit = np.append(starts[1:], end)
    counts = np.zeros(len(starts), np.int64)
    ends = starts.copy()
    running = np.arange(len(starts))
    positions, stop = starts, limit
    which: list[Int64s] = []
    where: list[Int64s] = []
    mask = layout.multiple - 1
    last_read = end - layout.length_field - 4
    while len(running):
        length = table[np.minimum(positions, last_read) + layout.length_field].astype(np.int64)
        after = positions + length + layout.base
        good = (
            (after <= end)
            & (length >= layout.minimum)
            & (length <= layout.maximum)
            & (positions <= last_read)
        )
        if mask:
            good &= (length & mask) == 0
        if not good.all():
            ends[running[~good]] = positions[~good]
            running, positions, stop, after = running[good], positions[good], stop[good], after[good]
        which.append(running)
        where.append(positions)
        counts[running] += 1
        positions = after
        done = positions >= stop
        if done.any():
            ends[running[done]] = positions[done]
            running, positions, stop = running[~done], positions[~done], stop[~done]
        if len(running) < _MIN_STRETCHES:
            ends[running] = positions
            break
    first = np.cumsum(counts) - counts
    step = np.repeat(np.arange(len(which)), [len(part) for part in which])
    offsets = np.empty(int(counts.sum()), np.int64)
    offsets[first[np.concatenate(which)] + step] = np.concatenate(where)
    return offsets, first, counts, ends
