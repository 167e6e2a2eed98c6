"""TCP streams and exchanges: a conversation cut into packets, with the faults of networks and captures.

The first byte of an input selects block size and seeds. Then follow the steps of the conversation up to a zero byte,
and a byte or two for each packet: its length and its fault (none, sent twice, late, lost, cut by the snapshot length,
changed, retransmitted with other bytes or other boundaries, a reset).

* Nothing raises; segments and gaps tile every stream, and no stream has more bytes than its packets.
* Neither the block size nor the path through framing and pairing changes the result.
* If packets were only cut, repeated and delayed, the exchanges are exactly those of the conversation.
* Every exchange can be decoded, annotated and summarised, and scrubbed packets can be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from zlib import crc32

from captures.exchanges import Capture
from captures.packets import ACK, FIN, RST
from captures.packets.reader import BLOCK_SIZE
from dissectors.apis import api
from fuzz.mutate import havoc
from fuzz.target import Input, check
from fuzz.targets import packets
from tests.captures.exchanges.talk import Talk, Thorough
from tests.captures.packets.kit import MS, Conversation, Record, pcap

LONGEST = 1024
SECONDS = 20

_MOST_PACKETS = 60
_ENDED, _ENDING = b"\0" + b"\1" * 30, 0.85
"""What lets all that is not said yet be said in whole packets, and how often it does."""
_MOST_MESSAGES = 20
_LATE = 4
"""Packets that a late one lets pass."""
_CLIENT, _FIRST_PORT = "10.0.0.1", 40_000
_COLUMNS = (
    "api_key",
    "version",
    "correlation_id",
    "client_id",
    "request_size",
    "response_size",
    "flags",
)
_VERSIONS = ((0, 3), (0, 8), (0, 12), (1, 12), (3, 1), (3, 9), (12, 4), (18, 3), (36, 0), (60, 0))


@dataclass
class Wire:
    """The captured packets of a conversation.

    :ivar harmed: whether a fault cannot be repaired from these packets
    """

    conversation: Conversation = field(default_factory=Conversation)
    late: list[tuple[int, Record]] = field(default_factory=list)
    sent: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    harmed: bool = False

    def put(self, from_client: bool, position: int, payload: bytes, fate: int) -> None:
        """Send a packet with its fault."""
        wire, others = self.conversation, self.sent[not from_client]
        record = wire.send(position, payload, ack=others, from_client=from_client)
        match fate:
            case 1 if wire.records:  # sent twice
                wire.send(position, payload, ack=others, from_client=from_client)
            case 2:  # late
                wire.records.remove(record)
                self.late.append((len(wire.records) + _LATE, record))
            case 3:  # half of it retransmitted
                half = len(payload) // 2
                wire.send(position + half, payload[half:], ack=others, from_client=from_client)
            case 4:
                wire.records.remove(record)
                self.harmed = True
            case 5:  # cut by the snapshot length
                record.wire = len(record.frame)
                record.frame = record.frame[: 54 + len(payload) // 2]
                self.harmed = True
            case 6:  # changed bytes
                self.harmed = True
                frame = bytearray(record.frame)
                frame[-1 - position % max(len(payload), 1)] ^= 1 << position % 8
                record.frame = bytes(frame)
            case 7:
                self.harmed = True
                flags = (RST | ACK, FIN | ACK, RST)[position % 3]
                wire.put(from_client, position + position % 5, others, flags, payload[: position % 3])
        self.arrive()

    def arrive(self, at_once: bool = False) -> None:
        """Deliver the late packets that are due."""
        for item in list(self.late):
            due, record = item
            if at_once or len(self.conversation.records) >= due:
                self.late.remove(item)
                self.conversation.now += MS
                record.time = self.conversation.now
                self.conversation.records.append(record)


def run(data: bytes) -> None:
    """Make the capture and read it in one way, or in two ways that are compared; the input's bytes decide."""
    talk, wire, capture = capture_of(data)
    chance = crc32(data)
    block = packets.block_of(len(capture), chance >> 8)
    kind = Thorough if chance & 8 else Capture
    match chance & 7:
        case 0 | 1 | 2:
            found = packets.exchanges(
                capture, block if chance & 16 else BLOCK_SIZE, kind, show=chance & 7 == 0
            )
            if not wire.harmed:
                understood(talk, found)
        case 3 if chance & 48 == 48:
            packets.scrubbed(capture)
        case 3:
            streams = packets.packets(capture, block if chance & 16 else BLOCK_SIZE)
            assert streams is not None
            if not wire.harmed:
                right_streams(talk, streams[1])
        case 4:
            packets_alike(capture, block)
        case _:
            ways_alike(capture, kind, block if chance & 16 or kind is Capture else BLOCK_SIZE)


def every(data: bytes) -> None:
    """Run all checks from which :func:`run` selects."""
    talk, wire, capture = capture_of(data)
    whole, streams = packets.exchanges(capture, show=True), packets.packets(capture)
    assert streams is not None
    packets.scrubbed(capture)
    if not wire.harmed:
        understood(talk, whole)
        right_streams(talk, streams[1])
    for block in (*packets.SMALL_BLOCKS, packets.block_of(len(capture), crc32(data) >> 8), BLOCK_SIZE):
        packets_alike(capture, block)
        for kind in (Capture, Thorough):
            ways_alike(capture, kind, block)


def mutate(data: bytes, other: bytes, rng: Random) -> bytes:
    """Return a mutated input, in most cases with an end, after which packets have a byte each."""
    changed = havoc(data, rng, LONGEST, other=other)
    return changed + _ENDED if rng.random() < _ENDING else changed


def several(inputs: Sequence[bytes]) -> None:
    """Read conversations as connections of one capture, in one or two ways, and check each."""
    said = [said_of(data, number) for number, data in enumerate(inputs)]
    records = [record for _, wire in said for record in wire.conversation.records]
    records.sort(key=lambda record: record.time)
    capture = pcap(list[Record | bytes](records), nano=True)
    chance = crc32(b"".join(inputs))
    block = packets.block_of(len(capture), chance >> 8) if chance & 1 else BLOCK_SIZE
    kind = Thorough if chance & 2 else Capture
    found = packets.exchanges(capture, block, kind, show=chance & 0x3C == 0x3C)
    by_client: dict[str, list[dict[str, Any]]] = {}
    for row in found[0]:
        by_client.setdefault(row["client"], []).append(row)
    for number, (talk, wire) in enumerate(said):
        if not wire.harmed:
            right_exchanges(talk, by_client.get(f"{_CLIENT}:{_FIRST_PORT + number}", []))
    if chance & 4 and chance & 3:  # twice the delay, or more
        check(packets.exchanges(capture) == found, kind.__name__, "in blocks of", block, "bytes")
    elif chance & 0x38 == 0x38:
        packets_alike(capture, block)
    elif chance & 0x78 == 0x30:
        packets.scrubbed(capture)


def capture_of(data: bytes) -> tuple[Talk, Wire, bytes]:
    """Return the conversation, its packets, and their capture."""
    talk, wire = said_of(data)
    return talk, wire, pcap(list(wire.conversation.records), nano=True)


def said_of(data: bytes, number: int = 0) -> tuple[Talk, Wire]:
    """Return the conversation of a connection, and its packets."""
    given = Input(data)
    chosen = given.number()
    talk = talk_of(given)
    wire = wire_of(given, talk, number, handshake=not chosen & 4)
    wire.harmed |= bool(chosen & 4)
    return talk, wire


def packets_alike(capture: bytes, block: int) -> None:
    """Check that packets and streams are the same in blocks of a size as in one block."""
    found, again = packets.packets(capture), packets.packets(capture, block)
    assert found is not None
    assert again is not None
    packets.same(found[1], again[1], "blocks of", block, "bytes")


def ways_alike(capture: bytes, kind: type[Capture], block: int) -> None:
    """Check that a path through framing and pairing, in blocks, gives the result of the ordinary one in one block."""
    whole = packets.exchanges(capture)
    other = packets.exchanges(capture, block, kind)
    check(other == whole, kind.__name__, "in blocks of", block, "bytes gives other exchanges")


def right_streams(talk: Talk, found: dict[str, Any]) -> None:
    """Check that the streams have all bytes of the conversation."""
    sent = [b"".join(data for whose, data in talk.messages if whose is side) for side in (True, False)]
    check(not found["gaps"], "gaps:", found["gaps"])
    check(found["streams"] in ([], sent), "the streams hold other bytes")


def understood(talk: Talk, whole: Any) -> None:
    """Check that there are exactly the exchanges of the conversation."""
    rows, skipped, foreign = whole
    check(not skipped and not foreign, "not understood:", skipped, foreign)
    right_exchanges(talk, rows)


def right_exchanges(talk: Talk, rows: list[dict[str, Any]]) -> None:
    """Check that the exchanges are those of the conversation."""
    # late packets are reordered
    got = sorted((tuple(row[name] for name in _COLUMNS) for row in rows), key=lambda each: each[2])
    check(got == [tuple(each)[1:] for each in talk.exchanges], "exchanges", got, "of", talk.exchanges)


def talk_of(given: Input) -> Talk:
    """Read the conversation."""
    talk, number = Talk(0), 0
    while (what := given.number()) and len(talk.messages) < _MOST_MESSAGES:
        number += 1
        size = given.number()
        body = given.take(size) if what & 0x40 else bytes(size)
        kind = what & 3
        if kind == 1:
            key, version = _VERSIONS[what >> 2 & 7]
            if key:
                talk.ask(number, body, key=key, version=version, client_id="consumer-1")
            else:
                talk.produce(number, size % 3 - 1, version)
        elif kind == 2 and talk.in_flight:
            talk.answer(body)
        elif kind == 3 and what & 0x80:
            for _ in range(size % 5):
                talk.exchange(number, body=body, client_id="consumer-1")
                number += 1
        else:
            talk.exchange(number, body=body, client_id="consumer-1", key=18, version=3)
    return talk


def wire_of(given: Input, talk: Talk, number: int, *, handshake: bool) -> Wire:
    """Cut the conversation into packets."""
    wire = Wire(Conversation(client=(_CLIENT, _FIRST_PORT + number)))
    if handshake:
        wire.conversation.handshake()
    for from_client, data in talk.messages:
        start = 0
        while start < len(data) and len(wire.conversation.records) < _MOST_PACKETS:
            what = given.number()
            size = len(data) if what & 1 else 1 + given.number()
            piece = data[start : start + size]
            wire.put(from_client, wire.sent[from_client], piece, what >> 1 & 7 if what & 0x10 else 0)
            wire.sent[from_client] += len(piece)
            start += size
        wire.harmed |= start < len(data)
    wire.arrive(at_once=True)
    return wire


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield conversations with one kind of fault each and real bodies, and one that begins in the middle."""
    said = bytes((1 | 5 << 2, 40, 2, 9, 3 | 0x80, 3, 1, 1, 2, 0, 3, 12, 0))
    for fate, name in enumerate(("whole", "twice", "late", "again", "lost", "cut", "changed", "ended")):
        happens = bytes((0x10 | fate << 1, 19, 0, 50, 1)) if fate else bytes((1, 0, 20))
        yield name, b"\0" + said + happens * 4
        yield f"{name}-small", b"\1" + said + bytes((0, 10)) * 3 + happens + bytes((0, 6)) * 9
    yield "middle", b"\4" + said + bytes((0, 60, 1, 1))
    heartbeat = api(12)
    assert heartbeat is not None
    asked = heartbeat.request[4].build({"group_id": "orders", "generation_id": 7, "member_id": "m"})
    answered = heartbeat.response[4].build({"error_code": 27})
    body = bytes((0x41 | 6 << 2, len(asked) + 1)) + b"\0" + asked
    yield (
        "heartbeat",
        b"\0" + body + bytes((0x42, len(answered) + 1)) + b"\0" + answered + b"\0" + bytes((0, 9)) * 6,
    )
