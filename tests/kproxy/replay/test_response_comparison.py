"""Two responses compared."""

from __future__ import annotations

from typing import Any

from dissectors import domains
from dissectors.frames import Body, decode_response
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch
from kproxy.replay.response_comparison import EXPECTED_TO_DIFFER, ResponseComparison, compared
from tests.dissectors.values import every_layout
from tests.kproxy.frames import response_frame

FETCH, METADATA, JOIN_GROUP, API_VERSIONS, CREATE_TOKEN = 1, 3, 11, 18, 38
IDS = {"AAAAAAAAAAAAAAAAAAAABQ": "orders", "AAAAAAAAAAAAAAAAAAAABg": "orders"}


def body(key: int, version: int, value: dict[str, Any]) -> Body:
    return decode_response(response_frame(key, version, value)[4:], key, version)


def compare(key: int, version: int, recorded: Any, new: Any, other: int | None = None) -> ResponseComparison:
    return compared(
        body(key, version, recorded), body(key, version if other is None else other, new), IDS.get, IDS.get
    )


def fetched(records: bytes | None, **topic: str) -> dict[str, Any]:
    return {
        "responses": [
            {**topic, "partitions": [{"partition_index": 0, "high_watermark": 9, "records": records}]}
        ]
    }


def test_the_same_is_the_same() -> None:
    value = {"brokers": [{"node_id": 1, "host": "a", "port": 1}], "topics": [{"name": "orders"}]}
    assert compare(METADATA, 12, value, value) == ResponseComparison([], frozenset())


def test_what_has_to_differ_is_told_apart() -> None:
    recorded = {
        "throttle_time_ms": 0,
        "generation_id": 1,
        "leader": "a",
        "member_id": "a",
        "protocol_name": "x",
    }
    new = {"throttle_time_ms": 5, "generation_id": 2, "leader": "b", "member_id": "b", "protocol_name": "y"}
    found = compare(JOIN_GROUP, 5, recorded, new)
    assert [(each.path, each.recorded, each.new) for each in found.found] == [("protocol_name", "x", "y")]
    assert found.expected == {"throttle_time_ms", "generation_id", "leader", "member_id"}


def test_every_field_that_has_to_differ_is_one_of_a_response() -> None:
    names = set()

    def walk(struct: Any) -> None:
        for member in struct.all_members:
            names.add(member.name)
            con = getattr(member.con, "struct", member.con)
            con = getattr(con, "element", con)
            if hasattr(con, "members"):
                walk(con)

    for layout in every_layout():
        if layout.message.kind == "response":
            walk(layout.struct)
    assert names >= EXPECTED_TO_DIFFER.keys()


def test_timestamps_have_to_differ() -> None:
    assert any(
        domain.rest == "timestamp_ms"
        for domain in vars(domains).values()
        if isinstance(domain, domains.Domain)
    )
    recorded = {"issue_timestamp_ms": 1, "expiry_timestamp_ms": 2, "token_id": "t"}
    new = {"issue_timestamp_ms": 11, "expiry_timestamp_ms": 12, "token_id": "t"}
    assert compare(CREATE_TOKEN, 2, recorded, new) == ResponseComparison([], frozenset({"timestamps"}))


def test_topics_are_compared_by_name() -> None:
    one, other = IDS
    assert compare(FETCH, 13, fetched(None, topic_id=one), fetched(None, topic_id=other)).found == []
    assert compare(FETCH, 12, fetched(None, topic="orders"), fetched(None, topic_id=other), 13).found == []
    (difference,) = compare(METADATA, 12, _topic("orders", one, 0), _topic("orders", other, 5)).found
    assert difference.path == "topics[orders].partitions[0].error_code"


def _topic(name: str, topic_id: str, error: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "error_code": error}
    return {"topics": [{"name": name, "topic_id": topic_id, "partitions": [partition]}]}


def test_records_are_compared_by_what_they_hold() -> None:
    records = [Record(0, 1, b"k", b"v", [("h", b"1")]), Record(1, 1, None, b"w", [])]
    later = [record._replace(offset=record.offset + 40, timestamp=99) for record in records]
    plain, packed = build_batch(records), build_batch(later, codec=Codec.ZSTD)
    assert compare(FETCH, 12, fetched(plain, topic="t"), fetched(packed, topic="t")).found == []
    (difference,) = compare(FETCH, 12, fetched(plain, topic="t"), fetched(None, topic="t")).found
    assert difference.path == "responses[t].partitions[0].records"
    assert difference.recorded.startswith("2 records, checksum ")
    other = build_batch([records[0], records[1]._replace(value=b"W")])
    assert compare(FETCH, 12, fetched(plain, topic="t"), fetched(other, topic="t")).found


def test_keys_are_not_taken_for_values() -> None:
    one, other = build_batch([Record(0, 1, b"ab", b"c")]), build_batch([Record(0, 1, b"a", b"bc")])
    assert compare(FETCH, 12, fetched(one, topic="t"), fetched(other, topic="t")).found
    nothing, empty = build_batch([Record(0, 1, None, b"-")]), build_batch([Record(0, 1, b"-", None)])
    assert compare(FETCH, 12, fetched(nothing, topic="t"), fetched(empty, topic="t")).found


def test_what_one_version_has_alone_is_not_compared() -> None:
    recorded = {"brokers": [{"node_id": 1, "host": "a", "port": 1}], "topics": [{"name": "orders"}]}
    new = recorded | {"cluster_id": "x", "controller_id": 1, "throttle_time_ms": 3}
    assert compare(METADATA, 0, recorded, new, 13).found == []


def test_a_tagged_field_at_its_default_is_as_good_as_absent() -> None:
    present = {"supported_features": [], "zk_migration_ready": False}
    assert compare(API_VERSIONS, 3, present, {}).found == []
    assert compare(API_VERSIONS, 3, {}, {"zk_migration_ready": True}).found


def test_secrets_are_not_shown() -> None:
    recorded, new = {"hmac": b"one", "token_id": "t"}, {"hmac": b"two", "token_id": "t"}
    assert compare(CREATE_TOKEN, 2, recorded, new).found == []
