"""Types and meanings of the parts of record batches, which layouts declare instead of messages.

Sources: ``DefaultRecordBatch.java``, ``DefaultRecord.java`` and ``LegacyRecord.java`` of Apache Kafka, KIP-32, KIP-98.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from captures.meaning import words
from dissectors.codec import CODEC_LABELS, CODEC_MASK
from dissectors.records.batch import CONTROL, DELETE_HORIZON, LOG_APPEND, TRANSACTIONAL
from dissectors.trace import Node


class Meaning(NamedTuple):
    """Wire type and explanation of a field."""

    kind: str
    doc: str


_OFFSET = "offset in the partition"
_ATTRIBUTES = (
    "codec, whose clock stamped the records, and whether the batch is transactional or of control records"
)

_BATCH = {
    "base_offset": Meaning("int64", "offset of the first record; in Produce requests 0, the broker sets it"),
    "length": Meaning("int32", "bytes that follow this field"),
    "partition_leader_epoch": Meaning(
        "int32", "term of the leader that appended it, set by the broker; -1 = none"
    ),
    "magic": Meaning("int8", "version of the message format"),
    "crc": Meaning("uint32", "CRC-32C of all that follows"),
    "attributes": Meaning("int16", _ATTRIBUTES),
    "last_offset_delta": Meaning("int32", "offset of the last record, less that of the first"),
    "base_timestamp": Meaning("int64", "what the timestamps of the records count from, in ms since 1970"),
    "max_timestamp": Meaning("int64", "the latest timestamp in it, in ms since 1970; -1 = none"),
    "producer_id": Meaning("int64", "ID of an idempotent producer; -1 = none"),
    "producer_epoch": Meaning("int16", "incarnation of the producer ID; -1 = none"),
    "base_sequence": Meaning("int32", "sequence number of the first record; -1 = none"),
    "records_count": Meaning("int32", "records in the batch"),
    "records": Meaning("records", "the records, compressed together as the attributes say"),
}
_RECORD = {
    "length": Meaning("varint", "bytes of the record that follow"),
    "attributes": Meaning("int8", "not used"),
    "timestamp_delta": Meaning("varlong", "ms since the base timestamp of the batch"),
    "offset_delta": Meaning("varint", "offset, less that of the first record of the batch"),
    "key_length": Meaning("varint", "bytes of the key; -1 = no key"),
    "key": Meaning("bytes", "key of the record"),
    "value_length": Meaning("varint", "bytes of the value; -1 = no value"),
    "value": Meaning("bytes", "value of the record; null marks the key as deleted in compacted topics"),
    "headers_count": Meaning("varint", "headers of the record"),
}
_HEADER = {
    "key_length": Meaning("varint", "bytes of the name"),
    "key": Meaning("bytes", "name of the header"),
    "value_length": Meaning("varint", "bytes of the value; -1 = no value"),
    "value": Meaning("bytes", "value of the header"),
}
_MESSAGE = {
    "offset": Meaning("int64", f"{_OFFSET}; of a compressed set that of its last message"),
    "size": Meaning("int32", "bytes that follow this field"),
    "crc": Meaning("uint32", "CRC-32 of all that follows"),
    "magic": Meaning("int8", "version of the message format"),
    "attributes": Meaning("int8", "codec, and in format 1 whose clock stamped the message"),
    "timestamp": Meaning("int64", "ms since 1970; -1 = none"),
    "key_length": Meaning("int32", "bytes of the key; -1 = no key"),
    "key": Meaning("bytes", "key of the message"),
    "value_length": Meaning("int32", "bytes of the value; -1 = no value"),
    "value": Meaning("bytes", "value of the message, or a whole compressed set of messages"),
}
_TAIL = {
    "unaligned": Meaning("bytes", "the end of a batch whose beginning is elsewhere"),
    "unreadable": Meaning("bytes", "no batch can be read from here on"),
}
_UNKNOWN = Meaning("bytes", "")
_PART = Meaning("bytes", "the beginning of a batch; consumers fetch the rest again")

TIMESTAMPS = frozenset({"base_timestamp", "max_timestamp", "timestamp"})

_OF: Mapping[str, Mapping[str, Meaning]] = {
    "batch": _BATCH,
    "record": _RECORD,
    "record header": _HEADER,
    "message": _MESSAGE,
}


def kind_of(node: Node) -> str:
    """Return the kind of a struct in a records field: ``batch``, ``record``, ``message`` or ``record header``."""
    names = {child.name for child in node.children or ()}
    if "base_offset" in names:
        return "batch"
    if "offset_delta" in names or "timestamp_delta" in names:
        return "record"
    if "crc" in names or "offset" in names:
        return "message"
    return "record header" if "key_length" in names else "record"


def meaning(holder: str, name: str | int) -> Meaning:
    """Return type and meaning of a field.

    :param holder: kind of the struct that contains it, empty beside the batches
    """
    fields = _OF.get(holder)
    if fields is None:
        return _TAIL.get(str(name), _PART)
    return fields.get(str(name), _UNKNOWN)


def note(holder: str, name: str | int, value: Any) -> str:
    """Return the value of a field in words, empty if there is nothing to add."""
    if not isinstance(value, int):
        return ""
    if name == "attributes" and holder in ("batch", "message"):
        return _attributes(value, batch=holder == "batch")
    return words.moment(value) if name in TIMESTAMPS and value >= 0 else ""


def _attributes(value: int, *, batch: bool) -> str:
    flags = [(LOG_APPEND, "LogAppendTime")]
    if batch:
        flags += [(TRANSACTIONAL, "transactional"), (CONTROL, "control"), (DELETE_HORIZON, "delete horizon")]
    found = [CODEC_LABELS[value & CODEC_MASK], *(text for bit, text in flags if value & bit)]
    return ", ".join(found)


def about(kind: str, node: Node, first: int | None = None) -> str:
    """Return a short description of a batch, empty for other structs.

    :param first: offset of its first record if it differs from the batch's field
    """
    if kind != "batch":
        return ""
    values = {child.name: child.value for child in node.children or ()}
    count, attributes = values.get("records_count"), values.get("attributes")
    parts = [] if attributes is None else [_attributes(attributes, batch=True)]
    if count is not None:
        first = values.get("base_offset", 0) if first is None else first
        parts.insert(0, f"{words.counted(count, 'record')} at offset {first}")
    return ", ".join(parts)
