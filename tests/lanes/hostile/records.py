"""Hostile records: batches that expand to very much data, or very many batches."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import cache
from random import Random
from zlib import crc32

import crc32c
import numpy as np

from dissectors.records import Codec, Record, compress
from dissectors.records.batch import CRC_START, HEADER
from dissectors.records.build import build_batch
from tests.kproxy.frames import framed
from tests.lanes.hostile.attack import attack
from tests.lanes.hostile.wire import PRODUCE, TOPIC, Exchange, capture, fetched, produced

_MIB = 1 << 20
_OVERHEAD = 12


def loose(size: int) -> bytes:
    """Return bytes that compress 300 to 1: well, but not enough to be refused as a bomb at once."""
    return Random(9).randbytes(size // 300) + bytes(size - size // 300)


@cache
def smallest(count: int) -> bytes:
    """Return a number of the smallest possible records: no key, no value, no headers (KIP-98).

    One in twenty has another offset, so that they do not compress too well.
    """
    records = np.tile(np.frombuffer(bytes([12, 0, 0, 0, 1, 0, 0]), np.uint8), (count, 1))
    records[::20, 3] = np.random.default_rng(9).integers(0, 128, len(records[::20]))
    return records.tobytes()


def batch_of(payload: bytes, records: int, codec: Codec, base_offset: int = 0) -> bytes:
    """Return a batch with a compressed payload.

    :param records: its announced number of records
    """
    whole = bytearray(
        HEADER.pack(
            base_offset,
            HEADER.size - _OVERHEAD + len(payload),
            -1,
            2,
            0,
            int(codec),
            records - 1,
            0,
            0,
            -1,
            -1,
            -1,
            records,
        )
    )
    whole += payload
    whole[CRC_START - 4 : CRC_START] = crc32c.crc32c(memoryview(whole)[CRC_START:]).to_bytes(4, "big")
    return bytes(whole)


@cache
def packed(count: int) -> bytes:
    """Return a number of the smallest records, compressed by zstd."""
    return compress(Codec.ZSTD, smallest(count))


def million(count: int, number: int = 0) -> bytes:
    """Return a batch with a number of the smallest records.

    :param number: number of the batch, which determines its offsets
    """
    return batch_of(packed(count), count, Codec.ZSTD, number * count)


@attack(1_000_000)
def bomb_fetch(count: int) -> Iterable[bytes]:
    """a Fetch response of ten batches with a million records each"""
    return capture([fetched(b"".join(million(count, number) for number in range(10)))])


@attack(1_000_000)
def bomb_produce(count: int) -> Iterable[bytes]:
    """a Produce request of ten batches with a million records each"""
    return capture([produced(b"".join(million(count, number) for number in range(10)))])


@attack(6)
def bomb_messages(count: int) -> Iterable[bytes]:
    """six Fetch responses, each of which has a batch with a million records"""
    return capture(fetched(million(1_000_000, number), number) for number in range(count))


@attack(20)
def bomb_values(count: int) -> Iterable[bytes]:
    """batches of each codec with one value of 64 megabytes, in twenty messages"""
    codecs = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    record = Record(0, 0, b"k", loose(64 * _MIB), ())
    batches = [build_batch([record], codec=codec) for codec in codecs[:count]]
    return capture(fetched(batches[number % len(batches)], number) for number in range(count))


@attack(20)
def bomb_announced(count: int) -> Iterable[bytes]:
    """batches that announce two billion records, and have one"""
    lying = batch_of(compress(Codec.ZSTD, smallest(1)), 0x7FFF_FFFF, Codec.ZSTD)
    return capture(fetched(lying, number) for number in range(count))


@attack(300_000)
def record_headers(count: int) -> Iterable[bytes]:
    """a record with hundreds of thousands of headers"""
    record = Record(0, 0, b"k", b"v", tuple(("h", b"") for _ in range(count)))
    return capture([produced(build_batch([record], codec=Codec.ZSTD))])


@attack(100_000)
def produce_batches(count: int) -> Iterable[bytes]:
    """a Produce request with a hundred thousand batches in one partition"""
    return capture([produced(build_batch([Record(0, 0, b"k", b"v", ())]) * count)])


@attack(100_000)
def empty_batches(count: int) -> Iterable[bytes]:
    """a Fetch response with batches of no record, and offsets that go backwards"""
    one = build_batch([], base_offset=(1 << 63) - 1) + build_batch([], base_offset=-(1 << 63))
    return capture([fetched(one * (count // 2 + 1))])


@attack(6)
def message_sets_nested(count: int) -> Iterable[bytes]:
    """messages of Kafka 0.8 in compressed messages in compressed messages"""
    inner = build_batch([Record(number, 0, b"k", b"v" * 10, ()) for number in range(1_000)], magic=1)
    for _ in range(count):
        inner = _wrapper(inner * 8)
    yield from capture(_old(inner, number) for number in range(3))


def _wrapper(message_set: bytes) -> bytes:
    """Return a message of magic 1 whose value is a message set compressed by gzip (KIP-32)."""
    value = compress(Codec.GZIP, message_set)
    body = struct.pack(">bbqii", 1, 1, 0, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body


def _old(message_set: bytes, number: int) -> Exchange:
    """Return a Produce request in version 2 with a message set."""
    data = struct.pack(">hii", 1, 1_000, 1) + struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    data += struct.pack(">iii", 1, 0, len(message_set)) + message_set
    head = struct.pack(">hhih", PRODUCE, 2, number, 3) + b"app"
    answer = struct.pack(">ii", number, 1) + struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    answer += struct.pack(">iihqq", 1, 0, 0, 0, -1) + bytes(4)
    return framed(head + data), framed(answer)


@attack(100_000)
def group_metadata(count: int) -> Iterable[bytes]:
    """records of __consumer_offsets, of as many groups"""

    def records() -> Iterator[Record]:
        for number in range(count):
            key = struct.pack(">hh", 1, 8) + b"g%07d" % number + b"\0\6orders" + bytes(4)
            value = struct.pack(">hqih", 3, number, -1, 0) + struct.pack(">q", 0)
            yield Record(number, 0, key, value, ())

    return capture([fetched(build_batch(records(), codec=Codec.ZSTD), topic="__consumer_offsets")])


@attack(30_000)
def record_times(count: int) -> Iterable[bytes]:
    """records from every age of the world, at offsets with large holes"""
    step, hole = (1 << 62) // count, (1 << 31) // count
    records = [Record(number * hole, number * step - (1 << 61), b"k", b"v", ()) for number in range(count)]
    return capture([fetched(build_batch(records, codec=Codec.LZ4))])
