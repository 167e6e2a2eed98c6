from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from dissectors import apis
from dissectors.frames import decode_request, decode_response
from kproxy.proxy.rules.edits import with_body, with_bytes, with_changes
from kproxy.proxy.rules.errors import EditError
from kproxy.proxy.verdicts import Frame
from tests.dissectors.values import Values
from tests.kproxy.proxy.rules.frames import FETCH, PEERS, START, known, request, request_bytes, response

PRODUCE = {
    "transactional_id": None,
    "acks": -1,
    "timeout_ms": 30_000,
    "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": b"\x01\x02"}]}],
}


@pytest.fixture
def fetch() -> Frame:
    return request("Fetch", 4, FETCH)


def value_of(data: bytes) -> dict[str, Any]:
    body = decode_request(data[4:])
    assert not body.problems
    assert body.value is not None
    return body.value


def test_values_are_replaced_by_path(fetch: Frame) -> None:
    data, changed = with_changes(fetch, {"max_wait_ms": 1, "topics[0].topic": "longer-than-orders"})
    value = value_of(data)
    assert (value["max_wait_ms"], value["topics"][0]["topic"]) == (1, "longer-than-orders")
    assert [(change.path, change.sent, change.got) for change in changed] == [
        ("max_wait_ms", 500, 1),
        ("topics[0].topic", "orders", "longer-than-orders"),
    ]
    assert data[4:12] == fetch.data[4:12]
    assert int.from_bytes(data[:4]) == len(data) - 4


def test_nothing_changed_is_the_same_frame(fetch: Frame) -> None:
    assert with_changes(fetch, {}) == (fetch.data, ())


def test_tagged_fields_can_be_added() -> None:
    frame = request("Fetch", 12, FETCH | {"topics": []})
    data, changed = with_changes(frame, {"cluster_id": "abc"})
    assert value_of(data)["cluster_id"] == "abc"
    assert [(change.path, change.sent, change.got) for change in changed] == [("cluster_id", None, "abc")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topics[3].topic": "x"}, r"there is no topics\[3\] in this message"),
        ({"topics[0].nmae": "x"}, r"there is no topics\[0\]\.nmae in this message"),
        ({"max_wait": 3}, "there is no max_wait in this message"),
        ({"max_wait_ms.x": 3}, r"there is no max_wait_ms\.x in this message"),
        ({"max_wait_ms": "soon"}, "is not a valid int32"),
        ({"max_wait_ms": 1 << 40}, "is not a valid int32"),
        ({"topics[0].topic": 7}, "7 is not a string"),
        ({"topics[0].topic": None}, "must not be null"),
        ({"topics[": 1}, "is not a path"),
        ({"": 1}, "is not a path"),
        ({"topics": {"a": 1}}, "topics is a list"),
        ({"topics": ["orders"]}, r"topics\[0\] has fields inside, and 'orders' has none"),
        ({"topics": None}, "must not be null"),
        ({"topics[0]": None}, "NoneType"),
    ],
)
def test_what_does_not_fit_is_refused(fetch: Frame, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EditError, match=message):
        with_changes(fetch, changes)


def test_a_whole_body_comes_from_json() -> None:
    frame = request("Produce", 7, PRODUCE)
    body = decode_request(frame.data[4:]).value
    assert body is not None
    body["topic_data"][0]["partition_data"][0]["records"] = b64encode(b"\xff\xfe\xfd").decode()
    data, changed = with_body(frame, json.loads(json.dumps(body)))
    assert value_of(data)["topic_data"][0]["partition_data"][0]["records"] == b"\xff\xfe\xfd"
    assert [change.path for change in changed] == ["topic_data[0].partition_data[0].records"]


def test_bytes_that_are_not_base64_are_refused() -> None:
    frame = request("Produce", 7, PRODUCE)
    with pytest.raises(EditError, match="base64"):
        with_changes(frame, {"topic_data[0].partition_data[0].records": "not base64!"})


def test_fields_that_the_message_does_not_have_are_refused(fetch: Frame) -> None:
    with pytest.raises(EditError, match="there is no session_id in this message"):
        with_body(fetch, FETCH | {"session_id": 3})


def test_responses_are_edited_in_the_version_they_were_read_in() -> None:
    # a broker that does not support ApiVersions v3 responds in v0 (KIP-511)
    frame = response("ApiVersions", 0, {"error_code": 35, "api_keys": []})
    frame.version = 3
    data, _ = with_changes(frame, {"error_code": 41})
    assert decode_response(data[4:], 18, 0).value == {"error_code": 41, "api_keys": []}


def test_other_bytes_have_to_be_a_frame_of_the_same_kind(fetch: Frame) -> None:
    other = request_bytes("Fetch", 4, FETCH | {"max_wait_ms": 7})
    assert with_bytes(fetch, other)[0] == other
    with pytest.raises(EditError, match="size field"):
        with_bytes(fetch, other + b"x")
    with pytest.raises(EditError, match="size field"):
        with_bytes(fetch, b"\0")
    with pytest.raises(EditError, match="must not change"):
        with_bytes(fetch, request_bytes("Fetch", 4, FETCH, correlation_id=1))
    with pytest.raises(EditError, match="must not change"):
        with_bytes(fetch, request_bytes("Fetch", 5, FETCH))
    short = (20).to_bytes(4) + other[4:24]
    with pytest.raises(EditError, match="could not be read"):
        with_bytes(fetch, short)


def test_a_frame_that_cannot_be_read_cannot_be_edited(fetch: Frame) -> None:
    fetch.data = fetch.data[:-1]
    with pytest.raises(EditError, match="could not be read"):
        with_changes(fetch, {})


@pytest.mark.parametrize("key", range(0, len(apis.NAMES), 7))
def test_any_body_through_json_gives_the_same_bytes(key: int) -> None:
    name = apis.NAMES[key]
    for version in known(name).request.versions:
        drawn = Values(f"editing {key} {version}", unknown_tags=False)
        value = drawn.draw(known(name).request[version].struct)
        frame = Frame(PEERS, "request", request_bytes(name, version, value), key, version, 42, START)
        again = json.loads(json.dumps(value, default=lambda data: b64encode(data).decode()))
        assert with_body(frame, again) == (frame.data, ())
