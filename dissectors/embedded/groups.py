"""Metadata and assignments that members of classic groups exchange through the coordinator.

The coordinator forwards them unread; their format depends on the protocol type of the group: ``consumer``
(``ConsumerProtocol.java``), ``connect``, ``sr`` (Schema Registry, JSON), or a format of the users' own. Responses
before JoinGroup v7 and SyncGroup v5 do not name it (KIP-559). If no message has named it, consumer and Connect are
tried, and accepted if they account for every byte.

Some clients write less than the announced version: kafka-go and platformatic send a subscription of
version 1 without owned partitions. Bytes that match a lower version exactly are read in that version, with a note.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from dissectors.embedded.assignors import assignment_user_data, subscription_user_data
from dissectors.embedded.connect import connect_assignment, connect_metadata
from dissectors.embedded.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from dissectors.embedded.layout import Layout, embedded, exact, prefixed
from dissectors.embedded.layout import trace as trace_layout
from dissectors.embedded.model import EmbeddedValue, Hints
from dissectors.trace import Node

_CONSUMER = frozenset({"consumer", "stream", "streams"})


def decode(data: bytes, hints: Hints, *, assignment: bool) -> EmbeddedValue:
    """Decode a member's metadata or its assignment."""
    protocol = hints.protocol_type
    if not data:
        return EmbeddedValue(None, "assignment" if assignment else "metadata")
    if protocol == "sr":
        return _schema_registry(data, "assignment" if assignment else "metadata")
    layout, guess = _choose(data, hints, assignment=assignment)
    if layout is not None:
        found = embedded(layout, data, guess=guess, show_secrets=hints.show_secrets)
        lower = _lower(layout, data) if found.problems else None
        return found if lower is None else embedded(lower, data, show_secrets=hints.show_secrets)
    if protocol in _CONSUMER or protocol == "connect":
        return EmbeddedValue(None, protocol, problems=((0, "", "no version at the start"),))
    return EmbeddedValue(None, f"opaque (protocol type {protocol or 'unknown'})")


def trace(data: bytes, hints: Hints, *, assignment: bool) -> Node | None:
    """Return the tree of the bytes that :func:`decode` reads, None if they have no declaration."""
    layout, _ = _choose(data, hints, assignment=assignment) if data else (None, "")
    if layout is None:
        return None
    if not exact(layout, data):
        layout = _lower(layout, data) or layout
    return trace_layout(layout, data, layout.label)


def _choose(data: bytes, hints: Hints, *, assignment: bool) -> tuple[Layout | None, str]:
    """Return the layout and, if the protocol type is unknown, the reason to accept it."""
    protocol = hints.protocol_type
    if protocol in _CONSUMER:
        name = "stream" if protocol in ("stream", "streams") else hints.protocol_name
        return _consumer(data, name, assignment=assignment), ""
    if protocol == "connect":
        return _connect(data, assignment=assignment), ""
    if protocol:
        return None, ""
    for kind, layout in (
        ("consumer", _consumer(data, hints.protocol_name, assignment=assignment)),
        ("connect", _connect(data, assignment=assignment)),
    ):
        if layout is not None and not layout.guess and exact(layout, data):
            return layout, f"protocol type not seen, all bytes match {kind}"
    return None, ""


def _lower(layout: Layout, data: bytes) -> Layout | None:
    """Return the layout of the highest version below the announced one that accounts for every byte."""
    for version in range(layout.version - 1, layout.message.versions.first - 1, -1):
        note = f"announced as version {layout.asked}, written as version {version}"
        lower = replace(layout, version=version, note=note)
        shorter = len(lower.con.struct.members) < len(layout.con.struct.members)
        if shorter and exact(lower, data):
            return lower
    return None


def _consumer(data: bytes, assignor: str | None, *, assignment: bool) -> Layout | None:
    if assignment:
        message, user_data = ConsumerProtocolAssignment, assignment_user_data
    else:
        message, user_data = ConsumerProtocolSubscription, subscription_user_data
    return prefixed(message, data, inside={"user_data": lambda content: user_data(assignor, content)})


def _connect(data: bytes, *, assignment: bool) -> Layout | None:
    return connect_assignment(data) if assignment else connect_metadata(data)


def _schema_registry(data: bytes, what: str) -> EmbeddedValue:
    label = f"Schema Registry {what}"
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        return EmbeddedValue(None, label, problems=((0, "", f"not JSON: {error}"),))
    version = value.get("version") if isinstance(value, dict) else None
    return EmbeddedValue(value, label, version if isinstance(version, int) else None)
