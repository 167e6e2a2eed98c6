"""Records blanked at equal size: keys, values and headers become filler, everything around them stays.

Compressed records are decompressed, blanked and compressed to the exact size they had. Checksums are recomputed; those
that were wrong stay wrong. Control records stay: the protocol wrote them. Unreadable bytes are zeroed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import crc32c
from isal import isal_zlib

from captures.export.scrub.exact import compress_exactly
from dissectors.budget import Budget, message_budget
from dissectors.codec import CODEC_MASK
from dissectors.errors import DecodeError
from dissectors.records import (
    Batch,
    Codec,
    inflate,
    legacy,
    record_set,
)
from dissectors.records.batch import HEADER, HEADER_AT
from dissectors.records.cursor import read_varint
from dissectors.records.record import most_records

FILLER = b"x"

_CODEC_AT = {2: HEADER_AT["attributes"] + 1, 1: 17, 0: 17}  # low byte of the attributes
_CRC_AT = {2: HEADER_AT["crc"], 1: legacy.ENTRY_OVERHEAD, 0: legacy.ENTRY_OVERHEAD}
_HEADER_SIZE = {2: HEADER.size, 1: legacy.HEAD.size + 8, 0: legacy.HEAD.size}

#: CRC-32 or CRC-32C of some bytes
Checksum = Callable[[bytes], int]


class RecordScrubber:
    """Blanks ``records`` fields.

    :ivar counts: ``records``, ``batches``, ``recoded`` (batches compressed with another codec), ``zeroed`` (bytes that
        could not be read, or not be compressed to their size)
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def scrub(self, data: bytes, budget: Budget | None = None, *, aligned: bool = True) -> bytes:
        """Return a records field of the same size with its records blanked; data beyond a limit is zeroed.

        :param budget: budget of the message that contains the field; None for a fresh one
        """
        budget = message_budget() if budget is None else budget
        found = record_set(data, budget, aligned=aligned)
        out = bytearray(len(data))
        done = 0
        for batch in found.batches:
            self.counts["batches"] += 1
            blank = self._batch if batch.magic == 2 else self._message
            out[batch.start : batch.end] = blank(batch, bytes(data[batch.start : batch.end]), budget)
            done = batch.end
        if found.trailing is not None:
            # the header of an entry that was cut off stays
            magic = data[done + 16] if len(data) > done + 16 else 2
            kept = min(_HEADER_SIZE.get(magic, 0), len(data) - done)
            out[done : done + kept] = data[done : done + kept]
            done += kept
        self.counts["zeroed"] += found.leading + len(data) - done
        return bytes(out)

    # ------------------------------------------------------------ magic 2
    def _batch(self, batch: Batch, data: bytes, budget: Budget) -> bytes:
        if batch.control and batch.crc_valid:  # otherwise the control bit itself may be damaged
            return data
        head, payload = bytearray(data[: HEADER.size]), data[HEADER.size :]
        plain = self._blanked(batch, budget)
        if plain is None:
            self.counts["zeroed"] += len(payload)
            blanked = bytes(len(payload))
        else:
            self.counts["records"] += batch.count or 0
            blanked = self._packed(batch, plain, payload, head)
        return _with_crc(head + blanked, batch, crc32c.crc32c)

    def _blanked(self, batch: Batch, budget: Budget) -> bytes | None:
        """Return the decompressed records of a batch, blanked; None if they cannot be read completely."""
        count = batch.count or 0
        if count > most_records(budget)[0]:
            return None
        plain, problem = batch.payload(budget)
        if problem is not None:
            return None
        budget.spend("message_records", max(count, 0))
        return blank_records(plain, count)

    def _packed(self, batch: Batch, plain: bytes, packed: bytes, head: bytearray) -> bytes:
        """Compress blanked records to the size they had; if that takes another codec, set it in the header."""
        if batch.codec == Codec.NONE or not packed:
            return plain
        made = compress_exactly(batch.codec, plain, len(packed), magic=batch.magic)
        if made is None:
            self.counts["zeroed"] += len(packed)
            return bytes(len(packed))
        codec, data = made
        if codec != batch.codec:
            self.counts["recoded"] += 1
            at = _CODEC_AT[batch.magic]
            head[at] = head[at] & ~CODEC_MASK | codec
        return data

    # ------------------------------------------------------------ magic 0 and 1
    def _message(self, batch: Batch, data: bytes, budget: Budget) -> bytes:
        try:
            message = legacy.read_message(data, 0, len(data))
        except DecodeError:
            kept = _HEADER_SIZE[batch.magic]
            self.counts["zeroed"] += len(data) - kept
            return _with_crc(bytearray(data[:kept]) + bytes(len(data) - kept), batch, isal_zlib.crc32)
        out = bytearray(data)
        if batch.codec == Codec.NONE or message.value is None:
            self.counts["records"] += 1
            _fill(out, message.key)
            _fill(out, message.value)
        else:
            _fill(out, message.key)
            value = data[message.value]
            plain = self._inner(batch, value, budget)
            if plain is None:
                self.counts["zeroed"] += len(value)
                out[message.value] = bytes(len(value))
            else:
                out[message.value] = self._packed(batch, plain, value, out)
        return _with_crc(out, batch, isal_zlib.crc32)

    def _inner(self, batch: Batch, packed: bytes, budget: Budget) -> bytes | None:
        """Return the blanked messages inside a wrapper; None if they cannot be read completely."""
        magic = batch.magic
        plain = inflate(batch.codec, packed, budget, magic=magic).data
        messages, fault = legacy.read_messages(plain, magic, budget)
        if fault is not None or not messages:
            return None
        out = bytearray(plain)
        for message in messages:
            _fill(out, message.key)
            _fill(out, message.value)
            _put_crc(out, plain, message.start, message.end, magic, isal_zlib.crc32)
        self.counts["records"] += len(messages)
        return bytes(out)


def blank_records(plain: bytes, count: int) -> bytes | None:
    """Return records with keys, values and headers blanked; None unless there are exactly ``count``."""
    out = bytearray(plain)
    pos = 0
    try:
        for _ in range(count):
            length, pos = read_varint(plain, pos)
            end = pos + length
            _, pos = read_varint(plain, pos + 1, 64)  # a byte of attributes, then the timestamp
            _, pos = read_varint(plain, pos)
            pos = _blank_run(out, plain, _blank_run(out, plain, pos, end), end)
            headers, pos = read_varint(plain, pos)
            for _ in range(headers):
                pos = _blank_run(out, plain, _blank_run(out, plain, pos, end, nullable=False), end)
            if pos != end or headers < 0:
                return None
    except DecodeError:
        return None
    return bytes(out) if pos == len(plain) else None


def _blank_run(out: bytearray, plain: bytes, pos: int, end: int, *, nullable: bool = True) -> int:
    """Blank bytes with a varint length; return the position after them.

    :param end: end of the record
    :raises DecodeError: if the length is impossible
    """
    size, pos = read_varint(plain, pos)
    if size > end - pos or size < (-1 if nullable else 0):
        raise DecodeError(f"length {size} is not allowed", pos)
    if size > 0:
        out[pos : pos + size] = FILLER * size
    return pos + max(size, 0)


def _fill(out: bytearray, part: slice | None) -> None:
    if part is not None:
        out[part] = FILLER * (part.stop - part.start)


def _with_crc(out: bytearray, batch: Batch, crc: Checksum) -> bytes:
    original = bytes(batch.data[batch.start : batch.end])
    _put_crc(out, original, 0, len(out), batch.magic, crc)
    return bytes(out)


def _put_crc(out: bytearray, original: bytes, start: int, end: int, magic: int, crc: Checksum) -> None:
    """Write the checksum. A checksum that was wrong in the original stays wrong."""
    at, covered = start + _CRC_AT[magic], start + _CRC_AT[magic] + 4
    wrong = int.from_bytes(original[at:covered]) ^ crc(original[covered:end])
    out[at:covered] = (crc(bytes(out[covered:end])) ^ wrong).to_bytes(4)
