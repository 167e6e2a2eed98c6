"""Record sets as lists of batches of records, in the stable shape that ``kproxy read --json`` documents."""

from __future__ import annotations

from typing import Any, Literal

from dissectors import embedded
from dissectors.errors import DecodeError
from dissectors.records import DEFAULT_LIMITS, Batch, Codec, Limits, Record, control_record, record_set

Payload = Literal["full", "preview", "none"]

PREVIEW_BYTES = 64


class RecordValues:
    """Reads ``records`` fields for display.

    :param limits: bounds of decompression
    :param payload: ``full`` gives records whole, ``preview`` the first 64 bytes of keys, values and headers,
        ``none`` only the batch headers, without decompressing anything
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, payload: Payload = "full") -> None:
        self.limits = limits
        self.payload = payload

    def show(
        self, data: bytes, path: str, topic: str | None, decoded: dict[str, Any], *, aligned: bool = True
    ) -> tuple[list[dict[str, Any]], list[DecodeError]]:
        """Return the batches of a records field, and what was wrong with them.

        :param path: path of the field, for what goes into ``decoded``: inner protocols of internal topics and
            control records, and how the field ends where it ends inside a batch
        :param topic: name of the topic, if known
        """
        found = record_set(data, aligned=aligned)
        problems = list(found.problems)
        shown = []
        for index, batch in enumerate(found.batches):
            shown.append(self._batch(batch, f"{path}[{index}]", topic, decoded, problems))
        if found.trailing is not None:
            decoded[path] = {
                "ends_with": found.trailing.kind,
                "bytes": found.trailing.size,
                "announced": found.trailing.announced,
            }
        elif found.leading:
            decoded[path] = {"begins_inside_a_batch": True, "bytes": found.leading}
        return shown, problems

    def _batch(
        self,
        batch: Batch,
        path: str,
        topic: str | None,
        decoded: dict[str, Any],
        problems: list[DecodeError],
    ) -> dict[str, Any]:
        if not batch.crc_valid:
            problems.append(DecodeError("the checksum of the batch does not fit its bytes", batch.start))
        records: list[Record] = []
        count = batch.count
        if self.payload != "none":
            read = batch.read(self.limits)
            records = read.records
            problems.extend(read.problems)
            count = len(records) if count is None else count
            if batch.control:
                _control_records(records, path, decoded)
            elif topic in embedded.INTERNAL_TOPICS:
                _internal_records(records, path, str(topic), decoded)
        base_offset: int | None = batch.base_offset
        if batch.magic < 2 and batch.codec is not Codec.NONE:
            # the wrapper has the offset of its last message; only what it wraps tells that of the first
            base_offset = records[0].offset if records else None
        return {
            "base_offset": base_offset,
            "last_offset": batch.last_offset,
            "magic": batch.magic,
            "codec": batch.codec.name.lower(),
            "crc_valid": batch.crc_valid,
            "timestamp_type": batch.timestamp_type,
            "base_timestamp": batch.base_timestamp,
            "max_timestamp": batch.max_timestamp,
            "partition_leader_epoch": batch.partition_leader_epoch,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "transactional": batch.transactional,
            "control": batch.control,
            "size": batch.size,
            "count": count,
            "records": [self._record(record) for record in records],
        }

    def _record(self, record: Record) -> dict[str, Any]:
        offset, timestamp, key, value, headers = record
        if self.payload == "preview":
            key, value = _preview(key), _preview(value)
            headers = tuple((name, _preview(data)) for name, data in headers)
        return {
            "offset": offset,
            "timestamp": timestamp,
            "key": key,
            "value": value,
            "headers": [{"key": name, "value": data} for name, data in headers],
        }


def _preview(data: bytes | None) -> bytes | None:
    return data if data is None else data[:PREVIEW_BYTES]


def _control_records(records: list[Record], path: str, decoded: dict[str, Any]) -> None:
    for index, record in enumerate(records):
        try:
            control = control_record(record.key, record.value)
        except DecodeError as error:
            decoded[f"{path}.records[{index}]"] = {"control": None, "reason": str(error)}
            continue
        shown: dict[str, Any] = {"control": control.type_name}
        if control.coordinator_epoch is not None:
            shown["coordinator_epoch"] = control.coordinator_epoch
        inner = embedded.control_value(control.type_name, control.value)
        if inner is not None:
            shown["value"] = inner.value
        decoded[f"{path}.records[{index}]"] = shown


def _internal_records(records: list[Record], path: str, topic: str, decoded: dict[str, Any]) -> None:
    for index, record in enumerate(records):
        inner = embedded.internal_topic_record(topic, record.key, record.value)
        if inner is not None:
            decoded[f"{path}.records[{index}]"] = inner.value
