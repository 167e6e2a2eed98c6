"""Requests in the versions offered by a broker."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from captures.exchanges import ExchangeReader, open_capture
from dissectors.apis import api, keys_by_name
from dissectors.frames import Body, decode_request
from dissectors.records import Record
from dissectors.records.build import build_batch
from kproxy.replay.request_encoding import EncodedRequest, NotSendableError, encoded, frame
from tests.captures.recorded import CAPTURES, FOLDER
from tests.dissectors.values import Values

KEYS = keys_by_name()
ORDERS_ID = "AAAAAAAAAAAAAAAAAAAABQ"


class Topics:
    """One topic, ``orders``."""

    def topic_id(self, name: str) -> str | None:
        return ORDERS_ID if name == "orders" else None

    def topic_name(self, topic_id: str) -> str | None:
        return "orders" if topic_id == ORDERS_ID else None


def made(name: str, version: int, body: dict[str, Any], low: int, high: int) -> EncodedRequest:
    """Return a body completed with defaults and encoded for a broker that offers the given versions."""
    key = KEYS[name.lower()]
    known = api(key)
    assert known is not None
    layout = known.request[version]
    return encoded(key, version, layout.parse(layout.build(body)), {key: (low, high)}, Topics())


def parsed(name: str, built: EncodedRequest) -> dict[str, Any]:
    known = api(KEYS[name.lower()])
    assert known is not None
    return known.request[built.version].parse(built.data)


def recorded_requests(name: str) -> Iterator[Body]:
    capture = open_capture([str(FOLDER / name)])
    capture.read()
    for exchange in ExchangeReader(capture, annotate=False, summary=False):
        request = exchange.request
        if request is not None and request.value is not None and not request.problems and not request.guess:
            yield request


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", sorted(CAPTURES))
def test_recorded_requests_become_the_recorded_bytes(name: str) -> None:
    for request in recorded_requests(name):
        known = api(request.key)
        assert known is not None
        built = EncodedRequest(
            request.asked, request.value or {}, known.request[request.asked].build(request.value)
        )
        assert frame(request.header, request.header["correlation_id"], request.key, built)[4:] == request.raw


def test_the_header_stays_but_for_the_correlation_id() -> None:
    built = made("Heartbeat", 4, {"group_id": "g", "generation_id": 1, "member_id": "m"}, 0, 4)
    header = {"request_api_key": 12, "request_api_version": 4, "correlation_id": 99, "client_id": "größe"}
    body = decode_request(frame(header, 7, 12, built)[4:])
    assert body.header == header | {"correlation_id": 7}
    assert body.problems == []


def test_the_nearest_version_is_taken() -> None:
    body = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    assert made("Heartbeat", 3, body, 0, 4).version == 3
    assert made("Heartbeat", 0, body, 2, 4).version == 2
    assert made("Heartbeat", 4, body, 0, 1).version == 1


def test_a_version_that_loses_something_is_not_taken() -> None:
    static = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": "pod-1"}
    with pytest.raises(NotSendableError, match="version 2, which has no group_instance_id"):
        made("Heartbeat", 4, static, 0, 2)


def test_an_api_that_is_not_offered() -> None:
    with pytest.raises(NotSendableError, match="the broker has no Heartbeat"):
        encoded(KEYS["heartbeat"], 4, {"group_id": "g"}, {}, Topics())


@pytest.mark.parametrize("key", [1, 2, 8, 11, 12, 13, 14, 15, 22, 32, 42, 60])
def test_what_is_sent_in_another_version_says_the_same(key: int) -> None:
    """Conversion to another version and back gives the same request, or is refused."""
    known = api(key)
    assert known is not None
    values, done = Values(f"versions of {key}", unknown_tags=False, tags=0), 0
    for version, other in product(known.request.versions, repeat=2):
        body = values.draw(known.request[version].struct)
        data = known.request[version].build(body)
        try:
            there = encoded(key, version, body, {key: (other, other)}, Topics())
            back = encoded(
                key, other, known.request[other].parse(there.data), {key: (version,) * 2}, Topics()
            )
        except NotSendableError:
            continue
        assert back.data == data, (version, other)
        done += version != other
    assert done


class TestMetadata:
    def test_creation_of_topics_is_forbidden(self) -> None:
        built = made("Metadata", 9, {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}, 0, 13)
        assert built.version == 9
        assert parsed("Metadata", built)["allow_auto_topic_creation"] is False

    @pytest.mark.parametrize("version", [0, 1, 3])
    def test_versions_that_always_create_are_not_used(self, version: int) -> None:
        built = made("Metadata", version, {"topics": [{"name": "t"}]}, 0, 13)
        assert built.version == 4
        assert parsed("Metadata", built)["allow_auto_topic_creation"] is False
        with pytest.raises(NotSendableError, match="below version 4 it would create missing topics"):
            made("Metadata", version, {"topics": [{"name": "t"}]}, 0, 3)

    def test_all_topics_of_version_0(self) -> None:
        assert parsed("Metadata", made("Metadata", 0, {"topics": []}, 4, 13))["topics"] is None

    def test_no_topics_are_no_topics(self) -> None:
        assert parsed("Metadata", made("Metadata", 1, {"topics": []}, 1, 3))["topics"] == []

    def test_topics_by_id_become_topics_by_name(self) -> None:
        built = made("Metadata", 12, {"topics": [{"topic_id": ORDERS_ID, "name": None}]}, 0, 9)
        assert parsed("Metadata", built)["topics"] == [{"name": "orders"}]


class TestTopicNames:
    def fetch(self, **named: str) -> dict[str, Any]:
        topic = {**named, "partitions": [{"partition": 3, "fetch_offset": 5}]}
        return {"max_wait_ms": 1, "min_bytes": 1, "topics": [topic]}

    def test_names_become_ids(self) -> None:
        (topic,) = parsed("Fetch", made("Fetch", 12, self.fetch(topic="orders"), 13, 18))["topics"]
        assert topic["topic_id"] == ORDERS_ID
        assert topic["partitions"][0]["fetch_offset"] == 5

    def test_ids_become_names(self) -> None:
        (topic,) = parsed("Fetch", made("Fetch", 13, self.fetch(topic_id=ORDERS_ID), 0, 12))["topics"]
        assert topic["topic"] == "orders"

    def test_a_topic_that_the_cluster_does_not_have(self) -> None:
        with pytest.raises(NotSendableError, match="topic gone has no ID"):
            made("Fetch", 12, self.fetch(topic="gone"), 13, 18)
        with pytest.raises(NotSendableError, match="no topic of the live cluster has the ID"):
            made("Fetch", 13, self.fetch(topic_id="AAAAAAAAAAAAAAAAAAAABg"), 0, 12)


class TestShapes:
    def test_find_coordinator(self) -> None:
        built = made("FindCoordinator", 3, {"key": "g", "key_type": 1}, 4, 6)
        assert parsed("FindCoordinator", built) == {"key_type": 1, "coordinator_keys": ["g"]}
        built = made("FindCoordinator", 6, {"key_type": 0, "coordinator_keys": ["g"]}, 0, 3)
        assert parsed("FindCoordinator", built) == {"key_type": 0, "key": "g"}
        for keys in ([], ["g", "h"]):
            with pytest.raises(NotSendableError, match="coordinator_keys"):
                made("FindCoordinator", 6, {"key_type": 0, "coordinator_keys": keys}, 0, 3)

    def test_offset_fetch(self) -> None:
        topics = [{"name": "orders", "partition_indexes": [1, 2]}]
        group = {"group_id": "g", "topics": topics}
        built = made("OffsetFetch", 5, group, 8, 8)
        found = parsed("OffsetFetch", built)
        assert found["groups"] == [
            {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": (1, 2)}]}
        ]
        built = made("OffsetFetch", 8, {"groups": [group]}, 1, 7)
        assert (built.version, parsed("OffsetFetch", built)["group_id"]) == (7, "g")
        with pytest.raises(NotSendableError, match="groups"):
            made("OffsetFetch", 8, {"groups": [group, group | {"group_id": "h"}]}, 1, 7)

    def test_leave_group(self) -> None:
        built = made("LeaveGroup", 2, {"group_id": "g", "member_id": "m"}, 3, 5)
        (member,) = parsed("LeaveGroup", built)["members"]
        assert (member["member_id"], member["group_instance_id"]) == ("m", None)
        built = made("LeaveGroup", 5, {"group_id": "g", "members": [{"member_id": "m"}]}, 0, 2)
        assert parsed("LeaveGroup", built)["member_id"] == "m"
        with pytest.raises(NotSendableError, match="a reason"):
            made("LeaveGroup", 5, {"group_id": "g", "members": [{"member_id": "m", "reason": "r"}]}, 0, 2)
        with pytest.raises(NotSendableError, match="0 members"):
            made("LeaveGroup", 5, {"group_id": "g", "members": []}, 0, 2)


class TestProduce:
    def produce(self, magic: int) -> dict[str, Any]:
        records = build_batch([Record(0, 1, None, b"v")], magic=magic)  # type: ignore[arg-type]
        partition = {"index": 0, "records": records}
        return {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": [partition]}]}

    def test_batches_of_magic_2_go_with_version_3_and_later(self) -> None:
        assert made("Produce", 3, self.produce(2), 0, 13).version == 3
        assert made("Produce", 12, self.produce(2), 13, 13).version == 13

    def test_other_formats_do_not(self) -> None:
        assert made("Produce", 0, self.produce(1), 0, 13).version == 0
        with pytest.raises(NotSendableError, match="message format 1"):
            made("Produce", 2, self.produce(1), 3, 13)


def test_api_versions_is_sent_as_it_was() -> None:
    assert made("ApiVersions", 5, {}, 0, 3).version == 5
