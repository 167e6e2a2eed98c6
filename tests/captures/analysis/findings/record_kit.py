"""Shared code for tests of rules about records and positions: findings of a recording, and synthetic exchanges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captures.analysis.findings.finding import Finding
from captures.analysis.findings.rule import Rule, RuleContext
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.filters import compile_filter
from captures.meaning import errors_in
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis.kit import MS, exchange

DATA = Path(__file__).resolve().parents[3] / "data"

NOW = 1_700_000_000_000 * MS
"""ns since the epoch; also the time of records."""
SECOND = 1_000 * MS


def of_recording(name: str, rule: type[Rule], **limits: float) -> list[Finding]:
    """Return the findings of a rule in a recording of ``tests/data``; its filter must select the evidence."""
    (path,) = (
        path for folder in ("findings", "groups", "clean") for path in (DATA / folder).glob(f"{name}.*")
    )
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    settings = {f"{rule.name}.{limit}": value for limit, value in limits.items()}
    context = RuleContext(capture=capture, names=reader.knowledge.topic_name, timelines=list, limits=settings)
    asked = rule(context)
    for each in reader:
        if each.api_key in (rule.apis or ()):
            asked.add(each)
    found = list(asked.findings())
    for finding in found:
        shown = set((compile_filter(finding.filter).select(reader) + 1).tolist())
        assert finding.evidence
        assert set(finding.evidence) <= shown, finding.filter
        assert len(shown) < len(reader), finding.filter
    return found


def batch(count: int = 1, offset: int = 0, value: bytes = b"v", **how: Any) -> bytes:
    """Return a records field with one batch of `count` records with timestamp :data:`NOW`."""
    how.setdefault("base_timestamp", NOW // MS)
    if how.get("magic", 2) != 2:
        del how["base_timestamp"]
    records = [Record(offset + at, NOW // MS, b"k", value, []) for at in range(count)]
    return build_batch(records, **how)


def made(
    key: int, version: int, request: dict[str, Any], response: dict[str, Any] | None, **fields: Any
) -> Exchange:
    """Make an exchange with the errors of its response."""
    fields.setdefault("errors", errors_in(key, version, response))
    fields.setdefault("time", NOW)
    return exchange(key, version, request=request, response=response, **fields)


def produce(
    *records: bytes,
    topic: str = "orders",
    error: int = 0,
    base: int = 0,
    acks: int = -1,
    transaction: str | None = None,
    version: int = 9,
    **fields: Any,
) -> Exchange:
    """Make a Produce of records fields to partitions 0, 1 ..."""
    return made(
        0,
        version,
        {
            "transactional_id": transaction,
            "acks": acks,
            "topic_data": [
                {
                    "name": topic,
                    "partition_data": [{"index": at, "records": data} for at, data in enumerate(records)],
                }
            ],
        },
        {
            "responses": [
                {
                    "name": topic,
                    "partition_responses": [
                        {"index": at, "error_code": error, "base_offset": base} for at in range(len(records))
                    ],
                }
            ]
        }
        if acks
        else None,
        **fields,
    )


def fetch(
    records: bytes = b"",
    *,
    topic: str = "orders",
    partition: int = 0,
    offset: int = 0,
    end: int = 0,
    stable: int = -1,
    begin: int = -1,
    error: int = 0,
    committed: bool = False,
    most: int = 1 << 20,
    wait: int = 500,
    least: int = 1,
    replica: int = -1,
    version: int = 11,
    **fields: Any,
) -> Exchange:
    """Make a Fetch of one partition."""
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": most}
    told = {
        "partition_index": partition,
        "error_code": error,
        "high_watermark": end,
        "last_stable_offset": stable,
        "log_start_offset": begin,
        "records": records,
    }
    return made(
        1,
        version,
        {
            "replica_id": replica,
            "max_wait_ms": wait,
            "min_bytes": least,
            "isolation_level": int(committed),
            "topics": [{"topic": topic, "partitions": [asked]}],
        },
        {"responses": [{"topic": topic, "partitions": [told]}]},
        **fields,
    )


def list_offsets(
    time: int, offset: int, *, topic: str = "orders", partition: int = 0, **fields: Any
) -> Exchange:
    """Make a ListOffsets of one partition."""
    asked = {"partition_index": partition, "timestamp": time}
    told = {"partition_index": partition, "error_code": 0, "offset": offset}
    return made(
        2,
        5,
        {"topics": [{"name": topic, "partitions": [asked]}]},
        {"topics": [{"name": topic, "partitions": [told]}]},
        **fields,
    )


def offset_fetch(*offsets: int, group: str = "audit", topic: str = "orders", **fields: Any) -> Exchange:
    """Make an OffsetFetch whose response has the offsets of partitions 0, 1 ..."""
    return made(
        9,
        7,
        {"group_id": group, "topics": [{"name": topic, "partition_indexes": list(range(len(offsets)))}]},
        {
            "error_code": 0,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": at, "committed_offset": offset, "error_code": 0}
                        for at, offset in enumerate(offsets)
                    ],
                }
            ],
        },
        **fields,
    )


def commit(
    offset: int,
    *,
    group: str = "audit",
    topic: str = "orders",
    member: str = "m1",
    error: int = 0,
    **fields: Any,
) -> Exchange:
    """Make an OffsetCommit of partition 0."""
    return made(
        8,
        8,
        {
            "group_id": group,
            "member_id": member,
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": offset}]}],
        },
        {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "error_code": error}]}]},
        **fields,
    )


def garbage(key: int, version: int = 9) -> list[Exchange]:
    """Make exchanges like those of damaged captures."""
    bodies: list[dict[str, Any] | None] = [
        None,
        {},
        {"topics": None, "topic_data": None, "responses": None},
        {
            "topics": [None, {}],
            "topic_data": [None, {"name": "t", "partition_data": [None, {}]}],
            "responses": [None],
        },
        {"responses": [{"topic": "t", "partitions": [None, {}, {"partition_index": 1, "records": 7}]}]},
        {
            "topic_data": [{"partition_data": [{"index": 0, "records": b"\x00" * 90}]}],
            "topics": [{"partitions": [3]}],
        },
        {"groups": [None, {"topics": [{"name": "t", "partitions": [{}]}]}], "transaction_states": [None, {}]},
    ]
    pairs = [(request, response) for request in bodies for response in bodies]
    return [
        exchange(key, version, request=request, response=response, latency=None)
        for request, response in pairs
    ]
