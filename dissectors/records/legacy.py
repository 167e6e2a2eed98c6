"""Message sets of magic 0 and 1 (Kafka 0.8 to 0.10): messages, and compressed wrappers around them.

A wrapper is a message whose value is a compressed message set. Wrappers do not nest. The wrapper's fields override
those of its inner messages (``AbstractLegacyRecordBatch.java``):

* magic 0: inner offsets are absolute;
* magic 1: inner offsets are relative, and the wrapper's offset is that of the last inner message (0 from
  some librdkafka versions: then the first is 0);
* magic 1 with log-append time: the wrapper's timestamp is that of every inner message.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from isal import isal_zlib

from dissectors.budget import Budget
from dissectors.codec import CODEC_MASK, Codec
from dissectors.errors import DecodeError
from dissectors.records.codecs import inflate
from dissectors.records.cursor import Cursor, walk_message
from dissectors.records.record import DecodedRecords, Record, most_records, over

HEAD = struct.Struct(">qiIbb")
"""offset, size, CRC-32, magic, attributes; in magic 1 an int64 timestamp follows."""
ENTRY_OVERHEAD = 12
MIN_SIZE = {0: 14, 1: 22}
"""Minimum ``size`` of a message, by magic: that of an empty one with null key and value."""
CRC_START = 16
LOG_APPEND = 0x08

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_NO_TIMESTAMP = -1


class LegacyMessage(NamedTuple):
    """One entry of a message set; ``key`` and ``value`` are the slices of their bytes, None if null."""

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: slice | None
    value: slice | None
    start: int
    end: int

    def crc_valid(self, data: bytes) -> bool:
        """Return whether the stored CRC-32 matches the bytes from the magic to the end."""
        return bool(isal_zlib.crc32(memoryview(data)[self.start + CRC_START : self.end]) == self.crc)


def read_message(data: bytes, start: int, end: int, path: str = "") -> LegacyMessage:
    """Return the entry at ``[start, end)``, whose magic is known to be 0 or 1.

    :raises DecodeError: if a length is impossible, or the fields do not take up the whole entry
    """
    offset, _, crc, magic, attributes = HEAD.unpack_from(data, start)
    pos = start + HEAD.size
    timestamp = _NO_TIMESTAMP
    try:
        if magic:
            (timestamp,) = _INT64.unpack_from(data, pos)
            pos += 8
        (size,) = _INT32.unpack_from(data, pos)
        pos += 4
        key = slice(pos, pos + size) if size >= 0 else None
        pos += max(size, 0)
        (value_size,) = _INT32.unpack_from(data, pos)
        pos += 4
        value = slice(pos, pos + value_size) if value_size >= 0 else None
        pos += max(value_size, 0)
    except struct.error:
        raise _fault(data, start, end, path) from None
    if pos != end or size < -1 or value_size < -1:
        raise _fault(data, start, end, path)
    return LegacyMessage(offset, crc, magic, attributes, timestamp, key, value, start, end)


def _fault(data: bytes, start: int, end: int, path: str) -> DecodeError:
    cursor = Cursor(data, start, end)
    try:
        walk_message(cursor, path or "message")
    except DecodeError as error:
        error.truncated = False
        return error
    raise AssertionError(f"message at {start} is sound, but was refused")


def decode_message(data: bytes, shift: int, budget: Budget) -> DecodedRecords:
    """Return the records of one outer entry.

    :param data: exactly the entry
    :param shift: position of the entry in the records field, added to the offsets of problems
    :param budget: budget of the message
    """
    most, name = most_records(budget)
    if not most:
        return DecodedRecords([], (over(name, 0, None, shift),))
    try:
        message = read_message(data, 0, len(data))
    except DecodeError as error:
        return DecodedRecords([], (moved(error, shift),))
    codec = message.attributes & CODEC_MASK
    if codec == Codec.NONE:
        budget.spend("message_records", 1)
        return DecodedRecords([_record(data, message)])
    if message.value is None:
        return DecodedRecords(
            [], (DecodeError(f"compressed message with null value ({codec=})", shift, "value"),)
        )
    if Codec(codec).oldest_magic > message.magic:
        reason = f"codec {Codec(codec).label} is not allowed with magic {message.magic}"
        return DecodedRecords([], (DecodeError(reason, shift + HEAD.size - 1, "attributes"),))
    inner, problem = inflate(codec, data[message.value], budget, magic=message.magic)
    problems = [] if problem is None else [moved(problem, shift + message.value.start, "value")]
    messages, fault = read_messages(inner, message.magic, budget)
    if fault is not None and not (problems and fault.truncated):
        fault.truncated = False
        problems.append(decompressed(fault))
    records, more = _resolve(message, inner, messages, complete=fault is None)
    return DecodedRecords(records, (*problems, *more))


def read_messages(data: bytes, magic: int, budget: Budget) -> tuple[list[LegacyMessage], DecodeError | None]:
    """Return the messages of an inner message set up to the first error, and the error.

    :param budget: budget of the outer message, from which the inner ones are taken
    """
    most, name = most_records(budget)
    messages, fault = all_messages(data, magic, most)
    budget.spend("message_records", len(messages))
    if fault is None and messages and messages[-1].end < len(data):
        fault = over(name, len(messages), None, messages[-1].end)
    return messages, fault


def all_messages(data: bytes, magic: int, most: int) -> tuple[list[LegacyMessage], DecodeError | None]:
    """Return what :func:`read_messages` returns, but bound the number of messages by `most` instead of a budget."""
    messages: list[LegacyMessage] = []
    pos = 0
    while pos < len(data) and len(messages) < most:
        path = f"messages[{len(messages)}]"
        left = len(data) - pos
        if left < HEAD.size:
            reason = f"{left} bytes left, too few for a message"
            return messages, DecodeError(reason, pos, path, truncated=True)
        _, size, _, inner_magic, attributes = HEAD.unpack_from(data, pos)
        end = pos + ENTRY_OVERHEAD + size
        if inner_magic != magic:
            return messages, DecodeError(f"magic {inner_magic} inside magic {magic}", pos + CRC_START, path)
        if size < MIN_SIZE[magic]:
            return messages, DecodeError(f"message of {size} bytes", pos + 8, path)
        if end > len(data):
            reason = f"message announces {size} bytes, {left - ENTRY_OVERHEAD} left"
            return messages, DecodeError(reason, pos + 8, path, truncated=True)
        if attributes & CODEC_MASK:
            return messages, DecodeError("compressed message inside a compressed message", pos, path)
        try:
            messages.append(read_message(data, pos, end, path))
        except DecodeError as error:
            return messages, error
        pos = end
    return messages, None


def _resolve(
    wrapper: LegacyMessage, data: bytes, messages: list[LegacyMessage], *, complete: bool
) -> tuple[list[Record], list[DecodeError]]:
    """Return inner messages as records with absolute offsets and effective timestamps, and their CRC errors."""
    problems: list[DecodeError] = []
    base = 0
    if wrapper.magic and wrapper.offset and messages:
        last = messages[-1].offset
        if not complete:
            problems.append(DecodeError("offsets are relative: the last inner message was not reached", 0))
        elif wrapper.offset < last:
            reason = f"wrapper offset {wrapper.offset} is less than the last inner offset {last}"
            problems.append(DecodeError(reason, 0))
        else:
            base = wrapper.offset - last
    log_append = wrapper.magic and wrapper.attributes & LOG_APPEND
    records = []
    for index, message in enumerate(messages):
        if not message.crc_valid(data):
            fault = DecodeError("CRC-32 does not match", message.start + 12, f"messages[{index}].crc")
            problems.append(decompressed(fault))
        record = _record(data, message)
        timestamp = wrapper.timestamp if log_append else record.timestamp
        records.append(record._replace(offset=base + message.offset, timestamp=timestamp))
    return records, problems


def _record(data: bytes, message: LegacyMessage) -> Record:
    key = None if message.key is None else data[message.key]
    value = None if message.value is None else data[message.value]
    return Record(message.offset, message.timestamp, key, value)


def moved(error: DecodeError, by: int, field_path: str = "") -> DecodeError:
    """Return the same error as an enclosing decoder reports it."""
    path = error.field_path or field_path
    return error.moved(error.offset + by if error.offset >= 0 else -1, path)


def decompressed(error: DecodeError) -> DecodeError:
    """Return the same error, stating that its offset counts decompressed bytes."""
    return error.moved(error.offset, error.field_path, f"{error.reason} (offset in the decompressed bytes)")
