"""Node endpoints in streamed frames: however chunked, only the endpoints are voided, and the size is unchanged."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from captures.exchanges import open_capture
from captures.exchanges.payloads import payloads
from captures.interventions import Change
from dissectors import wire
from kproxy.proxy import node_endpoints
from kproxy.proxy.node_endpoints import free_of_endpoints, streams
from tests.captures.recorded import CAPTURES, FOLDER
from tests.dissectors.test_against_kafka_python import message_classes
from tests.kproxy.proxy.addressed import (
    FETCH,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    body_of,
    drawn,
    every_version,
    frame_of,
    names,
    response,
)
from tests.kproxy.proxy.test_addresses import at

STREAMED = [(FETCH, version) for version in (16, 17, 18)] + [(SHARE_FETCH, version) for version in (0, 1, 2)]
ENDPOINT = {"node_id": 1, "host": "broker-1", "port": 9092, "rack": None}
ROUNDS = 12


def through(key: int, version: int, pieces: list[bytes]) -> tuple[bytes, tuple[Change, ...], str]:
    make = streams(key, version)
    assert make is not None
    stream = make()
    sent = b"".join(stream.feed(piece) for piece in pieces)
    return sent, stream.changes, stream.problem


def cut(data: bytes, rng: Random) -> list[bytes]:
    cuts = sorted(rng.sample(range(len(data) + 1), min(len(data), rng.choice((0, 1, 3, 30)))))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.mark.parametrize("pair", STREAMED, ids=names)
def test_nothing_but_the_endpoints_changes(pair: tuple[int, int]) -> None:
    key, version = pair
    layout = response(key)[version]
    voided = 0
    for number in range(ROUNDS):
        seed = f"{names(pair)} streamed {number}"
        rng = Random(seed)
        value = drawn(key, version, seed)
        endpoints = value.get("node_endpoints")
        frame = frame_of(key, version, layout.build(value), rng)
        sent, changes, problem = through(key, version, [frame])
        assert not problem
        assert len(sent) == len(frame)
        for _ in range(4):
            assert through(key, version, cut(frame, rng)) == (sent, changes, ""), seed
        if not endpoints:
            assert (sent, changes) == (frame, ()), seed
            continue
        voided += 1
        assert changes == (Change("node_endpoints", endpoints, []),), seed
        got = layout.parse(body_of(key, version, sent))
        assert not got.pop("node_endpoints", None)
        tags = got.pop("_tags")
        number_of_void = max(set(range(1, 128)) - set(value.get("_tags", ())))
        assert not any(tags.pop(number_of_void))
        assert (got, tags) == (without(value), value.get("_tags", {})), seed
        # the bytes before the endpoints are unchanged
        start = layout.trace(body_of(key, version, frame)).root.children
        assert start is not None
        first = min(node.start for node in start if node.name in ("node_endpoints", *value.get("_tags", ())))
        before = len(frame) - len(body_of(key, version, frame)) + first - (key == FETCH)
        assert sent[:before] == frame[:before]
    assert voided


def without(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in ("node_endpoints", "_tags")}


@pytest.mark.parametrize("version", [16, 17])
def test_kafka_python_finds_no_endpoints(version: int) -> None:
    """It skips unknown tags; kio 0.6.5 rejects them."""
    message = message_classes()["FetchResponse"]
    for count in (1, 2, 9, 40):
        body = response(FETCH)[version].build({"session_id": 5, "node_endpoints": [ENDPOINT] * count})
        assert len(message.decode(body, version=version).node_endpoints) == count
        sent, changes, problem = through(FETCH, version, [frame_of(FETCH, version, body)])
        assert (len(changes), problem) == (1, "")
        decoded = message.decode(body_of(FETCH, version, sent), version=version)
        assert (decoded.session_id, decoded.node_endpoints) == (5, [])


@pytest.mark.parametrize("pair", STREAMED, ids=names)
@pytest.mark.parametrize("others", [{}, {1: b"a"}, {5: b"", 126: b"b", 127: b"c", 128: b"d"}], ids=len)
def test_tag_numbers_ascend(pair: tuple[int, int], others: dict[int, bytes]) -> None:
    key, version = pair
    layout = response(key)[version]
    body = layout.build({"node_endpoints": [ENDPOINT], **({"_tags": others} if others else {})})
    sent, _, problem = through(key, version, [frame_of(key, version, body)])
    assert not problem
    got = layout.parse(body_of(key, version, sent))
    assert list(got["_tags"]) == sorted(got["_tags"])
    assert others.items() <= got["_tags"].items()
    assert len(got["_tags"]) == len(others) + 1


@pytest.mark.parametrize("pair", STREAMED, ids=names)
def test_any_size_of_endpoints(pair: tuple[int, int]) -> None:
    """The void field's size is as long as necessary; one byte longer if no length fits exactly."""
    key, version = pair
    layout = response(key)[version]
    more = 0
    for length in (*range(1, 6), *range(90, 140), *range(16_340, 16_400)):
        frame = frame_of(key, version, layout.build({"node_endpoints": [{**ENDPOINT, "host": "h" * length}]}))
        sent, changes, problem = through(key, version, [frame])
        assert (len(changes), problem, len(sent)) == (1, "", len(frame))
        got = layout.parse(body_of(key, version, sent))
        assert got["_tags"].keys() == {127}
        more += layout.build(got) != body_of(key, version, sent)
    assert more == (2 if key == SHARE_FETCH else 0)  # at 128 and at 16,384 bytes


def test_a_number_in_two_bytes_stays_in_two() -> None:
    # KIP-951's field, its number 0 written as 80 00: one endpoint, node 1, host b, port 9092, no rack
    section = bytes.fromhex("01 8000 0d 02 00000001 0262 00002384 00 00".replace(" ", ""))
    body = response(FETCH)[16].build({})[:-1] + section
    sent, _, problem = through(FETCH, 16, [frame_of(FETCH, 16, body)])
    assert not problem
    assert sent == frame_of(FETCH, 16, body[: -len(section)] + bytes.fromhex("01ff000d") + bytes(13))


@pytest.mark.parametrize("pair", STREAMED, ids=names)
def test_records_that_look_like_endpoints(pair: tuple[int, int]) -> None:
    """Whole responses as records, and data that resembles endpoints."""
    key, version = pair
    layout, rng = response(key)[version], Random(7)
    inner = layout.build({"node_endpoints": [ENDPOINT]})
    for _ in range(5):
        records = b"".join(
            rng.choice((inner, inner[-20:], frame_of(key, version, inner), b"\x00")) for _ in range(9)
        )
        partitions = [{"partition_index": number, "records": records} for number in range(3)]
        topic = {"topic_id": wire.ZERO_UUID, "partitions": partitions}
        frame = frame_of(key, version, layout.build({"responses": [topic]}))
        assert through(key, version, cut(frame, rng)) == (frame, (), "")
        full = layout.build({"responses": [topic], "node_endpoints": [ENDPOINT]})
        sent, _, _ = through(key, version, cut(frame_of(key, version, full), rng))
        assert at(layout.parse(body_of(key, version, sent)), "responses[0].partitions") == at(
            layout.parse(full), "responses[0].partitions"
        )


@pytest.mark.parametrize("pair", STREAMED, ids=names)
def test_damaged_frames_go_on_as_they_are(pair: tuple[int, int]) -> None:
    """Data that cannot be parsed passes unchanged, and nothing is raised."""
    key, version = pair
    rng = Random(f"{names(pair)} damaged")
    for number in range(20):
        frame = frame_of(
            key, version, response(key)[version].build(drawn(key, version, f"{names(pair)} {number}"))
        )
        damaged = bytearray(frame)
        for _ in range(3):
            damaged[rng.randrange(4, len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        sent, changes, problem = through(key, version, [bytes(damaged)])
        assert len(sent) == len(damaged)
        assert sent == damaged or changes
        assert not (changes and problem)
        assert through(key, version, cut(bytes(damaged), rng)) == (sent, changes, problem)


def test_a_frame_that_ends_early() -> None:
    body = response(FETCH)[17].build({"responses": [{"partitions": [{"records": bytes(90)}]}]})
    frame = frame_of(FETCH, 17, body[:60])
    sent, changes, problem = through(FETCH, 17, [frame])
    assert (sent, changes) == (frame, ())
    assert "ends before" in problem


def test_an_end_that_is_too_long_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_endpoints, "LONGEST_END", 1000)
    frame = frame_of(FETCH, 17, response(FETCH)[17].build({"node_endpoints": [ENDPOINT] * 100}))
    sent, changes, problem = through(FETCH, 17, cut(frame, Random(3)))
    assert (sent, changes) == (frame, ())
    assert "more than is held" in problem


def test_records_are_passed_on_at_once_and_as_they_are() -> None:
    body = response(FETCH)[17].build({"responses": [{"partitions": [{"records": bytes(3_000_000)}]}]})
    frame = frame_of(FETCH, 17, body)
    make = streams(FETCH, 17)
    assert make is not None
    stream = make()
    pieces = [frame[start : start + 65536] for start in range(0, len(frame), 65536)]
    for piece in pieces[:-1]:
        assert stream.feed(piece) is piece
    assert stream.feed(pieces[-1]) == pieces[-1]


@pytest.mark.slow
def test_recorded_leaders_of_the_quorum() -> None:
    """Fetch v18 between controllers of Kafka 4.3.0: most responses have real node endpoints."""
    capture = open_capture(str(FOLDER / "26_k430_add_controller_controller.pcap.zst"))
    capture.read()
    table = capture.table
    rows = np.flatnonzero((table.column("response_size") > 0) & (table.column("api_key") == FETCH))
    rng, voided = Random(1), 0
    for payload in payloads(capture, rows, "response"):
        if payload is None:
            continue
        frame = len(payload).to_bytes(4, "big") + payload
        sent, changes, problem = through(FETCH, 18, cut(frame, rng))
        before, after = (response(FETCH)[18].parse(body_of(FETCH, 18, each)) for each in (frame, sent))
        assert (len(sent), problem) == (len(frame), "")
        assert without(after) == without(before)
        assert bool(changes) == ("node_endpoints" in before)
        assert "node_endpoints" not in after
        voided += bool(changes)
    assert voided > 50


# ---------------------------------------------------------------- the end of a frame
WITH_ENDPOINTS = (PRODUCE, FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE)
ENDING = [pair for pair in every_version() if pair[0] in WITH_ENDPOINTS]
RACKS = (None, "", "a", "rack-1", "größe", "r" * 200)


def is_free(key: int, version: int, frame: bytes) -> bool:
    decide = free_of_endpoints(key, version)
    assert decide is not None
    around = b"\x01\x02" + frame + b"\x01\x00\x00\x00"  # in a buffer with other data
    assert decide(around, 2 + len(frame)) == decide(frame, len(frame))
    return decide(frame, len(frame))


def names_an_address(value: dict[str, Any]) -> bool:
    return any(each["host"] and 0 < each["port"] < 65_536 for each in value.get("node_endpoints") or ())


@pytest.mark.sample(3)
@pytest.mark.parametrize("pair", ENDING, ids=names)
def test_no_response_with_an_address_ends_as_if_it_had_none(pair: tuple[int, int]) -> None:
    key, version = pair
    layout, addressed, free = response(key)[version], 0, 0
    for number in range(10 * ROUNDS):
        seed = f"{names(pair)} ends {number}"
        rng, value = Random(seed), drawn(key, version, seed, unknown_tags=False)
        if rng.random() < 0.5:
            value["node_endpoints"] = []
        for each in value.get("node_endpoints") or ():
            each["rack"] = rng.choice(RACKS)
            each["port"] = rng.choice(
                (1, 255, 256, 257, 9216, 9092, 65_280, 65_535, rng.randrange(1, 65_536))
            )
        decided = is_free(key, version, frame_of(key, version, layout.build(value), rng))
        assert not (decided and names_an_address(value)), seed
        addressed += names_an_address(value)
        free += decided
    assert min(addressed, free) >= 5


def test_versions_without_endpoints_at_their_end() -> None:
    assert (
        free_of_endpoints(FETCH, 15)
        is free_of_endpoints(FETCH, 99)
        is free_of_endpoints(METADATA, 12)
        is None
    )
    assert free_of_endpoints(PRODUCE, 9) is free_of_endpoints(-1, 0) is None
    assert all(free_of_endpoints(*pair) is not None for pair in ENDING)


def test_a_field_behind_the_endpoints_could_end_in_any_way() -> None:
    """Therefore the end of a frame is decisive only if the broker offers nothing but declared versions."""
    value = {"responses": [], "node_endpoints": [ENDPOINT], wire.UNKNOWN_TAGS: {1: bytes(8)}}
    assert is_free(FETCH, 17, frame_of(FETCH, 17, response(FETCH)[17].build(value)))


def checked_ends(path: str) -> tuple[int, int]:
    """Check the ends of all responses of a capture; return how many have no address, and how many are free."""
    capture = open_capture(path)
    capture.read()
    table = capture.table
    mine = np.isin(table.column("api_key"), WITH_ENDPOINTS) & (table.column("response_size") > 0)
    rows, free, count = np.flatnonzero(mine), 0, 0
    for row, payload in zip(rows.tolist(), payloads(capture, rows, "response"), strict=True):
        key, version = table.row(row)["api_key"], table.row(row)["version"]
        if payload is None or free_of_endpoints(key, version) is None:
            continue
        frame = len(payload).to_bytes(4, "big") + payload
        addressed = names_an_address(response(key)[version].decode(body_of(key, version, frame))[0])
        decided = is_free(key, version, frame)
        assert not (addressed and decided)
        count += not addressed
        free += decided
    return count, free


@pytest.mark.slow
def test_no_recorded_response_with_an_address_ends_as_if_it_had_none() -> None:
    found = [checked_ends(str(FOLDER / name)) for name in CAPTURES]
    count, free = map(sum, zip(*found, strict=True))
    assert count > 100
    assert free > 0.98 * count
