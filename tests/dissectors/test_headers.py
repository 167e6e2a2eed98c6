"""The beginning of bodies, against headers read field by field."""

from __future__ import annotations

import pytest

from dissectors.headers import RequestHeader, ResponseHeader, request_body_start, response_body_start
from tests.dissectors.values import Values

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("version", range(3))
def test_requests(version: int) -> None:
    layout = RequestHeader[version]
    for number in range(50):
        header = Values(f"request header {version} {number}", unknown_tags=False).draw(layout.struct)
        data = layout.build(header)
        assert request_body_start(data + b"body", version) == len(data) == layout.decode(data)[1]


@pytest.mark.parametrize("version", range(2))
def test_responses(version: int) -> None:
    data = ResponseHeader[version].build({"correlation_id": 7})
    assert response_body_start(data + b"body", version) == len(data)


def test_headers_with_tags_are_left_to_others() -> None:
    tagged = {
        "request_api_key": 1,
        "request_api_version": 13,
        "correlation_id": 7,
        "client_id": "a",
        "_tags": {5: b"x"},
    }
    assert request_body_start(RequestHeader[2].build(tagged), 2) is None
    assert response_body_start(ResponseHeader[1].build({"correlation_id": 7, "_tags": {5: b"x"}}), 1) is None


@pytest.mark.parametrize("frame", [b"", b"\x00" * 9, b"\x00\x01\x00\x04" + bytes(4) + b"\x00\x02\xff\xfe"])
def test_malformed_headers(frame: bytes) -> None:
    """Cut off before the client ID, or with one that is not UTF-8."""
    assert request_body_start(frame, 1) is None
    assert response_body_start(frame[:4], 1) is None


def test_a_client_id_that_is_cut_off() -> None:
    data = RequestHeader[2].build(
        {"request_api_key": 1, "request_api_version": 13, "correlation_id": 7, "client_id": "rdkafka"}
    )
    assert request_body_start(data[:-1], 2) is None
    assert request_body_start(data[:12], 2) is None
