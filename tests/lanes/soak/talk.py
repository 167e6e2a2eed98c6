"""The messages of the soak's peers: every byte follows from the numbers of a connection and an exchange.

So either end, and every reader of the recording, knows the next byte at any position in the stream. Messages are valid:
Produce (some without a response), Fetch and Heartbeat, of 100 bytes to one megabyte, with correct batch checksums.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from random import Random
from typing import NamedTuple
from zlib import crc32

from crc32c import crc32c

from benchmarks.loads import (
    FETCH,
    HEARTBEAT,
    PRODUCE,
    Ask,
    Topic,
    acknowledged,
    fetched,
    produced,
    records_fetched,
    request_frame,
    response_frame,
)
from dissectors.records import Record
from dissectors.records.build import build_batch
from dissectors.sides import ENDS

VERSIONS = {PRODUCE: 11, FETCH: 17, HEARTBEAT: 4}

_CLIENT_ID = "soak-{:08d}"
_TOPIC = Topic("soak")
_TIME_MS = 1_700_000_000_000
_SIZE = struct.Struct(">i")
_CRC = struct.Struct(">I")
_CRC_AT, _CHECKED_FROM = 17, 21  # in a batch: KIP-98
_NOISE = Random(0).randbytes(3 << 20)
_SMALL, _MIDDLE, _LARGE, _HUGE = 100, 2_000, 50_000, 900_000


class Habit(Enum):
    """How a connection is used, and how it ends."""

    PLAIN = auto()
    LASTING = auto()  # lasts as long as the soak, with pauses
    HALF_CLOSED = auto()  # the client closes its sending side, and waits for the responses
    CLIENT_RESETS = auto()  # within a request
    BROKER_RESETS = auto()  # within a response
    SLOW_CLIENT = auto()  # does not read the responses
    SLOW_BROKER = auto()  # does not read the requests
    DRIBBLE = auto()  # requests arrive in tiny pieces
    BULK = auto()


#: frequency of each
_HABITS = (
    *[Habit.PLAIN] * 20,
    *[Habit.HALF_CLOSED] * 4,
    *[Habit.CLIENT_RESETS] * 4,
    *[Habit.BROKER_RESETS] * 4,
    *[Habit.SLOW_CLIENT] * 3,
    *[Habit.SLOW_BROKER] * 3,
    *[Habit.DRIBBLE] * 2,
    Habit.BULK,
)


class Message(NamedTuple):
    """A kind of request, and its response.

    :ivar size: size of the record in the request, or in the response of a Fetch; 0 without a record
    :ivar acks: acks of a Produce
    """

    key: int
    size: int = 0
    acks: int = -1


_MIXED = (
    *[Message(HEARTBEAT)] * 24,
    *[Message(PRODUCE, _SMALL)] * 16,
    *[Message(PRODUCE, _SMALL, 0)] * 4,
    *[Message(PRODUCE, _MIDDLE)] * 6,
    *[Message(FETCH, _MIDDLE)] * 8,
    *[Message(FETCH, _LARGE)] * 4,
    *[Message(PRODUCE, _LARGE)] * 2,
)
_OF_HABIT = {
    Habit.SLOW_CLIENT: (Message(FETCH, _LARGE),),
    Habit.SLOW_BROKER: (Message(PRODUCE, _LARGE),),
    Habit.BULK: (Message(FETCH, _HUGE), Message(PRODUCE, _HUGE)),
    Habit.DRIBBLE: (Message(HEARTBEAT), Message(PRODUCE, _SMALL), Message(PRODUCE, _MIDDLE)),
}
_LENGTHS = {
    Habit.LASTING: 1_000_000,
    Habit.SLOW_CLIENT: 60,
    Habit.SLOW_BROKER: 60,
    Habit.DRIBBLE: 12,
    Habit.BULK: 30,
}
LASTING = 4
"""Connections with lower numbers are :attr:`Habit.LASTING`."""


def _chance(*numbers: int) -> int:
    """Return a pseudorandom number, which is always the same for the same arguments."""
    return crc32(struct.pack(f">{len(numbers)}q", *numbers))


def habit(connection: int) -> Habit:
    """Return how a connection is used."""
    if connection < LASTING:
        return Habit.LASTING
    return _HABITS[_chance(connection, -1) % len(_HABITS)]


def length(connection: int) -> int:
    """Return the number of exchanges of a connection, if nothing fails."""
    return _LENGTHS.get(habit(connection)) or 20 + _chance(connection, -2) % 300


def window(connection: int) -> int:
    """Return the number of requests that a connection has in flight."""
    return (
        8 if habit(connection) in (Habit.SLOW_CLIENT, Habit.SLOW_BROKER) else 1 + _chance(connection, -3) % 4
    )


def message(connection: int, number: int) -> Message:
    """Return the message of exchange `number`, which is its correlation ID as well."""
    choice = _OF_HABIT.get(habit(connection), _MIXED)
    return choice[_chance(connection, number) % len(choice)]


# ---------------------------------------------------------------- frames
@dataclass(frozen=True)
class _Template:
    """A frame with placeholders for its variable parts: correlation ID, client ID, record.

    :ivar value_at: position of the record's value, 0 without one
    :ivar batch: start and end of its batch
    """

    frame: bytes
    correlation_at: int
    client_at: int = 0
    value_at: int = 0
    size: int = 0
    batch: tuple[int, int] = (0, 0)

    def filled(self, connection: int, number: int, side: int) -> bytes:
        frame = bytearray(self.frame)
        _SIZE.pack_into(frame, self.correlation_at, number)
        if self.client_at:
            name = _CLIENT_ID.format(connection).encode()
            frame[self.client_at : self.client_at + len(name)] = name
        if self.size:
            start, end = self.batch
            frame[self.value_at : self.value_at + self.size] = _value(connection, number, side, self.size)
            _CRC.pack_into(frame, start + _CRC_AT, crc32c(memoryview(frame)[start + _CHECKED_FROM : end]))
        return bytes(frame)


def _value(connection: int, number: int, side: int, size: int) -> bytes:
    said = f"{ENDS[side]} {connection}/{number} ".encode()
    start = _chance(connection, number, side) % (len(_NOISE) - size)
    return said + _NOISE[start : start + size - len(said)]


@cache
def _request(kind: Message) -> _Template:
    batch = _batch(kind.size) if kind.key == PRODUCE else b""
    name = _CLIENT_ID.format(0)
    frame = request_frame(_asked(kind, batch), name)
    return _with_batch(frame, 8, frame.index(name.encode()), batch, kind.size)


@cache
def _response(kind: Message) -> _Template:
    batch = _batch(kind.size) if kind.key == FETCH else b""
    return _with_batch(response_frame(_answered(kind, batch)), 4, 0, batch, kind.size)


def _batch(size: int) -> bytes:
    return build_batch([Record(0, _TIME_MS, None, bytes(size))])


def _with_batch(frame: bytes, correlation_at: int, client_at: int, batch: bytes, size: int) -> _Template:
    if not batch:
        return _Template(frame, correlation_at, client_at)
    start = frame.index(batch)
    value_at = start + batch.index(bytes(size), _CHECKED_FROM + 40)
    return _Template(frame, correlation_at, client_at, value_at, size, (start, start + len(batch)))


def _asked(kind: Message, batch: bytes) -> Ask:
    if kind.key == PRODUCE:
        return produced(_TOPIC, batch, kind.acks)
    if kind.key == FETCH:
        return fetched(_TOPIC)
    body = {"group_id": "soak", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    return Ask(HEARTBEAT, VERSIONS[HEARTBEAT], body)


def _answered(kind: Message, batch: bytes) -> Ask:
    if kind.key == PRODUCE:
        return acknowledged(_TOPIC)
    if kind.key == FETCH:
        return records_fetched(batch)
    return Ask(HEARTBEAT, VERSIONS[HEARTBEAT], {"throttle_time_ms": 0, "error_code": 0})


# ---------------------------------------------------------------- streams
def is_answered(connection: int, number: int) -> bool:
    """Return whether a request gets a response: Produce without acknowledgment does not."""
    return message(connection, number).acks != 0


def request(connection: int, number: int) -> bytes:
    """Return a request with its size."""
    return _request(message(connection, number)).filled(connection, number, 0)


def response(connection: int, number: int) -> bytes:
    """Return the response with its size."""
    return _response(message(connection, number)).filled(connection, number, 1)


def frames(connection: int, side: int) -> Iterator[tuple[int, bytes]]:
    """Yield an infinite series of the frames that a side sends, with the numbers of their exchanges."""
    number = 0
    while True:
        if side == 0:
            yield number, request(connection, number)
        elif is_answered(connection, number):
            yield number, response(connection, number)
        number += 1


def connection_of(payload: bytes) -> int | None:
    """Return the number of the connection that a request belongs to, None for other requests.

    :param payload: request without its size, in a version with client ID
    """
    size = int.from_bytes(payload[8:10], signed=True)
    name = payload[10 : 10 + max(size, 0)]
    return int(name[5:]) if name.startswith(b"soak-") else None
