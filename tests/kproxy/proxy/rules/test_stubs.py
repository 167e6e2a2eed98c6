from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader
from kio.static.constants import EntityType

from dissectors import apis, wire
from dissectors.frames import decode_response
from kproxy.proxy.rules.stubs import NODE_ID, stub_answer
from tests.kproxy.proxy.rules.frames import known, request_bytes

HERE = ("127.0.0.1", 19_092)
UNKNOWN_TOPIC_ID, UNSUPPORTED_VERSION = 100, 35


def answered(name: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer, decoded to its last byte by kproxy, and by kio if it has the version."""
    answer = stub_answer(request_bytes(name, version, body), HERE)
    assert answer is not None
    key = known(name).key
    kinds = schema_name_map[api_key_map[key]].get(version, {})
    if EntityType.response in kinds:
        schema = resolve_name(kinds[EntityType.response])
        header, header_size = entity_reader(schema.__header_schema__)(answer, 4)
        _, size = entity_reader(schema)(answer, 4 + header_size)
        assert header.correlation_id == 42
        assert 4 + header_size + size == len(answer)
    read = decode_response(answer[4:], key, version)
    assert read.value is not None
    assert not read.problems
    assert not read.guess
    return read.value


@pytest.mark.parametrize("version", list(known("ApiVersions").request.versions))
def test_versions_are_those_that_clients_may_ask_brokers_for(version: int) -> None:
    value = answered("ApiVersions", version, {})
    assert value["error_code"] == 0
    offered = {row["api_key"]: (row["min_version"], row["max_version"]) for row in value["api_keys"]}
    assert offered[0] == (0, 13)
    assert offered[18] == (0, 5)
    assert apis.keys_by_name()["vote"] not in offered
    assert apis.keys_by_name()["leaderandisr"] not in offered
    assert apis.keys_by_name()["pushtelemetry"] not in offered
    assert apis.keys_by_name()["createtopics"] in offered


def test_an_unknown_version_of_apiversions_falls_back_as_with_a_broker() -> None:
    frame = bytearray(request_bytes("ApiVersions", 5, {}))
    frame[6:8] = (9).to_bytes(2)
    answer = stub_answer(bytes(frame), HERE)
    assert answer is not None
    body = decode_response(answer[4:], 18, 9)
    assert body.version == 0
    assert body.value == {
        "error_code": UNSUPPORTED_VERSION,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 5}],
    }


@pytest.mark.parametrize("version", list(known("Metadata").request.versions))
def test_every_topic_that_is_asked_for_has_one_partition_here(version: int) -> None:
    topics = [{"name": "orders"}, {"name": "events"}]
    value = answered("Metadata", version, {"topics": topics})
    (broker,) = value["brokers"]
    assert (broker["node_id"], broker["host"], broker["port"]) == (NODE_ID, *HERE)
    assert [topic["name"] for topic in value["topics"]] == ["orders", "events"]
    for topic in value["topics"]:
        (partition,) = topic["partitions"]
        assert (partition["partition_index"], partition["leader_id"], partition["error_code"]) == (
            0,
            NODE_ID,
            0,
        )
        assert topic["error_code"] == 0
    if version >= 10:
        ids = {topic["topic_id"] for topic in value["topics"]}
        assert len(ids) == 2
        assert wire.ZERO_UUID not in ids
        assert ids == {
            topic["topic_id"] for topic in answered("Metadata", version, {"topics": topics})["topics"]
        }


@pytest.mark.parametrize("version", range(1, 14))
def test_there_are_no_topics_of_its_own(version: int) -> None:
    assert answered("Metadata", version, {"topics": None})["topics"] == []


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_a_topic_id_is_unknown(version: int) -> None:
    topic_id = wire.uuid_text(bytes(range(16)))
    value = answered("Metadata", version, {"topics": [{"name": None, "topic_id": topic_id}]})
    (topic,) = value["topics"]
    assert (topic["error_code"], topic["topic_id"], topic["partitions"]) == (UNKNOWN_TOPIC_ID, topic_id, [])


@pytest.mark.parametrize("version", list(known("FindCoordinator").request.versions))
def test_the_coordinator_is_here(version: int) -> None:
    value = answered("FindCoordinator", version, {"key": "g", "coordinator_keys": ["g", "h"]})
    rows = value["coordinators"] if version >= 4 else [value]
    assert {(row["node_id"], row["host"], row["port"], row["error_code"]) for row in rows} == {
        (NODE_ID, *HERE, 0)
    }
    if version >= 4:
        assert [row["key"] for row in rows] == ["g", "h"]


@pytest.mark.parametrize("version", list(known("InitProducerId").request.versions))
def test_producers_get_an_id(version: int) -> None:
    value = answered("InitProducerId", version, {"transactional_id": None, "transaction_timeout_ms": 1})
    assert (value["error_code"], value["producer_id"], value["producer_epoch"]) == (0, 1, 0)


def test_all_else_is_not_answered() -> None:
    assert stub_answer(request_bytes("Heartbeat", 3, {"group_id": "g", "member_id": "m"}), HERE) is None
    assert stub_answer(b"\0\0\0\2\0\1", HERE) is None
    malformed = request_bytes("Metadata", 9, {"topics": None})[:-3]
    assert stub_answer(malformed, HERE) is None
