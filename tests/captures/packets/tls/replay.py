"""A whole capture through reassembly, decryption and the Kafka conversation."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from captures.packets import SegmentIndex, TcpAssembler, open_source, read_packets
from captures.packets.tls import Event, KeyLog, MissingData, Plaintext, TlsConnection, looks_like_tls
from dissectors.conversation import Conversation, FrameExchange, SkippedBytes
from dissectors.conversation import Side as Side
from dissectors.frames import Body, decode_request, decode_response

SIDES = (Side.CLIENT, Side.BROKER)


@dataclass
class ReplayedConnection:
    """One TLS connection of a capture."""

    tls: TlsConnection
    events: list[Event] = field(default_factory=list)
    sent: dict[Side, int] = field(default_factory=lambda: defaultdict(int))

    def plain(self, side: Side) -> bytes:
        """The decrypted bytes of one side."""
        return b"".join(
            each.data for each in self.events if isinstance(each, Plaintext) and each.side is side
        )


def replay(path: Path, keylog: KeyLog | None, block_size: int = 1 << 22) -> list[ReplayedConnection]:
    """Read a capture; return its TLS connections in order. The capture must have the TCP handshakes."""
    with open_source(path) as source:
        packets = read_packets(source, block_size)
        assembler = TcpAssembler(SegmentIndex(source))
        found: dict[int, ReplayedConnection | None] = {}
        blocks = [assembler.feed(block) for block in packets]
        for data in packets.secrets:
            assert keylog is not None
            keylog.add(data)
        for segments in [*blocks, assembler.finish()]:
            assert not len(segments.gaps)
            memory, positions = segments.memory()
            order = np.argsort(segments.delivered, kind="stable")
            columns = (segments.stream[order], positions[order], segments.length[order])
            for stream, start, size in zip(*(column.tolist() for column in columns), strict=True):
                data = memory.read(start, size)
                connection, side = stream >> 1, SIDES[stream & 1]
                if connection not in found:
                    found[connection] = (
                        ReplayedConnection(TlsConnection(keylog)) if looks_like_tls(data) else None
                    )
                each = found[connection]
                if each is not None:
                    each.events += each.tls.receive(side, data)
                    each.sent[side] += size
        replayed = [each for each in found.values() if each is not None]
        for each in replayed:
            each.events += each.tls.finish()
        return replayed


@dataclass
class Kafka:
    """The Kafka conversation in the decrypted bytes of a connection."""

    requests: list[Body] = field(default_factory=list)
    responses: list[Body] = field(default_factory=list)
    skipped: list[SkippedBytes] = field(default_factory=list)


def as_kafka(replayed: ReplayedConnection) -> Kafka:
    """Frame, pair and decode the bytes of a connection."""
    conversation, kafka = Conversation(), Kafka()
    for event in replayed.events:
        if isinstance(event, Plaintext):
            conversation.receive(event.side, event.data)
        elif isinstance(event, MissingData):
            conversation.gap(event.side, None, event.reason)
    conversation.finish()
    for happened in conversation.events():
        if isinstance(happened, FrameExchange):
            request, response = happened.request, happened.response
            if request is not None:
                kafka.requests.append(decode_request(request.payload))
            if request is not None and response is not None:
                kafka.responses.append(
                    decode_response(response.payload, request.api_key, request.api_version)
                )
        elif isinstance(happened, SkippedBytes):
            kafka.skipped.append(happened)
    return kafka
