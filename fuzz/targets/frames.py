"""Requests and responses: bodies of every API in every version, and whole frames.

The first four bytes of an input select API key, version, kind and fields; the rest is the body, or the frame.

A body, read by one layout:

* The generated decoder returns a value, or raises :class:`DecodeError` with a reason and an offset inside the bytes.
  The traced decoder gives the same value and end, or the same error at the same field.
* The nodes of the trace are nested, in the order of the bytes.
* A projection returns the requested part of the value; if it refuses, its error is that of the full decoder.
* The locator finds fields at the positions of the trace, also if the bytes arrive in pieces.
* A decoded value can be built, and the result decodes to the same value.

A frame: decoding, tracing and annotating never raise, and the nodes of the trace lie inside the frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

from dissectors import apis, wire
from dissectors.annotate import Annotations, Annotator
from dissectors.budget import changed
from dissectors.errors import DecodeError
from dissectors.frames import Body, decode_request, decode_response, trace_body
from dissectors.headers import request_header_version, response_header_version
from dissectors.locator import FieldLocator, FieldSearch
from dissectors.message_version import MessageVersion
from dissectors.projection import Projection, pick, tree
from dissectors.session_context import SessionContext
from dissectors.trace import Node, Trace
from fuzz.target import Input, check

LONGEST = 4096

KEYS = len(apis.NAMES)
RESPONSE, FRAME, OLDER = 1, 2, 4
"""Bits of the third byte."""

_LIMITS = {"batch_bytes": 1 << 20, "batch_ratio_floor": 1 << 16, "batch_records": 1000}
_WANTED = 3


def run(data: bytes) -> None:
    """Read a body, or a frame."""
    given = Input(data)
    key, version, kind, salt = (given.number() for _ in range(4))
    if kind & FRAME:
        frame(key, version, bool(kind & RESPONSE), given.rest())
    else:
        body(layout_of(key, version, kind), salt, given.rest())


def layout_of(key: int, version: int, kind: int) -> MessageVersion:
    """Return the layout that the first bytes of an input select."""
    known = apis.api(key % KEYS)
    assert known is not None
    message = known.response if kind & RESPONSE else known.request
    layout = message[message.nearest(version)]
    return layout.older[0] if kind & OLDER and layout.older else layout


# ---------------------------------------------------------------- bodies
def body(layout: MessageVersion, salt: int, data: bytes) -> None:
    """Read a body in every way, and compare the results."""
    traced = layout.trace(data)
    inside(traced.root, 0, len(data))
    try:
        value, end = layout.decode(data)
    except DecodeError as error:
        same_error(error, traced, len(data))
        value, end = None, -1
    else:
        check(traced.error is None, "only the trace refuses:", traced.error)
        check(0 <= end <= len(data), "end", end)
        check(traced.end == end and same(traced.root.to_value(), value), "trace and decoder differ")
        built = layout.build(value)
        again, used = layout.decode(built)
        check(used == len(built) and same(again, value), "built bytes decode to another value")
    projected(layout, salt, data, value, end)
    located(layout, salt, data, traced)


def same_error(error: DecodeError, traced: Trace, size: int) -> None:
    """Check that decoder and trace report the same error, with a reason and a valid offset."""
    check(error.reason and "generated decoder" not in error.reason, "reason", error.reason)
    check(0 <= error.offset <= size, "offset", error.offset, "of", size)
    check(traced.error is not None, "only the decoder refuses:", error)
    assert traced.error is not None
    check(str(traced.error) == str(error), "decoder:", error, "- trace:", traced.error)
    check(not error.truncated or error.offset <= size, "truncated, but all is there")


def inside(node: Node, start: int, end: int) -> None:
    """Check that a node lies inside these bytes, and its children inside it, in order."""
    check(start <= node.start <= end, node, "begins outside", start, end)
    check(node.end == -1 or node.start <= node.end <= end, node, "ends outside", start, end)
    last = end if node.end < 0 else node.end
    if node.buffer is not None:
        at, last = 0, len(node.buffer)
    else:
        at = node.start
    for child in node.children or ():
        inside(child, at, last)
        at = child.start if child.end < 0 else child.end


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same, with NaN equal to itself."""
    return bool(one == other) or repr(ordered(one)) == repr(ordered(other))


def ordered(value: Any) -> Any:
    """Return a value with sorted keys in all dicts, because tagged fields have no order."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value, key=str)}
    return [ordered(item) for item in value] if isinstance(value, list | tuple) else value


@lru_cache(4096)
def paths_of(layout: MessageVersion, *, leaves: bool) -> tuple[str, ...]:
    """Return the paths of all fields of a layout, or only of those outside arrays."""
    return tuple(_paths(layout.struct, "", leaves))


def _paths(con: wire.WireType, prefix: str, leaves: bool) -> Iterator[str]:
    if isinstance(con, wire.Array):
        con = con.element
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if isinstance(con, wire.Struct):
        for member in con.all_members:
            path = f"{prefix}{member.name}"
            if not leaves or isinstance(member.con, wire.Leaf):
                yield path
            yield from _paths(member.con, f"{path}.", leaves)


@lru_cache(4096)
def chosen(layout: MessageVersion, salt: int, *, leaves: bool) -> tuple[str, ...]:
    """Return a selection of a layout's fields, determined by a number."""
    paths = paths_of(layout, leaves=leaves)
    return tuple(Random(salt).sample(paths, min(len(paths), salt % (_WANTED + 1))))


@lru_cache(4096)
def projection_of(layout: MessageVersion, salt: int) -> Projection:
    """Return a projection, cached because making one takes longer than running it."""
    return Projection(layout, chosen(layout, salt, leaves=False))


@lru_cache(4096)
def locator_of(layout: MessageVersion, salt: int) -> FieldLocator:
    """Return a locator of some fields outside arrays."""
    return FieldLocator.to_fields([layout.struct], chosen(layout, salt, leaves=True))


def projected(layout: MessageVersion, salt: int, data: bytes, value: Any, end: int) -> None:
    """Compare a projection with the full decoder; ``value`` is None if that raised."""
    projection = projection_of(layout, salt)
    wanted = tree(chosen(layout, salt, leaves=False))
    try:
        found = projection.parse(data)
    except DecodeError as error:
        check(value is None, "only the projection refuses:", error)
        try:
            layout.decode(data)
        except DecodeError as full:
            check(str(full) == str(error), "projection:", error, "- decoder:", full)
    else:
        check(value is None or same(found, pick(value, wanted)), "the projection has other values")
    exact = projection.exactly(data)
    if value is not None and end == len(data) and not layout.older:
        check(exact is not None and same(exact, pick(value, wanted)), "exact projection has other values")


def located(layout: MessageVersion, salt: int, data: bytes, traced: Trace) -> None:
    """Compare the positions of the locator with those of the trace, for whole bytes and pieces."""
    locator = locator_of(layout, salt)
    wanted = set(chosen(layout, salt, leaves=True))
    try:
        locations = locator.find(data)
    except DecodeError as error:
        check(traced.error is not None or layout.older, "only the locator refuses:", error)
        check(0 <= error.offset <= len(data), "offset", error.offset)
        whole: Any = error.reason, error.offset, error.truncated
    else:
        whole = [spot[:4] for spot in locations]
        if traced.error is None and not layout.older:
            nodes = [(path, node.end, node.value) for path, node in traced.root.walk()]
            places = [found for found in nodes if _without_indexes(found[0]) in wanted]
            check(same([(s.path, s.end, s.value) for s in locations], places), "the locator has other places")
    check(in_pieces(locator, data, salt) == whole, "the locator gives something else for pieces")


def _without_indexes(path: str) -> str:
    return "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))


def in_pieces(locator: FieldLocator, data: bytes, salt: int) -> Any:
    """Return the positions of fields, or the error, found while the bytes arrive."""
    search, rng, pos = FieldSearch(locator), Random(salt), 0
    end = 0 if locator.is_empty else None
    try:
        while end is None and pos < len(data):
            size = rng.choice((1, 2, 3, 7, 50, 400))
            end = search.feed(data[pos : pos + size])
            pos += size
    except DecodeError as error:
        return error.reason, error.offset, error.truncated
    if end is None or end > len(data):
        return "the bytes end early", len(data), True
    return [spot[:4] for spot in search.found]


# ---------------------------------------------------------------- frames
def frame(key: int, version: int, response: bool, payload: bytes) -> None:
    """Read a frame as for display."""
    complete = bool(version & 0x80)
    if response:
        made = decode_response(payload, key % (KEYS + 2), version & 0x7F, complete=complete)
    else:
        made = decode_request(payload, complete=complete)
    for problem in made.problems:
        check(problem.reason, "a problem without a reason")
        check(-1 <= problem.offset <= len(payload) + 4, "problem at", problem.offset)
    for records in (False, True):
        root = trace_body(made, response=response, records=records, max_records=200)
        inside(root, 0, len(payload) + 4)
    annotate(made, response)


def annotate(made: Body, response: bool) -> None:
    """Annotate a body for display."""
    out = Annotations()
    with changed(**_LIMITS):
        Annotator(SessionContext()).annotate(made, "response" if response else "request", out, connection=0)
    for _, problem in out.problems:
        check(problem.reason, "a problem without a reason")


# ---------------------------------------------------------------- seeds
def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield a request and a response of every API in its newest version, some as whole frames."""
    from fuzz.targets.records import seeds as record_seeds
    from tests.dissectors.values import Values

    for name, records in record_seeds():
        for key, version, kind in ((0, 8, 0), (1, 11, RESPONSE)):
            yield f"{apis.NAMES[key]}-{version}-{name}", with_records(key, version, kind, records[1:])
    for key in range(KEYS):
        known = apis.api(key)
        assert known is not None
        for kind, message in enumerate((known.request, known.response)):
            version = message.versions.last
            data = smallest(message[version], f"{key} {kind}", Values)
            yield f"{message.name}-{version}", bytes((key, version, kind, 3)) + data
            if key in (0, 1, 3, 11, 14, 18):
                header = (
                    request_header(message, key, version) if not kind else response_header(message, version)
                )
                yield (
                    f"{message.name}-{version}-frame",
                    bytes((key, version | 0x80, kind | FRAME, 0)) + header + data,
                )


def with_records(key: int, version: int, kind: int, records: bytes) -> bytes:
    """Return the frame of a Produce request or a Fetch response with one partition."""
    layout = layout_of(key, version, kind)
    name, partition = "topic_data", {"index": 0, "records": records}
    if kind & RESPONSE:
        name, partition = "responses", {"partition_index": 0, "records": records}
        topic = {"topic": "orders", "partitions": [partition]}
    else:
        topic = {"name": "orders", "partition_data": [partition]}
    header = (
        response_header(layout.message, version) if kind else request_header(layout.message, key, version)
    )
    return bytes((key, version | 0x80, kind | FRAME, 0)) + header + layout.build({name: [topic]})


def smallest(layout: MessageVersion, seed: str, values: Any, most: int = 600) -> bytes:
    """Return a short message with many fields."""
    made = [layout.build(values(f"{seed} {number}").draw(layout.struct)) for number in range(12)]
    fitting = [data for data in made if len(data) <= most]
    return max(fitting, key=len) if fitting else min(made, key=len)


def request_header(message: Any, key: int, version: int) -> bytes:
    """Return the header of a request."""
    start = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\0\3app"
    return start + b"\0" * (request_header_version(message, version) == 2)


def response_header(message: Any, version: int) -> bytes:
    """Return the header of a response."""
    return (7).to_bytes(4, "big") + b"\0" * response_header_version(message, version)
