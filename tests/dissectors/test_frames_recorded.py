"""Responses of real brokers in another version than that of the request."""

from __future__ import annotations

import pytest

from dissectors import apis
from dissectors.frames import decode_response, trace_body
from dissectors.headers import ResponseHeader

API_VERSIONS, FETCH = 18, 1

# librdkafka 2.16.0's mock cluster to ApiVersions v4 of the Java client 4.3.0 (01_mock_java_throttle_bug.pcap): error
# 35, no APIs, and the entry that was meant to be among them read as a throttle time of 20 minutes
MOCK = bytes.fromhex("0000000000230100120000000200000000")
# noida 0.2 to the same request (01_noida_java_gzip.pcap): v0, one entry
NOIDA = bytes.fromhex("00000000002300000001001200000003")
# nafka to ApiVersions v2 of kafkajs 2.2.4 (01_nafka_kafkajs_none.pcap): v3, twelve entries
NAFKA = bytes.fromhex(
    "0000000000000d0000000800080000010006000600000200050005000003000800080000080007000700000900050005"
    "00000a0002000200000b0005000500000c0003000300000d0003000300000e0003000300001200040004000000000000"
)


def test_unsupported_version_is_answered_in_v0() -> None:
    body = decode_response(NOIDA, API_VERSIONS, 4)
    assert (body.version, body.problems) == (0, [])
    assert body.value == {
        "error_code": 35,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 3}],
    }
    assert body.guess == "version 4 is not supported, answered in version 0"


@pytest.mark.parametrize("asked", [3, 4])
def test_unsupported_version_that_passes_for_the_version_asked_for(asked: int) -> None:
    """As the Java client reads it, throttle time included (ApiVersionsResponse.parse)."""
    body = decode_response(MOCK, API_VERSIONS, asked)
    assert body.value == {"error_code": 35, "api_keys": [], "throttle_time_ms": 0x120000}
    assert (body.version, body.guess) == (asked, "")
    found = [(problem.offset, problem.reason) for problem in body.problems]
    assert found == [(16, "5 bytes after the end of the message")]


def test_cut_off_fallback_is_read_as_v0() -> None:
    body = decode_response(NOIDA[:12], API_VERSIONS, 4, complete=False)
    assert body.version == 0
    assert body.value is not None
    assert body.value["error_code"] == 35
    assert "not captured" in body.problems[0].reason


def test_later_version_than_asked_for() -> None:
    body = decode_response(NAFKA, API_VERSIONS, 2)
    assert (body.version, body.guess) == (3, "answered in the format of version 3, not 2")
    assert body.problems == []
    assert body.value is not None
    keys = [entry["api_key"] for entry in body.value["api_keys"]]
    assert keys == [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18]


@pytest.mark.sample(3)
@pytest.mark.parametrize("key", range(len(apis.NAMES)))
def test_bytes_after_the_end_are_never_taken_for_a_later_version(key: int) -> None:
    """Zeros after a message could be fields that later versions added."""
    known = apis.api(key)
    assert known is not None
    for version in known.response.versions:
        con = known.response[version]
        header = ResponseHeader[int(con.flexible and key != API_VERSIONS)]
        body = decode_response(header.build({"correlation_id": 1}) + con.build({}) + bytes(1), key, version)
        assert body.version is not None
        assert body.version <= version


@pytest.mark.parametrize(("payload", "asked"), [(MOCK, 4), (NOIDA, 4), (NAFKA, 2), (MOCK[:9], 4)])
def test_traced_as_decoded(payload: bytes, asked: int) -> None:
    """The tree covers the frame and has the values of the body, in the version in which it was read."""
    body = decode_response(payload, API_VERSIONS, asked)
    root = trace_body(body, response=True)
    assert root.end == len(payload) + 4
    inner = next(node for node in root.children if node.name == "body")
    assert inner.to_value() == body.value
