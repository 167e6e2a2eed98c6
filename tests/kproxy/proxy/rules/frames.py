"""Frames for tests of rules and holds."""

from __future__ import annotations

from typing import Any

from dissectors import apis, wire
from dissectors.headers import request_frame, response_frame
from kproxy.proxy.verdicts import Frame, Peers

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
PEERS = Peers(7, ("10.0.0.9", 41_078), ("10.1.0.1", 9092), 3, "app-1")


class Clock:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


def known(name: str) -> apis.Api:
    found = apis.api(apis.keys_by_name()[name.lower()])
    assert found is not None
    return found


def request_bytes(
    name: str, version: int, body: dict[str, Any], correlation_id: int = 42, client_id: str = "app-1"
) -> bytes:
    api = known(name)
    layout = api.request[version]
    header = {"correlation_id": correlation_id, "client_id": client_id}
    return request_frame(layout, header, layout.build(body))


def response_bytes(name: str, version: int, body: dict[str, Any], correlation_id: int = 42) -> bytes:
    layout = known(name).response[version]
    return response_frame(layout, correlation_id, layout.build(body))


def request(
    name: str, version: int, body: dict[str, Any], *, time: int = START, peers: Peers = PEERS
) -> Frame:
    data = request_bytes(name, version, body, client_id=peers.client_id or "")
    return Frame(peers, "request", data, known(name).key, version, 42, time)


def response(
    name: str, version: int, body: dict[str, Any], *, to: Frame | None = None, time: int = START + SECOND
) -> Frame:
    data = response_bytes(name, version, body)
    return Frame(PEERS, "response", data, known(name).key, version, 42, time, to)


def plain(con: wire.WireType, depth: int = 0) -> Any:
    """Return the simplest value that has at least one element in every array."""
    match con:
        case wire.NullableStruct():
            return plain(con.struct, depth)
        case wire.FixedWidth():
            return {"?": False, "d": 1.0}.get(con.code, 3)
        case wire.Uuid():
            return wire.uuid_text(bytes(range(1, 17)))
        case wire.String():
            return "orders"
        case wire.Bytes():
            return b""
        case wire.Array():
            return [plain(con.element, depth + 1)]
        case wire.Struct():
            return {member.name: plain(member.con, depth) for member in con.members}
    raise AssertionError(con)


FETCH = {
    "replica_id": -1,
    "max_wait_ms": 500,
    "min_bytes": 1,
    "max_bytes": 1 << 20,
    "topics": [
        {
            "topic": "orders",
            "partitions": [
                {"partition": index, "fetch_offset": 5, "partition_max_bytes": 100} for index in (0, 1)
            ],
        }
    ],
}
