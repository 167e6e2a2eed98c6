"""Hostile messages: wrong versions, numbers, lengths and counts, deep nesting, texts, secrets."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

from captures.export.segments import Conversation
from dissectors import apis, wire
from dissectors.records import Codec, compress
from tests.dissectors.values import Values, limits
from tests.kproxy.frames import framed, request_frame
from tests.lanes.hostile.attack import attack
from tests.lanes.hostile.records import loose
from tests.lanes.hostile.wire import (
    API_VERSIONS,
    BROKER,
    DESCRIBE_GROUPS,
    FETCH,
    GROUP,
    HEARTBEAT,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    SYNC_GROUP,
    TOPIC,
    Exchange,
    capture,
    client,
    exchange,
    fetched,
    heartbeat,
    pcap,
    raw_request,
    raw_response,
    said,
)

SHARE_FETCH, SHARE_ACKNOWLEDGE, ENVELOPE = 78, 79, 58
STREAMS_HEARTBEAT, STREAMS_DESCRIBE = 88, 89
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
CREATE_TOKEN, RENEW_TOKEN = 38, 39
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
PUSH_TELEMETRY = 72
_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_LARGEST = (1 << 63) - 1

CONTROL = "\x1b[2J\x1b]0;pwned\x07\r\n99  00:00:00.000  1.000  admin  10.0.0.1:9092  DeleteTopics v1\x9b31m\u202e\x00"
FORMULA = "=cmd|' /C calc'!A0"
SECRET = "hunter2-hunter2"


# ---------------------------------------------------------------- versions, numbers, counts
@attack()
def negative_versions(_: int) -> Iterable[bytes]:
    """requests of every API in versions that are negative, and far too new, each on its connection"""
    keys = [*range(len(apis.NAMES)), -1, 999, 32_767]
    versions = (-1, -2, -32_768, 32_767, 100)
    odd = [
        (raw_request(key, version, bytes(20)), raw_response(bytes(20)))
        for key in keys
        for version in versions
    ]
    return pcap(frame for number, each in enumerate(odd) for frame in said([heartbeat(), each], number))


class _Extremes(Values):
    """Draws the largest and smallest numbers of each type."""

    def number(self, con: wire.FixedWidth) -> Any:
        if con.code in "?d":
            return super().number(con)
        low, high = limits(con.code)
        return self.rng.choice((low, high, low, high, -1 if low else 0, 0, 1))


@attack(4)
def extreme_numbers(count: int) -> Iterable[bytes]:
    """every API in every version with the largest and smallest numbers there are"""

    def exchanges() -> Iterator[Exchange]:
        number = 0
        for key in range(len(apis.NAMES)):
            known = apis.api(key)
            assert known is not None
            for version in known.request.versions:
                for seed in range(count):
                    values = _Extremes(f"{key} {version} {seed}", unknown_tags=False)
                    bodies = [values.draw(each[version].struct) for each in (known.request, known.response)]
                    number += 1
                    yield exchange(key, version, bodies[0], bodies[1], number)

    return capture(exchanges())


@attack()
def lying_counts(_: int) -> Iterable[bytes]:
    """every API in every version with lengths and counts that are not true"""

    def exchanges() -> Iterator[Exchange]:
        number = 0
        for key in range(len(apis.NAMES)):
            known = apis.api(key)
            assert known is not None
            for version in known.request.versions:
                for lie in (b"\xff", b"\x7f", b"\x80", b"\x00\x01", b"\x7f\xff\xff\xff"):
                    number += 1
                    body = (lie * 60)[:60]
                    yield raw_request(key, version, body, number), raw_response(body, number)

    return capture(exchanges())


@attack()
def sharefetch_overflow(_: int) -> Iterable[bytes]:
    """ShareFetch that acquires records up to offset 2^63-1"""
    acquired = [
        {"first_offset": 0, "last_offset": _LARGEST, "delivery_count": 1},
        {"first_offset": _LARGEST, "last_offset": 0, "delivery_count": -1},
        {"first_offset": -_LARGEST - 1, "last_offset": _LARGEST, "delivery_count": 32_767},
    ]
    partition = {"partition_index": 0, "records": b"", "acquired_records": acquired}
    batches = [{"first_offset": 0, "last_offset": _LARGEST, "acknowledge_types": [1]}]
    asked = {"partition_index": 0, "acknowledgement_batches": batches}
    topic = {"topic_id": _TOPIC_ID, "partitions": [asked]}
    answer = {"responses": [{"topic_id": _TOPIC_ID, "partitions": [partition]}]}
    request = {"group_id": GROUP, "member_id": "m", "topics": [topic]}
    acknowledged = {
        "responses": [{"topic_id": _TOPIC_ID, "partitions": [{"partition_index": 0}]}],
    }
    return capture(
        [
            exchange(SHARE_FETCH, 1, request, answer, 1),
            exchange(SHARE_ACKNOWLEDGE, 1, request, acknowledged, 2),
        ]
    )


@attack()
def streams_repartition(_: int) -> Iterable[bytes]:
    """valid KIP-1071: a repartition topic that says how many partitions it wants"""
    topic = {"name": "app-repartition", "partitions": 4, "replication_factor": 1, "topic_configs": []}
    subtopology: dict[str, Any] = {
        "subtopology_id": "0",
        "source_topics": [TOPIC],
        "source_topic_regex": [],
        "state_changelog_topics": [topic],
        "repartition_sink_topics": ["app-repartition"],
        "repartition_source_topics": [topic],
        "copartition_groups": [],
    }
    tasks = [{"subtopology_id": "0", "partitions": (0, 1)}]
    joined = {"group_id": GROUP, "member_id": "m", "topology": {"epoch": 1, "subtopologies": [subtopology]}}
    group = {
        "group_id": GROUP,
        "group_state": "Stable",
        "topology": {"epoch": 1, "subtopologies": [subtopology]},
        "members": [],
    }
    return capture(
        [
            exchange(
                STREAMS_HEARTBEAT, 0, joined, {"member_id": "m", "member_epoch": 1, "active_tasks": tasks}, 1
            ),
            exchange(STREAMS_DESCRIBE, 0, {"group_ids": [GROUP]}, {"groups": [group]}, 2),
        ]
    )


# ---------------------------------------------------------------- many of something in a message
@attack(1_000_000)
def metadata_tiny(count: int) -> Iterable[bytes]:
    """a Metadata response with a million topics of eight bytes each"""
    return capture(
        [
            (
                raw_request(METADATA, 0, bytes(4)),
                raw_response(bytes(4) + struct.pack(">i", count) + bytes(8 * count)),
            )
        ]
    )


@attack(1_000_000)
def metadata_partitions(count: int) -> Iterable[bytes]:
    """a Metadata response with a million partitions of one topic"""
    topic = bytes(2) + b"\0\6orders" + struct.pack(">i", count) + bytes(18 * count)
    return capture(
        [(raw_request(METADATA, 0, bytes(4)), raw_response(bytes(4) + struct.pack(">i", 1) + topic))]
    )


@attack(12_000)
def metadata_brokers(count: int) -> Iterable[bytes]:
    """a Metadata response with twelve thousand brokers, some of them impossible"""
    hosts = ("", "127.0.0.1", "169.254.169.254", "kafka", CONTROL)
    brokers = [
        {"node_id": number - 5, "host": hosts[number % len(hosts)], "port": number * 7 % 70_000, "rack": None}
        for number in range(count)
    ]
    return capture([exchange(METADATA, 1, {"topics": None}, {"brokers": brokers, "topics": []})])


@attack(200_000)
def api_versions(count: int) -> Iterable[bytes]:
    """an ApiVersions response with two hundred thousand APIs, whose versions are any"""
    offered = b"".join(
        struct.pack(">hhh", number % 65_536 - 32_768, number % 7 - 3, number % 5 - 2)
        for number in range(count)
    )
    body = bytes(2) + struct.pack(">i", count) + offered
    return capture([(raw_request(API_VERSIONS, 0, b""), raw_response(body))])


@attack(100_000)
def tags(count: int) -> Iterable[bytes]:
    """a request header, and a body, with a hundred thousand tagged fields"""
    fields = _varint(count) + b"".join(_varint(number) + b"\0" for number in range(count))
    head = struct.pack(">hhih", HEARTBEAT, 4, 1, 3) + b"app" + fields
    request = head + b"\x08billing" + bytes(4) + b"\x02m" + b"\0" + fields
    return capture([(framed(request), framed(struct.pack(">i", 1) + fields + bytes(6) + fields))])


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@attack(2_000)
def configs(count: int) -> Iterable[bytes]:
    """DescribeConfigs of two thousand resources with fifty settings each"""
    settings = [{"name": f"setting.{number}", "value": "x" * 20} for number in range(50)]
    results = [
        {"error_message": None, "resource_type": 2, "resource_name": f"{TOPIC}-{number}", "configs": settings}
        for number in range(count)
    ]
    return capture([exchange(DESCRIBE_CONFIGS, 1, {"resources": []}, {"results": results})])


# ---------------------------------------------------------------- nesting
def _enveloped(depth: int) -> bytes:
    """Return a request in an Envelope in an Envelope."""
    inner = heartbeat()[0]
    for number in range(depth):
        body = {"request_data": inner[4:], "request_principal": b"", "client_host_address": b"\x7f\0\0\1"}
        inner = request_frame(ENVELOPE, 0, body, number, None)
    return inner


@attack(250)
def envelopes(count: int) -> Iterable[bytes]:
    """a request in an Envelope in an Envelope, 250 deep, and answers nested as deep"""
    answer = bytes(10)
    for number in range(count):
        answer = struct.pack(">i", number) + b"\0" + _varint(len(answer) + 1) + answer + bytes(3)
    return capture([(_enveloped(count), framed(struct.pack(">i", count - 1) + answer[4:]))])


@attack(20_000)
def telemetry_nested(count: int) -> Iterable[bytes]:
    """PushTelemetry whose protobuf is nested twenty thousand deep"""
    message = b""
    for _ in range(count):
        message = b"\x0a" + _varint(len(message)) + message
    return capture([exchange(PUSH_TELEMETRY, 0, {"metrics": message}, {})])


@attack(20)
def telemetry_bomb(count: int) -> Iterable[bytes]:
    """PushTelemetry of gigabytes of zeros, in twenty messages of some hundred kilobytes"""
    packed = {codec: compress(codec, loose(64 << 20)) for codec in (Codec.GZIP, Codec.ZSTD)}

    def exchanges() -> Iterator[Exchange]:
        for number in range(count):
            codec = (Codec.GZIP, Codec.ZSTD)[number % 2]
            yield exchange(
                PUSH_TELEMETRY, 0, {"compression_type": int(codec), "metrics": packed[codec]}, {}, number
            )

    return capture(exchanges())


@attack()
def embedded_lies(_: int) -> Iterable[bytes]:
    """what is embedded in groups, with counts and versions that are not true"""
    rng = Random(7)
    lies = [
        struct.pack(">hi", version, count) + tail
        for version in (-1, 0, 1, 3, 32_767)
        for count in (-1, 0, 1, 0x7FFF_FFFF)
        for tail in (b"", b"\x7f\xff", rng.randbytes(50), b"\0\6orders" + struct.pack(">i", 0x7FFF_FFFF))
    ]

    def exchanges() -> Iterator[Exchange]:
        for number, lie in enumerate(lies):
            yield _joined(number, [lie])
            assigned = [{"member_id": "m", "assignment": lie}]
            yield exchange(
                SYNC_GROUP,
                3,
                {"group_id": GROUP, "generation_id": number, "member_id": "m", "assignments": assigned},
                {"assignment": lie},
                number,
            )

    return capture(exchanges())


def _joined(number: int, metadata: list[bytes]) -> Exchange:
    protocols = [{"name": "range", "metadata": each} for each in metadata]
    return exchange(
        JOIN_GROUP,
        5,
        {
            "group_id": GROUP,
            "session_timeout_ms": 10_000,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocols": protocols,
        },
        {
            "generation_id": number,
            "protocol_name": "range",
            "leader": "m",
            "member_id": "m",
            "members": [{"member_id": "m", "metadata": metadata[0]}],
        },
        number,
    )


# ---------------------------------------------------------------- frames
@attack(2_000)
def announced(count: int) -> Iterable[bytes]:
    """frames that announce two gigabytes each, of which some bytes come"""
    size = struct.pack(">i", 0x7FFF_FFF0)
    request, response = heartbeat()
    assert response is not None
    produce = struct.pack(">hhih", PRODUCE, 8, 1, 3) + b"app" + bytes(40)
    lies = [(size + asked, size + response[4:]) for asked in (request[4:], produce)]
    return pcap(frame for number in range(count) for frame in said([heartbeat(), lies[number % 2]], number))


@attack(20)
def announced_holes(count: int) -> Iterable[bytes]:
    """frames of gigabytes of which all but the beginning and the end are missing in the capture"""
    greeting, greeted = heartbeat()
    request, response = fetched(b"", 1)
    assert greeted is not None
    assert response is not None
    # one more than conversations accept of an unknown client, and the most they accept of a broker
    asked = struct.pack(">i", 100 << 20) + request[4:]
    answers = [struct.pack(">i", size) + response[4:] for size in (0x7FFF_FFF0, 1 << 30)]

    def frames() -> Iterator[bytes]:
        for number in range(count):
            conversation = Conversation(client(number), BROKER, number)
            yield from conversation.handshake()
            ends = [0, 0]
            produce = asked if number % 4 > 1 else request
            for messages in ((greeting, greeted), (produce, answers[number % 2]), (greeting, greeted)):
                for side, message in enumerate(messages):
                    yield conversation.segment(side, ends[side], message, push=True)
                    ends[side] += int.from_bytes(message[:4], "big") + 4

    return pcap(frames())


@attack(20)
def announced_large(count: int) -> Iterable[bytes]:
    """frames that announce sixty megabytes each, of which one comes"""
    head = struct.pack(">ihhih", 60_000_000, PRODUCE, 8, 1, 3) + b"app"
    exchanges = [heartbeat(), (head + bytes(1 << 20), None)]
    return pcap(frame for number in range(count) for frame in said(exchanges, number))


@attack(300_000)
def tiny_frames(count: int) -> Iterable[bytes]:
    """frames of no byte, one byte, four bytes, and of negative sizes"""
    frames = b"".join(framed(bytes(size)) for size in (0, 1, 4, 8, 9)) + struct.pack(">i", -1)
    many = frames * 100
    return capture((many, many) for _ in range(max(count // 1_200, 1)))


@attack(200_000)
def orphans(count: int) -> Iterable[bytes]:
    """responses without a request"""
    answer = heartbeat()[1]
    assert answer is not None
    return capture((b"", answer * 100) for _ in range(max(count // 100, 1)))


@attack(60_000)
def unanswered(count: int) -> Iterable[bytes]:
    """requests without an answer"""
    request = heartbeat()[0]
    return capture((request * 100, None) for _ in range(max(count // 100, 1)))


@attack(100_000)
def backwards(count: int) -> Iterable[bytes]:
    """as many requests in flight, answered from the last one to the first"""
    requests = [
        raw_request(HEARTBEAT, 0, b"\0\7billing" + bytes(4) + b"\0\1m", number) for number in range(count)
    ]
    answers = [raw_response(bytes(2), number) for number in reversed(range(count))]
    return capture([(b"".join(requests), b"".join(answers))])


@attack(50_000)
def one_correlation_id(count: int) -> Iterable[bytes]:
    """requests in flight that all have the same correlation ID"""
    request, answer = heartbeat()
    assert answer is not None
    return capture([(request * count, answer * count)])


# ---------------------------------------------------------------- texts
@attack()
def terminal_escapes(_: int) -> Iterable[bytes]:
    """control characters and forged lines in every text: clients, topics, groups, hosts, errors"""

    def exchanges() -> Iterator[Exchange]:
        yield from _texts(CONTROL)

    return capture(exchanges())


@attack()
def formulas(_: int) -> Iterable[bytes]:
    """what a spreadsheet would run, in every text"""

    def exchanges() -> Iterator[Exchange]:
        for first in "=+-@\t\r":
            yield from _texts(first + FORMULA)

    return capture(exchanges())


@attack(30_000)
def long_texts(count: int) -> Iterable[bytes]:
    """texts of thirty thousand letters in every place for a text"""
    return capture(_texts("a" * min(count, 32_000) + "!"))


@attack(28)
def regex_subjects(count: int) -> Iterable[bytes]:
    """texts on which ^(a+)+$ backtracks for ever"""
    return capture(exchange for length in (count, 10 * count) for exchange in _texts("a" * length + "!"))


@attack()
def page_texts(_: int) -> Iterable[bytes]:
    """texts that end HTML, scripts, Mermaid, Markdown, SQL, JSON and shell commands"""
    texts = (
        "</script><script>alert(1)</script>",
        "\"'><img src=x onerror=alert(1)>",
        "a;b\nparticipant x\nNote over x: y %%{init}%%",
        "|a|[x](javascript:alert(1))`$(reboot)`",
        "'; DROP TABLE exchanges; --",
        "../../../../etc/passwd",
        "\ud7ff\uffff\u2028\u2029",
    )
    return capture(exchange for text in texts for exchange in _texts(text))


def _texts(text: str) -> Iterator[Exchange]:
    """Yield exchanges of every API with a text in every string field."""
    number = 0
    for key in range(len(apis.NAMES)):
        known = apis.api(key)
        assert known is not None
        versions = known.request.versions
        for version in sorted({versions.first, versions.last}):
            values = _Texts(text)
            bodies = [values.draw(each[version].struct) for each in (known.request, known.response)]
            number += 1
            with suppress(ValueError, OverflowError, struct.error):
                yield exchange(key, version, bodies[0], bodies[1], number, text)


class _Texts(Values):
    """Draws the same text for all strings, and one element for all arrays."""

    def __init__(self, text: str) -> None:
        super().__init__("texts", unknown_tags=False, tags=1.0)
        self._text = text

    def draw(self, con: wire.WireType, depth: int = 0) -> Any:
        match con:
            case wire.NullableStruct():
                return self.draw(con.struct, depth)
            case wire.String():
                return self._text
            case wire.Bytes():
                return self._text.encode(errors="replace")
            case wire.Uuid():
                return _TOPIC_ID
            case wire.Array():
                return self.array(con, depth)
            case wire.Struct():
                return self.struct(con, depth)
        return self.number(con)

    def number(self, con: wire.FixedWidth) -> Any:
        return {"?": True, "d": 1.0}.get(con.code, 1)

    def array(self, con: wire.Array, depth: int) -> Any:
        value = self.draw(con.element, depth + 1)
        return (value,) if isinstance(con.element, wire.FixedWidth) else [value]


# ---------------------------------------------------------------- secrets
_SENSITIVE = (
    "sasl.jaas.config",
    "secretAccessKey",
    "apiKey",
    "authToken",
    "accessToken",
    "privateKey",
    "ssl.keystore.pass",
    "signing.key",
    "my.apikey",
    "confluent.license",
)


@attack()
def sensitive_configs(_: int) -> Iterable[bytes]:
    """secrets as settings: marked as such, and by names of any fashion"""
    synonyms = [{"name": "one", "value": SECRET, "source": 1}]
    described = [
        {"name": name, "value": SECRET, "is_sensitive": name == "one", "synonyms": synonyms}
        for name in ("one", *_SENSITIVE)
    ]
    results = [{"error_message": None, "resource_type": 4, "resource_name": "1", "configs": described}]
    changes = [{"name": name, "value": SECRET} for name in _SENSITIVE]
    resources = [{"resource_type": 4, "resource_name": "1", "configs": changes}]
    incremental = [{**resources[0], "configs": [{**each, "config_operation": 0} for each in changes]}]
    token = {"hmac": SECRET.encode(), "token_id": "id"}
    return capture(
        [
            exchange(DESCRIBE_CONFIGS, 1, {"resources": []}, {"results": results}, 1),
            exchange(ALTER_CONFIGS, 1, {"resources": resources}, {"responses": []}, 2),
            exchange(INCREMENTAL_ALTER_CONFIGS, 0, {"resources": incremental}, {"responses": []}, 3),
            exchange(CREATE_TOKEN, 1, {"renewers": []}, token, 4),
            exchange(RENEW_TOKEN, 1, {"hmac": SECRET.encode()}, {}, 5),
        ]
    )


@attack()
def sasl_cut(_: int) -> Iterable[bytes]:
    """passwords and tokens in packets that the snapshot length has cut, and in frames with too many bytes"""
    password = b"\0alice\0" + SECRET.encode() + b"-and-more" * 20
    exchanges = [
        exchange(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]}, 1),
        exchange(
            SASL_AUTHENTICATE, 1, {"auth_bytes": password}, {"error_message": None, "auth_bytes": b""}, 2
        ),
        exchange(RENEW_TOKEN, 1, {"hmac": password}, {}, 3),
        (
            raw_request(SASL_AUTHENTICATE, 0, struct.pack(">i", 1 << 20) + password, 4),
            raw_response(b"\0\0\xff\xff" + struct.pack(">i", 1 << 20) + password, 4),
        ),
        (
            raw_request(RENEW_TOKEN, 1, struct.pack(">i", 4) + b"hmac" + bytes(8) + password, 5),
            raw_response(b"", 5),
        ),
    ]
    head, *records = capture(exchanges)
    yield head
    for record in records:
        yield record[:8] + struct.pack("<I", min(len(record) - 16, 110)) + record[12 : 16 + 110]


@attack(20_000)
def sasl_flood(count: int) -> Iterable[bytes]:
    """SASL tokens that never end, of unknown mechanisms"""

    def exchanges() -> Iterator[Exchange]:
        yield exchange(SASL_HANDSHAKE, 0, {"mechanism": CONTROL}, {"mechanisms": [CONTROL]}, 1)
        for _ in range(count):
            yield framed(b"\x60\x82" + bytes(20)), framed(b"n,,n=alice,r=" + b"x" * 20)

    return capture(exchanges())


@attack(300_000)
def tls_one_byte(count: int) -> Iterable[bytes]:
    """TLS records of one byte each, behind hellos that are not whole"""
    hello = b"\x16\x03\x01" + struct.pack(">H", 50) + b"\x01\x00\x00\x2e\x03\x03" + bytes(44)
    record = b"\x17\x03\x03\x00\x01x" * 100
    return capture([(hello, hello), *((record, record) for _ in range(max(count // 200, 1)))])


# ---------------------------------------------------------------- what groups and lag are made of
@attack()
def negative_offsets(_: int) -> Iterable[bytes]:
    """commits, fetches and ends of logs that are negative or 2^63-1, in turns"""
    offsets = (_LARGEST, -_LARGEST - 1, 0, -1, _LARGEST - 1)

    def exchanges() -> Iterator[Exchange]:
        for number, offset in enumerate(offsets * 20):
            other = offsets[number % 3]
            partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
            yield exchange(
                OFFSET_COMMIT,
                7,
                {"group_id": GROUP, "member_id": "m", "topics": [{"name": TOPIC, "partitions": [partition]}]},
                {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "error_code": 0}]}]},
                number,
            )
            answer = {
                "partition_index": 0,
                "high_watermark": other,
                "last_stable_offset": offset,
                "log_start_offset": offset,
                "aborted_transactions": [{"producer_id": offset, "first_offset": other}],
                "records": None,
            }
            asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": -1}
            yield exchange(
                FETCH,
                11,
                {"max_wait_ms": -1, "topics": [{"topic": TOPIC, "partitions": [asked]}]},
                {"throttle_time_ms": -(1 << 31), "responses": [{"topic": TOPIC, "partitions": [answer]}]},
                number,
            )

    return capture(exchanges())


@attack(10_000)
def described_members(count: int) -> Iterable[bytes]:
    """a DescribeGroups response with a group of ten thousand members"""
    members = [
        {
            "member_id": f"m-{number}",
            "client_id": f"app-{number}",
            "client_host": "/10.0.0.1",
            "member_metadata": b"",
            "member_assignment": b"",
        }
        for number in range(count)
    ]
    group = {"group_id": GROUP, "group_state": "Stable", "protocol_type": "consumer", "members": members}
    return capture([exchange(DESCRIBE_GROUPS, 4, {"groups": [GROUP]}, {"groups": [group]})])
