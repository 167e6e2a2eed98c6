"""Responses with broker addresses: their APIs and versions, and frames with random bodies."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from dissectors import apis, wire
from dissectors.headers import ResponseHeader, response_header_version
from dissectors.schema import Message
from kproxy.proxy.addresses import Broker
from tests.dissectors.values import Values

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 3, 10, 18
DESCRIBE_CLUSTER, SHARE_FETCH, SHARE_ACKNOWLEDGE = 60, 78, 79

#: the first version with addresses, by API key (anchors: KIP-951, KIP-932, KIP-700)
FIRST = {
    PRODUCE: 10,
    FETCH: 16,
    METADATA: 0,
    FIND_COORDINATOR: 0,
    DESCRIBE_CLUSTER: 0,
    SHARE_FETCH: 0,
    SHARE_ACKNOWLEDGE: 0,
}


def response(key: int) -> Message:
    known = apis.api(key)
    assert known is not None
    return known.response


def every_version() -> list[tuple[int, int]]:
    """Return the API keys and versions whose responses have addresses."""
    return [(key, version) for key in FIRST for version in response(key).versions if version >= FIRST[key]]


def names(pair: tuple[int, int]) -> str:
    return f"{apis.api_name(pair[0])}-{pair[1]}"


def holders(value: Any, con: wire.WireType) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the structs with an address, and the name of its node ID field."""
    if isinstance(con, wire.Array):
        for item in value or ():
            yield from holders(item, con.element)
    elif isinstance(con, wire.NullableStruct):
        yield from holders(value, con.struct) if value is not None else ()
    elif isinstance(con, wire.Struct):
        members = {member.name: member for member in con.all_members}
        if {"host", "port"} <= members.keys():
            yield value, "broker_id" if "broker_id" in members else "node_id"
        for name, member in members.items():
            if name in value:
                yield from holders(value[name], member.con)


def drawn(
    key: int, version: int, seed: str, *, unknown_tags: bool = True, tags: float = 0.5
) -> dict[str, Any]:
    """Return a random body. Most of its nodes have an address."""
    layout, rng = response(key)[version], Random(seed)
    values = Values(seed, unknown_tags=unknown_tags, tags=tags)
    # built and decoded, so that its structs are distinct objects
    value = layout.parse(layout.build(values.draw(layout.struct)))
    for holder, node_id in holders(value, layout.struct):
        if rng.random() < 0.8:
            holder[node_id] = rng.choice((0, 1, 7, 1001, 2**31 - 1))
            holder["host"] = rng.choice(
                ("b", "10.0.0.1", "broker-1.example.com", "größe", "x" * 120, "y" * 127)
            )
            holder["port"] = rng.choice((1, 9092, 65535))
    if "endpoint_type" in value:
        value["endpoint_type"] = rng.choice((1, 2))
    return value


def frame_of(key: int, version: int, body: bytes, rng: Random | None = None) -> bytes:
    """Return a complete frame; sometimes its header has a tag."""
    version_of_header = response_header_version(response(key), version)
    header: dict[str, Any] = {"correlation_id": 7}
    if rng is not None and version_of_header and rng.random() < 0.3:
        header["_tags"] = {3: bytes(rng.choice((0, 1, 200)))}
    payload = ResponseHeader[version_of_header].build(header) + body
    return len(payload).to_bytes(4, "big") + payload


def body_of(key: int, version: int, frame: bytes) -> bytes:
    """Check the size of a frame and return its body."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[ResponseHeader[response_header_version(response(key), version)].decode(frame, 4)[1] :]


class Advertiser:
    """Replaces the listeners: an address for each broker, or none, depending on the seed."""

    def __init__(self, seed: str) -> None:
        self.rng = Random(f"{seed} advertise")
        self.told: dict[Broker, tuple[str, int]] = {}

    def __call__(self, broker: Broker) -> tuple[str, int]:
        if broker not in self.told:
            host = self.rng.choice(("p", "127.0.0.1", "::1", "kproxy.example", "z" * 130, broker.host))
            self.told[broker] = host, self.rng.choice((self.rng.randrange(1, 65536), broker.port))
        return self.told[broker]

    def told_instead(self, role: str, node_id: int, host: str, port: int) -> tuple[str, int]:
        """Return the expected address for clients, computed without the code under test."""
        if host == "" or port <= 0:
            return host, port
        return next(told for broker, told in self.told.items() if broker[:2] == (role, node_id))
