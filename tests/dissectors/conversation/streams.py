"""Frames to feed, and events as short lines for comparison.

Request header v1 and response header v0: RequestHeader.json and ResponseHeader.json of Apache Kafka.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

from dissectors.conversation import (
    Conversation,
    ConversationEnd,
    Event,
    ForeignProtocol,
    FrameExchange,
    Limits,
    RequestSeen,
    SaslToken,
    Side,
    SkippedBytes,
)

PRODUCE, FETCH, METADATA, SASL_HANDSHAKE, API_VERSIONS, CONTROLLED_SHUTDOWN = 0, 1, 3, 17, 18, 7

#: highest request versions of Apache Kafka 4.3 (apis.tsv), for the APIs used here and the last key
VERSIONS = {
    0: (0, 13),
    1: (0, 18),
    3: (0, 13),
    7: (0, 3),
    12: (0, 4),
    17: (0, 1),
    18: (0, 5),
    36: (0, 2),
    94: (0, 0),
}


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request(
    correlation_id: int,
    body: bytes = b"\x00\x00\x00\x00",
    *,
    key: int = METADATA,
    version: int = 1,
    client_id: str | None = "consumer-1",
) -> bytes:
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    return frame(struct.pack(">hhih", key, version, correlation_id, length) + name + body)


def response(correlation_id: int, body: bytes = b"\x00\x00") -> bytes:
    return frame(struct.pack(">i", correlation_id) + body)


def produce(
    correlation_id: int, acks: int, *, version: int = 7, transactional_id: str | None = None
) -> bytes:
    """Produce up to acks and timeout (ProduceRequest.json); the rest is an empty array of topics."""
    name = (transactional_id or "").encode()
    if version >= 9:
        start = b"\x00" + bytes([0 if transactional_id is None else len(name) + 1]) + name
    elif version >= 3:
        start = struct.pack(">h", -1 if transactional_id is None else len(name)) + name
    else:
        start = b""
    topics = b"\x01\x00" if version >= 9 else b"\x00\x00\x00\x00"
    return request(
        correlation_id, start + struct.pack(">hi", acks, 30_000) + topics, key=PRODUCE, version=version
    )


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes without structure: bodies and garbage that do not contain a frame by chance."""
    return random.Random(seed).randbytes(size)


def brief(event: Event) -> str:
    match event:
        case RequestSeen(seen):
            return f"seen {seen.correlation_id}"
        case FrameExchange(asked, answer, outcome, note):
            ids = [str(part.correlation_id) for part in (asked, answer) if part is not None]
            return f"{outcome.value} {'/'.join(ids)}" + (f" ({note})" if note else "")
        case SaslToken(side, start, end, data, mechanism):
            return f"token {side.value} {start}-{end} {data!r} {mechanism}"
        case SkippedBytes(side, start, end, reason):
            return f"skipped {side.value} {start}-{end}: {reason}"
        case ForeignProtocol(side, start, guess, evidence):
            return f"foreign {side.value} {start}: {guess}, {evidence}"
        case ConversationEnd():
            return "finished"


@dataclass
class Playbook:
    """A conversation, played in order: ``play(request(1), Broker(response(1)))``."""

    midstream: bool = False
    limits: Limits | None = None
    conversation: Conversation = field(init=False)

    def __post_init__(self) -> None:
        self.conversation = Conversation(VERSIONS, self.limits, midstream=self.midstream)

    def client(self, *data: bytes) -> Playbook:
        self.conversation.receive(Side.CLIENT, b"".join(data))
        return self

    def broker(self, *data: bytes) -> Playbook:
        self.conversation.receive(Side.BROKER, b"".join(data))
        return self

    def gap(self, side: Side, length: int | None) -> Playbook:
        self.conversation.gap(side, length, "lost")
        return self

    def expect(self, *lines: str) -> Playbook:
        """Compare all events since the last call."""
        told = [brief(event) for event in self.conversation.events()]
        assert told == list(lines), "\n".join(("told:", *told, "expected:", *lines))
        return self

    def exchanges(self) -> list[FrameExchange]:
        return [event for event in self.conversation.events() if isinstance(event, FrameExchange)]
