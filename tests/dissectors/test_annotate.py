"""Bodies prepared for display: names, inner protocols, record sets, secrets."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.annotate import Annotations, Annotator
from dissectors.apis import api
from dissectors.frames import Body
from dissectors.records import Record
from dissectors.records.build import build_batch
from dissectors.session_context import SessionContext

ORDERS = "nGfIcYojRze9Kr97Z6hsvg"


def annotated(key: int, version: int, side: str, value: dict, **options: Any) -> tuple[dict, Annotations]:
    """Build a message, decode it again, annotate it."""
    known = api(key)
    assert known is not None
    message = (known.request if side == "request" else known.response)[version]
    data = message.build(value)
    body = Body(key, version, version, {}, message.parse(data), 4, data)
    knowledge = SessionContext()
    knowledge.learn_topic(ORDERS, "orders")
    out = Annotations()
    Annotator(knowledge, **options).annotate(body, side, out)
    assert body.value is not None
    return body.value, out


def test_error_codes_are_named_and_no_error_is_not_news() -> None:
    _, out = annotated(12, 4, "response", {"error_code": 27})
    assert out.decoded == {"response.error_code": "REBALANCE_IN_PROGRESS"}
    _, out = annotated(12, 4, "response", {"error_code": 0})
    assert out.decoded == {}


def test_an_unknown_error_code_says_so() -> None:
    _, out = annotated(12, 4, "response", {"error_code": 999})
    assert out.decoded == {"response.error_code": "UNKNOWN_CODE_999"}


def test_enumerations_flags_and_array_elements_are_named() -> None:
    _, out = annotated(1, 4, "request", {"isolation_level": 1, "replica_id": -1})
    assert out.decoded["request.isolation_level"] == "READ_COMMITTED"
    _, out = annotated(60, 0, "response", {"cluster_authorized_operations": 1 << 3 | 1 << 8})
    assert out.decoded["response.cluster_authorized_operations"] == "READ|DESCRIBE"


def test_topic_ids_are_named_where_known() -> None:
    topics = [{"topic_id": ORDERS, "partitions": []}, {"topic_id": "B" * 21 + "A", "partitions": []}]
    _, out = annotated(1, 13, "request", {"topics": topics})
    assert out.decoded["request.topics[0].topic_id"] == "orders"
    assert "request.topics[1].topic_id" not in out.decoded


def test_unknown_tags_leave_the_body() -> None:
    value, out = annotated(12, 4, "request", {"group_id": "g", "_tags": {9: b"new"}})
    assert "_tags" not in value
    assert out.decoded == {"request._tags": {"9": b"new"}}


@pytest.mark.parametrize(("show", "expected"), [(False, None), (True, b"\0alice\0wonder")])
def test_sasl_tokens_are_masked_unless_asked_for(show: bool, expected: bytes | None) -> None:
    value, out = annotated(36, 2, "request", {"auth_bytes": b"\0alice\0wonder"}, show_secrets=show)
    assert value["auth_bytes"] == expected
    assert ("request.auth_bytes" in out.masked) is not show
    said = out.decoded["request.auth_bytes"]
    assert said["authcid"] == "alice"
    assert said["password"] == ("wonder" if show else None)


def test_sensitive_config_values_are_masked_and_others_are_not() -> None:
    configs = [{"name": "ssl.key.password", "value": "hush"}, {"name": "retention.ms", "value": "5"}]
    resources = [{"resource_type": 2, "resource_name": "t", "configs": configs}]
    value, out = annotated(33, 0, "request", {"resources": resources})
    assert [config["value"] for config in value["resources"][0]["configs"]] == [None, "5"]
    assert out.masked == ["request.resources[0].configs[0].value"]


def test_secrets_without_an_inner_protocol_are_masked() -> None:
    value, out = annotated(39, 0, "request", {"hmac": b"token", "renew_period_ms": 1})
    assert value["hmac"] is None
    assert out.masked == ["request.hmac"]


def produce(records: bytes) -> dict:
    return {"topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]}


def test_record_sets_become_batches_of_records() -> None:
    batch = build_batch([Record(0, 5, b"k", None, (("h", b"v"),))])
    value, out = annotated(0, 3, "request", produce(batch))
    (shown,) = value["topic_data"][0]["partition_data"][0]["records"]
    assert shown["magic"] == 2
    assert shown["crc_valid"] is True
    assert shown["records"] == [
        {"offset": 0, "timestamp": 5, "key": b"k", "value": None, "headers": [{"key": "h", "value": b"v"}]}
    ]
    assert out.problems == []


def test_a_wrong_checksum_is_a_problem_with_its_place() -> None:
    batch = bytearray(build_batch([Record(0, 5, b"k", b"v")]))
    batch[-2] ^= 1  # the value; the count of headers follows
    value, out = annotated(0, 3, "request", produce(bytes(batch)))
    (shown,) = value["topic_data"][0]["partition_data"][0]["records"]
    assert shown["crc_valid"] is False
    ((side, problem),) = out.problems
    assert (side, problem.path) == ("request", "topic_data[0].partition_data[0].records")
    assert "checksum" in problem.reason


def test_without_payload_nothing_is_decompressed() -> None:
    batch = build_batch([Record(0, 5, b"k", b"v" * 99)])
    value, _ = annotated(0, 3, "request", produce(batch), payload="none")
    (shown,) = value["topic_data"][0]["partition_data"][0]["records"]
    assert (shown["count"], shown["records"]) == (1, [])


def test_a_preview_is_short() -> None:
    batch = build_batch([Record(0, 5, b"k", b"v" * 99)])
    value, _ = annotated(0, 3, "request", produce(batch), payload="preview")
    (shown,) = value["topic_data"][0]["partition_data"][0]["records"]
    assert shown["records"][0]["value"] == b"v" * 64


def test_subscriptions_are_decoded_beside_their_bytes() -> None:
    # ConsumerProtocolSubscription v0: version, one topic, null user data
    metadata = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
    protocols = [{"name": "range", "metadata": metadata}]
    value, out = annotated(
        11, 4, "request", {"group_id": "g", "protocol_type": "consumer", "protocols": protocols}
    )
    assert value["protocols"][0]["metadata"] == metadata
    assert out.decoded["request.protocols[0].metadata"]["topics"] == ["orders"]
