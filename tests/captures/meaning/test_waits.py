"""The distinction of designed waits and slowness."""

from __future__ import annotations

from typing import Any

import pytest

from captures.meaning import designed_wait_ns
from dissectors.records import Record
from dissectors.records.build import build_batch
from dissectors.session_context import CLUSTER_METADATA_ID

MS = 1_000_000
FETCH, JOIN, SYNC, PRODUCE, SHARE_FETCH = 1, 11, 14, 0, 78


def batch(first: int, count: int = 1) -> bytes:
    records = [Record(first + n, 1_700_000_000_000, None, b"v", ()) for n in range(count)]
    return bytes(build_batch(records))


def poll(**fields: Any) -> dict[str, Any]:
    return {"max_wait_ms": 500, "min_bytes": 1, "topics": [], **fields}


def answer(records: bytes = b"", high_watermark: int = 120, code: int = 0, **fields: Any) -> dict[str, Any]:
    row = {"partition_index": 0, "error_code": code, "high_watermark": high_watermark, "records": records}
    return {"error_code": 0, "responses": [{"topic": "orders", "partitions": [row]}], **fields}


CASES: list[tuple[str, int, int, dict[str, Any], dict[str, Any], int, int]] = [
    # what, key, version, request, response, latency in ms, designed wait in ms
    ("empty long poll", FETCH, 12, poll(), answer(), 500, 500),
    ("late beyond max_wait", FETCH, 12, poll(), answer(), 900, 500),
    ("incremental, nothing listed", FETCH, 12, poll(), {"error_code": 0, "responses": []}, 400, 400),
    ("less than min_bytes", FETCH, 12, poll(min_bytes=1000), answer(batch(5), 120), 500, 500),
    ("one new batch at the end of the log", FETCH, 12, poll(), answer(batch(119)), 300, 300),
    ("a backlog has nothing to wait for", FETCH, 12, poll(), answer(batch(5)), 300, 0),
    ("several batches were there before", FETCH, 12, poll(), answer(batch(118) + batch(119)), 300, 0),
    ("min_bytes 0 never waits", FETCH, 12, poll(min_bytes=0), answer(), 500, 0),
    (
        "but the quorum does (KafkaRaftClient sends min_bytes 0)",
        FETCH,
        18,
        poll(min_bytes=0, topics=[{"topic_id": CLUSTER_METADATA_ID, "partitions": [{"partition": 0}]}]),
        answer(batch(1) + batch(2)),
        454,
        454,
    ),
    ("an error comes at once", FETCH, 12, poll(), answer(code=1), 300, 0),
    ("a moved leader ends the poll", FETCH, 12, poll(), answer(code=6), 300, 300),
    ("session error", FETCH, 12, poll(), {"error_code": 70, "responses": []}, 300, 0),
    ("too short to be called a wait", FETCH, 12, poll(), answer(), 4, 0),
    ("throttled, old broker", FETCH, 4, poll(max_wait_ms=100), answer(throttle_time_ms=800), 820, 800),
    (
        "throttled, new broker answers at once",
        PRODUCE,
        9,
        {},
        {"throttle_time_ms": 800, "responses": []},
        20,
        0,
    ),
    ("throttled produce, old broker", PRODUCE, 3, {}, {"throttle_time_ms": 800, "responses": []}, 810, 800),
    ("acks=all cannot be told", PRODUCE, 9, {"acks": -1}, {"responses": []}, 900, 0),
    ("share poll", SHARE_FETCH, 1, poll(), answer(), 500, 500),
    ("share poll, new record", SHARE_FETCH, 1, poll(), answer(batch(7)), 165, 165),
    (
        "members join",
        JOIN,
        5,
        {"rebalance_timeout_ms": 300_000},
        {"generation_id": 42, "error_code": 0},
        12_974,
        12_974,
    ),
    (
        "version 0 knows the session only",
        JOIN,
        0,
        {"session_timeout_ms": 6_000},
        {"generation_id": 2},
        7_000,
        6_000,
    ),
    ("member ID first", JOIN, 5, {"rebalance_timeout_ms": 300_000}, {"error_code": 79}, 50, 0),
    ("overtaken while waiting", JOIN, 5, {"rebalance_timeout_ms": 300_000}, {"error_code": 27}, 5_000, 5_000),
    ("follower waits for its leader", SYNC, 5, {"assignments": []}, {"error_code": 0}, 200, 200),
    (
        "the leader waits for nobody",
        SYNC,
        5,
        {"assignments": [{"member_id": "m"}]},
        {"error_code": 0},
        200,
        0,
    ),
    ("heartbeat", 12, 4, {}, {"error_code": 0}, 200, 0),
]


@pytest.mark.parametrize(("what", "key", "version", "request_body", "response", "latency", "wait"), CASES)
def test_wait(
    what: str,
    key: int,
    version: int,
    request_body: dict[str, Any],
    response: dict[str, Any],
    latency: int,
    wait: int,
) -> None:
    found, why = designed_wait_ns(key, version, request_body, response, latency * MS)
    assert found == wait * MS, what
    assert bool(why) == bool(wait)


def test_first_generation_is_named() -> None:
    wait = designed_wait_ns(JOIN, 5, {"rebalance_timeout_ms": 300_000}, {"generation_id": 1}, 3_000 * MS)
    assert wait == (3_000 * MS, "first generation: group.initial.rebalance.delay.ms")


def test_nothing_is_known_without_response_or_latency() -> None:
    assert designed_wait_ns(FETCH, 12, poll(), None, 500 * MS) == (0, "")
    assert designed_wait_ns(FETCH, 12, poll(), answer(), -1) == (0, "")
    assert designed_wait_ns(FETCH, 12, None, answer(), 500 * MS) == (0, "")
