"""Details of recorded exchanges: every byte belongs to a field, and no secret is shown."""

from __future__ import annotations

from functools import cache
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.exchanges.notes import Note
from captures.exchanges.table import Flag
from captures.interventions import Change, Intervention, Interventions
from dissectors.apis import api
from dissectors.headers import ResponseHeader
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch
from kproxy.tui.detail import Role, SideDetail, detail_of
from kproxy.tui.detail.folds import FoldedLines
from kproxy.tui.detail.lines import pieces
from kproxy.tui.widgets.field_info import about
from tests.kproxy.tui.detail.details import (
    capture_of,
    detail_at,
    exchange_from,
    exchange_of,
    node_at,
    recorded,
    sides,
)

VARIED = (
    "06_noida_acks0_java.pcap",
    "09_snaplen128.pcap",
    "20_k430_ck_zstd.pcap",
    "24_k430_franz_scramsha256.pcap",
    "30_k0822_java_lz4.pcap",
    "30_k0822_scala_acks0_partial.pcap",
    "32_k0102_java_snappy.pcap",
    "35_k282_sasl_plain.pcap.zst",
    "36_k251_sweep.pcap.zst",
)
HEARTBEAT = {"group_id": "g", "generation_id": 41, "member_id": "m"}


def assert_every_byte_has_a_field(side: SideDetail) -> None:
    for index, buffer in enumerate(side.buffers):
        offset = 0
        while offset < len(buffer.data):
            node, end = side.run(index, offset)
            assert offset < end
            if node.opened == index:  # bytes that no field inside accounts for
                assert end <= len(buffer.data)
            else:
                assert node.buffer == index
                assert node.start <= offset
                assert end <= node.end
            assert side.at(index, end - 1) is node
            offset = end


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIED)
def test_every_byte_selects_a_field_that_has_it(name: str) -> None:
    for _, detail in recorded(name):
        for side in sides(detail):
            assert_every_byte_has_a_field(side)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIED)
def test_every_leaf_is_found_by_its_bytes(name: str) -> None:
    for _, detail in recorded(name):
        for side in sides(detail):
            assert side.root is not None
            for node in side.root.walk():
                if node.role is Role.FIELD and node.leaf and node.start < node.end and not node.incomplete:
                    if node.wire:  # fields embedded in it
                        continue
                    assert side.at(node.buffer, node.start) is node
                    assert side.at(node.buffer, node.end - 1) is node


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", VARIED)
def test_the_frame_is_what_was_captured(name: str) -> None:
    for exchange, detail in recorded(name, show_secrets=True):
        for side in sides(detail):
            body = exchange.request if side.side == "request" else exchange.response
            raw = body.raw if body is not None else exchange.tokens[side.side == "response"]
            size = exchange.request_size if side.side == "request" else exchange.response_size
            frame = side.buffers[0]
            assert frame.data == (size - 4).to_bytes(4, "big") + raw
            assert len(frame.data) + frame.missing == size
            assert not frame.masked


@cache
def small_frames() -> list[tuple[int, int, bytes, bytes]]:
    return [
        (exchange.api_key, exchange.version, exchange.request.raw, exchange.response.raw)
        for name in ("36_k0800_scala.pcap.zst", "36_k251_sweep.pcap.zst", "20_k430_ck_zstd.pcap")
        for exchange in map(itemgetter(0), recorded(name))
        if exchange.request and exchange.response and len(exchange.response.raw) < 1000
    ]


@pytest.mark.slow
@settings(deadline=None)
@given(st.data())
def test_any_frame_has_details(data: st.DataObject) -> None:
    key, version, asked, answered = data.draw(st.sampled_from(small_frames()))
    edited = []
    for frame in (asked, answered):
        damaged = bytearray(frame[: data.draw(st.integers(0, len(frame)))])
        for at in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=3)):
            damaged[at : at + 1] = data.draw(st.binary(max_size=2))
        edited.append(bytes(damaged))
    detail = detail_of(exchange_from(*edited, data.draw(st.just(key) | st.integers(-2, 99)), version))
    for side in sides(detail):
        assert_every_byte_has_a_field(side)
        FoldedLines(side, {})
        for node in side.nodes.values():
            assert node.start <= node.end <= len(side.buffers[node.buffer].data)
            pieces(node, folded=True)
            about(side, node)


# ---------------------------------------------------------------- texts of fields
def test_fields_say_what_they_are() -> None:
    detail = detail_of(exchange_of(12, 4, HEARTBEAT, {"throttle_time_ms": 1200, "error_code": 27}))
    error = node_at(detail.response, "error_code")
    assert (error.kind, error.value, error.note, error.error) == ("int16", 27, "REBALANCE_IN_PROGRESS", True)
    assert (error.start, error.end) == (13, 15)
    assert error.parent is detail.response.root
    assert error.parent.troubled
    throttle = node_at(detail.response, "throttle_time_ms")
    assert (throttle.text(), throttle.note) == ("1200 ms", "1.2s")
    assert detail.request.title == "Heartbeat v4"
    header = node_at(detail.request, "header")
    assert header.note == 'correlation_id 7  client_id "c"'
    assert [child.name for child in header.children][:3] == ["size", "request_api_key", "request_api_version"]


def test_decompressed_records_have_bytes_of_their_own() -> None:
    detail = detail_at("20_k430_ck_zstd.pcap", 34)
    frame, *batches = detail.response.buffers
    assert [buffer.name for buffer in batches] == [
        "responses[0].partitions[1].records[0] decompressed",
        "responses[0].partitions[2].records[0] decompressed",
    ]
    records = node_at(detail.response, "responses[0].partitions[1].records[0].records")
    assert (records.buffer, records.opened, records.text()) == (0, 1, "(41)")
    assert records.end - records.start < len(batches[0].data)
    value = node_at(detail.response, "responses[0].partitions[1].records[0].records[3].value")
    assert batches[0].data[value.start : value.end] == value.value
    batch = node_at(detail.response, "responses[0].partitions[1].records[0]")
    assert (batch.kind, batch.note) == ("batch", "41 records at offset 0, zstd")
    assert frame.segments[0] == 0
    assert len(frame.segments) > 1


def test_messages_of_old_formats_have_the_paths_of_records() -> None:
    detail = detail_at("30_k0822_java_lz4.pcap", 7)
    inner = node_at(detail.response, "responses[0].partitions[0].records[0].records[0]")
    assert (inner.kind, inner.name, inner.buffer) == ("message", "[0]", 1)
    assert node_at(detail.response, "responses[0].partitions[0].records[0].records[0].value").value


def test_records_are_not_shown_without_end() -> None:
    batch = build_batch([Record(index, 5, None, b"v") for index in range(50)])
    partition = {"index": 0, "records": batch}
    exchange = exchange_of(0, 3, {"topic_data": [{"name": "t", "partition_data": [partition]}]})
    side = detail_of(exchange, max_records=20).request
    records = node_at(side, "topic_data[0].partition_data[0].records[0].records")
    assert (len(records.children), records.note) == (20, "20 of 50 records")
    assert_every_byte_has_a_field(side)


def test_what_embedded_bytes_hold_stands_below_them() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 25).request
    metadata = node_at(side, "protocols[0].metadata")
    assert metadata.leaf
    topics = node_at(side, "protocols[0].metadata.topics")
    assert (topics.role, topics.value) == (Role.INNER, ["qc-ck-zstd"])
    assert (topics.kind, topics.doc) == ("array", "topics subscribed to")
    assert side.buffers[0].data[topics.start : topics.end] == b"\0\0\0\1\0\x0aqc-ck-zstd"
    assert side.at(0, topics.end - 1) is topics


def test_what_is_in_masked_bytes_has_no_place_of_its_own() -> None:
    side = detail_at("24_k430_franz_scramsha256.pcap", 4).request
    token, user = node_at(side, "auth_bytes"), node_at(side, "auth_bytes.user")
    assert (user.value, user.start, user.end) == ("admin", token.start, token.end)
    assert token.wire == 0


def test_deep_embedded_values_end_somewhere() -> None:
    exchange = exchange_of(12, 4, HEARTBEAT)
    value: object = 1
    for _ in range(100_000):
        value = {"in": value}
    exchange.annotations.decoded["request.group_id"] = value
    side = detail_of(exchange).request
    assert max(len(list(node.ancestors())) for node in side.nodes.values()) < 40
    for node in side.nodes.values():
        pieces(node, folded=True)
    exchange.annotations.decoded.clear()
    while isinstance(value, dict):  # otherwise the destructor would recurse
        value = value.pop("in")


# ---------------------------------------------------------------- problems and interventions
def test_what_is_missing_is_said() -> None:
    side = detail_at("09_snaplen128.pcap", 1).request
    assert side.root is not None
    assert side.root.note == "62 of 68 bytes captured"
    assert side.buffers[0].missing == 6
    version = node_at(side, "client_software_version")
    assert version.incomplete
    assert version.text() == "(incomplete)"
    roles = [remark.role for remark in side.root.remarks]
    assert roles == [Role.PROBLEM, Role.PROBLEM]
    assert (side.root.remarks[1].start, side.root.remarks[1].end) == (version.start, version.end)


def test_why_there_is_no_frame() -> None:
    unanswered = detail_of(exchange_of(12, 4, HEARTBEAT, flag=Flag.UNANSWERED))
    assert (unanswered.response.root, unanswered.response.absent) == (None, "no answer")
    one_way = detail_of(exchange_of(12, 4, HEARTBEAT, flag=Flag.NO_RESPONSE_EXPECTED))
    assert one_way.response.absent == "none expected"
    alone = exchange_of(12, 4, HEARTBEAT, {"throttle_time_ms": 0, "error_code": 0})
    alone.request = None
    orphan = detail_of(alone)
    assert orphan.request.absent == "the request was not captured"


def test_comments_and_changes_are_said() -> None:
    changed = Change("generation_id", 41, 40)
    held = Intervention(changed=(changed,), rule="api == Heartbeat => delay 5ms", action="delayed by 5 ms")
    exchange = exchange_of(
        12, 4, HEARTBEAT, note=Note(comment="look here\nagain"), interventions=Interventions((held,), ())
    )
    side = detail_of(exchange).request
    assert side.root is not None
    assert [(remark.role, remark.name) for remark in side.root.remarks] == [
        (Role.COMMENT, "look here"),
        (Role.COMMENT, "again"),
        (Role.CHANGE, "delayed by 5 ms (rule: api == Heartbeat => delay 5ms)"),
    ]
    assert node_at(side, "generation_id").change == " -> 40 (changed by kproxy)"


# ---------------------------------------------------------------- secrets
def texts(side: SideDetail) -> str:
    return repr([(node.value, node.note, node.change) for node in side.nodes.values()])


@pytest.mark.slow
def test_passwords_are_in_neither_values_nor_bytes() -> None:
    seen = 0
    for exchange, detail in recorded("35_k282_sasl_plain.pcap.zst"):
        for side in sides(detail):
            if exchange.api in ("SaslAuthenticate", "SaslToken") and side.side == "request":
                seen += 1
                assert side.buffers[0].masked
            assert b"alice-secret" not in side.buffers[0].data
            assert "alice-secret" not in texts(side)
    assert seen


def test_passwords_are_shown_when_asked_for() -> None:
    capture_of("24_k430_franz_scramsha256.pcap")
    detail = detail_at("24_k430_franz_scramsha256.pcap", 5, show_secrets=True)
    assert b",p=" in detail.request.buffers[0].data
    hidden = detail_at("24_k430_franz_scramsha256.pcap", 5)
    assert b",p=" not in hidden.request.buffers[0].data
    token = node_at(hidden.request, "auth_bytes")
    assert (token.masked, token.value, token.text()) == (True, None, "(masked)")
    assert hidden.request.buffers[0].masked == ((token.start, token.end),)


def test_a_password_in_a_frame_that_was_cut_is_masked() -> None:
    whole = exchange_of(36, 2, {"auth_bytes": b"\0a\0secret-of-alice"})
    assert whole.request is not None
    for kept in range(len(whole.request.raw) + 1):
        side = detail_of(exchange_from(whole.request.raw[:kept], b"", 36, 2)).request
        assert b"se" not in side.buffers[0].data
        assert "se" not in texts(side).replace("false", "")
        assert_every_byte_has_a_field(side)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_secret_in_a_record_is_masked_compressed_and_not(codec: Codec) -> None:
    from dissectors.embedded.cluster_metadata import UserScramCredentialRecord

    fields = {"name": "alice", "mechanism": 1, "salt": b"SALT", "stored_key": b"STORED", "server_key": b"S"}
    # frame version 1, API key 11, version 0 (server-common/.../AbstractApiMessageSerde.java)
    value = b"\x01\x0b\x00" + UserScramCredentialRecord[0].build({**fields, "iterations": 4096})
    partition = {"partition_index": 0, "records": build_batch([Record(0, 5, None, value)], codec=codec)}
    fetch = api(1)
    assert fetch is not None
    body = {"responses": [{"topic": "__cluster_metadata", "partitions": [partition]}]}
    answered = ResponseHeader[1].build({"correlation_id": 7}) + fetch.response[12].build(body)
    asked = exchange_of(1, 12, {}).request
    assert asked is not None
    side = detail_of(exchange_from(asked.raw, answered, 1, 12)).response
    assert "STORED" not in texts(side)
    for buffer in side.buffers:
        assert b"STORED" not in buffer.data
        assert buffer.masked
