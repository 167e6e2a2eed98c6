"""Synthetic exchanges with only the fields that a test needs."""

from __future__ import annotations

from typing import Any

from captures.exchanges import Exchange, Flag
from captures.meaning import ResponseError
from dissectors.frames import Body

MS = 1_000_000


def body(key: int, version: int, value: dict[str, Any] | None, *, read_as: int | None = None) -> Body:
    return Body(key, version, version if read_as is None else read_as, {}, value, 0, b"")


def exchange(
    key: int | None = 3,
    version: int | None = 12,
    *,
    request: dict[str, Any] | None = None,
    response: dict[str, Any] | None = None,
    read_as: int | None = None,
    **fields: Any,
) -> Exchange:
    """Make an exchange of client ``app`` on 10.0.0.9:4000 that is answered after 2 ms."""
    known = key is not None and version is not None
    made: dict[str, Any] = {
        "number": 1,
        "row": 0,
        "connection": 0,
        "client": "10.0.0.9:4000",
        "broker": "10.0.0.1:9092",
        "client_id": "app",
        "api_key": key,
        "version": version,
        "correlation_id": 1,
        "time": 1_000_000_000,
        "latency": 2 * MS,
        "request_size": 100,
        "response_size": 50,
        "flag": Flag(0),
        "request": body(key or 0, version or 0, request) if known and request is not None else None,
        "response": body(key or 0, version or 0, response, read_as=read_as)
        if known and response is not None
        else None,
    }
    return Exchange(**made | fields)


def unanswered(key: int = 3, version: int = 12, **fields: Any) -> Exchange:
    return exchange(key, version, latency=None, response_size=0, flag=Flag.UNANSWERED, **fields)


def error(code: int, path: str = "error_code", message: str | None = None, *holders: Any) -> ResponseError:
    return ResponseError(path, code, message, ({}, *holders))
