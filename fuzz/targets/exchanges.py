"""Exchanges as fuzz inputs: their encoding, their mutation, and captures made from them. Not a target itself.

An input is a byte for the target, and exchanges. Each has API key and version, signed, with 16 bits; a byte with the
connection and whether there was a response; the latency; and the bodies of request and response.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from captures.exchanges import ExchangeReader, open_capture
from dissectors import apis, wire
from dissectors.errors import DecodeError
from dissectors.headers import SIZE_BYTES, request_header_version, response_header_version
from dissectors.message_version import MessageVersion
from dissectors.schema import Message
from fuzz.mutate import havoc
from fuzz.target import Input, chunk
from fuzz.targets import framing, packets
from tests.captures.packets.kit import MS, Conversation, Record, pcap
from tests.dissectors.values import Values, limits

UNANSWERED, SLOW = 0x80, 0x40
"""Bits of the third part of an exchange; what is below is the connection."""
_CONNECTIONS = 3
_MOST_EXCHANGES = 60
_APIS = 4
"""In a seed: what is short is run often."""
_LONGEST_BODY, _LONGEST_NESTED = 1500, 6000
_ENVELOPE = 58
_HEAD = struct.Struct(">hhBB")

VERSIONS = (-1, -2, -32768, 32767, 127, 128, 255, 256)
"""Versions that no API has."""
_STRANGE_KEYS = (-1, -32768, 32767, 1000, len(apis.NAMES), len(apis.NAMES) + 1)
_TEXTS = (
    *(
        "app",
        "orders",
        "payments",
        "consumer-1",
        "g",
        "range",
        "consumer",
        "connect",
        "stream",
        "sr",
        "PLAIN",
    ),
    *(
        "",
        "r2-java_eager_range",
        "__consumer_offsets",
        "a" * 249,
        "x" * 3000,
        "\x1b[2J\n",
        "=cmd",
        "größe",
        "🦓",
    ),
)
_LONGS = (
    0,
    1,
    -1,
    1 << 31,
    (1 << 31) - 1,
    (1 << 63) - 1,
    -1 << 63,
    (1 << 62) + 1,
    1_700_000_000_000,
    1 << 53,
)
_GROUP_APIS = (1, 3, 8, 9, 10, 11, 12, 13, 14)


class Said(NamedTuple):
    """An exchange in an input."""

    key: int
    version: int
    how: int
    took: int
    request: bytes
    response: bytes

    def encoded(self) -> bytes:
        """Return the exchange in the format of inputs."""
        head = _HEAD.pack(self.key, self.version, self.how, self.took)
        return head + chunk(self.request) + chunk(self.response)


def said_of(given: Input) -> Iterator[Said]:
    """Read exchanges until the input ends."""
    for _ in range(_MOST_EXCHANGES):
        if not given:
            return
        key, version, how, took = _HEAD.unpack(given.take(_HEAD.size).ljust(_HEAD.size, b"\0"))
        yield Said(key, version, how, took, given.chunk(), given.chunk())


# ---------------------------------------------------------------- the capture
def capture_of(conversations: Sequence[Sequence[Said]]) -> bytes:
    """Make a capture of several clients, each with its own connections and the exchanges of one input."""
    records: list[Record] = []
    for number, said in enumerate(conversations):
        wires = [_connection(number * _CONNECTIONS + each) for each in range(_CONNECTIONS)]
        _speak(wires, said)
        spoken = {each.how % _CONNECTIONS for each in said}
        for which in spoken or {0}:
            records += wires[which].records
    records.sort(key=lambda record: record.time)
    return pcap(list[Record | bytes](records), nano=True)


def _speak(wires: Sequence[Conversation], said: Sequence[Said]) -> None:
    sent = [{True: 0, False: 0} for _ in wires]
    now = wires[0].now
    for number, each in enumerate(said):
        which = each.how % len(wires)
        conversation, at = wires[which], sent[which]
        for from_client, body in ((True, each.request), (False, each.response)):
            if not from_client and each.how & UNANSWERED:
                continue
            message = framed(each.key, each.version, number, body, from_client)
            now += (each.took if not from_client else 1) * MS * (100 if each.how & SLOW else 1)
            conversation.now = now
            conversation.send(at[from_client], message, ack=at[not from_client], from_client=from_client)
            at[from_client] += len(message)


@cache
def _handshake(number: int) -> tuple[Record, ...]:
    conversation = _unspoken(number)
    conversation.handshake()
    return tuple(conversation.records)


def _unspoken(number: int) -> Conversation:
    return Conversation(client=(f"10.0.{number // _CONNECTIONS}.1", 40_000 + number))


def _connection(number: int) -> Conversation:
    conversation = _unspoken(number)
    conversation.records += _handshake(number)
    conversation.now = conversation.records[-1].time
    return conversation


def framed(key: int, version: int, number: int, body: bytes, from_client: bool) -> bytes:
    """Return a message with its header and size."""
    message = message_of(key, from_client=from_client)
    flexible = False
    if message is not None:
        nearest = message.nearest(version)
        header = request_header_version if from_client else response_header_version
        flexible = header(message, nearest) == (2 if from_client else 1)
    start = (
        struct.pack(">hhi", key, version, number) + b"\0\3app" if from_client else struct.pack(">i", number)
    )
    payload = start + b"\0" * flexible + body
    return len(payload).to_bytes(4, "big") + payload


def message_of(key: int, *, from_client: bool) -> Message | None:
    """Return the declaration of a request or response, None for an unknown API."""
    known = apis.api(key)
    if known is None:
        return None
    return known.request if from_client else known.response


# ---------------------------------------------------------------- changing exchanges
def mutate(data: bytes, other: bytes, rng: Random, choices: int) -> bytes:
    """Return an input with changed exchanges.

    :param choices: number of choices of the first byte
    """
    first = rng.randrange(choices) if rng.random() < 0.3 else data[0] if data else 0
    said, others = ([each.encoded() for each in said_of(Input(given[1:]))] for given in (data, other))

    def changed(part: bytes) -> bytes:
        return _changed(next(said_of(Input(part))), rng).encoded()

    return bytes((first,)) + b"".join(framing.edited(said, others, rng, changed))


def _changed(said: Said, rng: Random) -> Said:
    match int(rng.random() * 10):
        case 0 if rng.random() < 0.1:
            return _nested(said, rng.choice((1, 2, 30, 500)))
        case 0:
            return said._replace(version=_version(said.key, rng))
        case 1:
            return _anew(rng.choice((rng.randrange(len(apis.NAMES)), rng.choice(_STRANGE_KEYS))), said, rng)
        case 2:
            return _anew(said.key, said, rng)
        case 3:
            return said._replace(how=rng.getrandbits(8), took=rng.getrandbits(8))
        case 4:
            one, two = havoc(said.request, rng, _LONGEST_BODY), havoc(said.response, rng, _LONGEST_BODY)
            return said._replace(request=one) if rng.random() < 0.5 else said._replace(response=two)
        case 5 | 6:
            return said._replace(request=_other_body(said, rng, from_client=True))
        case _:
            return said._replace(response=_other_body(said, rng, from_client=False))


def _nested(said: Said, times: int) -> Said:
    """Return an exchange in an Envelope, in another Envelope, and so on."""
    for number in range(times):
        inner = framed(said.key, said.version, number, said.request, from_client=True)[SIZE_BYTES:]
        answer = framed(said.key, said.version, number, said.response, from_client=False)[SIZE_BYTES:]
        if len(inner) > _LONGEST_NESTED or len(answer) > _LONGEST_NESTED:
            break
        asked, answered = (message_of(_ENVELOPE, from_client=side) for side in (True, False))
        assert asked is not None
        assert answered is not None
        request = {"request_data": inner, "request_principal": b"", "client_host_address": b"\x0a\0\0\1"}
        response = {"response_data": answer, "error_code": 0}
        said = said._replace(
            key=_ENVELOPE, version=0, request=asked[0].build(request), response=answered[0].build(response)
        )
    return said


def _version(key: int, rng: Random) -> int:
    message = message_of(key, from_client=True)
    if message is None or rng.random() < 0.4:
        return rng.choice(VERSIONS)
    first, last = message.versions.first, message.versions.last
    return rng.choice((first, last, last + 1, first - 1, rng.randint(first, last)))


def _anew(key: int, said: Said, rng: Random) -> Said:
    """Return an exchange of an API with random bodies."""
    version, how = _version(key, rng), said.how & ~UNANSWERED
    bodies = []
    for from_client in (True, False):
        layout = _layout(key, version, from_client=from_client)
        bodies.append(b"" if layout is None else _built(layout, DrawnValues(rng).draw(layout.struct)))
    return Said(key, version, how, said.took, *bodies)


def _other_body(said: Said, rng: Random, *, from_client: bool) -> bytes:
    """Return a body with a few changed values, or a random one if it cannot be decoded."""
    body = said.request if from_client else said.response
    layout = _layout(said.key, said.version, from_client=from_client)
    if layout is None:
        return havoc(body, rng, _LONGEST_BODY)
    drawn = DrawnValues(rng)
    try:
        value = layout.parse(body)
    except DecodeError:
        value = drawn.draw(layout.struct)
    for _ in range(1 + int(rng.random() ** 2 * 4)):
        value = drawn.changed(layout.struct, value)
    return _built(layout, value) or body


def _layout(key: int, version: int, *, from_client: bool) -> MessageVersion | None:
    message = message_of(key, from_client=from_client)
    return None if message is None else message[message.nearest(version)]


def _built(layout: MessageVersion, value: Any) -> bytes:
    """Return the bytes of a body, empty if they are too many."""
    built = layout.build(value)
    return built if len(built) <= _LONGEST_BODY else b""


@cache
def _contents() -> tuple[bytes, ...]:
    """Return contents of bytes fields: records, metadata of members, assignments, tokens."""
    from fuzz.targets import embedded, records

    found = [data[1:] for _, data in records.seeds()] + [data[2:] for _, data in embedded.seeds()]
    return tuple(each for each in found if len(each) <= 300)


class DrawnValues(Values):
    """Random values of wire types: numbers at the limits of their types, repeated names, short arrays."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.unknown_tags = True
        self.tags = 0.4

    def draw(self, con: wire.WireType, depth: int = 0) -> Any:
        """Return a value."""
        rng = self.rng
        if isinstance(con, wire.String) and not (con.nullable and rng.random() < 0.2):
            return rng.choice(_TEXTS[: -4 if rng.random() < 0.9 else None])
        if isinstance(con, wire.Bytes) and not (con.nullable and rng.random() < 0.2):
            return rng.choice(_contents()) if rng.random() < 0.8 else rng.randbytes(int(rng.random() * 40))
        return super().draw(con, depth)

    def number(self, con: wire.FixedWidth) -> Any:
        """Return a number, an ordinary one in most cases."""
        if con.code in "?d":
            return super().number(con)
        low, high = limits(con.code)
        if self.rng.random() < 0.6:
            return self.rng.randint(0, 4)
        return min(max(self.rng.choice((*_LONGS, low, high, low + 1, high - 1)), low), high)

    def array(self, con: wire.Array, depth: int) -> Any:
        """Return a few elements."""
        count = self.rng.choice((0, 1, 1, 2, 3) if depth < 3 else (0, 1, 1))
        items = [self.draw(con.element, depth) for _ in range(count)]
        return tuple(items) if isinstance(con.element, wire.FixedWidth) else items

    def changed(self, con: wire.WireType, value: Any) -> Any:
        """Return a value with one changed part; all parts at the same depth are equally likely."""
        if isinstance(con, wire.NullableStruct):
            return None if self.rng.random() < 0.1 else self.changed(con.struct, value)
        if value is None or (con.nullable and self.rng.random() < 0.1):
            return self.draw(con)
        if isinstance(con, wire.Struct):
            return self._struct_changed(con, value)
        if isinstance(con, wire.Array):
            return self._array_changed(con, value)
        if isinstance(con, wire.FixedWidth) and con.code not in "?d":
            low, high = limits(con.code)
            return min(max(self.rng.choice((*_LONGS, low, high, value + 1, value - 1)), low), high)
        if isinstance(con, wire.Bytes) and self.rng.random() < 0.5:
            return havoc(value, self.rng, _LONGEST_BODY, other=self.rng.choice(_contents()))
        return self.draw(con)

    def _struct_changed(self, con: wire.Struct, value: dict[str, Any]) -> dict[str, Any]:
        members = con.all_members
        if not members:
            return value
        member = self.rng.choice(members)
        if member.name in value:
            return value | {member.name: self.changed(member.con, value[member.name])}
        return value | {member.name: self.draw(member.con, 2)}

    def _array_changed(self, con: wire.Array, value: Sequence[Any]) -> Any:
        items, rng = list(value), self.rng
        at = int(rng.random() * len(items)) if items else 0
        match int(rng.random() * 8):
            case 0:
                del items[at:]
            case 1 if items:
                items.insert(at, items[at])
            case 2:
                items.insert(at, self.draw(con.element, 2))
            case 3 if len(items) < 50:
                items *= 3
            case _ if items:
                items[at] = self.changed(con.element, items[at])
            case _:
                items.append(self.draw(con.element, 2))
        return tuple(items) if isinstance(con.element, wire.FixedWidth) else items


# ---------------------------------------------------------------- seeds
def seeds(choices: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield seeds for each first byte: conversations of the sample, and all APIs with arbitrary values."""
    group, *spoken = _conversations()
    for number, choice in enumerate(choices):
        yield f"{number}-{choice}", bytes((number,)) + spoken[number % len(spoken)]
        if number % 4 == 0:
            yield f"{number}-{choice}-group", bytes((number,)) + group
    for first in range(0, len(apis.NAMES), _APIS):
        drawn = Random(f"{first} said")
        keys = range(first, min(first + _APIS, len(apis.NAMES)))
        parts = [_anew(key, Said(key, 0, key % _CONNECTIONS, 3, b"", b""), drawn).encoded() for key in keys]
        yield f"apis-{first}", bytes((first // _APIS % len(choices),)) + b"".join(parts)


@cache
def _conversations(most: int = 500) -> tuple[bytes, ...]:
    """Return the beginnings of the sample's connections, without the first byte; those of groups come first."""
    said = packets.on_disk(packets.sample(1 << 20), _sample)
    group = b""
    for connection, each in said:
        encoded = each._replace(how=each.how & UNANSWERED | connection % _CONNECTIONS).encoded()
        if each.key in _GROUP_APIS and len(group) + len(encoded) <= 2 * most:
            group += encoded
    by_connection: dict[int, bytes] = {}
    for connection, each in said:
        more = by_connection.get(connection, b"") + each.encoded()
        if len(more) <= most:
            by_connection[connection] = more
    return group, *(data for data in by_connection.values() if len(data) > 200)


def _sample(path: Path) -> list[tuple[int, Said]]:
    """Return the exchanges of a capture, each with its connection."""
    capture = open_capture(str(path))
    capture.read()
    found = []
    for exchange in ExchangeReader(capture, annotate=False):
        asked, answered = exchange.request, exchange.response
        if asked is not None and exchange.api_key is not None and exchange.version is not None:
            bodies = [b"" if body is None else body.raw[body.start - 4 :] for body in (asked, answered)]
            took = min((exchange.latency or 0) // MS, 255)
            how = 0 if answered else UNANSWERED
            found.append((exchange.connection, Said(exchange.api_key, exchange.version, how, took, *bodies)))
    return found
