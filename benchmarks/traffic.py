"""Captures to measure readers with: made by our own builders, or one capture repeated until it is large.

What is made is the same on every run. Versions are the newest that tshark 4.0 reads to the end (it takes later ones
for malformed and is done sooner), so that both readers do the same work.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from captures.export.segments import Conversation
from captures.export.synthetic import ETHERNET_SEGMENT
from captures.packets import CaptureError, open_source
from captures.packets.link import ETHERNET, IPV4, LinkFrames, network_header
from captures.packets.pcap import FILE_HEADER, PcapFormat, is_pcap
from captures.packets.table import PADDING
from captures.packets.walk import view
from dissectors.apis import api
from dissectors.records import Record
from dissectors.records.build import build_batch

BROKER = "10.0.0.9:9092"
PRODUCE, FETCH, METADATA, OFFSET_COMMIT, HEARTBEAT = 0, 1, 3, 8, 12

_VERSIONS = {PRODUCE: 8, FETCH: 11, METADATA: 8, OFFSET_COMMIT: 7, HEARTBEAT: 3}
_PARTITIONS = 4
_START = 1_795_237_401_000_000_000
_MS = 1_000_000
_US = 1_000

_FILE_HEADER = Struct("<IHHiIII")
_RECORD_HEADER = Struct("<IIII")
_REQUEST_HEADER = Struct(">ihhih")  # size, API key, version, correlation ID, length of the client ID
_RESPONSE_HEADER = Struct(">ii")
_MAGIC = 0xA1B2C3D4
_SNAPSHOT = 262_144

# what of an address tells copies apart: two bytes that are neither its network nor its last ones
_IPV4_ADDRESSES = (12 + 1, 16 + 1)
_IPV6_ADDRESSES = (8 + 4, 24 + 4)


class Packet(NamedTuple):
    """An Ethernet frame and its time, ns since the epoch."""

    time: int
    data: bytes


class Ask(NamedTuple):
    """An exchange to be made: the bodies, as they are built from, and ns until the answer."""

    key: int
    request: dict[str, Any]
    response: dict[str, Any]
    latency: int


#: yields the exchanges of one connection, given its number
Script = Callable[[int], Iterator[Ask]]


# ---------------------------------------------------------------- what is said
def steady(connection: int, exchanges: int = 700) -> Iterator[Ask]:
    """Half of the connections produce, half consume: batches of some records of some hundred bytes, four partitions.

    A consumer asks less often, as it gets what several producers have sent.
    """
    rng = Random(connection)
    topic = f"orders-{connection // 2 % 3}"
    yield _metadata(topic)
    if connection % 2:
        yield from (_fetch(rng, topic, number) for number in range(exchanges // 4))
    else:
        yield from (_produce(rng, topic, number) for number in range(exchanges))


def tiny(connection: int, exchanges: int = 130) -> Iterator[Ask]:
    """Requests of about a hundred bytes, and answers of less."""
    rng = Random(connection)
    group, member = f"group-{connection % 40}", f"consumer-1-{rng.randbytes(16).hex()}"
    yield _metadata("ticks")
    for number in range(exchanges):
        yield (
            _heartbeat(group, member),
            _commit(group, member, number),
            _small_produce(rng, connection, number),
        )[number % 3]


def _metadata(topic: str) -> Ask:
    partitions = [
        {
            "error_code": 0,
            "partition_index": index,
            "leader_id": 1,
            "leader_epoch": 0,
            "replica_nodes": [1],
            "isr_nodes": [1],
            "offline_replicas": [],
        }
        for index in range(_PARTITIONS)
    ]
    host, _, port = BROKER.rpartition(":")
    response = {
        "brokers": [{"node_id": 1, "host": host, "port": int(port), "rack": None}],
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
        "controller_id": 1,
        "topics": [{"error_code": 0, "name": topic, "is_internal": False, "partitions": partitions}],
    }
    return Ask(METADATA, {"topics": [{"name": topic}]}, response, 2 * _MS)


def _produce(rng: Random, topic: str, number: int) -> Ask:
    return _produced(
        topic, rng.randrange(_PARTITIONS), _batch(rng, number), number, rng.randrange(_MS, 8 * _MS)
    )


def _small_produce(rng: Random, connection: int, number: int) -> Ask:
    record = Record(0, _milliseconds(number), None, b"%04d" % number, ())
    return _produced(
        "ticks", connection % _PARTITIONS, build_batch([record]), number, rng.randrange(_MS, 3 * _MS)
    )


def _produced(topic: str, partition: int, records: bytes, offset: int, latency: int) -> Ask:
    sent = [{"index": partition, "records": records}]
    stored = [{"index": partition, "error_code": 0, "base_offset": offset}]
    request = {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": topic, "partition_data": sent}]}
    return Ask(PRODUCE, request, {"responses": [{"name": topic, "partition_responses": stored}]}, latency)


def _fetch(rng: Random, topic: str, number: int) -> Ask:
    asked = [
        {"partition": index, "fetch_offset": number, "partition_max_bytes": 1 << 20}
        for index in range(_PARTITIONS)
    ]
    answered = [
        {
            "partition_index": index,
            "error_code": 0,
            "high_watermark": number + 1,
            "last_stable_offset": number + 1,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "records": _batch(rng, number),
        }
        for index in range(_PARTITIONS)
    ]
    request = {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": asked}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    response = {"error_code": 0, "session_id": 0, "responses": [{"topic": topic, "partitions": answered}]}
    return Ask(FETCH, request, response, rng.randrange(_MS, 40 * _MS))


def _batch(rng: Random, number: int) -> bytes:
    """A batch of one to six records: a key, and a value of text of any length up to a few kilobytes."""
    return build_batch(
        Record(
            number + index,
            _milliseconds(number),
            b"k%d" % (number % 100),
            rng.randbytes(min(int(rng.lognormvariate(5, 0.8)), 3_000)).hex().encode(),
            (),
        )
        for index in range(rng.randrange(1, 7))
    )


def _milliseconds(number: int) -> int:
    return _START // _MS + number


def _heartbeat(group: str, member: str) -> Ask:
    request = {"group_id": group, "generation_id": 17, "member_id": member, "group_instance_id": None}
    return Ask(HEARTBEAT, request, {"error_code": 0}, _MS)


def _commit(group: str, member: str, number: int) -> Ask:
    committed = [
        {
            "partition_index": 0,
            "committed_offset": number,
            "committed_leader_epoch": 0,
            "committed_metadata": "",
        }
    ]
    request = {
        "group_id": group,
        "generation_id_or_member_epoch": 17,
        "member_id": member,
        "group_instance_id": None,
        "topics": [{"name": "ticks", "partitions": committed}],
    }
    done = [{"name": "ticks", "partitions": [{"partition_index": 0, "error_code": 0}]}]
    return Ask(OFFSET_COMMIT, request, {"topics": done}, 2 * _MS)


# ---------------------------------------------------------------- put on a wire
def write(path: Path, script: Script, connections: int) -> None:
    """Write a capture of some connections, whole ones with their handshakes, as they go on side by side."""
    conversations = [_packets(number, script) for number in range(connections)]
    with path.open("wb") as file:
        file.write(_FILE_HEADER.pack(_MAGIC, 2, 4, 0, 0, _SNAPSHOT, ETHERNET))
        for time, data in heapq.merge(*conversations, key=lambda packet: packet.time):
            seconds, fraction = divmod(time // _US, 1_000_000)
            file.write(_RECORD_HEADER.pack(seconds, fraction, len(data), len(data)) + data)


def _packets(number: int, script: Script) -> Iterator[Packet]:
    conversation = Conversation(f"10.0.0.{1 + number % 8}:{40_000 + number}", BROKER, number)
    client_id = f"app-{number}".encode()
    time = _START + number * 137 * _US
    for data in conversation.handshake():
        yield Packet(time, data)
    sent = [0, 0]
    for correlation_id, ask in enumerate(script(number)):
        frames = (_request(ask, correlation_id, client_id), _response(ask, correlation_id))
        for side, frame in enumerate(frames):
            for data in _segments(conversation, side, sent[side], frame):
                time += 4 * _US
                yield Packet(time, data)
            sent[side] += len(frame)
            time += ask.latency if side == 0 else _MS
    for data in (*conversation.finish(0), *conversation.finish(1)):
        yield Packet(time, data)


def _segments(conversation: Conversation, side: int, position: int, frame: bytes) -> Iterator[bytes]:
    for start in range(0, len(frame), ETHERNET_SEGMENT):
        part = frame[start : start + ETHERNET_SEGMENT]
        yield conversation.segment(side, position + start, part, push=start + len(part) == len(frame))


def _request(ask: Ask, correlation_id: int, client_id: bytes) -> bytes:
    """A frame with request header v1: none of the versions used is flexible."""
    version = _VERSIONS[ask.key]
    known = api(ask.key)
    assert known is not None
    body: bytes = known.request[version].build(ask.request)
    size = _REQUEST_HEADER.size - 4 + len(client_id) + len(body)
    return _REQUEST_HEADER.pack(size, ask.key, version, correlation_id, len(client_id)) + client_id + body


def _response(ask: Ask, correlation_id: int) -> bytes:
    known = api(ask.key)
    assert known is not None
    body: bytes = known.response[_VERSIONS[ask.key]].build(ask.response)
    return _RESPONSE_HEADER.pack(4 + len(body), correlation_id) + body


# ---------------------------------------------------------------- repeated
def repeat(capture: Path, path: Path, size: int, numbered: bytes = b"") -> None:
    """Write a pcap file, plain or compressed, over and over until ``size`` bytes are reached.

    Each copy goes on in time where the one before ended, and has addresses of its own, which makes new connections
    of all in it. Checksums are left as they are: neither reader verifies them.

    :param numbered: in each copy its number replaces the last five bytes of this text, such as the end of a group ID
    :raises CaptureError: if it is no pcap file, or has no packets
    """
    source = open_source(str(capture))
    while source.wait_for(source.size + 1):
        pass
    if not is_pcap(source.read(0, 4)):
        raise CaptureError(str(capture), 0, "not a pcap file, and only these can be repeated")
    unit = np.frombuffer(source.read(0, source.size) + bytes(PADDING), np.uint8).copy()
    layout = PcapFormat(source)
    parsed = layout.parse(unit, layout.start, source.size)
    records = parsed.records
    if not len(records):
        raise CaptureError(str(capture), FILE_HEADER, "no packets to repeat")
    numbers = np.ndarray(len(unit) - 1, ">u2", unit, 0, (1,))
    addresses = _addresses(unit, parsed.records.frame, records.captured, layout.interfaces[0].link_type)
    addresses = addresses[addresses < parsed.end]
    first = numbers[addresses]
    order = ">u4" if layout.big_endian else "<u4"
    headers = records.frame - layout.base
    units = layout.interfaces[0].units
    ticks = records.time // (1_000_000_000 // units)
    length = int(ticks.max() - ticks.min()) + 1
    names = [found.end() for found in re.finditer(re.escape(numbered), unit.tobytes())] if numbered else []
    with path.open("wb") as file:
        file.write(unit[: layout.start].tobytes())
        for copy in range(max(1, round(size / parsed.end))):
            shifted = ticks + copy * length
            view(unit, order)[headers] = shifted // units
            view(unit, order)[headers + 4] = shifted % units
            numbers[addresses] = first + copy
            for end in names:
                unit[end - 5 : end] = np.frombuffer(b"%05d" % copy, np.uint8)
            file.write(unit[layout.start : parsed.end].data)


def _addresses(
    unit: np.ndarray[Any, np.dtype[np.uint8]],
    frames: np.ndarray[Any, np.dtype[np.int64]],
    captured: np.ndarray[Any, np.dtype[np.int64]],
    link_type: int,
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return where the two bytes of each address are that make the copies differ."""
    rows = LinkFrames(np.arange(len(frames)), frames, frames + captured, frames + captured)
    network, ethertype = network_header(unit, rows, link_type)
    is_ipv4 = ethertype == IPV4
    places = [
        network.at + np.where(is_ipv4, four, six)
        for four, six in zip(_IPV4_ADDRESSES, _IPV6_ADDRESSES, strict=True)
    ]
    return np.concatenate(places)


#: name of a generated capture -> what makes its unit
GENERATED: dict[str, Callable[[Path], None]] = {
    "steady": partial(write, script=steady, connections=12),
    "tiny": partial(write, script=tiny, connections=200),
}
