"""Requests that a broker forwards to the controller for a client (KIP-590): request, principal and address.

The request inside an Envelope is whole, header and body without a size field; so is the response. Both are
decoded and annotated as if they had arrived alone, so that their secrets are masked too.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from dissectors import frames
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name
from dissectors.embedded.layout import Layout, embedded, prefixed
from dissectors.embedded.layout import trace as trace_layout
from dissectors.embedded.model import EmbeddedProblem, EmbeddedValue, Hints
from dissectors.headers import SIZE_BYTES
from dissectors.masks import UNDECODED
from dissectors.schema import Bool, Message, String
from dissectors.sides import Side
from dissectors.trace import Node

# DefaultKafkaPrincipalBuilder.java
DefaultPrincipalData = Message(
    "DefaultPrincipalData", None, "data", "0", "0+",
    "type" / String * "principal type, normally User",
    "name" / String * "principal name",
    "token_authenticated" / Bool * "true = logged in with a delegation token",
)  # fmt: skip


def request(data: bytes, hints: Hints) -> EmbeddedValue:
    """Decode the request inside an Envelope."""
    if not data:
        return EmbeddedValue(None, "request")
    body = frames.decode_request(data)
    return _shown(body, "request", hints)


def response(data: bytes, hints: Hints) -> EmbeddedValue:
    """Decode the response inside an Envelope; API key and version of its request are hints."""
    if not data:
        return EmbeddedValue(None, "response")
    if hints.inner_key is None or hints.inner_version is None:
        return EmbeddedValue(None, "response", guess="the request is unknown, so the response is not decoded")
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
    # a frame has a size field, an Envelope's content has none
    root.children = [child for child in root.children or () if child.name != "size"]
    for child in root.children:
        child.shift(-SIZE_BYTES)
    root.end -= SIZE_BYTES
    return root


def principal(data: bytes, hints: Hints) -> EmbeddedValue:
    """Decode the forwarded principal, if it has the format of Kafka's default principal builder."""
    layout = _principal(data)
    if layout is None:
        return EmbeddedValue(None, "principal of another serializer" if data else "principal")
    return embedded(layout, data, show_secrets=hints.show_secrets)


def trace_principal(data: bytes) -> Node | None:
    """Return the tree of the forwarded principal."""
    layout = _principal(data)
    return None if layout is None else trace_layout(layout, data, layout.label)


def address(data: bytes, _hints: Hints) -> EmbeddedValue:
    """Decode the client's address: 4 or 16 bytes."""
    if not data:
        return EmbeddedValue(None, "IP address")
    try:
        return EmbeddedValue(str(ip_address(data)), "IP address")
    except ValueError:
        return EmbeddedValue(
            None, "IP address", problems=((0, "", f"{len(data)} bytes are not an IP address"),)
        )


def _principal(data: bytes) -> Layout | None:
    return prefixed(DefaultPrincipalData, data)


def _shown(body: frames.Body, side: Side, hints: Hints) -> EmbeddedValue:
    # annotate imports this package, so it is imported on demand
    from dissectors.annotate import Annotations, Annotator
    from dissectors.session_context import SessionContext

    masked: tuple[str, ...] = ()
    problems: list[EmbeddedProblem] = [
        (item.offset - SIZE_BYTES if item.offset >= 0 else -1, item.path, item.reason)
        for item in body.problems
    ]
    name = api_name(body.key)
    value: dict[str, Any] = {"api": name, "header": body.header, "body": None}
    notes = Annotations()
    if body.key == ApiKey.ENVELOPE:
        # Brokers reject it too. Left unread, it cannot lead this decoder down a chain of envelopes.
        problems.append((0, "", f"an Envelope {side} inside an Envelope"))
        masked = () if hints.show_secrets else ("body",)
    else:
        annotator = Annotator(SessionContext(), show_secrets=hints.show_secrets)
        annotator.annotate(body, side, notes, budget=hints.budget)
        value["body"] = body.value
        problems += [(item.offset, item.path, item.reason) for _, item in notes.problems]
        if notes.decoded:
            value["decoded"] = {_under(path, side, "body"): item for path, item in notes.decoded.items()}
    version = body.asked if body.asked >= 0 else None
    label = f"{name} {side}" + ("" if version is None else f" v{version}")
    masked += tuple(_under(path, side, "body") for path in notes.masked)
    limit = next(
        (item.limit for item in (*body.problems, *(item for _, item in notes.problems)) if item.limit), ""
    )
    return EmbeddedValue(value, label, version, tuple(problems), masked, body.guess, limit=limit)


def _under(path: str, side: Side, name: str) -> str:
    beside = path.removeprefix(f"{side}.").partition(".")[0] in ("header", UNDECODED)
    return path.removeprefix(f"{side}.") if beside else name + path.removeprefix(side)
