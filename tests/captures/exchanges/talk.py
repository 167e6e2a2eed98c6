"""Conversations between clients and brokers with known exchanges, as captures.

A :class:`Talk` is written message by message and keeps the exchanges that a capture of it should give. Cut into packets
of any size and mixed with others, it becomes a pcap file (:func:`capture_of`).
"""

from __future__ import annotations

import io
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from captures.exchanges import Capture, Flag
from captures.exchanges.pairing import ExchangePairing
from captures.exchanges.single import SingleConnection
from captures.packets import SegmentBlock, open_source
from captures.packets.reader import BLOCK_SIZE
from dissectors.apis import api
from dissectors.headers import request_header_version
from tests.captures.packets.kit import BROKER, MS, T0, Conversation, Endpoint, Record, pcap
from tests.dissectors.conversation import streams


class ExpectedExchange(NamedTuple):
    """The table's expected values for an exchange; sizes include the size field, and -1 and 0 mean none."""

    connection: int
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    request_size: int
    response_size: int
    flags: Flag


@dataclass
class Talk:
    """One connection: its messages in the order in which they were sent, and its exchanges."""

    number: int
    messages: list[tuple[bool, bytes]] = field(default_factory=list)
    exchanges: list[ExpectedExchange] = field(default_factory=list)
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)

    def ask(
        self,
        correlation_id: int,
        body: bytes = b"\0\0\0\0",
        *,
        key: int = streams.METADATA,
        version: int = 1,
        client_id: str | None = "app",
    ) -> None:
        """Send a request that expects a response."""
        sent = streams.request(correlation_id, body, key=key, version=version, client_id=client_id)
        self._sent(sent, key, version, correlation_id, client_id, Flag.UNANSWERED)
        self.in_flight.append((len(self.exchanges) - 1, correlation_id))

    def produce(self, correlation_id: int, acks: int, version: int) -> None:
        """Send a Produce request; with acks=0, the exchange is complete."""
        sent = streams.produce(correlation_id, acks, version=version)
        flags = Flag.UNANSWERED if acks else Flag.NO_RESPONSE_EXPECTED
        self._sent(sent, streams.PRODUCE, version, correlation_id, "consumer-1", flags)
        if acks:
            self.in_flight.append((len(self.exchanges) - 1, correlation_id))

    def answer(self, body: bytes = b"\0\0") -> None:
        """Send the next due response."""
        index, correlation_id = self.in_flight.popleft()
        sent = streams.response(correlation_id, body)
        self.messages.append((False, sent))
        was = self.exchanges[index]
        self.exchanges[index] = was._replace(response_size=len(sent), flags=was.flags & ~Flag.UNANSWERED)

    def call(self, number: int, client_id: str, key: int, version: int, request: Any, response: Any) -> None:
        """Send a request and its response; None for none."""
        known = api(key)
        assert known is not None
        # in headers with tagged fields, there are none
        tags = b"\0" * (request_header_version(known.request, version) > 1)
        body = tags + known.request[version].build(request)
        self.ask(number, body, key=key, version=version, client_id=client_id)
        if response is not None:
            self.answer(tags + known.response[version].build(response))

    def token(self, question: bytes, answer: bytes) -> None:
        """Send a raw SASL token in each direction."""
        both = streams.frame(question), streams.frame(answer)
        self.messages += [(True, both[0]), (False, both[1])]
        self.exchanges.append(
            ExpectedExchange(self.number, -1, -1, 0, None, len(both[0]), len(both[1]), Flag.SASL_TOKEN)
        )

    def exchange(self, correlation_id: int, **request: Any) -> None:
        """Send a request and its response."""
        self.ask(correlation_id, **request)
        self.answer()

    def _sent(
        self, sent: bytes, key: int, version: int, correlation_id: int, client_id: str | None, flags: Flag
    ) -> None:
        self.messages.append((True, sent))
        self.exchanges.append(
            ExpectedExchange(self.number, key, version, correlation_id, client_id, len(sent), 0, flags)
        )


def random_talk(rng: Random, number: int) -> Talk:
    """An ordinary connection of one client: pipelining, acks=0, some bodies larger than a block."""
    talk, client_id = Talk(number), rng.choice(("consumer-1", "consumer-1", "größe", "", None))
    for correlation_id in range(rng.randrange(1, 20)):
        body = rng.randbytes(rng.choice((4, 4, 4, 60, 60, 700, 4000)))
        if client_id == "consumer-1" and rng.random() < 0.4:
            talk.produce(correlation_id, rng.choice((-1, 0, 1)), rng.choice((0, 2, 3, 8, 9, 12)))
        else:
            key, version = rng.choice(((1, 12), (3, 1), (3, 9), (12, 4), (18, 3), (36, 0)))
            talk.ask(correlation_id, body, key=key, version=version, client_id=client_id)
        while talk.in_flight and rng.random() < 0.6:
            talk.answer(rng.randbytes(rng.choice((0, 2, 40, 1500))))
    while talk.in_flight and rng.random() < 0.95:
        talk.answer()
    return talk


# ------------------------------------------------------------ packets
def packets(
    talk: Talk, rng: Random, *, handshake: bool = True, most: int = 1448, broker: Endpoint = BROKER
) -> list[Record]:
    """Cut a talk into packets: messages of one direction are joined, and cut anywhere."""
    conversation = Conversation(client=("10.0.0.1", 40_000 + talk.number), broker=broker)
    if handshake:
        conversation.handshake()
    runs: list[tuple[bool, bytearray]] = []
    for from_client, data in talk.messages:
        if runs and runs[-1][0] is from_client and rng.random() < 0.7:
            runs[-1][1].extend(data)
        else:
            runs.append((from_client, bytearray(data)))
    sent = {True: 0, False: 0}
    for from_client, run in runs:
        stream = io.BytesIO(run)
        while piece := stream.read(rng.randint(1, most)):
            conversation.send(sent[from_client], piece, ack=sent[not from_client], from_client=from_client)
            sent[from_client] += len(piece)
    return conversation.records


def mixed(connections: list[list[Record]], rng: Random) -> list[Record]:
    """Mix the packets of several connections, keeping the order of each; one millisecond apart."""
    waiting = [deque(records) for records in connections if records]
    out: list[Record] = []
    while waiting:
        queue = rng.choice(waiting)
        out.append(queue.popleft())
        out[-1].time = T0 + len(out) * MS
        waiting = [each for each in waiting if each]
    return out


def capture_of(
    folder: Path, records: list[Record], block_size: int = BLOCK_SIZE, kind: type[Capture] = Capture
) -> Capture:
    """Write the packets to a file and read it."""
    path = folder / "talk.pcap"
    path.unlink(missing_ok=True)  # an earlier file may still be mapped
    path.write_bytes(pcap(list(records), nano=True))
    capture = kind(open_source(str(path)), block_size)
    capture.read()
    return capture


class SlowPairing(ExchangePairing):
    """Passes every connection through the slow path, from its first byte to its last."""

    def _admit(self, block: SegmentBlock) -> None:
        for new in np.unique(block.stream >> 1).tolist():
            self._single(new)

    def _single(self, connection: int) -> SingleConnection:
        single = super()._single(connection)
        single._hand_back = lambda: None  # type: ignore[method-assign]  # it is never ordinary
        return single


class Thorough(Capture):
    """A capture without the fast path."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.pairing.__class__ = SlowPairing


# ------------------------------------------------------------ results
def rows(capture: Capture) -> list[dict[str, Any]]:
    """The table in its order, with client IDs by name."""
    table = capture.table
    found = []
    for index in table.order().tolist():
        row = table.row(index)
        row["client_id"] = table.client_ids[row["client_id"]] if row["client_id"] >= 0 else None
        found.append(row)
    return found


def outcome(capture: Capture) -> tuple[Any, ...]:
    """Everything that reading a capture gives."""
    return rows(capture), sorted(map(repr, capture.skipped)), capture.foreign


def exchanges(capture: Capture) -> list[ExpectedExchange]:
    """The table as expectations, connection by connection."""
    found = [
        ExpectedExchange(
            row["connection"],
            row["api_key"],
            row["version"],
            row["correlation_id"],
            row["client_id"],
            row["request_size"],
            row["response_size"],
            Flag(row["flags"]),
        )
        for row in rows(capture)
    ]
    return sorted(found, key=lambda each: each.connection)  # stable: numbers within each connection
