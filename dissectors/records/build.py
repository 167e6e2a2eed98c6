"""Builds batches and message sets from records, with correct lengths and checksums, laid out as by the Java client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from isal import isal_zlib

from dissectors.codec import Codec
from dissectors.records import legacy
from dissectors.records.batch import (
    CONTROL,
    CRC_START,
    HEADER,
    LOG_APPEND,
    TRANSACTIONAL,
)
from dissectors.records.codecs import compress
from dissectors.records.record import Headers, Record
from dissectors.wire import uvarint_bytes


def encode_varint(value: int) -> bytes:
    """Return the shortest zig-zag encoding of a signed integer of at most 64 bits."""
    return uvarint_bytes((value << 1) ^ (value >> 63))


_NULL = encode_varint(-1)


def build_batch(
    records: Iterable[Record],
    *,
    magic: Literal[0, 1, 2] = 2,
    codec: Codec | int = Codec.NONE,
    base_offset: int | None = None,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    timestamp_type: Literal["create", "log_append"] = "create",
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Return records as the bytes of a records field.

    Magic 2 makes one batch. Magic 0 and 1 make one message per record, or one wrapper if ``codec`` is
    not NONE; of the arguments after ``codec`` they use only ``last_offset`` and ``max_timestamp`` (both the wrapper's)
    and ``timestamp_type``.

    :param base_offset: default: offset of the first record, 0 without records
    :param last_offset: default: offset of the last record
    :param base_timestamp: ms; default: timestamp of the first record, -1 without records
    :param max_timestamp: ms; default: the greatest timestamp of the records, -1 without records
    :raises ValueError: for headers or zstd in magic 0 and 1, which cannot hold them
    :raises struct.error: if a number does not fit its field
    """
    rows = list(records)
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in rows), default=-1)
    if magic != 2:
        return _message_set(rows, magic, Codec(codec), last_offset, max_timestamp, timestamp_type)
    if base_offset is None:
        base_offset = rows[0].offset if rows else 0
    if base_timestamp is None:
        base_timestamp = rows[0].timestamp if rows else -1
    if last_offset is None:
        last_offset = rows[-1].offset if rows else base_offset
    attributes = (
        int(codec)
        | (LOG_APPEND if timestamp_type == "log_append" else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
    )
    plain = b"".join(_record(record, base_offset, base_timestamp) for record in rows)
    payload = compress(codec, plain) if rows else plain
    batch = bytearray(
        HEADER.pack(
            base_offset,
            HEADER.size - legacy.ENTRY_OVERHEAD + len(payload),
            partition_leader_epoch,
            magic,
            0,
            attributes,
            last_offset - base_offset,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(rows),
        )
    )
    batch += payload
    import crc32c  # not at the start of the program: it asks for its own version

    crc = crc32c.crc32c(memoryview(batch)[CRC_START:])
    batch[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
    return bytes(batch)


def _record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [
        b"\x00",
        encode_varint(record.timestamp - base_timestamp),
        encode_varint(record.offset - base_offset),
        *_sized(record.key),
        *_sized(record.value),
        *_headers(record.headers),
    ]
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if data is None else (encode_varint(len(data)), data)


def _headers(headers: Headers) -> list[bytes]:
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        parts += _sized(key.encode())
        parts += _sized(value)
    return parts


def _message_set(
    rows: Sequence[Record],
    magic: Literal[0, 1],
    codec: Codec,
    last_offset: int | None,
    max_timestamp: int,
    timestamp_type: Literal["create", "log_append"],
) -> bytes:
    if any(record.headers for record in rows):
        raise ValueError(f"magic {magic} has no record headers")
    flags = legacy.LOG_APPEND if magic and timestamp_type == "log_append" else 0
    if codec == Codec.NONE:
        return b"".join(_message(magic, flags, row.offset, row.timestamp, row.key, row.value) for row in rows)
    if codec.oldest_magic > magic:
        raise ValueError(f"magic {magic} has no codec {codec.label}")
    if last_offset is None:
        last_offset = rows[-1].offset if rows else 0
    # Inner offsets of magic 1 are relative to the first record's.
    base = rows[0].offset if magic and rows else 0
    plain = b"".join(_message(magic, flags, r.offset - base, r.timestamp, r.key, r.value) for r in rows)
    value = compress(codec, plain, magic=magic)
    return _message(magic, flags | codec, last_offset, max_timestamp, None, value)


def _message(
    magic: int, attributes: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    parts = [bytes((magic, attributes))]
    if magic:
        parts.append(timestamp.to_bytes(8, "big", signed=True))
    for data in (key, value):
        parts.append((-1 if data is None else len(data)).to_bytes(4, "big", signed=True))
        parts.append(data or b"")
    body = b"".join(parts)
    entry = (
        offset.to_bytes(8, "big", signed=True),
        (len(body) + 4).to_bytes(4, "big"),
        isal_zlib.crc32(body).to_bytes(4, "big"),
        body,
    )
    return b"".join(entry)
