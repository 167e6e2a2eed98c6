"""Rewritten addresses in every API and version that has any; everything else is unchanged."""

from __future__ import annotations

import copy
import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from random import Random
from typing import Any

import numpy as np
import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader
from kio.static.constants import EntityType

from captures.exchanges import open_capture
from captures.exchanges.payloads import payloads
from captures.interventions import Change, Intervention, as_comment, comment_content
from dissectors import apis
from dissectors.apis import NAMES
from dissectors.errors import DecodeError
from dissectors.locator import FieldLocator, response_structs
from dissectors.splice import splice
from kproxy.proxy.addresses import Broker, rewriter, unknown
from kproxy.proxy.node_endpoints import streams
from tests.captures.recorded import CAPTURES, FOLDER
from tests.dissectors.test_against_kafka_python import message_classes
from tests.dissectors.test_against_kio import Converter
from tests.kproxy.proxy.addressed import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FETCH,
    FIND_COORDINATOR,
    FIRST,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    Advertiser,
    body_of,
    drawn,
    every_version,
    frame_of,
    holders,
    names,
    response,
)
from tests.reference import captures_dir, needs_reference

ROUNDS = 12


def rewritten(key: int, version: int, frame: bytes, advertise: Callable[[Broker], tuple[str, int]]) -> Any:
    rewrite = rewriter(key, version)
    assert rewrite is not None
    return rewrite(frame, advertise)


def expected(value: Any, advertise: Advertiser, role: str = "broker") -> Any:
    """Return a body decoded by either library, with the addresses expected by clients."""
    if isinstance(value, list | tuple):
        return type(value)(expected(item, advertise, role) for item in value)
    if not isinstance(value, dict):
        return value
    if value.get("endpoint_type") == 2:
        role = "controller"
    out = {name: expected(item, advertise, role) for name, item in value.items()}
    node_id = value.get("node_id", value.get("broker_id"))
    if node_id is not None and {"host", "port"} <= value.keys():
        told = advertise.told_instead(role, node_id, value["host"], value["port"])
        out["host"], out["port"] = told
    return out


@pytest.mark.sample(14)
@pytest.mark.parametrize("pair", every_version(), ids=names)
def test_only_the_addresses_change(pair: tuple[int, int]) -> None:
    key, version = pair
    layout = response(key)[version]
    changed = 0
    for number in range(ROUNDS):
        seed = f"{names(pair)} {number}"
        value, advertise = drawn(key, version, seed), Advertiser(seed)
        frame = frame_of(key, version, layout.build(value), Random(seed))
        result = rewritten(key, version, frame, advertise)
        assert layout.parse(body_of(key, version, result.frame)) == expected(value, advertise), seed
        assert result.frame == frame or result.changes
        assert result.frame is frame or result.changes
        changed += bool(result.changes)
        assert put_back(key, version, result.frame, value) == frame, seed
        for change in result.changes:
            assert change.sent == at(value, change.path)
            assert change.got == at(layout.parse(body_of(key, version, result.frame)), change.path)
    assert changed


def at(value: Any, path: str) -> Any:
    for part in path.replace("]", "").replace("[", ".").split("."):
        value = value[int(part) if part.isdigit() else part]
    return value


def put_back(key: int, version: int, frame: bytes, value: Any) -> bytes:
    """Restore the original addresses, to reveal any other change."""
    paths = [
        f"{part}.{name}"
        for part in ("brokers", "coordinators", "node_endpoints")
        for name in ("host", "port")
    ]
    locator = FieldLocator.to_fields(response_structs(response(key), version), [*paths, "host", "port"])
    out = splice(frame, [(location, at(value, location.path)) for location in locator.find(frame, 4)])
    return (len(out) - 4).to_bytes(4, "big") + out[4:]


def kio_schemas() -> dict[tuple[int, int], type[Any]]:
    """Return kio's classes for the responses with addresses, in all versions that it supports."""
    kinds = {
        (key, version): schema_name_map[api_key_map[key]].get(version, {}) for key, version in every_version()
    }
    return {
        pair: resolve_name(found[EntityType.response])
        for pair, found in kinds.items()
        if EntityType.response in found
    }


@pytest.mark.sample(11)
@pytest.mark.parametrize("pair", kio_schemas(), ids=names)
def test_kio_reads_the_same_but_the_addresses(pair: tuple[int, int]) -> None:
    key, version = pair
    schema = kio_schemas()[pair]
    read, layout = entity_reader(schema), response(key)[version]
    for number in range(ROUNDS):
        seed = f"{names(pair)} kio {number}"
        value, advertise = drawn(key, version, seed, unknown_tags=False), Advertiser(seed)
        Converter(seed).entity(layout.struct, schema, value)  # converts it to a value that both support
        frame = frame_of(key, version, layout.build(value))
        result = rewritten(key, version, frame, advertise)
        before, after = (read(body_of(key, version, each), 0) for each in (frame, result.frame))
        assert after[1] == len(body_of(key, version, result.frame))
        assert dataclasses.asdict(after[0]) == expected(dataclasses.asdict(before[0]), advertise), seed


def kafka_python_versions() -> list[tuple[int, int]]:
    classes = {key: message_classes().get(f"{apis.api_name(key)}Response") for key in FIRST}
    return [
        (key, version)
        for key, version in every_version()
        if version <= getattr(classes[key], "max_version", -1)
    ]


@pytest.mark.sample(12)
@pytest.mark.parametrize("pair", kafka_python_versions(), ids=names)
def test_kafka_python_reads_the_same_but_the_addresses(pair: tuple[int, int]) -> None:
    key, version = pair
    message = message_classes()[f"{apis.api_name(key)}Response"]
    layout = response(key)[version]
    for number in range(ROUNDS):
        seed = f"{names(pair)} kafka-python {number}"
        value, advertise = drawn(key, version, seed, unknown_tags=False), Advertiser(seed)
        frame = frame_of(key, version, layout.build(value))
        result = rewritten(key, version, frame, advertise)
        before, after = (
            message.decode(body_of(key, version, each), version=version) for each in (frame, result.frame)
        )
        assert after.to_dict() == expected(before.to_dict(), advertise), seed


@pytest.mark.sample(3)
@pytest.mark.parametrize("pair", every_version(), ids=names)
def test_damaged_frames(pair: tuple[int, int]) -> None:
    """The result is a frame or a DecodeError."""
    key, version = pair
    layout, rng = response(key)[version], Random(f"{names(pair)} damaged")
    frame = frame_of(key, version, layout.build(drawn(key, version, f"{names(pair)} damaged")))
    for _ in range(60):
        damaged = bytearray(frame[: rng.randrange(len(frame) + 1)] if rng.random() < 0.3 else frame)
        for _ in range(rng.randrange(3) if damaged else 0):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            result = rewritten(key, version, bytes(damaged), lambda _: ("p", 1))
        except DecodeError:
            continue
        assert isinstance(result.frame, bytes)


def test_what_other_decoders_have() -> None:
    missing = [(key, version) for key, version in every_version() if (key, version) not in kio_schemas()]
    assert missing == [(SHARE_FETCH, 0), (SHARE_ACKNOWLEDGE, 0)]  # removed in Kafka 4.1
    assert len(kafka_python_versions()) == 31


def test_what_has_addresses() -> None:
    """The first versions are those of the protocol; all later declared versions have addresses."""
    for key in range(len(apis.NAMES)):
        known = apis.api(key)
        assert known is not None
        layouts = {version: known.response[version].struct for version in known.response.versions}
        for version in layouts:
            has = key in FIRST and version >= FIRST[key]
            assert (rewriter(key, version) is not None) == (has or key == API_VERSIONS), (key, version)
            assert not unknown(key, version)
    assert rewriter(-1, 0) is rewriter(10_000, 0) is rewriter(METADATA, 99) is None
    assert all(unknown(key, response(key).versions.last + 1) for key in FIRST)
    assert unknown(METADATA, -1)
    assert not unknown(API_VERSIONS, 99)  # answered in a supported version
    assert not unknown(10_000, 0)
    assert streams(FETCH, 15) is streams(FETCH, 99) is streams(PRODUCE, 11) is streams(METADATA, 12) is None
    assert streams(FETCH, 16) is not None
    assert streams(SHARE_FETCH, 1) is not None


def test_no_other_message_has_a_host_and_a_port_for_clients() -> None:
    """Messages are left alone by name only; a new API has to be checked."""
    left = set()
    for key in range(len(apis.NAMES)):
        message = response(key)
        for version in message.versions:
            con = message[version].struct
            if list(holders(full(con), con)) and not (key in FIRST and version >= FIRST[key]):
                left.add(apis.api_name(key))
    # APIs of the quorum, APIs between controllers and brokers, and endpoints of Streams applications
    assert left == {
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
        "DescribeQuorum",
        "FetchSnapshot",
        "UpdateRaftVoter",
        "StreamsGroupHeartbeat",
        "StreamsGroupDescribe",
    }


def full(con: Any) -> Any:
    """Return a value with one element in every array and all tagged fields."""
    if hasattr(con, "element"):
        return [full(con.element)]
    if hasattr(con, "struct"):
        return full(con.struct)
    if hasattr(con, "members"):
        return {member.name: full(member.con) for member in con.all_members}
    return None


# ---------------------------------------------------------------- unchanged messages
# FindCoordinator v2 of kafka-python 3.0.12: error 15, no message, node -1, empty host, port -1
NOT_FOUND = bytes.fromhex("00000018 00000007 00000000 000f ffff ffffffff 0000 ffffffff".replace(" ", ""))


def test_no_coordinator() -> None:
    def advertise(broker: Broker) -> tuple[str, int]:
        raise AssertionError(f"{broker} is none")

    frame = (len(NOT_FOUND) - 4).to_bytes(4, "big") + NOT_FOUND[4:]
    assert rewritten(FIND_COORDINATOR, 2, frame, advertise)[:2] == (frame, ())
    for node in ({"node_id": -1, "host": "", "port": 1}, {"node_id": 1, "host": "b", "port": 0}):
        frame = frame_of(FIND_COORDINATOR, 4, response(FIND_COORDINATOR)[4].build({"coordinators": [node]}))
        assert rewritten(FIND_COORDINATOR, 4, frame, advertise)[:2] == (frame, ())


def test_controllers_are_told_apart() -> None:
    seen: list[Broker] = []
    node = {"broker_id": 1, "host": "c1", "port": 9093}
    for kind in (1, 2):
        body = response(DESCRIBE_CLUSTER)[1].build({"endpoint_type": kind, "brokers": [node]})
        rewritten(
            DESCRIBE_CLUSTER,
            1,
            frame_of(DESCRIBE_CLUSTER, 1, body),
            lambda broker: (seen.append(broker), ("p", 1))[1],
        )
    assert seen == [Broker("broker", 1, "c1", 9093), Broker("controller", 1, "c1", 9093)]


def test_an_address_that_stays_the_same() -> None:
    body = response(METADATA)[12].build({"brokers": [{"node_id": 1, "host": "b1", "port": 9092}]})
    frame = frame_of(METADATA, 12, body)
    assert rewritten(METADATA, 12, frame, lambda broker: (broker.host, broker.port)).frame is frame
    result = rewritten(METADATA, 12, frame, lambda broker: (broker.host, 9093))
    assert result.changes == (Change("brokers[0].port", 9092, 9093),)


# ---------------------------------------------------------------- ApiVersions
def offered(versions: dict[int, tuple[int, int]], version: int, error: int = 0) -> bytes:
    entries = [
        {"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in versions.items()
    ]
    return frame_of(
        API_VERSIONS,
        version,
        response(API_VERSIONS)[version].build({"error_code": error, "api_keys": entries}),
    )


def untold(broker: Broker) -> tuple[str, int]:
    raise AssertionError("ApiVersions has no addresses")


@pytest.mark.parametrize("version", list(response(API_VERSIONS).versions))
def test_versions_whose_addresses_are_not_known_are_not_offered(version: int) -> None:
    newest = {key: response(key).versions.last for key in (*FIRST, API_VERSIONS)}
    others = {
        2: (0, 99),
        len(NAMES) - 1: (0, 99),
        len(NAMES): (0, 3),
        9999: (0, 3),
        10_000: (0, 99),
        -5: (0, 99),
    }
    new = offered({**dict.fromkeys(newest, (0, 99)), **others}, version)
    expected_frame = offered({**{key: (0, last) for key, last in newest.items()}, **others}, version)
    result = rewritten(API_VERSIONS, version, new, untold)
    assert result.frame == expected_frame
    assert [change.got for change in result.changes] == list(newest.values())
    assert all(change.sent == 99 for change in result.changes)
    old = offered({**newest_and_older(newest), **others}, version)
    assert rewritten(API_VERSIONS, version, old, untold).frame is old


def declared() -> dict[int, tuple[int, int]]:
    return {key: (0, response(key).versions.last) for key in range(len(NAMES))}


@pytest.mark.parametrize("version", list(response(API_VERSIONS).versions))
def test_a_broker_that_offers_nothing_but_what_is_declared_is_known(version: int) -> None:
    def is_known(offers: dict[int, tuple[int, int]]) -> bool:
        known: bool = rewritten(API_VERSIONS, version, offered(offers, version), untold).is_known
        return known

    assert is_known(declared())
    assert is_known({FETCH: (4, 17), API_VERSIONS: (0, 4)})
    assert not is_known({**declared(), 2: (0, declared()[2][1] + 1)})
    assert not is_known({**declared(), len(NAMES): (0, 0)})  # an API of a later release
    assert not is_known({**declared(), 10_000: (0, 0)})  # an API of a vendor
    assert not is_known({API_VERSIONS: (0, 4)})
    assert not is_known({})


def test_a_refusal_says_nothing_about_a_broker() -> None:
    frame = offered({API_VERSIONS: (0, 4)}, 0, error=35)
    assert not rewritten(API_VERSIONS, 4, frame, untold).is_known


def test_a_broker_that_is_too_new_offers_nothing() -> None:
    newest = response(METADATA).versions.last
    frame = offered({METADATA: (newest + 2, newest + 5)}, 4)
    assert rewritten(API_VERSIONS, 4, frame, untold).frame == offered({METADATA: (newest + 2, newest)}, 4)


def newest_and_older(newest: dict[int, int]) -> dict[int, tuple[int, int]]:
    return {key: (0, last - number % 2) for number, (key, last) in enumerate(newest.items())}


def test_a_refusal_is_in_v0_whatever_was_asked() -> None:
    for asked in (0, 3, 5, 6, 77):
        frame = offered({API_VERSIONS: (0, 4)}, 0, error=35)
        assert rewritten(API_VERSIONS, asked, frame, untold).frame is frame
        newer = offered({API_VERSIONS: (0, 9)}, 0, error=35)
        result = rewritten(API_VERSIONS, asked, newer, untold)
        assert result.frame == offered({API_VERSIONS: (0, 5)}, 0, error=35)
        assert result.changes == (Change("api_keys[0].max_version", 9, 5),)


@pytest.mark.parametrize("asked", [3, 4])
def test_a_refusal_in_the_version_that_was_asked_for(asked: int) -> None:
    # librdkafka 2.16.0's mock cluster to the Java client 4.3.0 (01_mock_java_throttle_bug.pcap)
    payload = bytes.fromhex("0000000000230100120000000200000000")
    frame = len(payload).to_bytes(4, "big") + payload
    assert rewritten(API_VERSIONS, asked, frame, untold).frame is frame


def test_an_answer_in_a_version_that_is_not_known_becomes_a_refusal() -> None:
    newest = response(API_VERSIONS).versions.last
    frame = struct.pack(">iih", 100, 7, 0) + bytes(94)
    result = rewritten(API_VERSIONS, newest + 1, frame, untold)
    refusal = response(API_VERSIONS)[0].parse(result.frame[8:])
    assert refusal == {
        "error_code": 35,
        "api_keys": [{"api_key": API_VERSIONS, "min_version": 0, "max_version": newest}],
    }
    assert result.frame[:8] == struct.pack(">ii", len(result.frame) - 4, 7)
    assert [change.path for change in result.changes] == ["error_code", "api_keys"]
    comment = comment_content(as_comment(Intervention(changed=result.changes)))
    assert comment is not None
    assert comment.changed == result.changes
    failed = struct.pack(">iih", 100, 7, 42) + bytes(94)
    assert rewritten(API_VERSIONS, newest + 1, failed, untold).frame is failed
    with pytest.raises(DecodeError):
        rewritten(API_VERSIONS, newest + 1, frame[:9], untold)


# ---------------------------------------------------------------- versions other than requested
# nafka to ApiVersions v2 of kafkajs 2.2.4 (01_nafka_kafkajs_none.pcap): v3, twelve entries
NAFKA = bytes.fromhex(
    "0000000000000d0000000800080000010006000600000200050005000003000800080000080007000700000900050005"
    "00000a0002000200000b0005000500000c0003000300000d0003000300000e0003000300001200040004000000000000"
)


def test_an_answer_in_a_later_version_than_asked_for() -> None:
    frame = len(NAFKA).to_bytes(4, "big") + NAFKA
    assert rewritten(API_VERSIONS, 2, frame, untold).frame is frame
    newer = frame.replace(b"\x00\x12\x00\x04\x00\x04", b"\x00\x12\x00\x04\x00\x09")
    result = rewritten(API_VERSIONS, 2, newer, untold)
    assert result.frame == frame.replace(b"\x00\x12\x00\x04\x00\x04", b"\x00\x12\x00\x04\x00\x05")


@pytest.mark.parametrize("asked", [3, 4, 5])
def test_an_answer_in_an_earlier_version_than_asked_for(asked: int) -> None:
    """Kafka 0.9.0.1 answers Metadata in v0, whatever the version of the request."""
    nodes = [{"node_id": number, "host": "broker", "port": 9092} for number in (1, 2)]
    frame = frame_of(
        METADATA, 0, response(METADATA)[0].build({"brokers": nodes, "topics": [{"name": "orders"}]})
    )
    result = rewritten(METADATA, asked, frame, lambda broker: ("proxy", 9000 + broker.node_id))
    value = response(METADATA)[0].parse(body_of(METADATA, 0, result.frame))
    assert [(node["host"], node["port"]) for node in value["brokers"]] == [("proxy", 9001), ("proxy", 9002)]
    assert [topic["name"] for topic in value["topics"]] == ["orders"]
    with pytest.raises(DecodeError):
        rewritten(METADATA, asked, frame[:-3], untold)


# ---------------------------------------------------------------- recorded frames
def check_recorded(path: Path) -> int:
    """Rewrite every response of a capture that has addresses; return the number of these."""
    capture = open_capture(str(path))
    capture.read()
    table = capture.table
    rows = np.flatnonzero((table.column("response_size") > 0) & np.isin(table.column("api_key"), list(FIRST)))
    changed = 0
    for row, payload in zip(rows.tolist(), payloads(capture, rows, "response"), strict=True):
        key, version = table.row(row)["api_key"], table.row(row)["version"]
        if payload is None or rewriter(key, version) is None:
            continue
        frame = len(payload).to_bytes(4, "big") + payload
        advertise = Advertiser(path.name)
        result = rewritten(key, version, frame, advertise)
        layout = response(key)[version]
        value = layout.decode(body_of(key, version, frame))[0]
        assert layout.decode(body_of(key, version, result.frame))[0] == expected(value, advertise)
        assert put_back(key, version, result.frame, copy.deepcopy(value)) == frame
        changed += bool(advertise.told)
    return changed


@pytest.mark.parametrize(
    "name", [name for name in CAPTURES if name[:2] in ("20", "21", "22", "24", "32", "36")]
)
def test_recorded_in_the_project(name: str) -> None:
    assert check_recorded(FOLDER / name) > 0


@needs_reference
@pytest.mark.parametrize(
    "name", ["05_tansu_admin_java.pcap", "04_noida_tx_kp.pcap", "01_tansu_kafkajs_gzip.pcap"]
)
def test_recorded_in_the_reference(name: str) -> None:
    assert check_recorded(captures_dir() / name) > 0
