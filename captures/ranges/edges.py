"""What the reading of one part of a capture tells those that put the parts together."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import zstandard

from captures.arrays import Bytes, Int32s, Int64s, UInt16s, UInt32s
from captures.exchanges.checkpoints import ConnectionState, Endpoint
from captures.exchanges.samples import Sample
from captures.exchanges.single import Skip
from captures.packets import CaptureError, Statistics
from captures.packets.observation import Observation
from captures.ranges.clocks import ClockSpan

Pair = tuple[Endpoint, Endpoint]
"""Two endpoints, in the order of their bytes."""


def pair_of(one: Endpoint, other: Endpoint) -> Pair:
    """Return two endpoints as what connections between them have in common."""
    return (one, other) if one <= other else (other, one)


@dataclass(slots=True)
class Packets:
    """TCP packets without their payload, one row each, as in :class:`~captures.packets.table.PacketBlock`.

    :ivar pair: int32, between which endpoints: an index into those of the edges it belongs to
    :ivar down: whether the second endpoint of the pair has sent it
    :ivar number: counts from the first packet of the range
    :ivar clock: reading of the clock of the range
    """

    pair: Int32s
    down: Bytes
    number: Int64s
    time: Int64s
    seq: UInt32s
    ack: UInt32s
    flags: Bytes
    window: UInt16s
    offset: Int64s
    length: Int32s
    captured: Int32s
    clock: Int64s

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: Any) -> Packets:
        """Return some of the rows."""
        return Packets(*(getattr(self, each.name)[rows] for each in fields(self)))

    @staticmethod
    def joined(parts: list[Packets]) -> Packets:
        """Return the rows of several, one behind the other."""
        if not parts:
            return no_packets()
        return Packets(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Packets))
        )


def no_packets() -> Packets:
    """Return no packets."""
    byte, half, word = np.zeros(0, np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int64)
    numbers = word.astype(np.uint32)
    return Packets(
        half, byte, word, word, numbers, numbers, byte, word.astype(np.uint16), word, half, half, word
    )


@dataclass(slots=True)
class Snapshot:
    """Where a connection stood in the middle of a range, as its reading found it from the range alone.

    :ivar next_seq: sequence numbers that come next, of both directions
    :ivar ends: stream positions of the same bytes
    :ivar frames: stream positions at which the next frames begin
    :ivar waiting: requests that wait: number of the packet, correlation ID, API key, version, size
    :ivar counters: what was counted by then, of both directions
    :ivar packet: number of the last packet by then
    :ivar client_ids: the first client IDs that were seen by then
    """

    next_seq: tuple[int, int]
    ends: tuple[int, int]
    frames: tuple[int, int]
    waiting: list[tuple[int, ...]]
    counters: tuple[tuple[int, ...], tuple[int, ...]]
    packet: int
    client_ids: list[str]


@dataclass(slots=True)
class SplitConnection:
    """A connection of a range that may continue beyond its edges.

    :ivar pair: an index into the pairs of the edges it belongs to
    :ivar local: id in the range
    :ivar begins: whether it begins in the range with the SYN of its client
    :ivar agreed: where its reading in the range was sure of itself; None if it begins there
    :ivar state: where it stood at the end of the range
    :ivar counters: what was counted by then, of both directions
    :ivar skipped: bytes that belong to no frame
    :ivar foreign: what it spoke instead of Kafka for a while, or empty
    :ivar ended_by_kproxy: whether kproxy closed it, reset it or let it fall silent
    :ivar exchanges: how many of its exchanges are finished in the range
    :ivar early: the first reading of the clock at which some of its bytes may have been missing, None if none were
    :ivar payload: bytes that belong to the state and cannot be read from the files in place, by their offset
    :ivar samples: the kernel's TCP statistics of it from there on, where its reading was sure of itself; numbers of
        packets count from the first of the range, as do ids of connections
    """

    pair: int
    local: int
    begins: bool
    agreed: Snapshot | None
    state: ConnectionState
    counters: tuple[tuple[int, ...], tuple[int, ...]]
    skipped: list[Skip] = field(default_factory=list)
    foreign: str = ""
    ended_by_kproxy: bool = False
    exchanges: int = 0
    early: int | None = None
    payload: dict[int, bytes] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)


@dataclass(slots=True)
class Edges:
    """What one range says about some of its connections.

    :ivar pairs: endpoints
    :ivar crossings: the connections that were read there
    :ivar packets: those from which the others are to be read again, in the order of capture: of a crossing those up to
        where its reading was sure of itself, of a pair without a crossing all
    :ivar payload: bytes of packets that cannot be read from the files in place, by their offset
    :ivar comments: packet comments by number
    """

    pairs: list[Pair]
    crossings: list[SplitConnection]
    packets: Packets
    payload: dict[int, bytes] = field(default_factory=dict)
    comments: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class SyncPoint:
    """What a range was, for the numbering of what is in it.

    :ivar number: of the range
    :ivar begin: offset of its first record
    :ivar end: offset of the record behind its last one, -1 if the file ends with it
    :ivar first_key: where its first packet is in time, ns; None if it has none
    :ivar last_key: and its last one
    :ivar latest: the latest time of a packet
    :ivar observation: what its files cover
    :ivar clock: the capture clock in it, None without packets
    :ivar first_exchange: the earliest time of an exchange that is finished in the range, None if there is none
    :ivar statistics: what the reader met
    :ivar secrets: TLS key logs
    :ivar unreadable: what could not be read, and why
    :ivar copies: packets that several files have
    :ivar noted: whether packets have comments
    """

    number: int
    begin: int
    end: int
    first_key: int | None
    last_key: int | None
    latest: int
    observation: Observation
    clock: ClockSpan | None
    first_exchange: int | None
    statistics: Statistics
    secrets: list[bytes] = field(default_factory=list)
    unreadable: list[CaptureError] = field(default_factory=list)
    copies: int = 0
    noted: bool = False


def pack(value: Any) -> bytes:
    """Return a value as it is handed from one process to another of the same program."""
    return zstandard.ZstdCompressor(level=1).compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def unpack(data: bytes) -> Any:
    """Return what :func:`pack` was given. Only for what processes of the same run have packed."""
    return pickle.loads(zstandard.ZstdDecompressor().decompress(data))  # noqa: S301
