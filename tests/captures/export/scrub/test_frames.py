"""Frames of messages with secrets: secrets become filler, unknown bytes zeros, and the rest stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.export.scrub.frames import FrameScrubber, enveloped
from dissectors.apis import api
from dissectors.budget import changed as limits
from dissectors.frames import decode_request, decode_response
from dissectors.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch
from tests.batches import batches

PRODUCE = 0
INCREMENTAL_ALTER_CONFIGS, ENVELOPE, CREATE_DELEGATION_TOKEN = 44, 58, 38
ALTER_SCRAM, SASL_AUTHENTICATE, HEARTBEAT, API_VERSIONS = 51, 36, 12, 18

CONFIGS = {
    "resources": [
        {
            "resource_type": 2,
            "resource_name": "orders",
            "configs": [
                {"name": "ssl.keystore.password", "config_operation": 0, "value": "hunter2-hunter2"},
                {"name": "retention.ms", "config_operation": 0, "value": "604800000"},
            ],
        }
    ],
    "validate_only": False,
}


def request(key: int, version: int, body: dict[str, Any]) -> bytes:
    message = api(key).request
    header_version = request_header_version(message, version)
    header = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": 7,
        "client_id": "admin",
    }
    return RequestHeader[header_version].build(header) + message[version].build(body)


def response(key: int, version: int, body: dict[str, Any]) -> bytes:
    message = api(key).response
    header = ResponseHeader[response_header_version(message, version)]
    return header.build({"correlation_id": 7}) + message[version].build(body)


@pytest.mark.parametrize("version", [0, 1])
def test_only_sensitive_configurations_are_filler(version: int) -> None:
    payload = request(INCREMENTAL_ALTER_CONFIGS, version, CONFIGS)
    blanked = FrameScrubber().request(payload)
    assert len(blanked) == len(payload)
    (resource,) = decode_request(blanked).value["resources"]
    assert [config["value"] for config in resource["configs"]] == ["x" * 15, "604800000"]
    assert blanked == payload.replace(b"hunter2-hunter2", b"x" * 15)


def test_scram_credentials() -> None:
    upsertion = {
        "name": "ada",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt" * 5,
        "salted_password": b"salted!" * 4,
    }
    payload = request(ALTER_SCRAM, 0, {"deletions": [], "upsertions": [upsertion]})
    (found,) = decode_request(FrameScrubber().request(payload)).value["upsertions"]
    assert found == {**upsertion, "salt": b"x" * 20, "salted_password": b"x" * 28}


def test_the_secret_of_a_delegation_token() -> None:
    body = {
        "error_code": 0,
        "principal_type": "User",
        "principal_name": "ada",
        "token_requester_principal_type": "User",
        "token_requester_principal_name": "ada",
        "issue_timestamp_ms": 1,
        "expiry_timestamp_ms": 2,
        "max_timestamp_ms": 3,
        "token_id": "id",
        "hmac": b"h" * 64,
        "throttle_time_ms": 0,
    }
    payload = response(CREATE_DELEGATION_TOKEN, 3, body)
    found = decode_response(FrameScrubber().response(payload, CREATE_DELEGATION_TOKEN, 3), 38, 3)
    assert found.value == {**body, "hmac": b"x" * 64}


def test_sasl_authenticate_keeps_the_shape_of_the_token() -> None:
    payload = request(SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0ada\0tanstaaftanstaaf"})
    found = decode_request(FrameScrubber().request(payload)).value
    assert found == {"auth_bytes": b"\0xxx\0xxxxxxxxxxxxxxxx"}


def test_inside_an_envelope() -> None:
    inner = request(INCREMENTAL_ALTER_CONFIGS, 1, CONFIGS)
    body = {"request_data": inner, "request_principal": b"\0\0", "client_host_address": b"\x7f\0\0\1"}
    payload = request(ENVELOPE, 0, body)
    assert enveloped(payload) == (INCREMENTAL_ALTER_CONFIGS, 1)
    blanked = FrameScrubber().request(payload)
    assert blanked == payload.replace(b"hunter2-hunter2", b"x" * 15)
    answer = response(ENVELOPE, 0, {"response_data": b"\0\0\0\7rest of it", "error_code": 0})
    # the inner request is unknown: only its correlation ID stays
    blanked = FrameScrubber().response(answer, ENVELOPE, 0)
    assert blanked == answer.replace(b"rest of it", bytes(10))


def test_tags_that_are_not_known_are_zeroed() -> None:
    payload = request(
        HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    )
    assert payload[-1:] == b"\0"  # no tags (KIP-482)
    payload = payload[:-1] + b"\1\x63\5Ada B"  # one tag: number 99, five bytes
    blanked = FrameScrubber().request(payload)
    assert blanked == payload.replace(b"Ada B", bytes(5))


def test_bytes_behind_the_end_are_zeroed() -> None:
    payload = request(
        HEARTBEAT, 3, {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    )
    assert FrameScrubber().request(payload + b"Ada") == payload + bytes(3)


def test_of_an_api_that_is_not_known_the_header_stays() -> None:
    payload = (
        b"\x03\xe7\0\0\0\0\0\7\0\1c" + b"Ada Lovelace"
    )  # key 999, version 0, correlation ID 7, client ID "c"
    assert FrameScrubber().request(payload) == payload[:11] + bytes(12)


@given(st.integers(0, 200))
def test_of_a_frame_that_ends_early_the_rest_is_zeroed(cut: int) -> None:
    payload = request(INCREMENTAL_ALTER_CONFIGS, 1, CONFIGS)
    part = payload[: min(cut, len(payload))]
    blanked = FrameScrubber().request(part, complete=False)
    assert len(blanked) == len(part)
    assert b"hunter" not in blanked


@given(st.binary(max_size=120), st.sampled_from([0, 1, 3, 11, 17, 36, 44, 58]), st.integers(0, 13))
def test_noise_never_raises(noise: bytes, key: int, version: int) -> None:
    scrubber = FrameScrubber()
    assert len(scrubber.request(noise)) == len(noise)
    assert len(scrubber.request(key.to_bytes(2) + version.to_bytes(2) + noise)) == len(noise) + 4
    assert len(scrubber.response(noise, key, version)) == len(noise)


def test_envelopes_inside_envelopes_are_not_followed() -> None:
    """Chains of them cause no recursion: brokers refuse the second, so it is zeroed after its header."""
    payload = request(ALTER_SCRAM, 0, {"deletions": [], "upsertions": []})
    for _ in range(250):
        envelope = {
            "request_data": payload,
            "request_principal": b"Ada",
            "client_host_address": b"\x7f\0\0\1",
        }
        payload = request(ENVELOPE, 0, envelope)
    scrubber = FrameScrubber()
    blanked = scrubber.request(payload)
    assert len(blanked) == len(payload)
    second = decode_request(blanked).value["request_data"]
    inner = decode_request(second).value["request_data"]
    assert set(inner[8:]) == {0}
    assert inner[:4] == b"\0\x3a\0\0"
    assert scrubber.counts["zeroed"] == len(inner) - 8


def test_records_beyond_a_limit_are_zeroed() -> None:
    batch = build_batch([Record(0, 0, b"key-of-Ada", b"Ada Lovelace")] * 3, codec=Codec.ZSTD)
    partitions = [{"index": at, "records": batch} for at in range(3)]
    body = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": partitions}]}
    scrubber = FrameScrubber()
    with limits(message_records=7):
        payload = request(PRODUCE, 3, body)
        blanked = scrubber.request(payload)
    assert len(blanked) == len(payload)
    parts = decode_request(blanked).value["topic_data"][0]["partition_data"]
    read = [batches(part["records"])[0].read() for part in parts]
    assert [len(records) for records, _ in read] == [3, 3, 0]
    assert scrubber.counts["records"] == 6
    assert scrubber.counts["zeroed"] == len(batch) - 61
