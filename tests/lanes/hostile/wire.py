"""Building blocks of hostile files: frames, conversations, and the files around them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from captures.export.segments import Conversation
from tests.captures.packets.kit import T0
from tests.kproxy.frames import framed, request_frame, response_frame

PORT = 9092
BROKER = f"10.0.0.2:{PORT}"
TOPIC, GROUP, CLIENT_ID = "orders", "billing", "app"
SEGMENT = 1_400

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, API_VERSIONS = 11, 12, 13, 14, 15, 18

#: a request frame, and its response or None
Exchange = tuple[bytes, bytes | None]

_FILE_HEADER = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_NANO = 0xA1B23C4D
_SNAPSHOT = 262_144
_STEP = 100_000  # ns between packets


def client(number: int) -> str:
    """Return address and port of a client, different for each number."""
    host, port = divmod(number, 60_000)
    return f"10.{1 + (host >> 8)}.{host & 0xFF}.1:{1_024 + port}"


# ---------------------------------------------------------------- files
def pcap(frames: Iterable[bytes], *, step: int = _STEP, link_type: int = 1) -> Iterator[bytes]:
    """Yield a pcap file of Ethernet frames (pcap-savefile(5)), ``step`` ns apart."""
    yield _FILE_HEADER.pack(_NANO, 2, 4, 0, 0, _SNAPSHOT, link_type)
    seconds, fraction = divmod(T0, 10**9)
    for frame in frames:
        fraction += step
        if fraction >= 10**9:
            seconds, fraction = seconds + fraction // 10**9, fraction % 10**9
        yield _RECORD.pack(seconds, fraction, len(frame), len(frame)) + frame


def cut(chunks: Iterable[bytes], size: int = 1 << 20) -> Iterator[bytes]:
    """Yield the same bytes in larger pieces."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) >= size:
            yield bytes(held)
            held.clear()
    yield bytes(held)


# ---------------------------------------------------------------- packets
def said(
    exchanges: Iterable[Exchange],
    number: int = 0,
    *,
    opened: bool = True,
    closed_by: int | None = None,
    segment: int = SEGMENT,
) -> Iterator[bytes]:
    """Yield the packets of a connection without pipelining.

    :param number: number of the client
    :param opened: whether the handshake is included
    :param closed_by: side that sends a FIN at the end, 0 the client, 1 the broker; None leaves it open
    :param segment: maximum payload of a packet in bytes
    """
    conversation = Conversation(client(number), BROKER, number)
    if opened:
        yield from conversation.handshake()
    sent = [0, 0]
    for messages in exchanges:
        for side, message in enumerate(messages):
            if message is not None:
                yield from segments(conversation, side, sent[side], message, segment)
                sent[side] += len(message)
    if closed_by is not None:
        yield from conversation.finish(closed_by)


def segments(
    conversation: Conversation, side: int, position: int, data: bytes, segment: int = SEGMENT
) -> Iterator[bytes]:
    """Yield the packets with the bytes of one side of a connection."""
    for at in range(0, len(data), segment):
        yield conversation.segment(side, position + at, data[at : at + segment])


def capture(exchanges: Iterable[Exchange], *, opened: bool = True, segment: int = SEGMENT) -> Iterator[bytes]:
    """Yield a pcap file of one connection."""
    return pcap(said(exchanges, opened=opened, segment=segment))


# ---------------------------------------------------------------- messages
def exchange(
    key: int,
    version: int,
    request: dict[str, Any],
    response: dict[str, Any] | None,
    number: int = 1,
    client_id: str | None = CLIENT_ID,
) -> Exchange:
    """Return an exchange with bodies built from values.

    :param number: correlation ID
    """
    answer = None if response is None else response_frame(key, version, response, number)
    return request_frame(key, version, request, number, client_id), answer


def raw_request(
    key: int, version: int, body: bytes, number: int = 1, client_id: bytes = CLIENT_ID.encode()
) -> bytes:
    """Return a request frame with a header of version 1 and a given body."""
    return framed(struct.pack(">hhih", key, version, number, len(client_id)) + client_id + body)


def raw_response(body: bytes, number: int = 1) -> bytes:
    """Return a response frame with a header of version 0 and a given body."""
    return framed(number.to_bytes(4, "big", signed=True) + body)


@cache
def heartbeat(number: int = 1, client_id: str = CLIENT_ID, group: str = GROUP) -> Exchange:
    """Return a small valid exchange."""
    return exchange(
        HEARTBEAT, 3, {"group_id": group, "generation_id": 1, "member_id": "m"}, {}, number, client_id
    )


def produced(records: bytes, number: int = 1, topic: str = TOPIC, offset: int = 0) -> Exchange:
    """Return a Produce exchange for one partition."""
    data = {"topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]}
    stored = [{"index": 0, "error_code": 0, "base_offset": offset}]
    return exchange(
        PRODUCE,
        8,
        {"acks": -1, "timeout_ms": 30_000, **data},
        {"responses": [{"name": topic, "partition_responses": stored}]},
        number,
    )


def fetched(records: bytes, number: int = 1, topic: str = TOPIC, offset: int = 0) -> Exchange:
    """Return a Fetch exchange for one partition."""
    asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    answered = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": offset,
        "last_stable_offset": offset,
        "log_start_offset": 0,
        "aborted_transactions": None,
        "records": records,
    }
    return exchange(
        FETCH,
        11,
        {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": topic, "partitions": [asked]}]},
        {"responses": [{"topic": topic, "partitions": [answered]}]},
        number,
    )
