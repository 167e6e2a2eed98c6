"""Hostile request logs: lines with very many values, very many lines, invalid lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.lanes.hostile.attack import attack
from tests.lanes.hostile.wire import GROUP

_HEARTBEAT = {"groupId": GROUP, "generationId": 1, "memberId": "m", "groupInstanceId": None}
_ANSWER = {"throttleTimeMs": 0, "errorCode": 0}


def _entry(number: int = 0, *, request: Any = _HEARTBEAT, connection: int = 0, **other: Any) -> bytes:
    """Return an entry about a Heartbeat, version 3, always with the same time."""
    times = ("totalTimeMs", "requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "responseQueueTimeMs")
    told = dict.fromkeys((*times, "sendTimeMs"), 0.5) | {
        "requestHeader": {
            "requestApiKey": 12,
            "requestApiVersion": 3,
            "correlationId": number,
            "clientId": "app",
        },
        "request": request,
        "response": _ANSWER,
        "connection": f"10.0.0.2:9092-10.{connection >> 16}.{connection >> 8 & 255}.{connection & 255}:40000-0",
    }
    return b"[2030-01-01 00:00:00,000] DEBUG Completed request:" + json.dumps(told | other).encode() + b"\n"


@attack(50_000, ".log")
def log_entries(count: int) -> Iterable[bytes]:
    """entries of one moment, so that all wait, each with a principal of its own of two thousand letters"""
    return (_entry(number, principal=f"User:{number:02000}") for number in range(count))


@attack(20_000, ".log")
def log_connections(count: int) -> Iterable[bytes]:
    """entries of a connection each"""
    return (_entry(number, connection=number) for number in range(count))


@attack(5_000_000, ".log")
def log_values(count: int) -> Iterable[bytes]:
    """lines of some 15 MB with nothing but empty lists in the place of a text, a list and a layout's fields"""
    lists = ("[" + ",".join(["[]"] * count) + "]").encode()
    yield _entry(0)
    for place in (b'"memberId": "m"', b'"groupInstanceId": null', b'"errorCode": 0'):
        name = place.partition(b":")[0]
        yield _entry(1).replace(place, name + b":" + lists)


@attack(30_000, ".log")
def log_lines_endless(count: int) -> Iterable[bytes]:
    """a line that a container has cut into parts and never ends, and one that no line feed ends"""
    yield _entry(0)
    part = _entry(1).rstrip() + b" " * 1000
    yield from (b"2030-01-01T00:00:00.5Z stdout P " + part + b"\n" for _ in range(count))
    yield from (part for _ in range(count))


@attack(20_000, ".log")
def log_damage(count: int) -> Iterable[bytes]:
    """entries that are cut, wrapped too often, of other types than their layout, or on impossible connections"""
    whole = _entry(1)
    broken = (
        whole[:-40] + b"\n",
        b"2030-01-01T00:00:00.5Z stdout F " * 100 + whole,
        whole.replace(b'"m"', b"[null]"),
        _entry(1, request=None),
        _entry(1, request={"\x1b[2J": 1}),
        whole.replace(b":40000-0", b":1-10.0.0.1" * 100),
        json.dumps({"message": whole.decode(), "time": 1e300}).encode() + b"\n",
    )
    for number in range(count):
        yield _entry(number)
        yield broken[number % len(broken)]
