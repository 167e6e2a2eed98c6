"""Captures of scripted exchanges with given times and bodies."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from captures.exchanges import Capture, ExchangeReader, open_capture
from tests.captures.packets.kit import BROKER, MS, T0, Conversation, Record, pcap
from tests.kproxy.frames import Body, request_frame, response_frame


@dataclass
class Connection:
    """A connection; times are in ms from the start of the recording."""

    conversation: Conversation
    client_id: str
    sent: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    waiting: list[tuple[int, int, int]] = field(default_factory=list)
    asked: int = 0

    def ask(self, at: int, key: int, version: int, body: Body, *, answered: bool = True) -> None:
        """Send a request."""
        self.asked += 1
        self._send(request_frame(key, version, body, self.asked, self.client_id), at, from_client=True)
        if answered:
            self.waiting.append((key, version, self.asked))

    def answer(self, at: int, body: Body) -> None:
        """Answer the oldest request."""
        key, version, correlation_id = self.waiting.pop(0)
        self._send(response_frame(key, version, body, correlation_id), at, from_client=False)

    def exchange(self, at: int, key: int, version: int, request: Body, response: Body) -> None:
        """Send a request, and its response 1 ms later."""
        self.ask(at, key, version, request)
        self.answer(at + 1, response)

    def _send(self, data: bytes, at: int, *, from_client: bool) -> None:
        ack = self.sent[not from_client]
        record = self.conversation.send(self.sent[from_client], data, ack=ack, from_client=from_client)
        record.time = T0 + at * MS
        self.sent[from_client] += len(data)


class Recording:
    """Connections, recorded together."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []

    def connection(
        self, client_id: str = "app", *, at: int = 0, broker: tuple[str, int] = BROKER, host: str = "10.0.0.1"
    ) -> Connection:
        """Open a connection."""
        client = (host, 40_000 + len(self.connections))
        conversation = Conversation(client=client, broker=broker)
        conversation.handshake()
        for record in conversation.records:
            record.time = T0 + at * MS
        made = Connection(conversation, client_id)
        self.connections.append(made)
        return made

    def write(self, path: Path) -> Path:
        """Write a pcap file."""
        records: list[Record] = [each for made in self.connections for each in made.conversation.records]
        path.write_bytes(pcap(sorted(records, key=lambda record: record.time), nano=True))
        return path

    def capture(self, folder: Path) -> Capture:
        """Write and read it."""
        capture = open_capture([str(self.write(folder / "recorded.pcap"))])
        capture.read()
        return capture

    def reader(self, folder: Path) -> ExchangeReader:
        """Write and read it, as in replay."""
        return ExchangeReader(self.capture(folder), annotate=False, summary=False)
