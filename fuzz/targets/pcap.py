"""pcap files: the whole input is the file.

* It is read, or it is no capture (:class:`CaptureError`); nothing else is raised. Damage inside is counted.
* How much is read at a time changes nothing: packets, comments, counts, streams, gaps, exchanges.
* Segments and gaps tile every stream; no stream holds more than its packets brought.
* Of a sound file that is cut short all packets before the cut are there, and they are the same.
* Every exchange can be decoded, annotated and told in one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from fuzz.target import check
from fuzz.targets import packets
from tests.captures.packets.kit import Record, pcap

LONGEST = 8192

_MOST_PACKETS_EXACT = ("number", "time", "seq", "captured")


def run(data: bytes) -> None:
    """Read the file, in one block and in small ones, whole and cut."""
    chance = crc32(data)
    found = packets.packets(data)
    small = packets.small_block(chance)
    again = packets.packets(data, small)
    check((found is None) == (again is None), "blocks of", small, "bytes decide whether it is a capture")
    if found is None or again is None:
        return
    packets.same(found[1], again[1], "blocks of", small, "bytes")
    if chance & 4:  # either of these for each input, as both take their time
        whole = packets.exchanges(data)
        check(whole == packets.exchanges(data, small), "blocks of", small, "bytes give other exchanges")
    elif not found[1]["statistics"]["damage"]:
        first = packets.packets(data[: chance % (len(data) + 1)])
        for name in _MOST_PACKETS_EXACT if first else ():
            assert first is not None
            part = first[1][name][:-1]  # the last packet may be cut
            check(part == found[1][name][: len(part)], "cut short, it has another", name)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield files of both byte orders and all precisions, with link layers, fragments, tunnels, and from the sample."""
    for name, frames, link_type in link_layers():
        yield name, pcap(list(frames), link_type)
    frames = connection()
    yield "big-endian", pcap(list(frames), order=">")
    yield "nanoseconds", pcap(list(frames), nano=True)
    yield "modified", pcap(list(frames), modified=True)
    yield "cut-packets", pcap([Record(frame[:70], wire=len(frame)) for frame in frames])
    yield "sample", sample(4000)


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
    """Yield name, frames and link type of what carries TCP."""
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


def sample(most: int) -> bytes:
    """Return the first packets of the capture that comes with the package, up to so many bytes."""
    from importlib.resources import files

    data = (files("captures") / "samples" / "rebalance.pcap").read_bytes()
    end = 24
    while (following := end + 16 + int.from_bytes(data[end + 8 : end + 12], "little")) <= most:
        end = following
    return data[:end]
