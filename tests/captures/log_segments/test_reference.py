"""Log segments of real brokers and dumps of Kafka's own tool, made by :mod:`tests.lanes.log_segments`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from captures.analysis.records import LoggedRecord, RecordSelection
from captures.analysis.records.log_listing import LogListing
from captures.faults import Faults
from captures.log_segments import LogSurvey, StoredBatch, partition_logs, read_segment
from tests.kafka_dumps import DumpedRecord, dumped

DATA = Path(__file__).parents[2] / "data" / "log_segments"
PARTITIONS = sorted(path.name for path in DATA.iterdir() if path.is_dir())


@pytest.mark.parametrize("partition", PARTITIONS)
def test_batches_and_records_are_those_of_kafkas_tool(partition: str) -> None:
    assert compare(DATA / partition)


def compare(partition: Path) -> int:
    """Compare a partition's folder with the dump beside it; return the number of records."""
    (log,) = partition_logs([str(partition)])
    dump = list(dumped(partition.with_suffix(".dump").read_text()))
    stored = [(path, part) for path in log.segments for part in read_segment(path)]
    assert len(stored) == len(dump)
    for (path, part), batch in zip(stored, dump, strict=True):
        assert isinstance(part, StoredBatch)
        assert batch.file == f"{partition.name}/{path.name}"
        ours = header(part)
        assert ours == {name: batch.fields[name] for name in ours}
    records = list(LogListing(RecordSelection(), Faults(), show_secrets=True).of(LogSurvey(log)))
    theirs = [record for batch in dump for record in batch.records]
    assert len(records) == len(theirs)
    for record, reference in zip(records, theirs, strict=True):
        same_record(record, reference)
    return len(records)


def header(stored: StoredBatch) -> dict[str, str]:
    """Return the header of a batch as the tool prints it."""
    batch = stored.batch
    horizon = batch.base_timestamp if batch.attributes & 1 << 6 else None  # KIP-534
    if batch.magic < 2:
        values = {
            "offset": batch.base_offset,
            "position": stored.position,
            "size": batch.size,
            "magic": batch.magic,
            "compresscodec": batch.codec.label,
            "crc": batch.crc,
            "isvalid": "true",
        }
        if batch.magic:
            values["CreateTime"] = batch.max_timestamp
        return {name: str(value) for name, value in values.items()}
    values = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.count,
        "baseSequence": batch.base_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": str(batch.transactional).lower(),
        "isControl": str(batch.control).lower(),
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        "position": stored.position,
        "CreateTime": batch.max_timestamp,
        "size": batch.size,
        "magic": batch.magic,
        "compresscodec": batch.codec.label,
        "crc": batch.crc,
        "isvalid": "true",
    }
    return {name: str(value) for name, value in values.items()}


def same_record(ours: LoggedRecord, theirs: DumpedRecord) -> None:
    """Compare a record with the tool's."""
    record = ours.record
    sizes = (-1 if part is None else len(part) for part in (record.key, record.value))
    names = [header.partition(":")[0] for header in theirs.headers]
    assert (ours.offset, record.timestamp, *sizes) == (
        theirs.offset,
        theirs.timestamp,
        theirs.key_size,
        theirs.value_size,
    )
    assert [name for name, _ in record.headers] == names
    if ours.control in ("COMMIT", "ABORT"):
        assert (
            theirs.rest
            == f"endTxnMarker: {ours.control} coordinatorEpoch: {(ours.decoded or {})['coordinator_epoch']}"
        )
    elif ours.control is not None:
        assert ours.control.replace("_", "") in theirs.rest.upper()
    elif ours.decoded is not None:
        same_fields(ours.decoded, theirs.rest)
    else:
        parts = (("key", record.key), ("payload", record.value))
        texts = [f"{name}: {part.decode()}" for name, part in parts if part is not None]
        assert theirs.rest == " ".join(texts).strip()


def same_fields(decoded: dict[str, Any], rest: str) -> None:
    """Compare the fields of an internal record: by name, and by value where the value has no bytes or UUID in it."""
    for name, own in (("key", "key"), ("payload", "value")):
        found = re.search(rf"{name}: (\{{.*?\}})(?= payload: |$)", rest)
        if found is None:
            continue
        fields = json.loads(found[1])["data"]
        values = decoded[own]
        assert {snake(key) for key in fields} == set(values)
        for key, value in fields.items():
            if not isinstance(value, str | list):
                assert values[snake(key)] == value, key


def snake(name: str) -> str:
    """Return Kafka's name in our notation."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)
