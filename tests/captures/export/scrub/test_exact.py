"""Compression to an exact size: with every codec, every size from the best compression up can be reached."""

from __future__ import annotations

import gzip

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.export.scrub.exact import compress_exactly
from captures.export.scrub.lz4_exact import compress as lz4_compress
from captures.export.scrub.snappy_exact import compress as snappy_compress
from dissectors.records import Codec, compress, inflate

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]

#: blanked records: varied structure, and runs of filler
blanked = st.lists(
    st.tuples(st.binary(min_size=5, max_size=12), st.integers(0, 120)), min_size=1, max_size=40
).map(lambda parts: b"".join(head + b"x" * run for head, run in parts))


def by_a_library(codec: Codec, data: bytes) -> bytes:
    """Decompress with the libraries of Python clients."""
    match codec:
        case Codec.GZIP:
            return gzip.decompress(data)
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.decompress_raw(data))
        case Codec.LZ4:
            return lz4.frame.decompress(data)
        case _:
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)


@pytest.mark.slow
@given(blanked, st.integers(0, 400), st.sampled_from(CODECS))
@settings(max_examples=300, deadline=None)
def test_every_size_beyond_that_of_ordinary_compression_is_met(
    plain: bytes, extra: int, codec: Codec
) -> None:
    size = len(compress(codec, plain)) + extra
    made = compress_exactly(codec, plain, size)
    assert made is not None
    used, data = made
    assert len(data) == size
    assert inflate(used, data) == (plain, None)
    assert by_a_library(used, data) == plain


def test_every_size_is_met_where_the_block_ends_in_a_single_byte() -> None:
    plain = b"\0\0\0\0\1" + b"x" * 38 + b"\0\0\0\2\0" + b"x" * 38
    least = len(compress(Codec.SNAPPY, plain))
    for size in range(least, least + 200):
        made = compress_exactly(Codec.SNAPPY, plain, size)
        assert made is not None
        used, data = made
        assert len(data) == size
        assert inflate(used, data) == (plain, None)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_codecs_with_room_for_padding_never_change(codec: Codec) -> None:
    plain = b"head" + b"x" * 5000
    for extra in range(60):
        made = compress_exactly(codec, plain, 120 + extra)
        assert made is not None
        assert made[0] is codec


@pytest.mark.slow
@pytest.mark.parametrize("exact", [snappy_compress, lz4_compress])
def test_sizes_up_to_no_compression_at_all(exact) -> None:
    plain = b"".join(bytes((n, n * 7 & 255)) + b"x" * (n * 5 % 90) for n in range(200))
    codec = Codec.SNAPPY if exact is snappy_compress else Codec.LZ4
    least = next(size for size in range(len(plain)) if exact(plain, size) is not None)
    missed = []
    for size in range(least, len(plain), 41):
        data = exact(plain, size)
        if data is None:
            missed.append(size)
        else:
            assert by_a_library(codec, data) == plain
    assert missed == []


def test_several_lz4_blocks() -> None:
    plain = b"".join(n.to_bytes(4, "big") + b"x" * 96 for n in range(3000))  # five blocks of 64 KiB
    for size in (40_000, 123_457, 250_001, len(plain)):
        data = lz4_compress(plain, size)
        assert data is not None
        assert len(data) == size
        assert lz4.frame.decompress(data) == plain


def test_lz4_of_magic_0_has_the_checksum_of_old_clients() -> None:
    plain = b"x" * 500
    made = compress_exactly(Codec.LZ4, plain, 100, magic=0)
    assert made is not None
    # KIP-57: the header checksum of old clients covers the frame magic too
    assert made[1][:7] == compress(Codec.LZ4, b"", magic=0)[:7] != compress(Codec.LZ4, b"")[:7]
    assert inflate(Codec.LZ4, made[1], magic=0) == (plain, None)


def test_another_codec_takes_over_where_one_is_too_long() -> None:
    plain = b"x" * 20_000
    assert snappy_compress(plain, 60) is None  # a copy of 64 bytes takes three
    made = compress_exactly(Codec.SNAPPY, plain, 60)
    assert made is not None
    assert made[0] is Codec.ZSTD
    assert inflate(*made) == (plain, None)


def test_what_no_codec_can_do() -> None:
    assert compress_exactly(Codec.GZIP, bytes(range(256)), 20) is None
