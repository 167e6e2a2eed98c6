"""A capture with hostile text in every string and bytes field of every API, and secrets in all places for them.

Every request and response, in its oldest and its newest version, has text that could control a terminal or forge a line
in every string. There is a secret in every field for secrets, in every unknown tag beside secrets, in truncated,
trailing and undecoded data, in raw SASL tokens, in forwarded requests and in records of the cluster's own topic.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dissectors import apis, wire
from dissectors.embedded.cluster_metadata import ConfigRecord, UserScramCredentialRecord
from dissectors.embedded.secrets import api_may_hold_secrets
from dissectors.frames import decode_request, decode_response, trace_body
from dissectors.headers import (
    SIZE_BYTES,
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from dissectors.message_version import MessageVersion
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.packets.kit import Conversation, pcap
from tests.captures.packets.kit import Record as Packet

SECRET = "hunter2-never-to-be-seen"
FORGED = "kproxy: forged"
HOSTILE = f"=x\x1b[31m\x1b[2J\x1b]0;t\x07\x9b1m\x7f\u202ey\u200b\r\n{FORGED}\n"

_TAG = 9_999

SASL_HANDSHAKE, SASL_AUTHENTICATE, API_VERSIONS, PRODUCE, FETCH, ENVELOPE = 17, 36, 18, 0, 1, 58


def readings_of(secret: str = SECRET) -> tuple[str, ...]:
    """Return the possible encodings of bytes that contain a secret: text, hexadecimal digits, base64."""
    data = secret.encode()
    found = [secret, data.hex(), data.hex(" ")]
    for shift in range(3):  # at any position in the encoded data
        whole = b64encode(bytes(shift) + data).decode()
        found.append(whole[4 if shift else 0 : len(whole) - 4])
    return tuple(found)


class PlantedValues:
    """Generates values of wire types.

    :param secretive: whether data outside of any declaration is secret here
    """

    def __init__(self, *, secretive: bool) -> None:
        self._unknown = SECRET.encode() if secretive else HOSTILE.encode()

    def value(self, con: wire.WireType, content: str = "", *, secret: bool = False) -> Any:
        match con:
            case wire.NullableStruct():
                return self.struct(con.struct)
            case wire.Struct():
                return self.struct(con)
            case wire.Array():
                return self._array(con)
            case wire.FixedWidth():
                return False if con.code == "?" else 1
            case wire.Uuid():
                return wire.uuid_text(bytes(range(16)))
            case wire.Records():
                return records(HOSTILE)
            case wire.String():
                return SECRET if secret else HOSTILE
            case wire.Bytes():
                return self._bytes(content, secret=secret)
        raise AssertionError(f"nothing to plant in {con!r}")

    @staticmethod
    def _bytes(content: str, *, secret: bool) -> bytes:
        if content == "unaligned_records":
            return records(HOSTILE)
        if content == "sasl_token":
            return f"\0alice\0{SECRET}".encode()
        if content == "envelope_request":
            return next(frames(SASL_AUTHENTICATE, 2))[0][SIZE_BYTES:]
        return SECRET.encode() if secret or content == "envelope_response" else HOSTILE.encode()

    def _array(self, con: wire.Array) -> Any:
        if isinstance(con.element, wire.FixedWidth):
            return (1,)
        if not isinstance(con.element, wire.Struct):
            return [self.value(con.element)]
        if any(member.field.type.content == "config_value" for member in con.element.members):
            return list(self._configs(con.element))
        return [self.struct(con.element)]

    def _configs(self, con: wire.Struct) -> Iterator[dict[str, Any]]:
        """Yield configurations that are secret by their names, and by the broker's flag."""
        by_name = self.struct(con, name=f"{HOSTILE}.password")
        yield by_name
        if "is_sensitive" in by_name:
            yield self.struct(con, name=HOSTILE) | {"is_sensitive": True}

    def struct(self, con: wire.Struct, *, name: str = HOSTILE) -> dict[str, Any]:
        made = {}
        for member in con.all_members:
            type_ = member.field.type
            secret = type_.is_secret or type_.content == "config_value"
            made[member.name] = self.value(member.con, type_.content, secret=secret)
        if "name" in made and isinstance(made["name"], str):
            made["name"] = name
        if con.tagged is not None:
            made[wire.UNKNOWN_TAGS] = {_TAG: self._unknown}
        return made


def records(text: str) -> bytes:
    """Return a batch with a record that has text in all its parts."""
    data = text.encode()
    return build_batch([Record(0, 1_700_000_000_000, data, data, ((text, data),))])


def cluster_records() -> bytes:
    """Return a batch of the cluster's own topic: credentials, secret configurations, and undecodable data."""
    secret = SECRET.encode()
    credential = {"name": HOSTILE, "mechanism": 1, "salt": secret, "stored_key": secret, "server_key": secret}
    config = {"resource_type": 4, "resource_name": HOSTILE, "name": "ssl.key.password", "value": SECRET}
    values = [
        b"\x01\x0b\x00" + UserScramCredentialRecord[0].build({**credential, "iterations": 4096}),
        b"\x01\x0b\x00" + UserScramCredentialRecord[0].build({**credential, "iterations": 4096}) + secret,
        b"\x01\x04\x00" + ConfigRecord[0].build(config),
        b"\x01\x0b\x00" + secret,  # no such record
        b"\x01\x7f\x00" + secret,  # of an unknown type
    ]
    return build_batch([Record(at, 1, None, value) for at, value in enumerate(values)])


def frames(key: int, version: int, **fields: Any) -> Iterator[tuple[bytes, bytes]]:
    """Yield request and response of an API.

    :param fields: fields that replace the planted ones
    """
    known = apis.api(key)
    assert known is not None
    both = []
    for message, response in ((known.request, False), (known.response, True)):
        body: MessageVersion = message[min(version, message.versions.last)]
        planting = PlantedValues(secretive=api_may_hold_secrets(key, response=response))
        value = planting.struct(body.struct)
        value |= {name: item for name, item in fields.items() if name in value}
        both.append(_header(key, version, response=response) + body.build(value))
    yield _framed(both[0]), _framed(both[1])


def _header(key: int, version: int, *, response: bool, client_id: str = HOSTILE) -> bytes:
    known = apis.api(key)
    assert known is not None
    secretive = api_may_hold_secrets(key, response=response)
    tags = {wire.UNKNOWN_TAGS: {_TAG: SECRET.encode() if secretive else HOSTILE.encode()}}
    if response:
        made = response_header_version(known.response, version)
        return ResponseHeader[made].build({"correlation_id": 0} | (tags if made else {}))
    made = request_header_version(known.request, version)
    header = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": 0,
        "client_id": client_id,
    }
    return RequestHeader[made].build(header | (tags if made > 1 else {}))


def _framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request_log() -> bytes:
    """Return a broker's request log with an entry for each API, in its newest version, and one without a layout."""
    lines = []
    for key in range(len(apis.NAMES)):
        known = apis.api(key)
        assert known is not None
        version = known.request.versions.last
        bodies = []
        for message, response in ((known.request, False), (known.response, True)):
            planting = PlantedValues(secretive=api_may_hold_secrets(key, response=response))
            body = message[min(version, message.versions.last)]
            bodies.append(_as_json(body.struct, planting.struct(body.struct)))
        lines.append(_entry(key, version, *bodies))
    lines.append(_entry(0, 9, {HOSTILE: HOSTILE}, {}))
    return b"".join(lines)


def _as_json(con: wire.WireType, value: Any) -> Any:
    """Return a value in the broker's log format."""
    match con:
        case wire.NullableStruct():
            return _as_json(con.struct, value)
        case wire.Struct():
            return {
                f"{member.name}SizeInBytes"
                if isinstance(member.con, wire.Records)
                else member.name: _as_json(member.con, value[member.name])
                for member in con.all_members
            }
        case wire.Array():
            return [_as_json(con.element, each) for each in value]
        case wire.Records():
            return len(value)
        case wire.Bytes():
            return b64encode(value).decode()
    return value


def _entry(key: int, version: int, request: Any, response: Any) -> bytes:
    times = ("totalTimeMs", "requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "responseQueueTimeMs")
    told = dict.fromkeys((*times, "sendTimeMs"), 1.5) | {
        "requestHeader": {
            "requestApiKey": key,
            "requestApiVersion": version,
            "correlationId": key,
            "clientId": HOSTILE,
        },
        "request": request,
        "response": response,
        "connection": f"10.0.0.2:9092-10.0.0.1:{40_000 + key}-0",
        "principal": HOSTILE,
        "listener": HOSTILE,
    }
    return b"[2030-01-01 00:00:00,000] DEBUG Completed request:" + json.dumps(told).encode() + b"\n"


def conversations() -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the requests and responses of each connection."""
    for key in range(len(apis.NAMES)):
        known = apis.api(key)
        assert known is not None
        versions = {known.request.versions.first, known.request.versions.last}
        if key == SASL_HANDSHAKE:  # raw tokens follow v0
            yield [(_framed(_handshake(0, "PLAIN")), _framed(struct.pack(">ihi", 0, 0, 0))), _tokens()]
            versions.discard(0)
        yield [pair for version in sorted(versions) for pair in frames(key, version)]
    yield [
        *frames(PRODUCE, 9, records=cluster_records(), name="__cluster_metadata"),
        *_cluster(),
        *_damaged(),
    ]


def _handshake(version: int, mechanism: str) -> bytes:
    known = apis.api(SASL_HANDSHAKE)
    assert known is not None
    body = known.request[version].build({"mechanism": mechanism})
    return _header(SASL_HANDSHAKE, version, response=False, client_id="app") + body


def _tokens() -> tuple[bytes, bytes]:
    return _framed(f"\0alice\0{SECRET}".encode()), _framed(f"v={SECRET}".encode())


def _cluster() -> Iterator[tuple[bytes, bytes]]:
    """Yield fetches of the cluster's own topic; the last ones are cut within a batch, and damaged."""
    known = apis.api(FETCH)
    assert known is not None
    whole = cluster_records()
    for data in (whole, whole[:-20], whole[:70] + b"\xff\xff\xff\xff\xff" + whole[75:], SECRET.encode() * 5):
        (request, _), *_ = frames(FETCH, 12)
        body = PlantedValues(secretive=False).struct(known.response[12].struct)
        body["responses"][0]["topic"] = "__cluster_metadata"
        body["responses"][0]["partitions"][0]["records"] = data
        yield request, _framed(_header(FETCH, 12, response=True) + known.response[12].build(body))


def _damaged() -> Iterator[tuple[bytes, bytes]]:
    """Yield messages that may hold secrets: cut after every field, with trailing bytes, and forwarded unread."""
    for key in range(len(apis.NAMES)):
        known = apis.api(key)
        assert known is not None
        version = known.request.versions.last
        ((request, response),) = frames(key, version)
        if api_may_hold_secrets(key, response=False):
            yield from ((_framed(part), response) for part in _cuts(request[SIZE_BYTES:], key, -1))
            yield _framed(request[SIZE_BYTES:] + SECRET.encode()), response
        if api_may_hold_secrets(key, response=True):
            yield from ((request, _framed(part)) for part in _cuts(response[SIZE_BYTES:], key, version))
            yield request, _framed(response[SIZE_BYTES:] + SECRET.encode())
    for inner in (SECRET.encode(), b"\0\x24\0\2" + SECRET.encode(), b"\0\x3a\0\0" + SECRET.encode()):
        yield from frames(ENVELOPE, 0, request_data=inner, response_data=SECRET.encode())


def _cuts(payload: bytes, key: int, version: int) -> Iterator[bytes]:
    """Yield the parts of a message up to or into each of its fields; not cut in its header."""
    response = version >= 0
    body = decode_response(payload, key, version) if response else decode_request(payload)
    assert not body.problems, (key, body.problems)
    root = trace_body(body, response=response)
    ends = {node.end - SIZE_BYTES for part in root.children or () for _, node in part.walk()}
    places = {place for end in ends for place in (end, end - 3, end - 30)}
    for place in sorted(places):
        if body.start - SIZE_BYTES <= place < len(payload):
            yield payload[:place]


def planted() -> bytes:
    """Return the capture: a connection per API, one with all damaged messages, and one cut by a snapshot length."""
    packets: list[Packet] = []
    number = 0
    for number, pairs in enumerate(conversations()):
        talk = Conversation(client=("10.0.0.1", 40_000 + number), broker=("10.0.0.2", 9092))
        talk.now += number * 10_000_000_000
        talk.handshake()
        opening = (_opening(), _framed(struct.pack(">ihi", 0, 0, 0)))
        sent = [0, 0]
        for at, (request, response) in enumerate([opening, *pairs]):
            asked, answered = _numbered(request, at, 8), _numbered(response, at, 4)
            if len(pairs) == 2 and at == 2 and request[4] == 0 and request[5:10] == b"alice":
                asked, answered = request, response  # raw tokens have no numbers
            talk.send(sent[0], asked, ack=sent[1])
            sent[0] += len(asked)
            talk.send(sent[1], answered, ack=sent[0], from_client=False)
            sent[1] += len(answered)
        packets += talk.records
    talk = Conversation(client=("10.0.0.1", 40_001 + number), broker=("10.0.0.2", 9092))
    talk.now += (number + 1) * 10_000_000_000
    talk.handshake()
    opening_frame = _opening()
    talk.send(0, opening_frame)
    ((request, _),) = frames(SASL_AUTHENTICATE, 2)
    cut = talk.send(len(opening_frame), _numbered(request, 1, 8))
    cut.frame, cut.wire = cut.frame[:-12], len(cut.frame)
    return pcap([*packets, *talk.records], nano=True)


def _opening() -> bytes:
    known = apis.api(API_VERSIONS)
    assert known is not None
    return _framed(_header(API_VERSIONS, 0, response=False, client_id="app") + known.request[0].build({}))


def _numbered(frame: bytes, number: int, at: int) -> bytes:
    """Put a correlation ID into a frame."""
    return frame[:at] + struct.pack(">i", number) + frame[at + 4 :]


def written(folder: Path) -> Path:
    """Write the capture to a file."""
    path = folder / "planted.pcap"
    path.write_bytes(planted())
    return path
