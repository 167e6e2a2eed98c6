"""The data that the reading of one range hands to the stitcher."""

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
from captures.interventions import UpstreamBroker
from captures.packets import CaptureError, Statistics
from captures.packets.observation import Observation
from captures.ranges.clocks import ClockSpan

Pair = tuple[Endpoint, Endpoint]
"""Two endpoints, in the order of their bytes."""


def pair_of(one: Endpoint, other: Endpoint) -> Pair:
    """Return two endpoints in the order of their bytes, so that both directions have the same key."""
    return (one, other) if one <= other else (other, one)


@dataclass(slots=True)
class Packets:
    """TCP packets without their payload, one row each, as in :class:`~captures.packets.table.PacketBlock`.

    :ivar pair: int32, index into the pairs of endpoints of the same :class:`Edges`
    :ivar down: whether the second endpoint of the pair sent the packet
    :ivar number: counts from the first packet of the range
    :ivar clock: reading of the range's clock
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
        """Return the given rows."""
        return Packets(*(getattr(self, each.name)[rows] for each in fields(self)))

    @staticmethod
    def joined(parts: list[Packets]) -> Packets:
        """Return the concatenated rows of `parts`."""
        if not parts:
            return no_packets()
        return Packets(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Packets))
        )


def no_packets() -> Packets:
    """Return an empty table."""
    byte, half, word = np.zeros(0, np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int64)
    numbers = word.astype(np.uint32)
    return Packets(
        half, byte, word, word, numbers, numbers, byte, word.astype(np.uint16), word, half, half, word
    )


@dataclass(slots=True)
class Snapshot:
    """The state of a connection in the middle of a range, as found from the range alone.

    :ivar next_seq: next sequence numbers, of both directions
    :ivar ends: stream positions of the same bytes
    :ivar frames: stream positions at which the next frames start
    :ivar waiting: requests in flight: number of the packet, correlation ID, API key, version, size
    :ivar counters: counters up to there, of both directions
    :ivar packet: number of the last packet up to there
    :ivar client_ids: the first client IDs seen up to there
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

    :ivar pair: index into the pairs of endpoints of the same :class:`Edges`
    :ivar local: id in the range
    :ivar begins: whether the client's SYN is in the range
    :ivar agreed: state from which its reading in the range is reliable; None if it starts in the range
    :ivar state: state at the end of the range
    :ivar counters: counters at the end of the range, of both directions
    :ivar skipped: bytes that belong to no frame
    :ivar foreign: protocol it spoke instead of Kafka for a while, or empty
    :ivar ended_by_kproxy: whether kproxy closed it, reset it or let it fall silent
    :ivar exchanges: number of its exchanges that are finished in the range
    :ivar early: first clock reading at which some of its bytes may have been missing, None if none were
    :ivar payload: bytes that belong to the state and cannot be read from the files in place, by offset
    :ivar samples: the kernel's TCP statistics of it, from where its reading is reliable; packet numbers and connection
        ids are those of the range
    :ivar upstream: its broker, if kproxy's proxy has recorded it in the range
    :ivar mechanism: its SASL mechanism, or empty
    :ivar cluster: the cluster ID in a response on it, or empty
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
    upstream: UpstreamBroker | None = None
    mechanism: str = ""
    cluster: str = ""


@dataclass(slots=True)
class Edges:
    """The connections of one range, all or one bucket of them, that may cross its edges.

    :ivar pairs: endpoints
    :ivar crossings: connections that the range has read reliably
    :ivar packets: packets to read again, in capture order: of a crossing those before its reading is reliable, of a
        pair without a crossing all
    :ivar payload: bytes of packets that cannot be read from the files in place, by offset
    :ivar comments: packet comments by number
    """

    pairs: list[Pair]
    crossings: list[SplitConnection]
    packets: Packets
    payload: dict[int, bytes] = field(default_factory=dict)
    comments: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class SyncPoint:
    """Summary of a range, from which its packets and exchanges are numbered.

    :ivar number: number of the range
    :ivar begin: offset of its first record
    :ivar end: offset after its last record, -1 if the file ends there
    :ivar first_key: time of its first packet, ns; None if it has no packets
    :ivar last_key: highest time of a packet, ns; None if it has no packets
    :ivar latest: the latest time of a packet
    :ivar observation: time spans that its files cover
    :ivar clock: the capture clock in it, None without packets
    :ivar first_exchange: the earliest time of an exchange that is finished in the range, None if there is none
    :ivar statistics: statistics of the packet reader
    :ivar secrets: TLS key logs
    :ivar unreadable: read errors
    :ivar copies: number of packets that several files contain
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
    """Serialize a value for another process of the same program."""
    return zstandard.ZstdCompressor(level=1).compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def unpack(data: bytes) -> Any:
    """Deserialize a value from :func:`pack`. Only for data of processes of the same run."""
    return pickle.loads(zstandard.ZstdDecompressor().decompress(data))  # noqa: S301
