"""The result of decoding a batch, and the record loop of magic 2.

The loop is written for speed: one pass, with encodings of one and two bytes inlined. It checks
bounds only by the one rule that covers them all (a record takes exactly its announced length, and
lies inside the buffer) and leaves explaining a violation to :mod:`.cursor`.
"""

from __future__ import annotations

from typing import NamedTuple

from dissectors.budget import IN_FORCE, Budget, LimitReached
from dissectors.errors import DecodeError
from dissectors.records.cursor import Cursor, read_varint, walk_record

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as a consumer sees it.

    :ivar offset: absolute, as far as the batch knows it (Produce batches start at 0)
    :ivar timestamp: ms since the epoch, -1 if there is none
    :ivar headers: (key, value) in order; a key that is not UTF-8 shows U+FFFD, as in the Java client
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class DecodedRecords(NamedTuple):
    """Records of one batch up to the first error, and the problems.

    Offsets in ``problems`` count in the records field, or in the decompressed bytes if the reason
    says so.
    """

    records: list[Record]
    problems: tuple[DecodeError, ...] = ()


_SAFE = 1 << 62
"""Below this, adding a delta never exceeds 64 bits."""


def decode_records(
    payload: bytes, count: int, base_offset: int, base_timestamp: int, most: int, name: str
) -> tuple[list[Record], DecodeError | None]:
    """Decode the records part of a batch of magic 2.

    :param payload: exactly the bytes after the batch header, decompressed
    :param count: number announced by the header; nothing is allocated for it in advance
    :param most: maximum number of records to decode, from :func:`most_records`
    :param name: name of the limit that sets `most`
    :return: rows before the first error, and the error, whose offset counts in ``payload``
    """
    allowed = min(max(count, 0), most)
    rows, stop = _scan(payload, allowed, base_offset, base_timestamp)
    if not (-_SAFE < base_offset < _SAFE and -_SAFE < base_timestamp < _SAFE):
        rows = [Record(int64(o), int64(t), key, value, headers) for o, t, key, value, headers in rows]
    if len(rows) < allowed:
        return rows, _explain(payload, stop, len(rows), count)
    if count < 0:
        return rows, DecodeError(f"batch announces {count} records", 0, "count")
    if count > allowed:
        return rows, over(name, len(rows), count, stop)
    if stop < len(payload):
        return rows, DecodeError(f"{len(payload) - stop} bytes after the last record", stop)
    return rows, None


def most_records(budget: Budget) -> tuple[int, str]:
    """Return the maximum number of records to decode from the next batch, and the name of the limit that sets it."""
    left, alone = budget.left("message_records"), IN_FORCE["batch_records"]
    return (left, "message_records") if left <= alone else (alone, "batch_records")


def over(name: str, done: int, count: int | None, offset: int) -> LimitReached:
    """Return the problem of a batch with more records than a limit has left.

    :param done: number of records decoded
    :param count: number of records in the batch, if known
    """
    what = "the next" if count is None else f"the next of {count:,}"
    return LimitReached(name, f"{done:,} records decoded, {what}", offset)


def int64(value: int) -> int:
    """Wrap as Java's long addition does, so that a hostile delta cannot make a number exceed 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _explain(payload: bytes, pos: int, index: int, count: int) -> DecodeError:
    if pos >= len(payload):
        return DecodeError(
            f"bytes end after {index} of {count} records", pos, f"records[{index}]", truncated=True
        )
    try:
        walk_record(Cursor(payload, pos, len(payload)), "records", index)
    except DecodeError as error:
        return error
    raise AssertionError(f"record at {pos} is sound, but the fast loop refused it")


_ZIGZAG = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))


def _scan(  # noqa: C901  # one loop on purpose: a call costs as much as half a record
    buf: bytes, count: int, base_offset: int, base_timestamp: int
) -> tuple[list[Record], int]:
    """Return the rows of at most ``count`` records, and the position after the last intact one."""
    rows: list[Record] = []
    add = rows.append
    new = tuple.__new__  # skips the keyword handling of Record(...), half the cost of creating one
    zigzag = _ZIGZAG
    record = Record
    limit = len(buf)
    pos = start = 0
    key: bytes | None
    value: bytes | None
    headers: Headers
    try:
        for _ in range(count):
            start = pos
            size = buf[pos]
            if size < 0x80:
                pos += 2  # the size and the unused attributes
            elif (high := buf[pos + 1]) < 0x80:
                pos += 3
                size = size & 0x7F | high << 7
            else:
                size, pos = read_varint(buf, pos)
                size = size << 1 ^ size >> 31
                pos += 1
            end = pos - 1 + (size >> 1)
            if size & 1 or end > limit:
                return rows, start

            delta = buf[pos]
            if delta < 0x80:
                pos += 1
                timestamp = base_timestamp + zigzag[delta]
            elif (high := buf[pos + 1]) < 0x80:
                pos += 2
                delta = delta & 0x7F | high << 7
                timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
            else:
                delta, pos = read_varint(buf, pos, 64)
                timestamp = int64(base_timestamp + delta)

            delta = buf[pos]
            if delta < 0x80:
                pos += 1
                offset = base_offset + zigzag[delta]
            elif (high := buf[pos + 1]) < 0x80:
                pos += 2
                delta = delta & 0x7F | high << 7
                offset = base_offset + ((delta >> 1) ^ -(delta & 1))
            elif (top := buf[pos + 2]) < 0x80:  # beyond the 8192nd record of a batch
                pos += 3
                delta = delta & 0x7F | (high & 0x7F) << 7 | top << 14
                offset = base_offset + ((delta >> 1) ^ -(delta & 1))
            else:
                delta, pos = read_varint(buf, pos)
                offset = base_offset + delta

            size = buf[pos]
            pos += 1
            if size >= 0x80:
                size, pos = read_varint(buf, pos - 1)
                size = size << 1 ^ size >> 31
            if size & 1:
                if size != 1:
                    return rows, start
                key = None
            else:
                key = buf[pos : (pos := pos + (size >> 1))]

            size = buf[pos]
            if size < 0x80:
                pos += 1
            elif (high := buf[pos + 1]) < 0x80:
                pos += 2
                size = size & 0x7F | high << 7
            else:
                size, pos = read_varint(buf, pos)
                size = size << 1 ^ size >> 31
            if size & 1:
                if size != 1:
                    return rows, start
                value = None
            else:
                value = buf[pos : (pos := pos + (size >> 1))]

            if buf[pos]:
                headers, pos = _headers(buf, pos, end)
            else:
                pos += 1
                headers = ()
            if pos != end:
                return rows, start
            add(new(record, (offset, timestamp, key, value, headers)))
    except (IndexError, DecodeError):
        return rows, start
    return rows, pos


def _headers(buf: bytes, pos: int, end: int) -> tuple[Headers, int]:
    """Read the headers of one record, their count included.

    :raises DecodeError: without position; :func:`_explain` finds it
    """
    count, pos = read_varint(buf, pos)
    if count < 0:
        raise DecodeError("negative count")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, pos = read_varint(buf, pos)
        if size < 0 or pos + size > end:
            raise DecodeError("bad header key")
        key = buf[pos : pos + size].decode("utf-8", "replace")
        pos += size
        size, pos = read_varint(buf, pos)
        if size < 0:
            if size != -1:
                raise DecodeError("bad header value")
            headers.append((key, None))
            continue
        if pos + size > end:
            raise DecodeError("bad header value")
        headers.append((key, buf[pos : pos + size]))
        pos += size
    return tuple(headers), pos
