"""pcap files: the whole input is the file.

* Reading succeeds or raises :class:`CaptureError`, nothing else. Damage inside is counted.
* The block size changes nothing: packets, comments, counts, streams, gaps, exchanges.
* Segments and gaps tile every stream; no stream has more bytes than its packets.
* A truncated file gives the same packets as the whole file up to the cut.
* Every exchange can be decoded, annotated and summarised, and scrubbed packets can be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

from captures.packets.reader import BLOCK_SIZE
from fuzz.target import check
from fuzz.targets import framing, packets
from tests.captures.packets.kit import Record, pcap

LONGEST = 8192

mutate = framing.pcap


_HEADER = 24
_EXACT = ("number", "time", "seq", "captured")


def run(data: bytes) -> None:
    """Read the file in one way, or in two ways that are compared; the input's bytes decide."""
    chance = crc32(data)
    small = packets.block_of(len(data), chance >> 8)
    block = small if chance & 16 else BLOCK_SIZE
    match chance & 15:
        case 0 | 1 | 2 | 3:
            packets.packets(data, block)
        case 4 | 5:
            packets.scrubbed(data)
        case 6 | 7 | 8:
            packets.exchanges(data, block)
        case 9:
            packets.exchanges(data, block, show=True)
        case 10 | 11 | 12:
            packets_alike(data, small)
        case 13 | 14:
            exchanges_alike(data, small)
        case _:
            cut_short(data, (chance >> 8) % (len(data) + 1))


def several(inputs: Sequence[bytes], join: framing.Join = framing.join_pcap) -> None:
    """Read joined files as :func:`run` reads one; those that cannot be joined are read alone."""
    joined, left = join(inputs)
    for data in (joined, *left):
        run(data)


def kin(data: bytes) -> bytes:
    """Return the headers, which files must share to be joined."""
    return data[:_HEADER]


def every(data: bytes) -> None:
    """Run all checks from which :func:`run` selects."""
    chance = crc32(data)
    packets.exchanges(data, show=True)
    packets.scrubbed(data)
    for block in (*packets.SMALL_BLOCKS, packets.block_of(len(data), chance >> 8)):
        packets_alike(data, block)
        exchanges_alike(data, block)
    cut_short(data, (chance >> 8) % (len(data) + 1))


def packets_alike(data: bytes, block: int) -> None:
    """Check that packets and streams are the same in blocks of a size as in one block."""
    found, again = packets.packets(data), packets.packets(data, block)
    check((found is None) == (again is None), "blocks of", block, "bytes decide whether it is a capture")
    if found is not None and again is not None:
        packets.same(found[1], again[1], "blocks of", block, "bytes")


def exchanges_alike(data: bytes, block: int) -> None:
    """Check that exchanges are the same in blocks of a size as in one block."""
    whole = packets.exchanges(data)
    check(whole == packets.exchanges(data, block), "blocks of", block, "bytes give other exchanges")


def cut_short(data: bytes, end: int) -> None:
    """Check that a truncated file still has all packets before the cut."""
    found = packets.packets(data)
    first = None if found is None or found[1]["statistics"]["damage"] else packets.packets(data[:end])
    for name in _EXACT if first else ():
        assert found is not None
        assert first is not None
        part = first[1][name][:-1]  # the last packet may be cut
        check(part == found[1][name][: len(part)], "cut short, it has another", name)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield files of both byte orders and all precisions, with link layers, fragments and tunnels, and the sample."""
    for name, frames, link_type in link_layers():
        yield name, pcap(list(frames), link_type)
    frames = connection()
    yield "big-endian", pcap(list(frames), order=">")
    yield "nanoseconds", pcap(list(frames), nano=True)
    yield "modified", pcap(list(frames), modified=True)
    yield "cut-packets", pcap([Record(frame[:70], wire=len(frame)) for frame in frames])
    yield "sample", packets.sample(4000)


def connection() -> list[bytes]:
    """Return the packets of a short conversation, out of order and repeated."""
    from tests.captures.packets.kit import Conversation
    from tests.dissectors.conversation.streams import request, response

    wire = Conversation()
    wire.handshake()
    asked, answered = request(1) + request(2), response(1) + response(2)
    wire.send(0, asked[:20])
    wire.send(30, asked[30:])
    wire.send(20, asked[20:30])
    wire.send(0, answered, ack=len(asked), from_client=False, fin=True)
    wire.send(10, asked[10:])
    return [record.frame for record in wire.records]


def link_layers() -> Iterator[tuple[str, list[bytes], int]]:
    """Yield name, frames and link type of each way to carry TCP."""
    from tests.captures.packets.kit import BROKER6, CLIENT6, Conversation, ethernet, ipv4

    frames = connection()
    yield "ethernet", frames, 1
    yield "raw", [frame[14:] for frame in frames], 101
    yield "null", [b"\2\0\0\0" + frame[14:] for frame in frames], 0
    yield "sll", [b"\0\0\0\1\0\6\2\2\2\2\2\2\0\0\x08\0" + frame[14:] for frame in frames], 113
    yield "sll2", [b"\x08\0\0\0\0\0\0\1\0\1\0\6\2\2\2\2\2\2\0\0" + frame[14:] for frame in frames], 276
    yield "vlan", [ethernet(frame[14:], tags=(0x88A8, 0x8100)) for frame in frames], 1
    six = Conversation(CLIENT6, BROKER6)
    six.handshake()
    six.send(0, b"\0\0\0\x0a" + bytes(10))
    yield "ipv6", [record.frame for record in six.records], 1
    whole = frames[3][34:]
    first = ethernet(ipv4("10.0.0.1", "10.0.0.2", whole[:24], fragment=0x2000))
    last = ethernet(ipv4("10.0.0.1", "10.0.0.2", whole[24:], fragment=3))
    yield "fragments", [*frames[:3], last, first, frames[5]], 1
    inner = frames[3][14:]
    gre = ethernet(ipv4("10.1.0.1", "10.1.0.2", b"\0\0\x08\0" + inner, 47))
    vxlan = (
        b"\xc0\0\x12\xb5" + (16 + len(frames[3])).to_bytes(2, "big") + b"\0\0\x08\0\0\0\0\0\7\0" + frames[3]
    )
    tunnels = [
        gre,
        ethernet(ipv4("10.1.0.1", "10.1.0.2", inner, 4)),
        ethernet(ipv4("10.1.0.1", "10.1.0.2", vxlan, 17)),
    ]
    yield "tunnels", tunnels, 1
