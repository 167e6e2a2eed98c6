"""One request for every API and version that a broker announces, including those that no client happens to use.

Requests are built with kproxy's own constructs: each array has one element, every string is the topic's name, and
numbers have no meaning (0, or the default), so that nothing on the broker is lost. Each uses a connection of its own: a
broker may close it, which counts as no response.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, Literal

from dissectors import wire
from dissectors.apis import Api, api
from dissectors.headers import RequestHeader, request_header_version
from dissectors.records import Record
from dissectors.records.build import build_batch

_API_VERSIONS = 18
_PRODUCE = 0
CLIENT_ID = "sweep"
_PATIENCE_S = 3.0
_SIZE = struct.Struct(">i")
#: (API, field) -> value instead of the default; strings not listed here are the topic's name
_VALUES: dict[tuple[str, str], Any] = {
    ("Produce", "acks"): 1,
    ("Produce", "timeout_ms"): 1000,
    ("Produce", "transactional_id"): None,
    ("Fetch", "replica_id"): -1,
    ("Fetch", "max_bytes"): 1 << 20,
    ("Fetch", "partition_max_bytes"): 1 << 20,
    ("Fetch", "session_epoch"): -1,
    ("Fetch", "forgotten_topics_data"): [],
    ("ListOffsets", "replica_id"): -1,
    ("ListOffsets", "timestamp"): -1,
    ("ListOffsets", "max_num_offsets"): 1,
    ("OffsetForLeaderEpoch", "replica_id"): -1,
    ("DescribeAcls", "resource_type_filter"): 1,
    ("DescribeAcls", "pattern_type_filter"): 1,
    ("DescribeAcls", "operation"): 1,
    ("DescribeAcls", "permission_type"): 1,
    ("CreateAcls", "resource_type"): 2,
    ("CreateAcls", "resource_pattern_type"): 3,
    ("CreateAcls", "principal"): "User:sweep",
    ("CreateAcls", "host"): "*",
    ("CreateAcls", "operation"): 3,
    ("CreateAcls", "permission_type"): 3,
    ("DeleteAcls", "resource_type_filter"): 2,
    ("DeleteAcls", "pattern_type_filter"): 3,
    ("DeleteAcls", "principal_filter"): "User:sweep",
    ("DeleteAcls", "host_filter"): "*",
    ("DeleteAcls", "operation"): 3,
    ("DeleteAcls", "permission_type"): 3,
    ("InitProducerId", "transactional_id"): None,
    ("InitProducerId", "transaction_timeout_ms"): 1000,
    ("JoinGroup", "member_id"): "",
    ("DescribeConfigs", "resource_type"): 2,
    ("DescribeConfigs", "configuration_keys"): None,
    ("DescribeTopicPartitions", "response_partition_limit"): 10,
    ("DescribeTopicPartitions", "cursor"): None,
    ("ListGroups", "states_filter"): [],
    ("ListGroups", "types_filter"): [],
    ("ListTransactions", "state_filters"): [],
    ("ListTransactions", "producer_id_filters"): [],
    ("DescribeLogDirs", "topics"): None,
}


def request(key: int, version: int, topic: str) -> bytes:
    """Return a request frame without its size."""
    known = api(key)
    assert known is not None
    value = _Values(known, version, topic).struct(known.request[version].struct)
    header_version = request_header_version(known.request, version)
    header = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": version,
        "client_id": CLIENT_ID,
    }
    head: bytes = RequestHeader[header_version].build(header)
    body: bytes = known.request[version].build(value)
    return head + body


class _Values:
    """Generates the fields of a request."""

    def __init__(self, known: Api, version: int, topic: str) -> None:
        self._api, self._version, self._topic = known, version, topic

    def struct(self, struct: wire.Struct) -> dict[str, Any]:
        return {member.name: self._member(member) for member in struct.members}

    def _member(self, member: wire.Member) -> Any:
        if (self._api.name, member.name) in _VALUES:
            return _VALUES[self._api.name, member.name]
        return self._value(member.con, member.field.default_value(member.con))

    def _value(self, con: wire.WireType, default: Any) -> Any:
        match con:
            case wire.Struct():
                return self.struct(con)
            case wire.NullableStruct():
                return self.struct(con.struct)
            case wire.Array():
                return [self._value(con.element, 0)]
            case wire.Records():
                return _batch(self._api.key, self._version)
            case wire.Bytes():
                return b""
            case wire.String():
                return self._topic
            case wire.Uuid():
                return wire.ZERO_UUID
        return default


def _batch(key: int, version: int) -> bytes:
    """Return records in the format of a version of Produce."""
    magic: Literal[0, 1, 2] = 2 if key != _PRODUCE or version >= 3 else 1 if version == 2 else 0
    return build_batch([Record(0, 0 if magic else -1, b"key", b"value")], magic=magic)


def announced(address: str) -> dict[int, tuple[int, int]]:
    """Return the versions that a broker announces, by API key, limited to those that kproxy knows."""
    known = api(_API_VERSIONS)
    assert known is not None
    answer = ask(address, request(_API_VERSIONS, 0, ""))
    assert answer is not None, f"{address} does not say what it can"
    listed = known.response[0].parse(answer[4:])["api_keys"]
    found = {}
    for each in listed:
        one = api(each["api_key"])
        if one is not None:
            versions = one.request.versions
            low, high = max(each["min_version"], versions.first), min(each["max_version"], versions.last)
            found[each["api_key"]] = (low, high)
    return found


def ask(address: str, frame: bytes, patience: float = _PATIENCE_S) -> bytes | None:
    """Send a frame on a new connection; return the response without its size, or None if there is none."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=patience) as connection:
        connection.sendall(_SIZE.pack(len(frame)) + frame)
        try:
            [size] = _SIZE.unpack(_exactly(connection, _SIZE.size))
            return _exactly(connection, size)
        except (EOFError, TimeoutError, ConnectionError):
            return None


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return bytes(data)


def sweep(address: str, topic: str) -> Iterator[tuple[int, int]]:
    """Request everything; yield API and version of unanswered requests."""
    for key, (low, high) in sorted(announced(address).items()):
        for version in range(low, high + 1):
            if ask(address, request(key, version, topic)) is None:
                yield key, version
