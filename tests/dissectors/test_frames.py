"""Whole frames: headers, bodies, and peers that deviate from what they announced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.annotate import Annotations, Annotator
from dissectors.apis import api
from dissectors.budget import LimitReached
from dissectors.budget import changed as limits
from dissectors.frames import Body, decode_request, decode_response, trace_body
from dissectors.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from dissectors.records import DECOMPRESSED, Codec, Record
from dissectors.records.build import build_batch
from dissectors.session_context import SessionContext

pytestmark = pytest.mark.quick


def request(
    key: int, version: int, body: dict, *, header: int | None = None, announced: int | None = None
) -> bytes:
    known = api(key)
    assert known is not None
    number = request_header_version(known.request, version) if header is None else header
    head = {
        "request_api_key": key,
        "request_api_version": version if announced is None else announced,
        "correlation_id": 7,
        "client_id": "c",
    }
    return RequestHeader[number].build(head) + known.request[version].build(body)


def response(key: int, version: int, body: dict) -> bytes:
    known = api(key)
    assert known is not None
    number = response_header_version(known.response, version)
    return ResponseHeader[number].build({"correlation_id": 7}) + known.response[version].build(body)


METADATA = {"brokers": [{"node_id": 1, "host": "b", "port": 9092, "rack": None}], "topics": []}


@pytest.mark.parametrize(
    ("key", "version", "expected"),
    [(7, 0, 0), (7, 1, 1), (7, 3, 2), (0, 8, 1), (0, 9, 2), (17, 1, 1), (18, 3, 2), (47, 0, 1)],
)
def test_request_header_versions(key: int, version: int, expected: int) -> None:
    # generator/.../ApiMessageTypeGenerator.java: v0 only for ControlledShutdown v0, v2 from the first flexible version
    assert request_header_version(api(key).request, version) == expected


@pytest.mark.parametrize(
    ("key", "version", "expected"), [(18, 3, 0), (18, 4, 0), (0, 8, 0), (0, 9, 1), (47, 0, 0)]
)
def test_response_header_versions(key: int, version: int, expected: int) -> None:
    # KIP-511: the response to ApiVersions keeps header v0
    assert response_header_version(api(key).response, version) == expected


def test_a_request() -> None:
    body = decode_request(request(12, 4, {"group_id": "g", "generation_id": 41, "member_id": "m"}))
    assert body.header["client_id"] == "c"
    assert body.header["correlation_id"] == 7
    assert body.value == {"group_id": "g", "generation_id": 41, "member_id": "m", "group_instance_id": None}
    assert (body.version, body.guess, body.problems) == (4, "", [])


def test_offsets_count_from_the_size_field() -> None:
    payload = request(12, 0, {"group_id": "g", "generation_id": 1, "member_id": "mm"})
    (problem,) = decode_request(payload[:-1]).problems
    assert problem.path == "member_id"
    # size 4, header 8 + 2 + 1, group_id 2 + 1, generation_id 4, length of member_id 2
    assert problem.offset == 4 + 11 + 3 + 4 + 2
    assert problem.reason == "1 of 2 bytes of string are missing"


def test_what_came_before_a_fault_is_kept() -> None:
    payload = request(12, 0, {"group_id": "g", "generation_id": 1, "member_id": "mm"})
    assert decode_request(payload[:-1]).value == {"group_id": "g", "generation_id": 1, "member_id": None}


def test_bytes_after_the_message_are_a_problem_and_no_obstacle() -> None:
    # librdkafka's admin client sends three bytes too many in Metadata v12 requests
    body = decode_request(request(12, 0, {"group_id": "g"}) + b"\0\0\0")
    assert body.value is not None
    assert [problem.reason for problem in body.problems] == ["3 bytes after the end of the message"]


def test_a_newer_version_is_read_as_the_nearest_and_says_so() -> None:
    body = decode_request(request(12, 4, {"group_id": "g"}, announced=9))
    assert body.value is not None
    assert body.value["group_id"] == "g"
    assert (body.asked, body.version) == (9, 4)
    assert body.guess == "version 9 is not known here, read as 4"


def test_an_unknown_api_keeps_its_header() -> None:
    body = decode_request(bytes.fromhex("0063 0000 00000007 0001 63") + b"whatever")
    assert body.value is None
    assert body.header["client_id"] == "c"
    assert body.guess == "unknown API: only the header is decoded"
    assert body.problems == []


def test_too_few_bytes_for_a_header() -> None:
    (problem,) = decode_request(b"\0\x12\0").problems
    assert problem.reason == "3 bytes are too few for a request header"


def test_api_versions_falls_back_to_version_0() -> None:
    # what Kafka 4.3.0 answers to ApiVersions v5: error 35 and its own range (18, 0-4), in v0
    payload = bytes.fromhex("00000000 0023 00000001 0012 0000 0004")
    body = decode_response(payload, 18, 5)
    assert body.value == {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}
    assert body.version == 0
    assert body.guess == "version 5 is not supported, answered in version 0"


def test_old_brokers_answer_in_the_newest_version_they_know() -> None:
    # 0.8.2 and 0.9 do not check versions: Metadata v1 is answered in the format of v0
    body = decode_response(response(3, 0, METADATA), 3, 1)
    assert body.version == 0
    assert body.guess == "answered in the format of version 0, not 1"
    assert body.value is not None
    assert body.value["brokers"] == [{"node_id": 1, "host": "b", "port": 9092}]


def test_a_cut_response_is_not_guessed_at() -> None:
    payload = response(3, 9, METADATA)[:-3]
    body = decode_response(payload, 3, 9, complete=False)
    assert (body.version, body.guess) == (9, "")
    assert body.problems[0].reason.endswith("(not captured)")


def _leaves(body: Body, side: str) -> list[tuple[int, int]]:
    root = trace_body(body, response=side == "response")
    return [(node.start, node.end) for _, node in root.walk() if node.children is None]


def test_a_traced_frame_covers_every_byte() -> None:
    payload = request(3, 1, {"topics": [{"name": "orders"}, {"name": "x"}]})
    body = decode_request(payload)
    root = trace_body(body, response=False)
    assert [child.name for child in root.children] == ["size", "header", "body"]
    assert root.end == 4 + len(payload)
    named = {path: payload[node.start - 4 : node.end - 4] for path, node in root.walk()}
    assert named["body.topics[1].name"] == b"\0\x01x"
    assert named["header.client_id"] == b"\0\x01c"


def test_a_traced_frame_shows_what_could_not_be_decoded() -> None:
    body = decode_request(bytes.fromhex("0063 0000 00000007 0001 63") + b"whatever")
    *_, rest = trace_body(body, response=False).children
    assert (rest.name, rest.value) == ("undecoded", b"whatever")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_traced_frame_has_its_records(codec: Codec) -> None:
    batch = build_batch([Record(0, 5, b"kk", b"value"), Record(1, 6, None, b"w")], codec=codec)
    partition = {"index": 0, "records": batch}
    payload = request(0, 3, {"topic_data": [{"name": "t", "partition_data": [partition]}]})
    nodes = dict(trace_body(decode_request(payload), response=False, records=True).walk())
    (path,) = [path for path in nodes if path.endswith("records[0].key")]
    assert nodes[path].value == b"kk"
    if codec is Codec.NONE:
        assert payload[nodes[path].start - 4 : nodes[path].end - 4] == b"kk"
    else:
        # length, attributes, two deltas and the length of the key come before it in the decompressed bytes
        assert (nodes[path].kind, nodes[path].start, nodes[path].end) == (DECOMPRESSED, 5, 7)
        records = nodes[path.removesuffix("[0].key")]
        assert records.buffer is not None
        assert records.buffer[5:7] == b"kk"


def test_records_are_traced_up_to_a_number_of_all_in_the_frame() -> None:
    batch = build_batch([Record(index, 5, None, b"v") for index in range(10)])
    partitions = [{"index": index, "records": batch} for index in range(3)]
    payload = request(0, 3, {"topic_data": [{"name": "t", "partition_data": partitions}]})
    root = trace_body(decode_request(payload), response=False, records=True, max_records=14)
    records = [node for path, node in root.walk() if path.endswith(".records[0].records")]
    assert [len(node.children or ()) for node in records] == [10, 4, 0]


@given(st.binary(max_size=200), st.integers(-2, 97), st.integers(-2, 25))
def test_nothing_raises_on_any_bytes(data: bytes, key: int, version: int) -> None:
    for body, side in ((decode_request(data), "request"), (decode_response(data, key, version), "response")):
        assert all(end <= 4 + len(data) for _, end in _leaves(body, side))


TOPICS = {"brokers": [], "topics": [{"error_code": 0, "name": "t", "partitions": []}] * 40}


def test_a_body_with_too_many_fields_stays_bytes() -> None:
    payload = response(3, 0, TOPICS)
    with limits(message_objects=119):  # three fields in each topic
        body = decode_response(payload, 3, 0)
        (problem,) = body.problems
        assert (body.value, body.version, body.beyond_limit) == (None, None, True)
        assert problem.limit == "message_objects"
        assert (
            problem.reason
            == "120 more fields and elements would go over the limit message_objects (119 objects)"
        )
        root = trace_body(body, response=True)
        assert [part.name for part in root.children or ()] == ["size", "header", "undecoded"]
    with limits(message_objects=120):
        assert decode_response(payload, 3, 0).problems == []


def test_what_an_array_announces_costs_nothing() -> None:
    """The bytes end long before: that is reported, whatever the array announced."""
    payload = response(3, 0, TOPICS)
    lying = payload[:8] + (1 << 30).to_bytes(4) + payload[12:]
    with limits(message_objects=1000):
        body = decode_response(lying, 3, 0)
    assert not body.beyond_limit
    assert body.value is not None
    assert len(body.value["topics"]) == 41
    assert "the bytes end" in body.problems[0].reason


def test_tracing_ends_at_the_limit_too() -> None:
    con = api(3).response[0]
    payload = con.build(TOPICS)
    with limits(message_objects=119):
        traced = con.trace(payload)
    assert isinstance(traced.error, LimitReached)
    assert (traced.error.field_path, traced.end) == ("topics", 8)
    assert con.trace(payload).error is None


@pytest.mark.parametrize("version", [0, 9, 12])
def test_counted_decoding_gives_the_same(version: int) -> None:
    message = api(3).response[version]
    topics = [
        {"error_code": at, "name": f"t{at}", "partitions": [{"replica_nodes": [1, 2]}]} for at in range(9)
    ]
    payload = message.build({"topics": topics})
    expected = message.decode(payload)
    with limits(message_objects=len(payload) - 1):
        assert message.decode(payload) == expected
        assert message.parse(payload) == expected[0]


def test_batches_of_one_message_share_its_budget() -> None:
    batch = build_batch([Record(0, 0, b"k", b"v")] * 10, codec=Codec.ZSTD)
    partitions = [{"index": at, "records": batch * 2} for at in range(2)]
    body = decode_request(
        request(
            0, 3, {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": partitions}]}
        )
    )
    out = Annotations()
    with limits(message_records=15):
        Annotator(SessionContext()).annotate(body, "request", out)
    shown = [part["records"] for part in body.value["topic_data"][0]["partition_data"]]
    assert [[(each["count"], len(each["records"])) for each in part] for part in shown] == [
        [(10, 10), (10, 5)],
        [(10, 0), (10, 0)],
    ]
    assert [(problem.path, problem.limit) for _, problem in out.problems] == [
        ("topic_data[0].partition_data[0].records", "message_records"),
        ("topic_data[0].partition_data[1].records", "message_records"),
    ]
    assert (
        "the next of 10 would go over the limit message_records (15 records); 1 more batches are beyond it"
        in (out.problems[1][1].reason)
    )
