"""Rules that set fields of messages, in records too."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.codec import Codec
from dissectors.frames import decode_request, decode_response
from dissectors.records import Record, record_set
from dissectors.records.build import build_batch
from kproxy.proxy.rules import Rules
from kproxy.proxy.rules.edits import with_body, with_changes
from kproxy.proxy.rules.errors import EditError
from kproxy.proxy.rules.record_edits import batches_of
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import Frame
from tests.kproxy.proxy.rules.frames import FETCH, START, request, response

RECORDS = [
    Record(0, 1_000, b"k0", b"old", (("h", b"1"), ("trace", None))),
    Record(1, 900, None, b"other"),
]
FIRST = build_batch(RECORDS, codec=Codec.GZIP, producer_id=7, producer_epoch=1, base_sequence=40)
SECOND = build_batch(RECORDS[:1], transactional=True)


def produce(records: bytes = FIRST + SECOND) -> Frame:
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": topics}
    return request("Produce", 9, body)


def ruled(rule: str, frame: Frame) -> tuple[bytes | None, dict[str, Any]]:
    """Return a frame after a rule was applied, and the rule's entry in the list of rules."""
    rules = Rules(TopicNames(), lambda: START)
    rules.add(rule)
    verdict = rules.decide(frame)
    return verdict.data, rules.to_json()[0]


def records_in(data: bytes | None) -> bytes:
    assert data is not None
    body = decode_request(data[4:])
    assert body.value is not None
    assert not body.problems
    found = body.value["topic_data"][0]["partition_data"][0]["records"]
    assert isinstance(found, bytes)
    return found


def test_several_fields_of_a_request() -> None:
    fetch = request("Fetch", 4, FETCH)
    data, told = ruled("api == Fetch => set request.max_wait_ms=7, request.topics.topic=123", fetch)
    assert data is not None
    value = decode_request(data[4:]).value
    assert value is not None
    assert value["max_wait_ms"] == 7
    assert {topic["topic"] for topic in value["topics"]} == {"123"}
    assert (told["hits"], told["failure"]) == (1, None)


def test_a_field_of_a_response_by_the_name_of_its_value() -> None:
    asked = request("Heartbeat", 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    answer = response("Heartbeat", 4, {"throttle_time_ms": 0, "error_code": 0}, to=asked)
    rule = "group == g => set response.error_code=rebalance_in_progress, response.throttle_time_ms=5"
    data, told = ruled(rule, answer)
    assert told["side"] == "response"
    assert data is not None
    assert decode_response(data[4:], 12, 4).value == {"throttle_time_ms": 5, "error_code": 27}


@pytest.mark.parametrize("codec", list(Codec)[:5])
def test_values_of_records_with_every_codec(codec: Codec) -> None:
    frame = produce(build_batch(RECORDS, codec=codec, producer_id=7))
    rule = 'topic == orders => set request.topic_data.partition_data.records.records.value={"a": 1}'
    data, _ = ruled(rule, frame)
    (batch,) = record_set(records_in(data)).batches
    assert (batch.crc_valid, batch.codec, batch.producer_id) == (True, codec, 7)
    assert batch.records() == [each._replace(value=b'{"a": 1}') for each in RECORDS]


@pytest.mark.parametrize(
    ("path", "value", "name", "expected"),
    [
        ("records[0].records[1].key", "base64:AAE=", "key", b"\0\1"),
        ("records[0].records[1].value", "null", "value", None),
        ("records[0].records[1].value", "größe, 17", "value", "größe, 17".encode()),
        ("records[0].records[1].timestamp", "5000", "timestamp", 5000),
        ("records[0].records[1].headers", "[]", "headers", []),
    ],
)
def test_one_record(path: str, value: str, name: str, expected: object) -> None:
    frame = produce()
    quoted = f'"{value}"' if "," in value else value
    data, _ = ruled(f"topic == orders => set request.topic_data.partition_data.{path}={quoted}", frame)
    before, after = batches_of(FIRST + SECOND), batches_of(records_in(data))
    before[0]["records"][1][name] = expected
    if name == "timestamp":
        before[0]["max_timestamp"] = expected
    assert after == before
    assert records_in(data).endswith(SECOND)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_message_sets(magic: Any, codec: Codec) -> None:
    rows = [Record(n, -1 if magic == 0 else 1_000 + n, b"k", b"v") for n in range(3)]
    frame = request(
        "Produce",
        2,
        {
            "acks": 1,
            "timeout_ms": 9,
            "topic_data": [
                {
                    "name": "orders",
                    "partition_data": [{"index": 0, "records": build_batch(rows, magic=magic, codec=codec)}],
                }
            ],
        },
    )
    data, _ = ruled(
        "topic == orders => set request.topic_data.partition_data.records.records.value=longer", frame
    )
    found = [row for batch in record_set(records_in(data)).batches for row in batch.records()]
    assert found == [row._replace(value=b"longer") for row in rows]


def test_what_has_changed_is_told_by_record() -> None:
    _, changed = with_changes(
        produce(), {"topic_data[0].partition_data[0].records[1].records[0].value": "new"}
    )
    assert [(each.path, each.sent, each.got) for each in changed] == [
        ("topic_data[0].partition_data[0].records[1].records[0].value", b"old", b"new")
    ]


def test_a_body_with_batches_as_json_shows_them() -> None:
    frame = produce()
    value = decode_request(frame.data[4:]).value
    assert value is not None
    batches = batches_of(FIRST + SECOND)
    batches[0]["records"][0]["value"] = "bmV3"  # base64, like all bytes in JSON
    value["topic_data"][0]["partition_data"][0]["records"] = batches
    data, _ = with_body(frame, value)
    assert [batch.records()[0].value for batch in record_set(records_in(data)).batches] == [b"new", b"old"]


@pytest.mark.parametrize(
    ("records", "changes", "message"),
    [
        (FIRST[:-1] + b"x", {"records[0].records[0].value": "x"}, "could not be read"),
        (FIRST, {"records[0].records[9].value": "x"}, r"there is no .*records\[9\]"),
        (FIRST, {"records[0].count": 3}, "there is no .*count"),
        (FIRST, {"records[0].records[0].timestamp": 1 << 70}, "cannot be built"),
        (FIRST, {"records[0].codec": "zip"}, "cannot be built"),
        (
            build_batch(RECORDS, timestamp_type="log_append"),
            {"records[0].records[0].timestamp": 1},
            "would be another",
        ),
    ],
)
def test_records_that_cannot_be_edited(records: bytes, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EditError, match=message):
        with_changes(
            produce(records),
            {f"topic_data[0].partition_data[0].{path}": new for path, new in changes.items()},
        )


def test_a_rule_that_does_not_fit_lets_the_message_go_on() -> None:
    data, told = ruled("api == Fetch => set request.topics[5].topic=x", request("Fetch", 4, FETCH))
    assert data is None
    assert "there is no topics[5]" in told["failure"]


def test_a_rule_for_fields_that_its_messages_lack_is_refused() -> None:
    with pytest.raises(ValueError, match="has all these fields"):
        Rules(TopicNames()).add("api == Produce => set request.max_wait_ms=1")
