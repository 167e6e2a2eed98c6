"""Record sets as lists of batches of records, in the stable shape that ``kproxy read --json`` documents."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dissectors import embedded
from dissectors.budget import Budget, LimitReached, message_budget
from dissectors.codec import CODEC_LABELS
from dissectors.errors import DecodeError
from dissectors.masks import UNDECODED
from dissectors.records import Batch, Record, control_record, record_set

Payload = Literal["full", "preview", "none"]

PREVIEW_BYTES = 64


class RecordNotes(msgspec.Struct):
    """Annotations that accompany record sets.

    :ivar decoded: facts beyond the records' bytes, by field path
    :ivar masked: paths of values that were replaced by None because they are secret
    :ivar problems: what was wrong; offsets count from the start of the records field
    """

    decoded: dict[str, Any]
    masked: list[str]
    problems: list[DecodeError] = []


class RecordValues:
    """Converts ``records`` fields for display.

    :param payload: ``full`` gives records whole, ``preview`` the first 64 bytes of keys, values and headers,
        ``none`` only the batch headers, without decompressing anything
    :param show_secrets: leave credentials in records of internal topics readable
    """

    def __init__(self, payload: Payload = "full", *, show_secrets: bool = False) -> None:
        self.payload = payload
        self.show_secrets = show_secrets

    def show(
        self,
        data: bytes,
        path: str,
        topic: str | None,
        notes: RecordNotes,
        *,
        aligned: bool = True,
        budget: Budget | None = None,
    ) -> list[dict[str, Any]]:
        """Return the batches of a records field. Batches beyond a limit have headers only.

        :param path: path of the field
        :param topic: name of the topic, if known
        :param notes: collects the inner protocols of internal topics and control records, how the field ends if it ends
            inside a batch, and what was wrong
        :param budget: budget of the message that contains the field; None gives the field a message's budget of its own
        """
        budget = message_budget() if budget is None else budget
        found = record_set(data, budget, aligned=aligned)
        before = len(notes.problems)
        notes.problems.extend(found.problems)
        beyond: list[LimitReached] = []
        shown = [
            self._batch(batch, f"{path}[{index}]", topic, notes, budget, beyond)
            for index, batch in enumerate(found.batches)
        ]
        if beyond:
            first = beyond[0]
            more = f"; {len(beyond) - 1:,} more batches are beyond it" if len(beyond) > 1 else ""
            notes.problems.append(first.moved(first.offset, first.field_path, first.reason + more))
        if found.trailing is not None:
            notes.decoded[path] = {
                "ends_with": found.trailing.kind,
                "bytes": found.trailing.size,
                "announced": found.trailing.announced,
            }
        elif found.leading:
            notes.decoded[path] = {"begins_inside_a_batch": True, "bytes": found.leading}
        unread = len(notes.problems) > before or found.trailing is not None or found.leading
        if unread and not self.show_secrets and embedded.topic_may_hold_secrets(topic):
            notes.masked.append(f"{path}.{UNDECODED}")
        return shown

    def _batch(
        self,
        batch: Batch,
        path: str,
        topic: str | None,
        notes: RecordNotes,
        budget: Budget,
        beyond: list[LimitReached],
    ) -> dict[str, Any]:
        """Return one batch.

        :param beyond: collects limits reached, apart from the other problems, because thousands of batches may exceed
            one
        """
        if not batch.crc_valid:
            notes.problems.append(DecodeError("the batch's checksum does not match its bytes", batch.start))
        codec, timestamp_type, transactional, control = batch.traits
        records: list[Record] = []
        count = batch.count
        if self.payload != "none":
            read = batch.read(budget)
            for problem in read.problems:
                (beyond if isinstance(problem, LimitReached) else notes.problems).append(problem)
            records = self._shown_records(read.records, path, topic, notes, control=control)
            count = len(records) if count is None else count
        base_offset: int | None = batch.base_offset
        if batch.magic < 2 and codec:
            # a wrapper has the offset of its last message; only the wrapped messages tell that of the first
            base_offset = records[0].offset if records else None
        return {
            "base_offset": base_offset,
            "last_offset": batch.last_offset,
            "magic": batch.magic,
            "codec": CODEC_LABELS[codec],
            "crc_valid": batch.crc_valid,
            "timestamp_type": timestamp_type,
            "base_timestamp": batch.base_timestamp,
            "max_timestamp": batch.max_timestamp,
            "partition_leader_epoch": batch.partition_leader_epoch,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "transactional": transactional,
            "control": control,
            "size": batch.end - batch.start,
            "count": count,
            "records": [
                {
                    "offset": offset,
                    "timestamp": timestamp,
                    "key": key,
                    "value": value,
                    "headers": [{"key": name, "value": data} for name, data in headers] if headers else [],
                }
                for offset, timestamp, key, value, headers in records
            ],
        }

    def _shown_records(
        self, records: list[Record], path: str, topic: str | None, notes: RecordNotes, *, control: bool
    ) -> list[Record]:
        """Return the records of a batch without secrets, as long as they are shown."""
        if control:
            _control_records(records, path, notes)
        elif topic in embedded.INTERNAL_TOPICS:
            records = self._internal_records(records, path, str(topic), notes)
        return [_with_previews(record) for record in records] if self.payload == "preview" else records

    def _internal_records(
        self, records: list[Record], path: str, topic: str, notes: RecordNotes
    ) -> list[Record]:
        """Decode the records of an internal topic; return them without the values that hold secrets."""
        kept = []
        for index, record in enumerate(records):
            here = f"{path}.records[{index}]"
            inner = embedded.internal_topic_record(
                topic, record.key, record.value, show_secrets=self.show_secrets
            )
            if inner is not None:
                notes.decoded[here] = inner.value
                notes.decoded.update({f"{here}.{where}": name for where, name in inner.names.items()})
                notes.problems.extend(DecodeError(why, at, where) for at, where, why in inner.problems)
                if inner.masked:
                    notes.masked.extend([f"{here}.value", *(f"{here}.{where}" for where in inner.masked)])
                    record = record._replace(value=None)
            kept.append(record)
        return kept


def _with_previews(record: Record) -> Record:
    headers = tuple((name, _preview(data)) for name, data in record.headers)
    return record._replace(key=_preview(record.key), value=_preview(record.value), headers=headers)


def _preview(data: bytes | None) -> bytes | None:
    return data if data is None else data[:PREVIEW_BYTES]


def _control_records(records: list[Record], path: str, notes: RecordNotes) -> None:
    for index, record in enumerate(records):
        try:
            control = control_record(record.key, record.value)
        except DecodeError as error:
            notes.problems.append(error)
            continue
        shown: dict[str, Any] = {"control": control.type_name}
        if control.coordinator_epoch is not None:
            shown["coordinator_epoch"] = control.coordinator_epoch
        inner = embedded.control_value(control.type_name, control.value)
        if inner is not None:
            shown["value"] = inner.value
        notes.decoded[f"{path}.records[{index}]"] = shown
