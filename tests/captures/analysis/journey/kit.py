"""Synthetic exchanges of producers and consumers of topic ``orders-eu``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from captures.analysis.journey import JourneyResult, Journeys, RecordQuery
from captures.exchanges import Exchange
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis.kit import MS, exchange, unanswered

TOPIC = "orders-eu"
BEGIN = 1_000_000_000


def batch(*values: str, base: int = 0, timestamp: int = 5, **header: Any) -> bytes:
    """Return a batch of records with key ``k``, one for each value."""
    records = [Record(base + index, timestamp, b"k", value.encode()) for index, value in enumerate(values)]
    return build_batch(records, **header)


def produce(
    records: bytes | None,
    base: int | None = None,
    *,
    at: int = 0,
    error: int = 0,
    acks: int = -1,
    topic: str = TOPIC,
    **fields: Any,
) -> Exchange:
    """Make a Produce, sent this many ms after the beginning; without a base offset it is not answered."""
    data = [{"name": topic, "partition_data": [{"index": 3, "records": records}]}]
    request = {"transactional_id": fields.pop("transaction", None), "acks": acks, "topic_data": data}
    fields |= {"time": BEGIN + at * MS, "number": fields.get("number", at + 1)}
    if base is None and not error:
        return unanswered(0, 9, request=request, **fields)
    told = [{"index": 3, "error_code": error, "base_offset": -1 if base is None else base}]
    response = {"responses": [{"name": topic, "partition_responses": told}]}
    return exchange(0, 9, request=request, response=response, **fields)


def fetch(
    offset: int,
    records: bytes | None,
    *,
    at: int = 0,
    client: str = "eater",
    connection: int = 7,
    replica: int = -1,
    isolation: int = 0,
    ends: tuple[int, int] = (-1, -1),
    topic: Any = None,
    **fields: Any,
) -> Exchange:
    """Make a Fetch, answered 2 ms after it was sent."""
    name = topic or {"topic": TOPIC}
    asked = [name | {"partitions": [{"partition": 3, "fetch_offset": offset}]}]
    request = {
        "replica_id": replica,
        "isolation_level": isolation,
        "session_epoch": -1,
        "topics": asked,
        "forgotten_topics_data": [],
    }
    row = {
        "partition_index": 3,
        "error_code": 0,
        "high_watermark": ends[0],
        "last_stable_offset": ends[1],
        "records": records,
    }
    response = {"session_id": 0, "responses": [name | {"partitions": [row]}]}
    fields |= {"time": BEGIN + at * MS, "number": fields.get("number", at + 1), "connection": connection}
    return exchange(
        1, 11, request=request, response=response, client_id=client, client="10.0.0.8:5000", **fields
    )


def commit(
    offset: int, *, at: int = 0, group: str = "g", client: str = "eater", error: int = 0, **fields: Any
) -> Exchange:
    """Make an OffsetCommit of a member ``m-1``, answered 2 ms after it was sent."""
    rows = [{"partition_index": 3, "committed_offset": offset}]
    request = {"group_id": group, "member_id": "m-1", "topics": [{"name": TOPIC, "partitions": rows}]}
    done = [{"partition_index": 3, "error_code": error}]
    response = {"topics": [{"name": TOPIC, "partitions": done}]}
    fields |= {"time": BEGIN + at * MS, "number": fields.get("number", at + 1), "connection": 8}
    return exchange(
        8, 8, request=request, response=response, client_id=client, client="10.0.0.8:5001", **fields
    )


def told(sought: RecordQuery, exchanges: Sequence[Exchange], names: Any = lambda _: None) -> JourneyResult:
    """Return the journeys of the records sought in exchanges."""
    journeys = Journeys(sought, names)
    for each in exchanges:
        journeys.add(each)
    return journeys.result()
