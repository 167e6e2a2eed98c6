"""Producer IDs inside record batches.

The producer ID and epoch of a batch are in its header, in the part that its checksum covers
(``DefaultRecordBatch.java``); nothing else in the batch depends on them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import crc32c

from dissectors.records import Batch, record_set
from dissectors.records.batch import CRC_START, HEADER_AT

Producer = tuple[int, int]
"""Producer ID and epoch."""

_CRC = struct.Struct(">I")
_PRODUCER = struct.Struct(">qh")


def with_producers(records: bytes | None, replace: Callable[[Producer], Producer]) -> bytes | None:
    """Return a records field with the producers of its batches replaced and their checksums corrected.

    :param replace: returns the replacement of a producer
    """
    out: bytearray | None = None
    for batch in _batches(records):
        before = batch.producer_id, batch.producer_epoch
        after = replace(before)
        if after == before:
            continue
        if out is None:
            out = bytearray(records or b"")
        _PRODUCER.pack_into(out, batch.start + HEADER_AT["producer_id"], *after)
        crc = crc32c.crc32c(bytes(out[batch.start + CRC_START : batch.end]))
        _CRC.pack_into(out, batch.start + HEADER_AT["crc"], crc)
    return records if out is None else bytes(out)


def _batches(records: bytes | None) -> Iterator[Batch]:
    for batch in record_set(records or b"").batches:
        if batch.magic == 2 and batch.producer_id >= 0 and batch.crc_valid:
            yield batch
