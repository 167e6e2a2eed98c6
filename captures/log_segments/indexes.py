"""The files beside a segment: offset index, time index, transaction index, snapshot of the producers.

Offset and time index are checked against the batches, by what a lookup relies on (``OffsetIndex.java``,
``TimeIndex.java``): the batches before the position in the offset index have smaller offsets, and the timestamp in
the time index is the latest one of the batch with its offset. A broker allocates both files in advance: zeros are
unused entries.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import crc32c

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED = struct.Struct(">hqqqq")
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_CHECKED_FROM = struct.calcsize(">hI")
_PRODUCER = struct.Struct(">qhiqiqiq")


@dataclass(slots=True)
class BatchTable:
    """The batches of a segment, in order.

    :ivar positions: of their first byte
    :ivar first: base offsets
    :ivar last: last offsets
    :ivar times: latest timestamps, ms
    """

    positions: array[int] = field(default_factory=lambda: array("q"))
    first: array[int] = field(default_factory=lambda: array("q"))
    last: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))

    def add(self, position: int, first: int, last: int, time: int) -> None:
        """Add a batch."""
        self.positions.append(position)
        self.first.append(first)
        self.last.append(last)
        self.times.append(time)


class AbortedTransaction(NamedTuple):
    """An entry of a transaction index (``AbortedTxn.java``); the last offset is that of the marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerState(NamedTuple):
    """A producer in a snapshot (``ProducerStateManager.java``).

    :ivar open_since: first offset of its open transaction; -1 if there is none
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    open_since: int


def wrong_entries(segment: Path, base: int, batches: BatchTable) -> Iterator[str]:
    """Yield what is wrong with offset and time index of a segment, a sentence for each file.

    :param base: base offset of the segment
    :raises OSError: if an index cannot be read
    """
    for suffix, entry, check in (
        (".index", _OFFSET_ENTRY, _wrong_position),
        (".timeindex", _TIME_ENTRY, _wrong_time),
    ):
        path = segment.with_suffix(suffix)
        wrong = [
            (number, reason)
            for number, (one, other) in enumerate(_entries(path, entry))
            if (one or other) and (reason := check(one, other, base, batches))
        ]
        if wrong:
            number, reason = wrong[0]
            more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
            yield f"{path}: byte {number * entry.size:,}: {reason}{more}"


def aborted_transactions(segment: Path) -> list[AbortedTransaction]:
    """Return the entries of a segment's transaction index, which exists only if there are any.

    :raises OSError: if it cannot be read
    """
    return [AbortedTransaction(*each) for each in _entries(segment.with_suffix(".txnindex"), _ABORTED)]


def producers(snapshot: Path) -> list[ProducerState] | None:
    """Return the producers in a snapshot, None if it is damaged.

    :raises OSError: if it cannot be read
    """
    data = snapshot.read_bytes()
    if len(data) < _SNAPSHOT_HEAD.size:
        return None
    version, checksum, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != 1 or checksum != crc32c.crc32c(data[_CHECKED_FROM:]):
        return None
    if len(data) != _SNAPSHOT_HEAD.size + count * _PRODUCER.size:
        return None
    return [ProducerState(*each) for each in _PRODUCER.iter_unpack(data[_SNAPSHOT_HEAD.size :])]


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    data = path.read_bytes() if path.exists() else b""
    return entry.iter_unpack(data[: len(data) - len(data) % entry.size])


def _wrong_position(relative: int, position: int, base: int, batches: BatchTable) -> str:
    offset = base + relative
    at = bisect_left(batches.positions, position)
    if at == len(batches.positions) or batches.positions[at] != position:
        return f"offset {offset:,} at position {position:,}, where no batch begins"
    if not batches.first[at] <= offset <= batches.last[-1]:
        return f"offset {offset:,} at position {position:,}, where offset {batches.first[at]:,} begins"
    return ""


def _wrong_time(timestamp: int, relative: int, base: int, batches: BatchTable) -> str:
    offset = base + relative
    at = bisect_left(batches.last, offset)
    if at == len(batches.last) or offset < batches.first[at]:
        return f"timestamp {timestamp} at offset {offset:,}, which is in no batch"
    if batches.times[at] not in (timestamp, -1):  # for messages of magic 0, brokers use times of their own
        return f"timestamp {timestamp} at offset {offset:,}, whose batch has {batches.times[at]}"
    return ""
