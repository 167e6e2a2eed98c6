"""One entry of a ``records`` field: a record batch (magic 2) or a legacy message (magic 0 and 1).

The header is read when the batch is created; checksum, decompression and records only on demand. A
compressed legacy message (a wrapper) is one batch, an uncompressed one is a batch of one record.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Literal, NamedTuple

from isal import isal_zlib

from dissectors.budget import Budget, message_budget
from dissectors.codec import CODEC_MASK, Codec
from dissectors.errors import DecodeError
from dissectors.records import legacy
from dissectors.records.codecs import Buffer, InflatedBytes, inflate
from dissectors.records.record import DecodedRecords, Record, decode_records, int64, most_records, over

HEADER_FIELDS = {
    "base_offset": "q",
    "length": "i",
    "partition_leader_epoch": "i",
    "magic": "b",
    "crc": "I",
    "attributes": "h",
    "last_offset_delta": "i",
    "base_timestamp": "q",
    "max_timestamp": "q",
    "producer_id": "q",
    "producer_epoch": "h",
    "base_sequence": "i",
    "records_count": "i",
}
"""The header of magic 2 (``DefaultRecordBatch.java``): its fields in order, with their struct codes."""
HEADER = struct.Struct(">" + "".join(HEADER_FIELDS.values()))
HEADER_AT = dict(
    zip(HEADER_FIELDS, accumulate(map(struct.calcsize, HEADER_FIELDS.values()), initial=0), strict=False)
)
"""Position of each field in the header."""
MIN_LENGTH = HEADER.size - legacy.ENTRY_OVERHEAD
CRC_START = HEADER_AT["attributes"]
"""CRC-32C covers the bytes from the attributes to the end."""

LOG_APPEND = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_LEGACY_TIMESTAMP = struct.Struct(">q")

TimestampType = Literal["create", "log_append"] | None


class Traits(NamedTuple):
    """The attributes of a batch; the properties of :class:`Batch` explain each."""

    codec: Codec
    timestamp_type: TimestampType
    transactional: bool
    control: bool


def _traits(magic: int, attributes: int) -> Traits:
    stamped: TimestampType = "log_append" if attributes & LOG_APPEND else "create"
    return Traits(
        Codec(attributes & CODEC_MASK),
        stamped if magic else None,
        magic == 2 and bool(attributes & TRANSACTIONAL),
        magic == 2 and bool(attributes & CONTROL),
    )


_MEANT = CODEC_MASK | LOG_APPEND | TRANSACTIONAL | CONTROL
# by magic, then attributes: prepared, because decoding them was most of the cost of reading a small batch
_TRAITS = tuple(tuple(_traits(magic, attributes) for attributes in range(_MEANT + 1)) for magic in range(3))


class Batch:
    """A batch as described by its header. Fields that magic 2 introduced have their "none" value in legacy messages.

    :ivar data: the whole records field
    :ivar start: position of the batch in ``data``
    :ivar end: position after it
    :ivar magic: 0, 1 or 2
    :ivar base_offset: the offset at the start of the entry. With magic 2 that of the first record; in a compressed
        legacy message that of the *last*, whose first is unknown without decompression
    :ivar last_offset: offset of the last record, even if compaction removed it
    :ivar crc: the stored checksum
    :ivar base_timestamp: ms, base of the timestamp deltas. Legacy: the message's, -1 in magic 0
    :ivar max_timestamp: ms, -1 if there is none
    :ivar producer_id: -1 if none; likewise epoch and sequence
    :ivar count: number of records according to the header; None in a compressed legacy message, which has no count. 0
        if compaction removed all records and the batch remains for its producer state
    """

    __slots__ = (
        "_crc_valid",
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "data",
        "end",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "start",
    )

    data: Buffer
    start: int
    end: int
    count: int | None

    def __init__(self, data: Buffer, start: int, end: int, magic: int) -> None:
        """Read the header at ``start``. The caller has checked the magic, and that the whole entry is present."""
        self.data = data
        self.start = start
        self.end = end
        self._crc_valid: bool | None = None
        if magic == 2:
            (
                self.base_offset,
                _,
                self.partition_leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count,
            ) = HEADER.unpack_from(data, start)
            return
        self.base_offset, _, self.crc, self.magic, self.attributes = legacy.HEAD.unpack_from(data, start)
        timestamp = -1
        if magic:
            (timestamp,) = _LEGACY_TIMESTAMP.unpack_from(data, start + legacy.HEAD.size)
        self.base_timestamp = self.max_timestamp = timestamp
        self.last_offset_delta = 0
        self.count = None if self.attributes & CODEC_MASK else 1
        self.partition_leader_epoch = -1
        self.producer_id = self.producer_epoch = self.base_sequence = -1

    def __repr__(self) -> str:
        return (
            f"<Batch magic={self.magic} codec={self.codec.label} count={self.count}"
            f" offsets={self.base_offset}..{self.last_offset} bytes={self.start}..{self.end}>"
        )

    @property
    def size(self) -> int:
        """Size of the entry in bytes, as sent."""
        return self.end - self.start

    @property
    def last_offset(self) -> int:
        """Offset of the last record; it wraps at 64 bits, as in Java clients."""
        return int64(self.base_offset + self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        return self.traits.codec

    @property
    def timestamp_type(self) -> TimestampType:
        """The origin of the timestamps; None in magic 0, which has none."""
        return self.traits.timestamp_type

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.traits.transactional

    @property
    def control(self) -> bool:
        """Whether the records address the clients themselves (:mod:`.control`), not the application."""
        return self.traits.control

    @property
    def traits(self) -> Traits:
        traits: Traits = _TRAITS[self.magic][self.attributes & _MEANT]
        return traits

    @property
    def crc_valid(self) -> bool:
        """Whether the stored checksum matches the bytes. Computed once."""
        if self._crc_valid is None:
            view = memoryview(self.data)
            if self.magic == 2:
                import crc32c  # not at the start of the program: it asks for its own version

                computed = crc32c.crc32c(view[self.start + CRC_START : self.end])
            else:
                computed = isal_zlib.crc32(view[self.start + legacy.CRC_START : self.end])
            self._crc_valid = bool(computed == self.crc)
        return self._crc_valid

    @property
    def records_start(self) -> int:
        """Position of the first byte after a header of magic 2, in the field."""
        return self.start + HEADER.size

    def payload(self, budget: Budget | None = None) -> InflatedBytes:
        """Return the bytes after the header of magic 2, decompressed; the problem's offset counts in the field.

        :param budget: as for :meth:`read`
        """
        raw = bytes(self.data[self.start + HEADER.size : self.end])
        if not raw or not self.attributes & CODEC_MASK:
            return InflatedBytes(raw)
        plain, problem = inflate(self.codec, raw, budget, magic=2)
        if problem is None:
            return InflatedBytes(plain)
        return InflatedBytes(plain, legacy.moved(problem, self.records_start, "records"))

    def read(self, budget: Budget | None = None) -> DecodedRecords:
        """Decompress and decode. Never raises on malformed bytes: returns the records before an error together with it.

        Nothing is cached: a list of records takes many times the bytes of the batch. If a limit is reached, the
        records before it are returned with a :class:`~dissectors.budget.LimitReached`; if nothing is left of it,
        nothing is decompressed.

        :param budget: budget of the message that contains the batch; None gives the batch a message's budget of its own
        """
        budget = message_budget() if budget is None else budget
        if self.magic != 2:
            return legacy.decode_message(bytes(self.data[self.start : self.end]), self.start, budget)
        count = self.count or 0
        most, name = most_records(budget)
        if count > 0 and not most:
            return DecodedRecords([], (over(name, 0, count, self.start),))
        problem = None
        if self.attributes & CODEC_MASK:
            plain, problem = self.payload(budget)
        else:
            plain = bytes(self.data[self.start + HEADER.size : self.end])
        rows, fault = decode_records(plain, count, self.base_offset, self.base_timestamp, most, name)
        budget.spend("message_records", len(rows))
        if self.attributes & LOG_APPEND:
            stamp = self.max_timestamp
            rows = [Record(offset, stamp, key, value, headers) for offset, _, key, value, headers in rows]
        if problem is None and fault is None:
            return DecodedRecords(rows)
        problems = [] if problem is None else [problem]
        # If decompression broke off, the records end early: that is a consequence of the same error.
        if fault is not None and not (problems and fault.truncated):
            problems.append(self.located(fault))
        return DecodedRecords(rows, tuple(problems))

    def located(self, fault: DecodeError) -> DecodeError:
        """Return an error in the bytes of :meth:`payload` as an error in the field.

        It is never a truncation: the batch is whole, only its content is not.
        """
        fault.truncated = False
        if self.codec == Codec.NONE:
            return legacy.moved(fault, self.records_start)
        return legacy.decompressed(fault)

    def records(self, budget: Budget | None = None) -> list[Record]:
        """Return all records.

        :param budget: as for :meth:`read`
        :raises DecodeError: if anything is wrong with them; :meth:`read` returns those that can be decoded
        """
        records, problems = self.read(budget)
        if problems:
            raise problems[0]
        return records
