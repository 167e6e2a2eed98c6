"""Protocols inside bytes fields: groups, SASL, telemetry, Envelope, records of internal topics, control records.

The first byte of an input selects the protocol, the second the known context.

* Nothing raises. Every problem has a reason.
* Secrets are hidden: masked parts are None in the value, and all others are the same as with secrets shown.
* The nodes of the trace lie inside the bytes.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from dissectors import embedded
from dissectors.embedded import CONTENTS, INTERNAL_TOPICS, EmbeddedValue, Hints
from dissectors.embedded.topics import CLUSTER_METADATA, COORDINATOR_TOPICS, REMOTE_LOG_METADATA
from dissectors.records import ControlType
from fuzz.target import Input, check, chunk
from fuzz.targets.frames import inside

LONGEST = 4096

KINDS = (*sorted(CONTENTS), *sorted(INTERNAL_TOPICS), *sorted(kind.name for kind in ControlType))
_TYPES = (None, "consumer", "connect", "sr", "stream")
_NAMES = (None, "range", "sticky", "cooperative-sticky", "stream", "compatible", "sessioned", "default")
_MECHANISMS = (None, "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def run(data: bytes) -> None:
    """Decode a bytes field, or a record."""
    given = Input(data)
    kind, around = KINDS[given.number() % len(KINDS)], given.number()
    hints = Hints(
        _TYPES[around % len(_TYPES)],
        _NAMES[around % len(_NAMES)],
        _MECHANISMS[around % len(_MECHANISMS)],
        around % 6 or None,
        around % 95,
        around % 7,
    )
    if kind in CONTENTS:
        field = given.rest()
        found = embedded.decode(kind, field, hints)
        shown = embedded.decode(kind, field, replace(hints, show_secrets=True))
        tree = embedded.trace(kind, field, hints)
        if tree is not None:
            inside(tree, 0, len(field))
    elif kind in INTERNAL_TOPICS:
        key = None if around & 1 else given.chunk()
        value = None if around & 2 else given.rest()
        found = record(embedded.internal_topic_record(kind, key, value))
        shown = record(embedded.internal_topic_record(kind, key, value, show_secrets=True))
    else:
        made = embedded.control_value(kind, None if around & 2 else given.rest())
        if made is None:
            return
        found = shown = made
    told(found)
    told(shown)
    check(not shown.masked, "secrets are masked that were to be shown:", shown.masked)
    for path in found.masked:
        check(at(found.value, path) is None, "masked, but there:", path)
    check(covers(found.value, shown.value), "what is not secret changes with what is shown")


def record(found: EmbeddedValue | None) -> EmbeddedValue:
    """Decode a record of a known topic, which never returns None."""
    check(found is not None, "a known topic gives nothing")
    assert found is not None
    return found


def told(found: EmbeddedValue) -> None:
    """Check that a result has a name, and its problems a reason."""
    check(isinstance(found.label, str), "label", found.label)
    for offset, path, reason in found.problems:
        check(isinstance(offset, int) and offset >= -1, "a problem at", offset)
        check(isinstance(path, str) and reason, "a problem without place or reason", path, reason)


def at(value: Any, path: str) -> Any:
    """Return the value at a path, None if there is none."""
    for name, index in _STEP.findall(path):
        if index and isinstance(value, list | tuple):
            value = value[int(index)] if int(index) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(name or index)
        else:
            return value
    return value


def covers(masked: Any, shown: Any) -> bool:
    """Return whether a value equals another in which parts are replaced by None."""
    if masked is None:
        return True
    if isinstance(masked, dict) and isinstance(shown, dict):
        return masked.keys() == shown.keys() and all(covers(masked[key], shown[key]) for key in masked)
    if isinstance(masked, list | tuple) and isinstance(shown, list | tuple):
        return len(masked) == len(shown) and all(map(covers, masked, shown))
    return bool(masked == shown) or (masked != masked and shown != shown)  # NaN


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield an input for each protocol, made from the declarations, and hand-written tokens and metrics."""
    from dissectors.embedded.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
    from fuzz.targets.frames import smallest
    from tests.dissectors.values import Values

    def number(kind: str) -> int:
        return KINDS.index(kind)

    for kind, message in (
        ("group_metadata", ConsumerProtocolSubscription),
        ("group_assignment", ConsumerProtocolAssignment),
    ):
        for version in message.versions:
            made = version.to_bytes(2, "big") + smallest(message[version], f"{kind} {version}", Values, 200)
            yield f"{kind}-{version}", bytes((number(kind), 1)) + made
    for topic, types in sorted(COORDINATOR_TOPICS.items()):
        for number_, (key, value) in sorted(types.items()):
            newest = value.versions.last
            made = newest.to_bytes(2, "big") + smallest(value[newest], f"{topic} {number_}", Values, 200)
            first = key.versions.first
            front = number_.to_bytes(2, "big") + smallest(key[first], f"{topic} {number_} key", Values, 100)
            yield f"{topic.strip('_')}-{number_}", bytes((number(topic), 0)) + chunk(front) + made
    for topic, records in (
        ("__cluster_metadata", CLUSTER_METADATA),
        ("__remote_log_metadata", REMOTE_LOG_METADATA),
    ):
        for number_, message in sorted(records.items()):
            newest = message.versions.last
            made = smallest(message[newest], f"{topic} {number_}", Values, 200)
            yield (
                f"{topic.strip('_')}-{number_}",
                bytes((number(topic), 1)) + bytes((1, number_, newest)) + made,
            )
    tokens = {
        1: b"\0alice\0secret",
        2: b"n,,n=alice,r=rOprNGfwEbeRWgbNEkqO",
        3: b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.\x01\x01",
        4: bytes.fromhex("602306092a864886f71201020201100011040500"),
        5: b'{"version":"2020_10_22","host":"b","user-agent":"x","action":"kafka-cluster:Connect"}',
    }
    for mechanism, token in tokens.items():
        yield f"sasl_token-{mechanism}", bytes((number("sasl_token"), mechanism)) + token
    # MetricsData > ResourceMetrics > ScopeMetrics > Metric "m" > Gauge > NumberDataPoint as_double 1.0
    point = bytes.fromhex("19 00c05b2a00000000 21 000000000000f03f")
    for part in (b"\x0a", b"\x2a", b"\x12", b"\x12", b"\x0a"):
        name = b"\x0a\x01m" if part == b"\x12" and b"m" not in point else b""
        point = name + part + bytes((len(point),)) + point
    yield "telemetry", bytes((number("telemetry"), 0)) + point
    yield "telemetry-gzip", bytes((number("telemetry"), 1)) + gzip.compress(point, mtime=0)
    yield "ip_address", bytes((number("ip_address"), 0)) + b"\x7f\0\0\1"
    yield "principal", bytes((number("principal"), 0)) + b"\0\0\x05User\x06alice\0\0"
    asked = b"\0\3\0\x0c\0\0\0\7\0\3app\0\1\1\0\0"
    yield "envelope_request", bytes((number("envelope_request"), 0)) + asked
    yield "envelope_response", bytes((number("envelope_response"), 3)) + b"\0\0\0\7\0\0\0\0\0\1\1\0\0\0\0\0"
    for kind in sorted(kind.name for kind in ControlType):
        yield f"control-{kind.lower()}", bytes((number(kind), 0)) + b"\0\0\0\0\0\7"
