"""What a broker forwards to the controller for a client (KIP-590): a request, its principal, its address.

The request inside an Envelope is whole, header and body without a size field; the response likewise. Both are
decoded and annotated as if they had come alone, so that their secrets are masked too.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Literal

from dissectors import frames
from dissectors.apis import api_name
from dissectors.embedded.layout import Layout, embedded, prefixed
from dissectors.embedded.layout import trace as trace_layout
from dissectors.embedded.model import Embedded, Hints, Problem
from dissectors.embedded.principal import DefaultPrincipalData
from dissectors.trace import Node

ENVELOPE = 58

Side = Literal["request", "response"]


def request(data: bytes, hints: Hints) -> Embedded:
    """Decode the request inside an Envelope."""
    if not data:
        return Embedded(None, "request")
    body = frames.decode_request(data)
    return _shown(body, "request", hints)


def response(data: bytes, hints: Hints) -> Embedded:
    """Decode the response inside an Envelope; key and version of its request come as hints."""
    if not data:
        return Embedded(None, "response")
    if hints.inner_key is None or hints.inner_version is None:
        return Embedded(None, "response", guess="the request is not known, so the response stays bytes")
    body = frames.decode_response(data, hints.inner_key, hints.inner_version)
    return _shown(body, "response", hints)


def trace(data: bytes, hints: Hints, side: Side) -> Node | None:
    """Return the tree of a request or response inside an Envelope."""
    if not data:
        return None
    if side == "request":
        body = frames.decode_request(data)
    elif hints.inner_key is None or hints.inner_version is None:
        return None
    else:
        body = frames.decode_response(data, hints.inner_key, hints.inner_version)
    root = frames.trace_body(body, response=side == "response")
    # a frame has a size field, an Envelope's content has not
    root.children = [child for child in root.children or () if child.name != "size"]
    for child in root.children:
        child.shift(-frames.SIZE_BYTES)
    root.end -= frames.SIZE_BYTES
    return root


def principal(data: bytes, hints: Hints) -> Embedded:
    """Decode the forwarded principal, if it is written as Kafka's default principal builder does."""
    layout = _principal(data)
    if layout is None:
        return Embedded(None, "principal of another serializer" if data else "principal")
    return embedded(layout, data, show_secrets=hints.show_secrets)


def trace_principal(data: bytes) -> Node | None:
    """Return the tree of the forwarded principal."""
    layout = _principal(data)
    return None if layout is None else trace_layout(layout, data, layout.label)


def address(data: bytes) -> Embedded:
    """Decode the client's address: 4 or 16 bytes."""
    if not data:
        return Embedded(None, "IP address")
    try:
        return Embedded(str(ip_address(data)), "IP address")
    except ValueError:
        return Embedded(None, "IP address", problems=((0, "", f"{len(data)} bytes are no IP address"),))


def _principal(data: bytes) -> Layout | None:
    return prefixed(DefaultPrincipalData, data)


def _shown(body: frames.Body, side: Side, hints: Hints) -> Embedded:
    # annotations call this package for what lies inside, so they are imported when both exist
    from dissectors.annotate import Annotations, Annotator
    from dissectors.knowledge import Knowledge

    problems: list[Problem] = [
        (item.offset - frames.SIZE_BYTES if item.offset >= 0 else -1, item.path, item.reason)
        for item in body.problems
    ]
    name = api_name(body.key)
    value: dict[str, Any] = {"api": name, "header": body.header, "body": None}
    notes = Annotations()
    if body.key == ENVELOPE:
        # Brokers refuse it too. Unread, it cannot lead this decoder down a chain of envelopes.
        problems.append((0, "", f"an Envelope {side} inside an Envelope"))
    else:
        annotator = Annotator(Knowledge(), show_secrets=hints.show_secrets)
        annotator.annotate(body, side, notes, budget=hints.budget)
        value["body"] = body.value
        problems += [(item.offset, item.path, item.reason) for _, item in notes.problems]
        if notes.decoded:
            value["decoded"] = {_under(path, side, "body"): item for path, item in notes.decoded.items()}
    version = body.asked if body.asked >= 0 else None
    label = f"{name} {side}" + ("" if version is None else f" v{version}")
    masked = tuple(_under(path, side, "body") for path in notes.masked)
    limit = next(
        (item.limit for item in (*body.problems, *(item for _, item in notes.problems)) if item.limit), ""
    )
    return Embedded(value, label, version, tuple(problems), masked, body.guess, limit=limit)


def _under(path: str, side: Side, name: str) -> str:
    return name + path.removeprefix(side)
