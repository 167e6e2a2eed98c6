"""Synthetic captures: headers, frames, files and conversations whose content is known by construction."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from captures.arrays import Int64s
from captures.packets import (
    ACK,
    FIN,
    PSH,
    SYN,
    PacketBlock,
    PacketReader,
    SegmentBlock,
    SegmentIndex,
    TcpAssembler,
    open_source,
    read_packets,
)
from dissectors import budget

CLIENT = ("10.0.0.1", 40000)
BROKER = ("10.0.0.2", 9092)
CLIENT6 = ("2001:db8::1", 40000)
BROKER6 = ("2001:db8::2", 9092)
T0 = 1_700_000_000_000_000_000  # 2023-11-14, ns
MS = 1_000_000

Endpoint = tuple[str, int]


def tcp(
    sport: int,
    dport: int,
    seq: int,
    ack: int,
    flags: int,
    payload: bytes = b"",
    window: int = 64000,
    options: int = 0,
) -> bytes:
    """RFC 9293 section 3.1; `options` words of no-operation."""
    size = (5 + options) << 12 | flags
    return (
        struct.pack(">HHIIHHHH", sport, dport, seq, ack, size, window, 0, 0) + b"\x01" * 4 * options + payload
    )


@cache
def _packed(address: str) -> bytes:
    return ip_address(address).packed


def ipv4(
    src: str,
    dst: str,
    payload: bytes,
    protocol: int = 6,
    *,
    options: int = 0,
    total: int | None = None,
    fragment: int = 0,
    identification: int = 7,
) -> bytes:
    """RFC 791 section 3.1; `fragment` is the flags and offset field."""
    size = 20 + 4 * options
    total = size + len(payload) if total is None else total
    head = struct.pack(">BBHHHBBH", 0x40 | size // 4, 0, total, identification, fragment, 64, protocol, 0)
    return head + _packed(src) + _packed(dst) + b"\x01" * 4 * options + payload


def ipv6(src: str, dst: str, payload: bytes, following: int = 6, length: int | None = None) -> bytes:
    """RFC 8200 section 3."""
    length = len(payload) if length is None else length
    return struct.pack(">IHBB", 6 << 28, length, following, 64) + _packed(src) + _packed(dst) + payload


def ethernet(payload: bytes, ethertype: int = 0x0800, tags: tuple[int, ...] = ()) -> bytes:
    """Ethernet II with VLAN tags, given by their tag protocol ids, outermost first."""
    vlans = b"".join(struct.pack(">HH", tag, 5) for tag in tags)
    return b"\x02" * 6 + b"\x04" * 6 + vlans + struct.pack(">H", ethertype) + payload


def packet(
    src: Endpoint, dst: Endpoint, seq: int, ack: int, flags: int, payload: bytes = b"", **more: Any
) -> bytes:
    """An Ethernet frame with a TCP segment."""
    segment = tcp(src[1], dst[1], seq % 2**32, ack % 2**32, flags, payload, **more)
    if ":" in src[0]:
        return ethernet(ipv6(src[0], dst[0], segment), 0x86DD)
    return ethernet(ipv4(src[0], dst[0], segment))


@contextmanager
def limited(**values: int) -> Iterator[None]:
    """Change some limits."""
    before = dict(budget.IN_FORCE)
    budget.IN_FORCE.update(values)
    try:
        yield
    finally:
        budget.IN_FORCE.update(before)


@dataclass
class Record:
    """A packet of a file to be written; `wire` is its length before it was cut."""

    frame: bytes
    time: int = T0
    wire: int = 0


def pcap(
    records: list[Record | bytes],
    link_type: int = 1,
    *,
    order: str = "<",
    nano: bool = False,
    snaplen: int = 262144,
    modified: bool = False,
) -> bytes:
    """A pcap file (pcap-savefile(5))."""
    magic = 0xA1B23C4D if nano else 0xA1B2CD34 if modified else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link_type)]
    for number, item in enumerate(records):
        record = item if isinstance(item, Record) else Record(item, T0 + number * MS)
        seconds, fraction = divmod(record.time, 10**9)
        wire = max(record.wire, len(record.frame))
        head = struct.pack(
            order + "IIII",
            seconds,
            fraction if nano else fraction // 1000,
            min(len(record.frame), snaplen),
            wire,
        )
        out.append(head + bytes(8 if modified else 0) + record.frame[:snaplen])
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block (draft-ietf-opsawg-pcapng section 3.1)."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """A pcapng option (section 3.5)."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<") -> bytes:
    """Section header block (section 4.1)."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int = 1, *options: bytes, order: str = "<", snaplen: int = 0) -> bytes:
    """Interface description block (section 4.2)."""
    end = option(0, b"", order) if options else b""
    return block(1, struct.pack(order + "HHI", link_type, 0, snaplen) + b"".join(options) + end, order)


def enhanced(
    frame: bytes, ticks: int, number: int = 0, *options: bytes, order: str = "<", wire: int = 0
) -> bytes:
    """Enhanced packet block (section 4.3)."""
    wire = max(wire, len(frame))
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), wire)
    end = option(0, b"", order) if options else b""
    return block(6, head + frame + bytes(-len(frame) % 4) + b"".join(options) + end, order)


@dataclass
class CaptureContent:
    """A capture read to the end."""

    reader: PacketReader
    blocks: list[PacketBlock]
    segments: list[SegmentBlock]
    assembler: TcpAssembler
    index: SegmentIndex

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """A packet column over all blocks."""
        return np.concatenate([getattr(each, name) for each in self.blocks] or [np.empty(0, np.int64)])

    def payloads(self) -> list[bytes]:
        """The captured payload of every packet."""
        places = zip(self.column("offset").tolist(), self.column("captured").tolist(), strict=True)
        return [self.reader.source.read(offset, size) for offset, size in places]

    def gaps(self) -> list[tuple[int, int, int, str]]:
        """Every gap as (stream, position, missing, cause)."""
        found = []
        for each in self.segments:
            gaps = each.gaps
            columns = (gaps.stream, gaps.position, gaps.missing, gaps.cause)
            for stream, position, missing, cause in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                found.append((stream, position, missing, cause))
        return found

    def stream(self, stream: int) -> bytes:
        """The captured bytes of a stream, joined; checks that segments and gaps tile it."""
        position, out = 0, []
        for each in self.segments:
            joined, starts = payload(each)
            rows = np.flatnonzero(each.stream == stream).tolist()
            holes = np.flatnonzero(each.gaps.stream == stream).tolist()
            for row in [*rows, len(each)]:
                while holes and (row == len(each) or each.gaps.position[holes[0]] <= each.position[row]):
                    hole = holes.pop(0)
                    assert each.gaps.position[hole] == position
                    position += int(each.gaps.missing[hole])
                if row < len(each):
                    assert each.position[row] == position
                    assert each.delivered[row] >= each.time[row] or not each.time[row]
                    start, size = int(starts[row]), int(each.length[row])
                    out.append(joined[start : start + size])
                    position += size
        assert position == self.assembler.connections.streams.end[stream]
        return b"".join(out)


def read(path: Path | str, block_size: int = 1 << 22) -> CaptureContent:
    """Read a capture file through all steps."""
    source = open_source(path)
    reader = read_packets(source, block_size)
    index = SegmentIndex(source)
    assembler = TcpAssembler(index)
    blocks, segments = [], []
    for each in reader:
        blocks.append(each)
        segments.append(assembler.feed(each))
    segments.append(assembler.finish())
    statistics = reader.statistics
    assert statistics.packets == statistics.tcp + statistics.not_tcp.total() + statistics.fragments_waiting
    return CaptureContent(reader, blocks, segments, assembler, index)


def read_bytes(folder: Path, data: bytes, block_size: int = 1 << 22) -> CaptureContent:
    """Read a capture given as bytes."""
    path = folder / "capture"
    path.unlink(missing_ok=True)  # an earlier one may still be read from
    path.write_bytes(data)
    return read(path, block_size)


def payload(block: SegmentBlock) -> tuple[bytes, Int64s]:
    """Return all bytes of a block in row order, and for each row the index of its first byte."""
    memory, positions = block.memory()
    cells = zip(positions.tolist(), block.length.tolist(), strict=True)
    return b"".join(memory.read(*cell) for cell in cells), np.cumsum(block.length) - block.length


class MissingBytesError(LookupError):
    """Bytes of a stream were not captured.

    :ivar position: position of the first of them
    """

    def __init__(self, position: int) -> None:
        super().__init__(f"byte {position} was not captured")
        self.position = position


def read_stream(index: SegmentIndex, stream: int, start: int, end: int) -> bytes:
    """Return the bytes [start, end) of a stream.

    :raises MissingBytesError: if some of them were not captured
    """
    data = index.read_captured(stream, start, end)
    if len(data) < end - start:
        raise MissingBytesError(start + len(data))
    return data


@dataclass
class Conversation:
    """Packets between two endpoints, with the sequence numbers kept right."""

    client: Endpoint = CLIENT
    broker: Endpoint = BROKER
    client_isn: int = 1000
    broker_isn: int = 5000
    records: list[Record] = field(default_factory=list)
    now: int = T0

    def put(
        self, from_client: bool, position: int, ack: int, flags: int, payload: bytes = b"", **more: Any
    ) -> Record:
        """A packet at stream `position`, acknowledging the peer's bytes before `ack`; 1 ms after the last."""
        mine, peer = (self.client_isn, self.broker_isn) if from_client else (self.broker_isn, self.client_isn)
        src, dst = (self.client, self.broker) if from_client else (self.broker, self.client)
        frame = packet(src, dst, mine + 1 + position, peer + 1 + ack, flags, payload, **more)
        self.now += MS
        record = Record(frame, self.now)
        self.records.append(record)
        return record

    def handshake(self) -> None:
        """SYN, SYN-ACK, ACK."""
        self.put(True, -1, -self.broker_isn - 1, SYN)
        self.put(False, -1, 0, SYN | ACK)
        self.put(True, 0, 0, ACK)

    def send(
        self, position: int, payload: bytes, *, ack: int = 0, from_client: bool = True, fin: bool = False
    ) -> Record:
        """Data."""
        return self.put(from_client, position, ack, ACK | PSH | (FIN if fin else 0), payload)

    def acknowledge(self, ack: int, *, from_client: bool = False, position: int = 0) -> Record:
        """A packet without payload."""
        return self.put(from_client, position, ack, ACK)


def pcapng_of(pcap: bytes, secrets: bytes) -> bytes:
    """A pcapng with the packets of a pcap (little-endian, microseconds) behind a TLS key log in a secrets block."""
    kind, size = 0x544C534B, len(secrets)  # "TLSK", draft-ietf-opsawg-pcapng section 4.7
    parts = [section(), block(0x0A, struct.pack("<II", kind, size) + secrets), interface()]
    at = 24
    while at < len(pcap):
        seconds, micros, captured, wire = struct.unpack_from("<IIII", pcap, at)
        frame = pcap[at + 16 : at + 16 + captured]
        parts.append(enhanced(frame, seconds * 1_000_000 + micros, wire=wire))
        at += 16 + captured
    return b"".join(parts)


def rotated(pcap: bytes, packets: int) -> list[bytes]:
    """A pcap (little-endian) as the files that a capture with rotation leaves, of so many packets each."""
    starts, at = [], 24
    while at < len(pcap):
        starts.append(at)
        at += 16 + struct.unpack_from("<I", pcap, at + 8)[0]
    edges = [*starts[::packets], len(pcap)]
    return [pcap[:24] + pcap[low:high] for low, high in pairwise(edges)]
