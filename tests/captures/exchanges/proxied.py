"""Captures as recorded by kproxy's proxy: a frame with a comment has a packet of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from captures.export.pcapng_writer import Packet, PcapngWriter
from captures.interventions import (
    Change,
    CommentContent,
    Intervention,
    TcpSample,
    UpstreamBroker,
    as_comment,
)
from dissectors.apis import api
from dissectors.headers import RequestHeader, ResponseHeader
from tests.captures.packets.kit import Conversation

METADATA = 3


def request(key: int, version: int, correlation_id: int, body: dict[str, Any]) -> bytes:
    """A request frame with a header of version 1."""
    head = RequestHeader[1].build(
        {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": "app",
        }
    )
    return _framed(head + api(key).request[version].build(body))  # type: ignore[union-attr]


def response(key: int, version: int, correlation_id: int, body: dict[str, Any]) -> bytes:
    """A response frame with a header of version 0."""
    head = ResponseHeader[0].build({"correlation_id": correlation_id})
    return _framed(head + api(key).response[version].build(body))  # type: ignore[union-attr]


def _framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4) + payload


def metadata(correlation_id: int, host: str = "kafka1") -> tuple[bytes, bytes]:
    """A Metadata request of version 4, and a response that names one broker."""
    broker = {"node_id": 1, "host": host, "port": 9092}
    body = {"brokers": [broker], "cluster_id": "c", "controller_id": 1, "topics": []}
    asked = request(METADATA, 4, correlation_id, {"topics": None})
    return asked, response(METADATA, 4, correlation_id, body)


@dataclass
class Recording:
    """A recording of one connection, in progress."""

    made: Conversation = field(default_factory=Conversation)
    comments: dict[int, str] = field(default_factory=dict)
    sent: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        self.made.handshake()

    def data(self, side: int, payload: bytes, *told: CommentContent | str) -> None:
        """Bytes of a side (0 client), with a comment."""
        self.made.send(self.sent[side], payload, ack=self.sent[1 - side], from_client=not side)
        self.sent[side] += len(payload)
        self._comment(told)

    def note(self, side: int, *told: CommentContent | str) -> None:
        """A packet without payload, with a comment."""
        self.made.acknowledge(self.sent[1 - side], from_client=not side, position=self.sent[side])
        self._comment(told)

    def _comment(self, told: tuple[CommentContent | str, ...]) -> None:
        lines = [each if isinstance(each, str) else as_comment(each) for each in told]
        if lines:
            self.comments[len(self.made.records) - 1] = "\n".join(lines)

    def write(self, path: Path) -> Path:
        """Write it as pcapng, and return the path."""
        with path.open("wb") as file:
            writer = PcapngWriter(file)
            writer.interface(name="kproxy")
            writer.write_packets(self.packets())
        return path

    def packets(self, begin: int = 0) -> list[Packet]:
        """Its packets, from number one."""
        records = list(enumerate(self.made.records))[begin:]
        return [Packet(0, record.time, record.frame, 0, self.comments.get(at, "")) for at, record in records]


REWRITTEN = Intervention(
    changed=(Change("brokers[0].host", "kafka1", "127.0.0.1"), Change("brokers[0].port", 9092, 9093))
)
DELAYED = Intervention(rule="api == Metadata => delay 200ms", action="delayed by 200 ms")
HELD = Intervention(held_ns=2_500_000_000, released_by="user")
UPSTREAM = UpstreamBroker(cluster="east", node_id=2)
SAMPLE = TcpSample(side="broker", rtt_us=210, rtt_var_us=30, unacked=2, snd_wnd=65536, state="established")


def rewritten(path: Path) -> Path:
    """Three exchanges: the first with an altered response, the second delayed and held, the third untouched."""
    recording = Recording()
    recording.note(1, UPSTREAM)
    recording.note(1, SAMPLE)
    for number, told in enumerate([((), (REWRITTEN,)), ((DELAYED,), (HELD, "[marked] look")), ((), ())], 1):
        asked, answered = metadata(number)
        recording.data(0, asked, *told[0])
        recording.data(1, answered, *told[1])
    recording.note(0, TcpSample(side="client", rtt_us=40, state="established"), "kproxy: tee dropped 5 bytes")
    return recording.write(path)
