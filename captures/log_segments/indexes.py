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
from pathlib import Path

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED = struct.Struct(">2xqqq8x")
"""``AbortedTxn.java``, without the version and the last stable offset."""
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_CHECKED_FROM = struct.calcsize(">hI")
_PRODUCER = struct.Struct(">q30xq")
"""A producer in a snapshot (``ProducerStateManager.java``): its ID, and where its open transaction begins, or -1."""


class BatchTable:
    """The batches of a segment, in order.

    :ivar positions: of their first byte
    :ivar first: base offsets
    :ivar last: last offsets
    :ivar times: latest timestamps, ms
    """

    def __init__(self) -> None:
        self.positions, self.first, self.last, self.times = (array("q") for _ in range(4))

    def add(self, position: int, first: int, last: int, time: int) -> None:
        self.positions.append(position)
        self.first.append(first)
        self.last.append(last)
        self.times.append(time)


def read_indexes(segment: Path) -> dict[Path, bytes]:
    """Return the content of offset and time index, without the zeros at the end.

    Read before a segment that a broker is writing, they have no entries of batches that it appends meanwhile.

    :raises OSError: if an index cannot be read
    """
    return {path: _content(path).rstrip(b"\0") for path in map(segment.with_suffix, _INDEXES)}


def wrong_entries(indexes: dict[Path, bytes], base: int, batches: BatchTable) -> Iterator[str]:
    """Yield what is wrong with offset and time index of a segment, a sentence for each file.

    :param indexes: from :func:`read_indexes`
    :param base: base offset of the segment
    """
    for path, data in indexes.items():
        entry, check = _INDEXES[path.suffix]
        whole = data + bytes(-len(data) % entry.size)
        wrong = [
            (number, reason)
            for number, (one, other) in enumerate(entry.iter_unpack(whole))
            if (one or other) and (reason := check(one, other, base, batches))
        ]
        if wrong:
            number, reason = wrong[0]
            more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
            yield f"{path}: byte {number * entry.size:,}: {reason}{more}"


def aborted_transactions(segment: Path) -> Iterator[tuple[int, int, int]]:
    """Yield producer ID, first offset and offset of the marker from a segment's transaction index, if it has one.

    :raises OSError: if it cannot be read
    """
    data = _content(segment.with_suffix(".txnindex"))
    yield from _ABORTED.iter_unpack(data[: len(data) - len(data) % _ABORTED.size])


def open_in_snapshot(snapshot: Path) -> list[tuple[int, int]] | None:
    """Return producer ID and first offset of the open transactions in a producers' snapshot, None if it is damaged.

    :raises OSError: if it cannot be read
    """
    import crc32c  # not at the start of the program: it asks for its own version

    data = snapshot.read_bytes()
    if len(data) < _SNAPSHOT_HEAD.size:
        return None
    version, checksum, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != 1 or checksum != crc32c.crc32c(data[_CHECKED_FROM:]):
        return None
    if len(data) != _SNAPSHOT_HEAD.size + count * _PRODUCER.size:
        return None
    return [
        (producer, since)
        for producer, since in _PRODUCER.iter_unpack(data[_SNAPSHOT_HEAD.size :])
        if since >= 0
    ]


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


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


_INDEXES = {".index": (_OFFSET_ENTRY, _wrong_position), ".timeindex": (_TIME_ENTRY, _wrong_time)}
