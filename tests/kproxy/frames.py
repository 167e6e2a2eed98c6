"""Frames built from bodies by the message declarations."""

from __future__ import annotations

import struct
from typing import Any

from dissectors.apis import api
from dissectors.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)

Body = dict[str, Any]


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request_frame(
    key: int, version: int, body: Body, correlation_id: int = 1, client_id: str | None = "app"
) -> bytes:
    known = api(key)
    assert known is not None
    header = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    start = RequestHeader[request_header_version(known.request, version)].build(header)
    return framed(start + known.request[version].build(body))


def response_frame(key: int, version: int, body: Body, correlation_id: int = 1) -> bytes:
    known = api(key)
    assert known is not None
    start = ResponseHeader[response_header_version(known.response, version)]
    return framed(start.build({"correlation_id": correlation_id}) + known.response[version].build(body))
