from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable

import pytest
import zstandard

from captures.packets.feeds import Feed, FileFeed
from captures.packets.wrappings import unwrapped
from tests.captures.packets.kit import limited

NOISE = random.Random(4).randbytes(500_000)


class Pieces:
    """A feed that gives one piece at a time, and says when more is asked for than there is."""

    damage = ""

    def __init__(self, *pieces: bytes) -> None:
        self.left = list(pieces)

    def read(self, size: int) -> bytes:
        piece = self.left.pop(0)
        if len(piece) > size:
            self.left.insert(0, piece[size:])
        return piece[:size]

    def consumed(self) -> float | None:
        return None


def read_all(feed: Feed, size: int) -> bytes:
    return b"".join(iter(lambda: feed.read(size), b""))


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
@pytest.mark.parametrize("size", [999, 1 << 22])
def test_any_pieces_decompress_to_the_same(compress: Callable[[bytes], bytes], size: int) -> None:
    packed = compress(NOISE) + compress(bytes(1 << 21)) + compress(b"")
    pieces = [packed[at : at + 777] for at in range(0, len(packed), 777)]
    feed, how = unwrapped(Pieces(*pieces, b"", b""))
    assert how == compress.__module__.partition(".")[0].replace("tests", "zstd")
    assert read_all(feed, size) == NOISE + bytes(1 << 21)
    assert feed.damage == ""


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_what_is_flushed_is_given_before_more_is_asked_for(compress: Callable[[bytes], bytes]) -> None:
    feed, _ = unwrapped(Pieces(compress(NOISE)))
    got = b""
    while len(got) < len(NOISE):
        got += feed.read(len(NOISE))
    assert got == NOISE


@pytest.mark.parametrize(("compress", "lost"), [(gzip.compress, 1 << 14), (zstd, 0)])
def test_bytes_before_damage_are_good(compress: Callable[[bytes], bytes], lost: int) -> None:
    packed = bytearray(compress(NOISE))
    del packed[300_000:]
    feed, how = unwrapped(Pieces(bytes(packed), compress(NOISE), b""))
    got = read_all(feed, 1 << 16)
    good = 299_900 - lost  # what is decompressed together with the damage is lost
    assert got[:good] == NOISE[:good]
    assert feed.damage.startswith(f"{how} data is damaged")


def test_only_so_many_wrappings_are_taken_off() -> None:
    packed = NOISE
    for _ in range(5):
        packed = gzip.compress(packed, 1)
    feed, how = unwrapped(FileFeed(io.BytesIO(packed)))
    assert how == "gzip+gzip+gzip+gzip"
    assert gzip.decompress(read_all(feed, 1 << 20)) == NOISE


@pytest.mark.parametrize("wrappings", [1, 2])
def test_what_decompresses_to_far_too_much_is_stopped(wrappings: int) -> None:
    """Also if it is wrapped twice, and expands little each time."""
    packed = zeros = bytes(1 << 24)
    for _ in range(wrappings):
        packed = zstandard.compress(packed)
    with limited(file_ratio_from=1 << 20, file_ratio=100):
        feed, how = unwrapped(FileFeed(io.BytesIO(packed)))
        found = b"".join(iter(lambda: feed.read(1 << 20), b""))
        damage = feed.damage
    assert how == "+".join(["zstd"] * wrappings)
    assert 1 << 20 < len(found) < len(zeros)
    assert damage.startswith("stopped here: zstd data")
    assert damage.endswith("would go over the limit file_ratio (100 times)")
    with limited(file_ratio_from=1 << 20, file_ratio=1_000_000):
        feed, _ = unwrapped(FileFeed(io.BytesIO(packed)))
        assert b"".join(iter(lambda: feed.read(1 << 20), b"")) == zeros
    assert not feed.damage
