"""Hostile files below Kafka: packets, segments, fragments, tunnels."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from random import Random

import zstandard

from captures.export.segments import Conversation
from captures.packets import ACK, PSH, SYN
from tests.captures.packets.kit import ethernet, ipv4, ipv6, tcp
from tests.lanes.hostile.attack import attack
from tests.lanes.hostile.wire import BROKER, PORT, SEGMENT, capture, client, heartbeat, pcap, said, segments

_A, _B = "10.1.0.1", "10.0.0.2"
_A6, _B6 = "2001:db8::1", "2001:db8::2"
_MOST_DATAGRAM = 65_528


def _opened(number: int = 0) -> tuple[Conversation, Iterator[bytes]]:
    conversation = Conversation(client(number), BROKER, number)
    return conversation, iter(conversation.handshake())


def _message(number: int = 1) -> bytes:
    return heartbeat(number)[0]


# ---------------------------------------------------------------- segments
def _overlapping(order: Iterable[int]) -> Iterator[bytes]:
    """Yield segments one byte apart after a hole, so that each has to wait and overlaps all of its neighbours."""
    conversation, opened = _opened()
    stream = Random(0).randbytes(SEGMENT) * 2
    yield from opened
    for at in order:
        position = 1 + at % SEGMENT
        yield conversation.segment(0, 1 + at, stream[position : position + SEGMENT])


@attack(2_500)
def overlaps(count: int) -> Iterable[bytes]:
    """segments out of order, each of which overlaps a thousand others: an object for each pair"""
    return pcap(_overlapping(range(count)))


@attack(20_000)
def overlaps_backwards(count: int) -> Iterable[bytes]:
    """overlapping segments from the last one to the first: each is put in front of all that wait"""
    return pcap(_overlapping(range(count - 1, -1, -1)))


@attack(5_000, ".pcap.zst")
def overlaps_compressed(count: int) -> Iterable[bytes]:
    """overlapping segments in any order, in a compressed file of some kilobytes"""
    order = list(range(count))
    Random(1).shuffle(order)
    yield zstandard.compress(b"".join(pcap(_overlapping(order))), 3)


@attack(200_000)
def retransmissions(count: int) -> Iterable[bytes]:
    """one segment sent again and again"""
    conversation, opened = _opened()
    return pcap(chain(opened, repeat(conversation.segment(0, 0, _message(), push=True), count)))


@attack(200_000)
def one_byte_segments(count: int) -> Iterable[bytes]:
    """a conversation of which each packet has one byte"""
    exchanges = count // sum(map(len, filter(None, heartbeat()))) + 1
    return capture((heartbeat(number) for number in range(exchanges)), segment=1)


@attack(50_000)
def holes(count: int) -> Iterable[bytes]:
    """every second segment is missing: a hole after each message"""

    def frames() -> Iterator[bytes]:
        conversation, opened = _opened()
        message = _message()
        yield from opened
        for number in range(count):
            yield conversation.segment(0, number * (len(message) + 7), message, push=True)

    return pcap(frames())


@attack(20_000)
def leaps(count: int) -> Iterable[bytes]:
    """sequence numbers that leap by a gigabyte, forwards and backwards"""

    def frames() -> Iterator[bytes]:
        conversation, opened = _opened()
        yield from opened
        for number in range(count):
            yield conversation.segment(0, number * 0x3FFF_FFFF % (1 << 32), _message(), push=True)

    return pcap(frames())


@attack(300_000)
def acknowledgments(count: int) -> Iterable[bytes]:
    """packets without payload on one connection"""
    conversation, opened = _opened()
    return pcap(chain(opened, (conversation.acknowledgment(number & 1, 0) for number in range(count))))


# ---------------------------------------------------------------- connections
@attack(250_000)
def syn_flood(count: int) -> Iterable[bytes]:
    """connections that only begin"""
    frame = bytearray(ethernet(ipv4(_A, _B, tcp(1, PORT, 0, 0, SYN))))

    def frames() -> Iterator[bytes]:
        for number in range(count):
            struct.pack_into(">HH", frame, 14 + 14, number >> 15 & 0xFFFF, number >> 15 & 0xFFFF)
            struct.pack_into(">H", frame, 34, 1_024 + (number & 0x7FFF))
            struct.pack_into(">I", frame, 38, number)
            yield bytes(frame)

    return pcap(frames())


@attack(20_000)
def midstream(count: int) -> Iterable[bytes]:
    """connections whose beginning was not captured"""
    return pcap(frame for number in range(count) for frame in said([heartbeat()], number, opened=False))


@attack(20_000)
def reused_ports(count: int) -> Iterable[bytes]:
    """connections one after the other between the same two ports, none of them closed"""

    def frames() -> Iterator[bytes]:
        for number in range(count):
            conversation = Conversation(client(0), BROKER, number)
            yield from conversation.handshake()
            for side, message in enumerate(heartbeat()):
                assert message is not None
                yield from segments(conversation, side, 0, message)

    return pcap(frames())


@attack()
def first_correlation_id(_: int) -> Iterable[bytes]:
    """the SYN is missing, and the first correlation ID is 0: nothing of it is unanswered"""
    return capture((heartbeat(number) for number in range(20)), opened=False)


# ---------------------------------------------------------------- fragments
def _fragments(size: int, identification: int, part: int = 8) -> list[bytes]:
    datagram = tcp(40_000, PORT, 1_000, 7, ACK | PSH, bytes(size - 20))
    last = (size - 1) // part
    return [
        ethernet(
            ipv4(
                _A,
                _B,
                datagram[index * part : (index + 1) * part],
                fragment=(index < last) << 13 | index * part // 8,
                identification=identification,
            )
        )
        for index in range(last + 1)
    ]


@attack(4)
def fragments(count: int) -> Iterable[bytes]:
    """datagrams in 8,190 fragments each, the last one first"""
    return pcap(
        frame for number in range(count) for frame in reversed(_fragments(_MOST_DATAGRAM - 8, number))
    )


@attack(200_000)
def fragments_alone(count: int) -> Iterable[bytes]:
    """first fragments of datagrams that never become whole"""
    frame = bytearray(_fragments(32, 0, 16)[0])

    def frames() -> Iterator[bytes]:
        for number in range(count):
            struct.pack_into(">H", frame, 14 + 4, number & 0xFFFF)
            struct.pack_into(">H", frame, 14 + 14, number >> 16)
            yield bytes(frame)

    return pcap(frames())


@attack(20_000)
def fragments_overlapping(count: int) -> Iterable[bytes]:
    """fragments of one datagram, over and over at the same places, the last one missing"""
    parts = _fragments(_MOST_DATAGRAM - 8, 1, 1_400)[:-1]
    return pcap(parts[number * 7 % len(parts)] for number in range(count))


# ---------------------------------------------------------------- headers
@attack(300)
def vlan_tags(count: int) -> Iterable[bytes]:
    """packets in thousands of VLAN tags"""
    frame = ethernet(ipv4(_A, _B, tcp(40_000, PORT, 1, 1, ACK, _message())), 0x0800, (0x8100,) * 10_000)
    return pcap(repeat(frame, count))


@attack(2_000)
def tunnels(count: int) -> Iterable[bytes]:
    """IP in IP, a hundred deep"""
    datagram = ipv4(_A, _B, tcp(40_000, PORT, 1, 1, ACK, _message()))
    for _ in range(100):
        datagram = ipv4(_A, _B, datagram, 4)
    return pcap(repeat(ethernet(datagram), count))


@attack(200)
def extension_headers(count: int) -> Iterable[bytes]:
    """IPv6 packets of eight thousand extension headers"""
    headers = bytes([60, 0]) + bytes(6)
    datagram = ipv6(
        _A6, _B6, headers * 7_900 + bytes([6, 0]) + bytes(6) + tcp(40_000, PORT, 1, 1, ACK, b"x"), 60
    )
    return pcap(repeat(ethernet(datagram, 0x86DD), count))


@attack(20_000)
def rare_links(count: int) -> Iterable[bytes]:
    """frames of a link layer that takes a slow way (IEEE 802.11)"""
    head = bytes([0x08, 0x01]) + bytes(22) + b"\xaa\xaa\x03\0\0\0\x08\0"
    frames = list(said([heartbeat()], 0))
    return pcap((head + frames[number % len(frames)][14:] for number in range(count)), link_type=105)


@attack(1_000_000)
def empty_packets(count: int) -> Iterable[bytes]:
    """packets of which nothing was captured"""
    return pcap(repeat(b"", count))
