"""Hostile file formats: blocks, lengths, times, compression, and random bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from gzip import compress as gzip
from itertools import chain, repeat
from random import Random

import zstandard

from tests.captures.packets.kit import T0, block, enhanced, interface, option, section
from tests.lanes.hostile.attack import attack
from tests.lanes.hostile.wire import capture, exchange, heartbeat, pcap, said

_MIB = 1 << 20
_ENHANCED, _SIMPLE = 6, 3
_TSRESOL, _TSOFFSET = 9, 14


def _frames(count: int) -> Iterator[bytes]:
    """Yield the requested number of small frames of valid conversations."""
    frames = list(said([heartbeat(number) for number in range(50)], 0))
    return (frames[number % len(frames)] for number in range(count))


# ---------------------------------------------------------------- pcapng
@attack(300_000, ".pcapng")
def interfaces(count: int) -> Iterable[bytes]:
    """an interface for each packet"""
    yield section()
    for number, frame in enumerate(_frames(count)):
        yield interface() + enhanced(frame, T0 // 1000 + number, number)


@attack(5_000_000, ".pcapng")
def interface_blocks(count: int) -> Iterable[bytes]:
    """interfaces without a packet"""
    described = interface()
    return chain([section()], repeat(described * 1_000, max(count // 1_000, 1)))


@attack(200_000, ".pcapng")
def byte_orders(count: int) -> Iterable[bytes]:
    """a section for each packet, little-endian and big-endian in turns"""
    for number, frame in enumerate(_frames(count)):
        order = "<>"[number & 1]
        yield section(order) + interface(order=order) + enhanced(frame, T0 // 1000 + number, order=order)


@attack(2_000_000, ".pcapng")
def sections(count: int) -> Iterable[bytes]:
    """sections with nothing in them"""
    return repeat(section() * 1_000, max(count // 1_000, 1))


@attack(220, ".pcapng")
def options(count: int) -> Iterable[bytes]:
    """packets with ten thousand comments each"""
    comments = [option(1, b"\x1b]0;pwned\x07")] * 10_000
    yield section() + interface()
    for number, frame in enumerate(_frames(count)):
        yield enhanced(frame, T0 // 1000 + number, 0, *comments)


@attack(1_000_000, ".pcapng")
def unknown_blocks(count: int) -> Iterable[bytes]:
    """blocks of unknown types, and packets of interfaces that were not announced"""
    yield section() + interface()
    odd = block(0x0BAD1DEA, b"\xff" * 8) + block(_ENHANCED, struct.pack("<IIIII", 99_999, 0, 0, 0, 0))
    yield from repeat(odd * 500, max(count // 1_000, 1))


@attack(2_000, ".pcapng")
def ages(count: int) -> Iterable[bytes]:
    """exchanges from 1970 to 2554, the answers before the questions"""
    yield section() + interface(1, option(_TSRESOL, b"\x09"))
    last = (1 << 64) - 1
    frames = list(said(heartbeat(number) for number in range(count)))
    for number, frame in enumerate(frames):
        at = last * number // len(frames)
        yield enhanced(frame, last - at if number % 2 else at)


@attack(5_000, ".pcapng")
def clock_jumps(count: int) -> Iterable[bytes]:
    """a clock that jumps by decades, so that answers come before their requests"""
    rng = Random(5)
    yield section() + interface(1, option(_TSRESOL, b"\x09"))
    for frame in said(heartbeat(number) for number in range(count)):
        yield enhanced(frame, rng.randrange(1 << 63))


@attack(1_000, ".pcapng")
def resolutions(count: int) -> Iterable[bytes]:
    """interfaces whose clocks tick in 10^-127 s or 2^-127 s, or are ahead by 2^63 s"""
    yield section()
    for number, frame in enumerate(_frames(count)):
        described = interface(
            1,
            option(_TSRESOL, bytes([(127, 255, 0, 128, 19, 64)[number % 6]])),
            option(_TSOFFSET, struct.pack("<q", ((1 << 63) - 1, -(1 << 63), 0)[number % 3])),
        )
        yield described + enhanced(frame, (1 << 64) - 1 - number, number)


# ---------------------------------------------------------------- lengths
@attack(10_000)
def lying_lengths(count: int) -> Iterable[bytes]:
    """packets whose lengths are anything: announced, captured, of IP and of TCP"""
    rng = Random(2)
    head, *records = pcap(_frames(count))
    yield head
    for record in records:
        data = bytearray(record)
        for at in (8, 12, 16 + 16, 16 + 26, 16 + 46):
            if rng.random() < 0.1:
                struct.pack_into(">H", data, at, rng.choice((0, 1, 0x7FFF, 0xFFFF)))
        yield bytes(data)


@attack(30 * _MIB)
def garbage(count: int) -> Iterable[bytes]:
    """random bytes behind the header of a file"""
    yield next(iter(pcap([])))
    yield Random(3).randbytes(count)


@attack(30 * _MIB)
def garbage_spoken(count: int) -> Iterable[bytes]:
    """random bytes in both directions of a connection to a broker"""
    rng = Random(4)
    return capture((rng.randbytes(14_000), rng.randbytes(14_000)) for _ in range(max(count // 28_000, 1)))


@attack(3_000)
def garbage_between(count: int) -> Iterable[bytes]:
    """a kilobyte of random bytes in front of each message"""
    rng = Random(6)

    def exchanges() -> Iterator[tuple[bytes, bytes | None]]:
        for number in range(count):
            request, response = heartbeat(number)
            assert response is not None
            yield rng.randbytes(1_000) + request, rng.randbytes(100) + response

    return capture(exchanges())


# ---------------------------------------------------------------- compression
@attack(10 * 1024, ".pcap.zst")
def zeros_zst(count: int) -> Iterable[bytes]:
    """ten gigabytes of records of zero length, in some hundred kilobytes"""
    compressor = zstandard.ZstdCompressor(level=3)
    yield compressor.compress(next(iter(pcap([]))))
    yield from repeat(compressor.compress(bytes(64 * _MIB)), max(count // 64, 1))


@attack(2 * 1024, ".pcap.gz")
def zeros_gz(count: int) -> Iterable[bytes]:
    """two gigabytes of records of zero length, in some megabytes"""
    yield gzip(next(iter(pcap([]))), mtime=0)
    yield from repeat(gzip(bytes(16 * _MIB), mtime=0), max(count // 16, 1))


@attack(500_000, ".pcap.gz")
def gz_members(count: int) -> Iterable[bytes]:
    """gzip members with nothing in them"""
    empty = gzip(b"", mtime=0)
    whole = gzip(b"".join(capture([heartbeat()])), mtime=0)
    return chain(repeat(empty * 1_000, max(count // 1_000, 1)), [whole])


@attack(1_000_000, ".pcap.zst")
def zst_frames(count: int) -> Iterable[bytes]:
    """zstd frames with nothing in them, and frames to be skipped"""
    empty = zstandard.compress(b"") + struct.pack("<II", 0x184D2A50, 0)
    whole = zstandard.compress(b"".join(capture([heartbeat()])))
    return chain(repeat(empty * 1_000, max(count // 1_000, 1)), [whole])


@attack(50, ".pcap.gz")
def gz_nested(count: int) -> Iterable[bytes]:
    """gzip in gzip in gzip"""
    data = b"".join(capture([heartbeat()]))
    for _ in range(count):
        data = gzip(data, mtime=0)
    yield data


@attack(5_000, ".pcap.zst")
def zst_nested(count: int) -> Iterable[bytes]:
    """zstd in zstd in zstd, thousands deep"""
    data = b"".join(capture([heartbeat()]))
    for _ in range(count):
        data = zstandard.compress(data)
    yield data


@attack(1, ".pcap.zst")
def zst_window(_: int) -> Iterable[bytes]:
    """a zstd frame that announces a window of two gigabytes and contents of an exabyte"""
    # RFC 8878 section 3.1.1.1: descriptor with 8 bytes of content size, window descriptor, content size
    yield b"\x28\xb5\x2f\xfd" + bytes([0xC0, 21 << 3]) + struct.pack("<Q", 1 << 60)
    yield b"\x01\x00\x00"


@attack(30 * _MIB, ".pcap.gz")
def gz_cut(count: int) -> Iterable[bytes]:
    """a gzip stream that breaks off, behind a length that is wrong"""
    packed = zlib.compressobj(1, zlib.DEFLATED, 31)
    data = packed.compress(b"".join(pcap(_frames(count // 150))))
    yield data[: len(data) - 1_000] if len(data) > 2_000 else data


@attack()
def nothing(_: int) -> Iterable[bytes]:
    """a file without a byte"""
    return iter(())


@attack()
def header_alone(_: int) -> Iterable[bytes]:
    """the header of a file, and no packet"""
    return pcap([])


@attack()
def one_exchange(_: int) -> Iterable[bytes]:
    """one exchange of an API that no group, lag or journey is made of"""
    return capture([exchange(16, 0, {}, {"groups": [{"group_id": "billing", "protocol_type": "consumer"}]})])
