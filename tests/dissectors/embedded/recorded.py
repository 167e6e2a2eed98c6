"""The bytes fields of the recorded traffic, from the reference decodings of Apache kafka-clients."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, NamedTuple

from dissectors.embedded import Hints
from tests.reference import captures_dir


class RecordedField(NamedTuple):
    """One bytes field: its content, its context, and its recording."""

    content: str
    data: bytes
    hints: Hints
    origin: str


_APIS = (
    "JoinGroup", "SyncGroup", "DescribeGroups", "SaslAuthenticate", "SaslToken", "PushTelemetry", "Envelope",
)  # fmt: skip
_WANTED = tuple(f'{{"api":"{name}"'.encode() for name in _APIS)


def recorded() -> Iterator[RecordedField]:
    """Yield every field, in the order of the recordings."""
    for path in sorted((captures_dir() / "oracle").glob("*.jsonl.gz")):
        origin = path.name.removesuffix(".jsonl.gz")
        asked: _Asked = {}
        for line in gzip.decompress(path.read_bytes()).splitlines():
            if line.startswith(_WANTED):
                for content, text, hints in _fields(json.loads(line), asked):
                    data = b64decode(text or "")
                    yield RecordedField(content, data, hints, origin)


# context for the response from its request, by connection and correlation ID
_Asked = dict[tuple[str, int], Hints]


def _exchange(message: dict[str, Any]) -> tuple[str, int]:
    return message.get("conn", ""), message.get("header", {}).get("correlationId", -1)


def _fields(message: dict[str, Any], asked: _Asked) -> Iterator[tuple[str, str | None, Hints]]:
    api, body = f"{message['api']} {message['dir']}", message.get("body") or {}
    joined = asked.get(_exchange(message), Hints())
    group = Hints(body.get("protocolType") or joined.protocol_type, body.get("protocolName"))
    match api:
        case "JoinGroup req":
            asked[_exchange(message)] = Hints(body["protocolType"])
            for protocol in body["protocols"]:
                yield "group_metadata", protocol["metadata"], Hints(body["protocolType"], protocol["name"])
        case "JoinGroup resp":
            for member in body.get("members", ()):
                yield "group_metadata", member["metadata"], group
        case "SyncGroup req":
            for member in body["assignments"]:
                yield "group_assignment", member["assignment"], group
        case "SyncGroup resp":
            yield "group_assignment", body.get("assignment"), group
        case "DescribeGroups resp":
            for described in body["groups"]:
                hints = Hints(described["protocolType"], described["protocolData"])
                for member in described["members"]:
                    yield "group_metadata", member["memberMetadata"], hints
                    yield "group_assignment", member["memberAssignment"], hints
        case "SaslAuthenticate req" | "SaslAuthenticate resp":
            yield "sasl_token", body.get("authBytes"), Hints()
        case "PushTelemetry req":
            yield "telemetry", body["metrics"], Hints(compression=body["compressionType"])
        case "Envelope req" | "Envelope resp":
            yield from _envelope(message, body, asked)


def _envelope(
    message: dict[str, Any], body: dict[str, Any], asked: _Asked
) -> Iterator[tuple[str, str | None, Hints]]:
    if message["dir"] == "resp":
        yield "envelope_response", body["responseData"], asked[_exchange(message)]
        return
    inner = b64decode(body["requestData"])
    key, version = int.from_bytes(inner[:2]), int.from_bytes(inner[2:4])
    asked[_exchange(message)] = Hints(inner_key=key, inner_version=version)
    yield "envelope_request", body["requestData"], Hints()
    yield "principal", body["requestPrincipal"], Hints()
    yield "ip_address", body["clientHostAddress"], Hints()
