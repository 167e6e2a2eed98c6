"""What Apache kafka-clients makes of the reference captures, laid beside what ``kproxy read --json`` says.

``oracle/FILE.jsonl.gz`` has every message as the Java classes decode it, ``records/FILE.jsonl.gz`` the records inside
Produce and Fetch. Here both are paired with our exchanges, message by message: connections by their endpoints (the
oldest files name none, there by the headers of their messages), within a connection the n-th request and the n-th
response.

Rules of comparison, which hold for every message:

* Names are compared without underscores and case (``throttleTimeMs`` is ``throttle_time_ms``).
* kafka-clients leaves out a tagged field that has its default value; we show it if it is on the wire.
* kafka-clients gives only the size of record sets (``recordsSizeInBytes``), and drops unknown tagged fields.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from zlib import crc32

import msgspec

from captures.exchanges import Exchange, ExchangeReader, Flag, open_capture
from captures.json_objects import to_json
from dissectors import wire
from dissectors.frames import Body
from dissectors.headers import SIZE_BYTES
from tests.reference import captures_dir

Side = Literal["request", "response"]

#: fields renamed after the release that decoded the oracle's files; the newest name is ours
OLDER_NAMES = {
    "generation_id_or_member_epoch": "generationId",  # TxnOffsetCommit v3+, renamed with v6
    "config_resources": "clientMetricsResources",  # ListConfigResources v0, of another name up to 4.0
    "resource_name": "name",
    "replica_epoch": "candidateEpoch",  # Vote, renamed with v1, the same in v0
    "replica_id": "candidateId",
    "acceptable_recovery_lag_legacy": "acceptableRecoveryLag",  # StreamsGroupHeartbeat v0, renamed with v1
}


@dataclass(slots=True)
class Ours:
    """One message as we show it.

    :ivar shape: the exchange as ``read --json --show-secrets`` prints it
    """

    side: Side
    exchange: Exchange
    shape: dict[str, Any]

    @property
    def body(self) -> Body | None:
        return self.exchange.request if self.side == "request" else self.exchange.response

    @property
    def value(self) -> Any:
        return self.shape[self.side]

    @property
    def frame_problems(self) -> list[str]:
        """The problems of the frame, in words."""
        return [problem.reason for side, problem in self.exchange.problems if side == self.side]

    @property
    def content_problems(self) -> list[str]:
        """The problems of its record sets and inner protocols, in words."""
        return [problem.reason for side, problem in self.exchange.annotations.problems if side == self.side]


@dataclass(slots=True)
class Pair:
    """A message of ours and the line about it; ``line`` counts the lines of the oracle file from 0."""

    line: int
    ours: Ours
    theirs: dict[str, Any]


def read_ours(name: str, **options: Any) -> dict[int, tuple[list[Ours], list[Ours]]]:
    """Return the requests and the responses of every connection, each in the order of its stream.

    Frames that were cut off and responses without a request are left out: the oracle has none of them.
    """
    capture = open_capture(str(captures_dir() / name))
    capture.read()
    table = capture.table
    found: dict[int, tuple[list[tuple[int, Ours]], list[tuple[int, Ours]]]] = defaultdict(lambda: ([], []))
    for exchange in ExchangeReader(capture, show_secrets=True, **options):
        shape = msgspec.json.decode(msgspec.json.encode(to_json(exchange)))
        requests, responses = found[exchange.connection]
        row, flag = table.row(exchange.row), exchange.flag
        if exchange.request_size and Flag.REQUEST_DAMAGED not in flag:
            requests.append((row["request_position"], Ours("request", exchange, shape)))
        if exchange.response_size and not flag & (Flag.RESPONSE_DAMAGED | Flag.ORPHAN):
            responses.append((row["response_position"], Ours("response", exchange, shape)))
    return {
        connection: tuple([each for _, each in sorted(side, key=lambda entry: entry[0])] for side in sides)
        for connection, sides in found.items()
    }  # type: ignore[return-value]  # a tuple of two


def lines_of(folder: str, name: str) -> list[dict[str, Any]]:
    """Read a file of the oracle."""
    with gzip.open(captures_dir() / folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def endpoints(ours: Ours, conn: str) -> str:
    """Return client and broker as this oracle file writes them: with hosts, or ports only."""
    client, broker = ours.exchange.client, ours.exchange.broker
    if ":" not in conn:
        client, broker = client.rpartition(":")[2], broker.rpartition(":")[2]
    return f"{client}>{broker}"


def pairs(name: str) -> Iterator[Pair]:
    """Yield every message of a capture with the line about it.

    :raises AssertionError: if a connection has other messages than the oracle saw
    """
    lines = lines_of("oracle", name)
    connections = [requests + responses for _, (requests, responses) in sorted(read_ours(name).items())]
    connections = [messages for messages in connections if messages]
    if lines and "conn" in lines[0]:
        yield from _by_endpoints(connections, lines)
    else:
        yield from _by_headers(connections, lines)


def _by_endpoints(connections: list[list[Ours]], lines: list[dict[str, Any]]) -> Iterator[Pair]:
    theirs: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        theirs[line["conn"]].append(number)
    ours: dict[str, list[list[Ours]]] = defaultdict(list)
    for messages in connections:
        ours[endpoints(messages[0], lines[0]["conn"])].append(messages)
    for conn, numbers in theirs.items():  # a reused port pair comes in the same order on both sides
        candidates = ours[conn.partition("#")[0].removesuffix("~mid")]
        assert candidates, f"{conn} is not among our connections"
        yield from _paired(candidates.pop(0), numbers, lines)
    left = [message for candidates in ours.values() for messages in candidates for message in messages]
    assert not left, f"the oracle has no {[message.shape for message in left]}"


def _by_headers(connections: list[list[Ours]], lines: list[dict[str, Any]]) -> Iterator[Pair]:
    """Pair connections that are not named: they come one behind the other, nearly in the order of ours."""
    left, at = list(connections), 0
    while at < len(lines):
        fitting = [messages for messages in left if _fits(messages, lines[at : at + len(messages)])]
        assert fitting, f"no connection of ours begins with line {at}: {lines[at]}"
        # headers alone cannot tell clients of one kind apart
        same = (messages for messages in fitting if not _differs(messages, lines, at))
        messages = next(same, fitting[0])
        left.remove(messages)
        yield from _paired(messages, list(range(at, at + len(messages))), lines)
        at += len(messages)
    assert not left, f"the oracle has no {[message.shape for messages in left for message in messages]}"


def _paired(messages: list[Ours], numbers: list[int], lines: list[dict[str, Any]]) -> Iterator[Pair]:
    said = [lines[number] for number in numbers]
    assert len(messages) == len(said), f"{len(messages)} messages, not {len(said)}: {messages[0].shape}"
    assert _fits(messages, said), f"other messages in the connection of {messages[0].shape}"
    yield from map(Pair, numbers, messages, said)


def _fits(messages: list[Ours], lines: list[dict[str, Any]]) -> bool:
    """Return whether side, API, version and correlation ID of all messages are the same."""
    return len(messages) == len(lines) and all(map(_same_header, messages, lines))


def _same_header(ours: Ours, line: dict[str, Any]) -> bool:
    exchange = ours.exchange
    if not ours.side.startswith(line["dir"]):
        return False
    if "token" in line:
        return exchange.api == "SaslToken"
    named = exchange.api_key if isinstance(line["api"], int) else exchange.api  # lines of errors have the key
    # a fallback to ApiVersions v0 is told here by the version of the response, elsewhere by "decodedAs"
    versions = exchange.version, ours.body and ours.body.version
    if named != line["api"] or line["v"] not in versions:
        return False
    header = line.get("header")
    if header is None:
        return True
    if ours.side == "request" and exchange.client_id != header.get("clientId"):
        return False
    return bool(header["correlationId"] == exchange.correlation_id)


def _differs(messages: list[Ours], lines: list[dict[str, Any]], at: int) -> bool:
    return any(
        "body" in line and any(differences(message, line["body"]))
        for message, line in zip(messages, lines[at:], strict=False)
    )


# ------------------------------------------------------------ values
@cache
def plain(name: str) -> str:
    """Return a field's name without case and underscores."""
    return name.replace("_", "").lower()


def differences(ours: Ours, theirs: dict[str, Any]) -> Iterator[str]:
    """Yield the differences of the two bodies: a path, and both values."""
    body = ours.body
    message = body.message(response=ours.side == "response") if body is not None else None
    if message is None or ours.value is None:
        yield f"not decoded by us: {ours.frame_problems}"
        return
    # of the layouts that a version had, the one that the message is in (wire conflicts between releases)
    start = body.start - SIZE_BYTES
    layouts = (message, *message.older)
    fitting = (each for each in layouts if each.exactly(body.raw, start) is not None)
    yield from _struct(next(fitting, message).struct, ours.value, theirs, ours.side, ours.shape["decoded"])


def _struct(
    struct: wire.Struct, ours: dict[str, Any], theirs: dict[str, Any], path: str, decoded: dict[str, Any]
) -> Iterator[str]:
    rest = {plain(name): value for name, value in theirs.items()}
    tagged = list((struct.tagged or {}).values())
    for member in [*struct.members, *tagged]:
        name, where = member.name, f"{path}.{member.name}"
        theirs_has = next((one for one in _names(name) if one in rest), None)
        if theirs_has is None:
            if member not in tagged:
                yield f"{where}: only ours"
            elif name in ours and ours[name] != member.field.default_value(member.con):
                yield f"{where}: {ours[name]!r} is no default, and only ours"
            continue
        said = rest.pop(theirs_has)
        if name not in ours:
            yield f"{where}: only theirs"
        elif theirs_has.endswith("sizeinbytes"):
            mine = _records_size(ours[name], decoded.get(where))
            if mine != said:
                yield f"{where}: {mine} != {said} bytes"
        else:
            yield from _value(member.con, ours[name], said, where, decoded)
    yield from (f"{path}: {name} is not known here" for name in rest)
    surplus = set(ours) - {member.name for member in [*struct.members, *tagged]} - {wire.UNKNOWN_TAGS}
    yield from (f"{path}.{name}: not of this version" for name in surplus)


@cache
def _names(name: str) -> tuple[str, ...]:
    """Return the names that a field may have on their side."""
    return plain(name), plain(name) + "sizeinbytes", plain(OLDER_NAMES.get(name, name))


def _value(con: Any, ours: Any, theirs: Any, path: str, decoded: dict[str, Any]) -> Iterator[str]:
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if isinstance(con, wire.Struct) and isinstance(ours, dict) and isinstance(theirs, dict):
        yield from _struct(con, ours, theirs, path, decoded)
    elif isinstance(con, wire.Array) and isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield f"{path}: {len(ours)} elements, not {len(theirs)}"
        for index, (mine, said) in enumerate(zip(ours, theirs, strict=False)):
            yield from _value(con.element, mine, said, f"{path}[{index}]", decoded)
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{path}: {ours!r}, not {theirs!r}"


def _records_size(batches: list[dict[str, Any]] | None, ending: dict[str, Any] | None) -> int:
    return sum(batch["size"] for batch in batches or ()) + (ending or {}).get("bytes", 0)


# ------------------------------------------------------------ records
_RECORDS_AT = {"request": ("topic_data", "partition_data"), "response": ("responses", "partitions")}
_TIMESTAMP_TYPES = {None: "NoTimestampType", "create": "CreateTime", "log_append": "LogAppendTime"}


def record_parts(ours: Ours) -> list[dict[str, Any]]:
    """Return the record sets of a Produce request or Fetch response as ``records/`` has them, empty ones left out."""
    topics, partitions = _RECORDS_AT[ours.side]
    found = []
    for t, topic in enumerate(ours.value[topics]):
        for p, partition in enumerate(topic[partitions]):
            ending = ours.shape["decoded"].get(f"{ours.side}.{topics}[{t}].{partitions}[{p}].records")
            batches = partition["records"] or []
            size = _records_size(batches, ending)
            if not size:
                continue
            name = "topic_id" if "topic_id" in topic else "topic" if "topic" in topic else "name"
            index = "index" if ours.side == "request" else "partition_index"
            part = {
                "topicId" if name == "topic_id" else "topic": topic[name],
                "partition": partition[index],
                "size": size,
                "batches": [_batch(batch) for batch in batches],
                "records": [_record(record) for batch in batches for record in batch["records"]],
                "valid": sum(batch["size"] for batch in batches),
            }
            found.append(part)
    return found


def _batch(batch: dict[str, Any]) -> dict[str, Any]:
    said = {
        "magic": batch["magic"],
        "codec": batch["codec"],
        "baseOffset": batch["base_offset"],
        "lastOffset": batch["last_offset"],
        "size": batch["size"],
        "tsType": _TIMESTAMP_TYPES[batch["timestamp_type"]],
        "maxTs": batch["max_timestamp"],
        "crcValid": batch["crc_valid"],
        "n": len(batch["records"]),
    }
    if batch["magic"] == 2:
        said |= {
            "producerId": batch["producer_id"],
            "producerEpoch": batch["producer_epoch"],
            "baseSequence": batch["base_sequence"],
            "transactional": batch["transactional"],
            "control": batch["control"],
            "leaderEpoch": batch["partition_leader_epoch"],
            "count": batch["count"],
        }
    return said


def _record(record: dict[str, Any]) -> list[Any]:
    key, value = _bytes(record["key"]), _bytes(record["value"])
    headers = [[header["key"], *_length_and_crc(_bytes(header["value"]))] for header in record["headers"]]
    (key_length, key_crc), (value_length, value_crc) = _length_and_crc(key), _length_and_crc(value)
    return [record["offset"], record["timestamp"], key_length, value_length, key_crc, value_crc, headers]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _length_and_crc(data: bytes | None) -> tuple[int, int | None]:
    return (-1, None) if data is None else (len(data), crc32(data))
