"""A whole ``records`` field: consecutive entries of any magic, and how the field ends.

A broker cuts a Fetch response at a byte limit, so the last entry is often partial; and if it down-converted lazily, it
fills the size that it had promised with a padding batch. Neither is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

import msgspec

from dissectors.budget import Budget, LimitReached, limit
from dissectors.codec import CODEC_MASK, Codec
from dissectors.errors import DecodeError
from dissectors.left_out import is_placeholder, original_size
from dissectors.records import legacy
from dissectors.records.batch import HEADER, HEADER_AT, MIN_LENGTH, Batch
from dissectors.records.codecs import Buffer

_ENTRY = struct.Struct(">qi")
_MAGIC_AT = HEADER_AT["magic"]
_TO_MAGIC = _MAGIC_AT + 1
_MIN_SIZE = {**legacy.MIN_SIZE, 2: MIN_LENGTH}
_UNUSED_ATTRIBUTES = ~0x7F


class TrailingEntry(msgspec.Struct, frozen=True):
    """The incomplete entry at the end of a field.

    :ivar kind: "partial": cut off by the byte limit of the Fetch; "padding": the filler of lazy
        down-conversion, brokers 2.0 to 3.9 (``LazyDownConversionRecordsSend.java``); "left_out": records of which the
        source of a capture has only the size (:mod:`dissectors.left_out`)
    :ivar start: position of its first byte
    :ivar size: bytes present
    :ivar announced: bytes of the whole entry; None if even its size was cut off
    """

    kind: Literal["partial", "padding", "left_out"]
    start: int
    size: int
    announced: int | None


class RecordSet(msgspec.Struct):
    """The content of a records field.

    :ivar batches: the complete entries before the first error
    :ivar leading: bytes before the first batch; 0 unless the field is unaligned
    :ivar trailing: the incomplete entry at the end, which is normal in Fetch
    :ivar problems: the error that ended the reading early, if there was one
    """

    batches: list[Batch] = []
    leading: int = 0
    trailing: TrailingEntry | None = None
    problems: list[DecodeError] = []

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


OBJECTS_PER_BATCH = 20
"""Cost of a batch against the limit ``message_objects``: roughly the number of fields in its header."""


def record_set(data: Buffer, budget: Budget | None = None, *, aligned: bool = True) -> RecordSet:
    """Read the headers of all entries. Never raises on malformed bytes.

    :param data: a records field without its length prefix
    :param budget: budget of the message that contains the field; None gives the field the full limit
    :param aligned: False for FetchSnapshot's UnalignedRecords, which may start inside a batch: reading
        starts at the first batch of magic 2 with a valid CRC
    """
    found = RecordSet([], 0, None, [])
    if len(data) == _TO_MAGIC and is_placeholder(bytes(data)):
        size = original_size(bytes(data))
        found.trailing = TrailingEntry("left_out", 0, size, size)
        return found
    objects = limit("message_objects") if budget is None else budget.left("message_objects")
    most = objects // OBJECTS_PER_BATCH
    if not aligned:
        found.leading = first_batch(data)
    pos = found.leading
    size = len(data)
    while pos < size:
        left = size - pos
        if left < _ENTRY.size:
            found.trailing = _trailing(data, pos, None)
            break
        _, length = _ENTRY.unpack_from(data, pos)
        if length < legacy.MIN_SIZE[0]:
            found.problems.append(DecodeError(f"entry of {length} bytes, the minimum is 14", pos + 8, "size"))
            break
        end = pos + _ENTRY.size + length
        if left < _TO_MAGIC:
            found.trailing = _trailing(data, pos, end - pos)
            break
        magic = data[pos + _MAGIC_AT]
        least = _MIN_SIZE.get(magic)
        if least is None:
            found.problems.append(DecodeError(f"magic {magic} is not 0, 1 or 2", pos + _MAGIC_AT, "magic"))
            break
        if length < least:
            reason = f"entry of {length} bytes, the minimum with magic {magic} is {least}"
            found.problems.append(DecodeError(reason, pos + 8, "size"))
            break
        if end > size:
            found.trailing = _trailing(data, pos, end - pos)
            break
        if len(found.batches) == most:
            what = f"{most:,} batches read, the next"
            found.problems.append(LimitReached("message_objects", what, pos))
            break
        found.batches.append(Batch(data, pos, end, magic))
        pos = end
    if budget is not None and found.batches:
        budget.spend("message_objects", OBJECTS_PER_BATCH * len(found.batches))
    return found


def _trailing(data: Buffer, start: int, announced: int | None) -> TrailingEntry:
    """Return the incomplete entry. Padding is an offset of -1, a length past the end, and zeros instead of a header."""
    header = bytes(data[start : start + HEADER.size])
    zeros = header[_ENTRY.size :]
    padding = header[:8] == b"\xff" * 8 and not any(zeros)
    return TrailingEntry("padding" if padding else "partial", start, len(data) - start, announced)


def first_batch(data: Buffer) -> int:
    """Return the position of the first batch of magic 2 that is whole and valid.

    Without one: 0 if the slice starts with a batch longer than itself, else the end of ``data``.
    Before its CRC is computed, a candidate must have valid values in all fields that have few of them, and
    the bytes spent on CRCs are capped: bytes made up of candidates must not cost their square.
    """
    view = bytes(data)
    budget = 64 * len(view) + (1 << 20)
    pos = 0
    while budget > 0 and (magic_at := view.find(2, pos + _MAGIC_AT)) >= 0:
        pos = magic_at - _MAGIC_AT
        if _plausible(view, pos):
            batch = Batch(view, pos, pos + _ENTRY.size + _ENTRY.unpack_from(view, pos)[1], 2)
            if batch.end <= len(view):
                budget -= batch.size
                if batch.crc_valid:
                    return pos
        pos += 1
    # A valid batch further in would contradict a header here that announces more than the slice.
    return 0 if _may_be_cut_batch(view) else len(view)


def _plausible(view: bytes, pos: int) -> bool:
    if len(view) - pos < HEADER.size:
        return False
    offset, length, epoch, magic, _, attributes, delta, *_, count = HEADER.unpack_from(view, pos)
    return (
        magic == 2
        and offset >= 0
        and length >= MIN_LENGTH
        and epoch >= -1
        and not attributes & _UNUSED_ATTRIBUTES
        and Codec(attributes & CODEC_MASK).known
        and 0 <= count <= delta + 1
    )


def _may_be_cut_batch(view: bytes) -> bool:
    return _plausible(view, 0) and _ENTRY.size + _ENTRY.unpack_from(view, 0)[1] > len(view)
