"""Responses in which the proxy replaces addresses or lowers versions: whole frames as a broker may send them.

The first two bytes of an input select API and version; the rest is the response, without its size.

* Rewriting returns a frame or raises :class:`DecodeError`; it accepts every frame that decodes completely.
* If every address is already the right one, the frame is forwarded unchanged.
* A rewritten frame has the right size, decodes in the same version, and differs only in its addresses.
* Replacing addresses and putting them back gives the original message, and the same bytes if its lengths were minimal.
* No offered version is higher than the broker's, or than kproxy can rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors import apis
from dissectors.api_keys import ApiKey
from dissectors.errors import DecodeError
from dissectors.frames import Body, decode_response
from fuzz.target import Input, check
from fuzz.targets.frames import response_header, same
from kproxy.proxy.addresses import Broker, Rewriter, rewriter

LONGEST = 4096

KEYS = (0, 1, 3, 10, 18, 60, 78, 79)
_ADDRESS = frozenset({"host", "port"})
_UNSUPPORTED_VERSION = 35
_HIGHEST = 2**31 - 1  # ports have 32 bits in responses; the proxy refuses those above 65,535
_ENDPOINT = {"node_id": 7, "host": "broker-1", "port": 9092, "rack": None}


def run(data: bytes) -> None:
    """Rewrite a response."""
    given = Input(data)
    key, version, payload = KEYS[given.number() % len(KEYS)], given.number(), given.rest()
    rewrite = rewriter(key, version)
    if rewrite is None:
        return
    frame = len(payload).to_bytes(4, "big") + payload
    body = decode_response(payload, key, version)
    try:
        told = rewrite(frame, elsewhere)
    except DecodeError as error:
        check(body.problems or body.version is None, "refused, but can be decoded:", error)
        return
    if key == ApiKey.API_VERSIONS:
        lowered(body, told.frame, version)
        return
    straight = rewrite(frame, as_it_is).frame
    if not body.problems:
        check((straight is frame) != in_two_places(body.value), "a node is in one place, its first")
    check((told.frame is frame) == (not told.changes), "changes", told.changes)
    check(int.from_bytes(told.frame[:4], "big") == len(told.frame) - 4, "a wrong size")
    if straight is frame:
        put_back(rewrite, frame, told.frame, body)
    if not body.problems:
        other = decode_response(told.frame[4:], key, version)
        check(
            not other.problems and other.version == body.version,
            "cannot be decoded any more:",
            other.problems,
        )
        check(
            same(without_addresses(other.value), without_addresses(body.value)),
            "more than addresses has changed",
        )


def in_two_places(value: Any) -> bool:
    """Return whether a response has two addresses for one node."""
    places: dict[int, tuple[str, int]] = {}
    return any(places.setdefault(node, place) != place for node, place in nodes(value))


def nodes(value: Any) -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield the IDs and addresses of the nodes in a body that have an address."""
    if isinstance(value, list):
        for item in value:
            yield from nodes(item)
    elif isinstance(value, dict):
        if value.keys() >= _ADDRESS and value["host"] and value["port"] > 0:
            number = next(value[name] for name in ("node_id", "broker_id") if name in value)
            yield number, (value["host"], value["port"])
        for item in value.values():
            yield from nodes(item)


def elsewhere(broker: Broker) -> tuple[str, int]:
    """Return another address."""
    return broker.host + "x", broker.port % _HIGHEST + 1


def back(broker: Broker) -> tuple[str, int]:
    """Return the address that :func:`elsewhere` maps to this one."""
    return broker.host[:-1], (broker.port - 2) % _HIGHEST + 1


def as_it_is(broker: Broker) -> tuple[str, int]:
    """Return the address unchanged."""
    return broker.host, broker.port


def put_back(rewrite: Rewriter, frame: bytes, changed: bytes, body: Body) -> None:
    """Replace the addresses by the original ones."""
    again = rewrite(changed, back).frame
    if len(again) == len(frame):
        check(again == frame, "put back, the bytes are others")
    elif not body.problems:
        made = decode_response(again[4:], body.key, body.asked)
        check(len(again) < len(frame) and same(made.value, body.value), "put back, the message is another")


def without_addresses(value: Any) -> Any:
    """Return a body without the fields that rewriting may change."""
    if isinstance(value, dict):
        return {name: without_addresses(item) for name, item in value.items() if name not in _ADDRESS}
    return [without_addresses(item) for item in value] if isinstance(value, list) else value


def lowered(body: Body, frame: bytes, version: int) -> None:
    """Check the offered versions."""
    other = decode_response(frame[4:], ApiKey.API_VERSIONS, version)
    if body.problems or other.problems or body.value is None or other.value is None:
        return
    if other.value["error_code"] != body.value["error_code"]:  # an unknown version: the client retries
        check(other.value["error_code"] == _UNSUPPORTED_VERSION, "another error")
        return
    if body.value["error_code"] not in (0, _UNSUPPORTED_VERSION):
        return  # clients ignore everything else
    before, after = (each.value["api_keys"] for each in (body, other))
    check(len(before) == len(after), "other APIs are offered")
    for was, now in zip(before, after, strict=True):
        check(
            now["api_key"] == was["api_key"] and now["max_version"] <= was["max_version"], was, "became", now
        )
        known = apis.api(now["api_key"]) if now["api_key"] in KEYS else None
        check(known is None or now["max_version"] <= known.response.versions.last, "offered:", now)


def with_addresses(value: Any) -> Any:
    """Return a body with arbitrary values and nodes that have addresses."""
    if isinstance(value, list):
        return [with_addresses(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: with_addresses(item) for name, item in value.items()}
    if "host" in made and "port" in made:
        made |= {"host": made["host"] or "broker-1", "port": 9092 + len(made["host"] or "")}
        made |= {name: 7 for name in ("node_id", "broker_id") if name in made}
    return made


def _fitting(data: bytes) -> int:
    return len(data) if len(data) < 600 else -len(data)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield a response of each API in its oldest and newest versions, with addresses."""
    from tests.dissectors.values import Values

    for index, key in enumerate(KEYS):
        known = apis.api(key)
        assert known is not None
        message = known.response
        for version in {message.versions.first, message.versions.last, (message.versions.last + 1) // 2}:
            nearest = message.nearest(version)
            struct = message[nearest].struct
            made = [Values(f"{key} {nearest} {number}").draw(struct) for number in range(12)]
            if any(member.name == "node_endpoints" for member in (struct.tagged or {}).values()):
                made = [value | {"node_endpoints": [_ENDPOINT]} for value in made]
            body = max((message[nearest].build(with_addresses(value)) for value in made), key=_fitting)
            yield (
                f"{message.name}-{nearest}",
                bytes((index, nearest)) + response_header(message, nearest) + body,
            )
    newer = (7).to_bytes(4, "big") + b"\0\0\2\0\3\0\0\0\x63\0\0\0\0\0\0"
    fetch = (7).to_bytes(4, "big") + b"\0\0\2\0\1\0\0\0\x63\0\0\0\0\0\0"
    yield "fetch", bytes((KEYS.index(ApiKey.API_VERSIONS), 3)) + fetch
    yield "newer", bytes((KEYS.index(ApiKey.API_VERSIONS), 9)) + newer
