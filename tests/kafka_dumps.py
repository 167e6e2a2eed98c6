"""Dumps of log segments by Kafka's own tool, as a reference: ``org.apache.kafka.tools.DumpLogSegments``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FIELD = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?:(?:CreateTime|LogAppendTime|NoTimestampType): (?P<time>-?\d+) )?"
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r"(?: sequence: -?\d+)?(?: isValid: true crc: \d+)?"
    r"(?: headerKeys: \[(?P<headers>[^\]]*)\])?(?P<rest>.*)",
    re.DOTALL,
)


class DumpedRecord(NamedTuple):
    """A record: offset, ms, sizes (-1 for null), header names, and the rest of the line."""

    offset: int
    timestamp: int
    key_size: int
    value_size: int
    headers: list[str]
    rest: str


class DumpedBatch(NamedTuple):
    """A batch: the file, its fields as printed, and its records."""

    file: str
    fields: dict[str, str]
    records: list[DumpedRecord]


def dumped(text: str) -> Iterator[DumpedBatch]:
    """Yield the batches of a dump with ``--deep-iteration``."""
    file, batch = "", None
    for line in text.splitlines():
        if line.startswith("Dumping "):
            file = line.removeprefix("Dumping ")
        elif line.startswith(("baseOffset: ", "offset: ")):
            if batch is not None:
                yield batch
            batch = DumpedBatch(file, dict(_FIELD.findall(line)), [])
        elif found := _RECORD.match(line):
            assert batch is not None
            sizes = int(found["key_size"]), int(found["value_size"])
            headers = found["headers"].split(",") if found["headers"] else []
            rest = found["rest"].strip()
            batch.records.append(
                DumpedRecord(int(found["offset"]), int(found["time"] or -1), *sizes, headers, rest)
            )
    if batch is not None:
        yield batch
