"""Codecs: containers as written by real clients, recovery of damaged ones, and decompression bombs."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.budget import LimitReached, message_budget
from dissectors.budget import changed as limits
from dissectors.codec import KNOWN_CODECS
from dissectors.errors import DecodeError
from dissectors.records import Codec, codecs, compress, inflate

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
PLAIN = b"".join(b"%d:value;" % n for n in range(40_000))  # 500 KB: several blocks of every codec


def decompress(codec: Codec | int, data: bytes | memoryview, *, magic: int = 2) -> bytes:
    inflated = inflate(codec, data, magic=magic)
    if inflated.problem is not None:
        raise inflated.problem
    return inflated.data


XERIAL_HEADER = bytes.fromhex("82534e415050590000000001 00000001")  # as written by org.xerial.snappy


@settings(deadline=None)
@given(st.sampled_from(KNOWN_CODECS), st.binary(max_size=300) | st.just(PLAIN), st.sampled_from([0, 1, 2]))
def test_round_trip(codec: Codec, data: bytes, magic: int) -> None:
    assert decompress(codec, compress(codec, data, magic=magic), magic=magic) == data


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(codec: int) -> None:
    with pytest.raises(DecodeError, match=f"unknown compression codec {codec}"):
        decompress(codec, b"abc")
    with pytest.raises(ValueError, match="no compression codec"):
        compress(codec, b"abc")


def test_codec_names_cover_three_bits() -> None:
    assert [codec.label for codec in KNOWN_CODECS] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert len(Codec) == 8


def test_takes_memoryviews() -> None:
    for codec in CODECS:
        assert decompress(codec, memoryview(compress(codec, memoryview(PLAIN)))) == PLAIN


# --- foreign encoders ---------------------------------------------------------------------------------

FOREIGN: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "gzip of the standard library": (Codec.GZIP, gzip.compress),
    "gzip, two members": (Codec.GZIP, lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:])),
    "raw snappy (librdkafka)": (Codec.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4, linked blocks, content size and checksum": (
        Codec.LZ4,
        lambda data: lz4.frame.compress(data, content_checksum=True, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
    ),
    "lz4, two frames": (Codec.LZ4, lambda data: lz4.frame.compress(data[:7]) + lz4.frame.compress(data[7:])),
    "zstd with content size": (Codec.ZSTD, zstandard.ZstdCompressor(level=19).compress),
    "zstd without content size (Java)": (
        Codec.ZSTD,
        zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress,
    ),
    "zstd, two frames": (
        Codec.ZSTD,
        lambda data: zstandard.compress(data[:7]) + zstandard.compress(data[7:]),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_encoders(name: str) -> None:
    codec, encode = FOREIGN[name]
    assert decompress(codec, encode(PLAIN)) == PLAIN
    assert decompress(codec, encode(PLAIN[:20])) == PLAIN[:20]


def test_zstd_that_shrinks_more_than_the_first_guess() -> None:
    squeezed = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(900_000))
    assert decompress(Codec.ZSTD, squeezed) == bytes(900_000)


def test_zstd_frames_behind_an_empty_one() -> None:
    """The library treats a first frame of size 0 as the end, and does not read further."""
    empty, more = (zstandard.ZstdCompressor().compress(data) for data in (b"", PLAIN))
    assert decompress(Codec.ZSTD, empty) == b""
    assert decompress(Codec.ZSTD, empty + more) == PLAIN


def test_raw_snappy_literal() -> None:
    # Snappy format description: length 5 as varint, literal tag (5 - 1) << 2, bytes.
    assert decompress(Codec.SNAPPY, b"\x05\x10hello") == b"hello"


def test_xerial_with_little_endian_version_numbers() -> None:
    # Redpanda wrote them so (kafka-python issue 2414).
    header = XERIAL_HEADER[:8] + bytes.fromhex("0100000001000000")
    assert decompress(Codec.SNAPPY, header + b"\x00\x00\x00\x07\x05\x10hello") == b"hello"


def test_xerial_header_in_between() -> None:
    stream = XERIAL_HEADER + b"\x00\x00\x00\x07\x05\x10hello"
    assert decompress(Codec.SNAPPY, stream + stream) == b"hellohello"


def test_xerial_is_written_in_blocks_of_32_kib() -> None:
    stream = compress(Codec.SNAPPY, bytes(100_000))
    assert stream.startswith(XERIAL_HEADER)
    first = int.from_bytes(stream[16:20], "big")
    assert cramjam.snappy.decompress_raw_len(stream[20 : 20 + first]) == 32 * 1024


# --- KIP-57: the LZ4 header checksum ------------------------------------------------------------------

# kafka-python to Kafka 0.8.2.2 wrote 0x1a where 0x82 is right (capture 30_k0822_kp_api0.8.2_lz4; 0x82 is
# what Java 3.9 wrote over the same descriptor in 27_k391_java_idem).
OLD_HEADER = bytes.fromhex("04224d1860401a")
NEW_HEADER = bytes.fromhex("04224d18604082")


def test_lz4_checksum_as_both_generations_write_it() -> None:
    assert compress(Codec.LZ4, b"abc", magic=0)[:7] == OLD_HEADER
    assert compress(Codec.LZ4, b"abc", magic=1)[:7] == NEW_HEADER


def test_lz4_library_refuses_the_old_checksum() -> None:
    with pytest.raises(RuntimeError, match="headerChecksum_invalid"):
        lz4.frame.decompress(compress(Codec.LZ4, b"abc", magic=0))


def test_lz4_old_checksum_is_fine_with_magic_0_and_a_problem_later() -> None:
    old = compress(Codec.LZ4, b"abc", magic=0)
    assert inflate(Codec.LZ4, old, magic=0) == (b"abc", None)
    data, problem = inflate(Codec.LZ4, old, magic=1)
    assert data == b"abc"
    assert problem is not None
    assert "KIP-57" in problem.reason
    assert problem.offset == 6


def test_lz4_right_checksum_with_magic_0() -> None:
    assert decompress(Codec.LZ4, compress(Codec.LZ4, b"abc", magic=1), magic=0) == b"abc"


def test_lz4_checksum_that_is_neither() -> None:
    broken = NEW_HEADER[:-1] + b"\x00" + compress(Codec.LZ4, b"abc")[7:]
    for magic in (0, 1, 2):
        with pytest.raises(DecodeError, match="headerChecksum_invalid"):
            decompress(Codec.LZ4, broken, magic=magic)


@pytest.mark.parametrize("size", [1, 5, 200_000])
def test_lz4_old_checksum_with_content_size(size: int) -> None:
    right = lz4.frame.compress(bytes(size), store_size=True)
    assert right[14] == codecs._lz4_checksum(right[4:14])
    old = right[:14] + bytes((codecs._lz4_checksum(right[:14]),)) + right[15:]
    assert decompress(Codec.LZ4, old, magic=0) == bytes(size)


# --- broken streams keep what was sound ---------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_truncation_is_told_and_keeps_the_start(codec: Codec) -> None:
    stream = compress(codec, PLAIN)
    data, problem = inflate(codec, stream[: len(stream) * 2 // 3])
    assert problem is not None
    assert problem.truncated
    assert len(data) > 10_000
    assert PLAIN.startswith(data)
    with pytest.raises(DecodeError):
        decompress(codec, stream[:-1])


@pytest.mark.parametrize("codec", CODECS)
def test_corruption_keeps_the_start(codec: Codec) -> None:
    stream = bytearray(compress(codec, PLAIN))
    half = len(stream) // 2
    stream[half:] = b"\xff" * (len(stream) - half)
    data, problem = inflate(codec, bytes(stream))
    assert problem is not None
    assert not isinstance(problem, LimitReached)
    assert len(data) > 10_000
    # Data decoded before the damage is right; the content of the damaged block is undefined.
    assert data[:10_000] == PLAIN[:10_000]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bytes_after_the_end(codec: Codec) -> None:
    stream = compress(codec, PLAIN)
    data, problem = inflate(codec, stream + b"left over")
    assert data == PLAIN
    assert problem is not None
    assert problem.reason.startswith("9 bytes after the end")
    assert problem.offset == len(stream)


@pytest.mark.parametrize("codec", CODECS)
def test_empty_and_foreign_bytes(codec: Codec) -> None:
    for data in (b"", b"\xff", b"not compressed at all"):
        plain, problem = inflate(codec, data)
        assert plain == b""
        assert problem is not None


@settings(deadline=None)
@given(st.sampled_from(CODECS), st.data())
def test_mutations_only_give_problems(codec: Codec, draw: st.DataObject) -> None:
    stream = bytearray(compress(codec, PLAIN[:3000]))
    for _ in range(draw.draw(st.integers(1, 4))):
        stream[draw.draw(st.integers(0, len(stream) - 1))] = draw.draw(st.integers(0, 255))
    data, problem = inflate(codec, bytes(stream))
    assert problem is None or problem.reason
    assert len(data) <= codecs.bound_of(len(stream), message_budget())[0]


@settings(deadline=None)
@given(st.sampled_from(CODECS), st.binary(max_size=100), st.sampled_from([0, 2]))
def test_noise_only_gives_problems(codec: Codec, noise: bytes, magic: int) -> None:
    for prefix in (b"", XERIAL_HEADER, NEW_HEADER, OLD_HEADER, compress(codec, b"x")[:10]):
        inflate(codec, prefix + noise, magic=magic)


# --- bombs --------------------------------------------------------------------------------------------

ZEROS = 64 << 20


def _chunks(feed: Callable[[bytes], bytes], finish: Callable[[], bytes]) -> bytes:
    return b"".join([*(feed(bytes(1 << 20)) for _ in range(ZEROS >> 20)), finish()])


def gzip_bomb() -> bytes:
    from isal import isal_zlib

    packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, 31)
    return _chunks(packer.compress, packer.flush)


def lz4_bomb() -> bytes:
    packer = lz4.frame.LZ4FrameCompressor()
    return packer.begin() + _chunks(packer.compress, packer.flush)


def zstd_bomb() -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return _chunks(packer.compress, packer.flush)


def xerial_bomb() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
    return XERIAL_HEADER + (len(block).to_bytes(4, "big") + block) * (ZEROS >> 20)


BOMBS = {
    "gzip": (Codec.GZIP, gzip_bomb),
    "lz4": (Codec.LZ4, lz4_bomb),
    "zstd": (Codec.ZSTD, zstd_bomb),
    "zstd that says so": (
        Codec.ZSTD,
        lambda: b"\x28\xb5\x2f\xfd\xa0" + (1 << 31).to_bytes(4, "little") + b"\x01",
    ),
    "xerial": (Codec.SNAPPY, xerial_bomb),
    "raw snappy that says so": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x07\x00"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_costs_its_limit_only(name: str) -> None:
    codec, make = BOMBS[name]
    bomb = make()
    tracemalloc.start()
    try:
        with limits(batch_bytes=4 << 20):
            data, problem = inflate(codec, bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(problem, LimitReached)
    assert problem.limit in ("batch_bytes", "batch_ratio")
    assert data == b""
    # One piece of zstd input may add 16 MiB before the bound is looked at.
    assert peak < 30 << 20


def test_ratio_counts_above_its_floor_only() -> None:
    stream = compress(Codec.ZSTD, bytes(500_000))
    assert decompress(Codec.ZSTD, stream) == bytes(500_000)
    with limits(batch_ratio_floor=1000), pytest.raises(LimitReached, match="batch_ratio"):
        decompress(Codec.ZSTD, stream)
    with pytest.raises(LimitReached, match=r"batch_ratio \(1,000 times\)"):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, bytes(2_000_000)))


def test_limits_bound() -> None:
    with limits(batch_bytes=1000, batch_ratio=10, batch_ratio_floor=50):
        bounds = [codecs.bound_of(size, message_budget()) for size in (0, 5, 6, 100, 101)]
    assert [bound for bound, _ in bounds] == [50, 50, 60, 1000, 1000]
    assert [name for _, name in bounds] == ["batch_ratio"] * 3 + ["batch_bytes"] * 2


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_message_has_left_bounds_a_part(codec: Codec) -> None:
    stream = compress(codec, PLAIN)
    with limits(message_bytes=2 * len(PLAIN) + 10):
        budget = message_budget()
        assert inflate(codec, stream, budget) == inflate(codec, stream, budget) == (PLAIN, None)
        data, problem = inflate(codec, stream, budget)
        assert inflate(codec, stream) == (PLAIN, None)
    assert data == b""
    assert isinstance(problem, LimitReached)
    assert problem.limit == "message_bytes"
    assert budget.left("message_bytes") == 10


@pytest.mark.parametrize("codec", CODECS)
def test_exactly_the_limit_is_allowed(codec: Codec) -> None:
    stream = compress(codec, PLAIN)
    with limits(batch_bytes=len(PLAIN)):
        assert decompress(codec, stream) == PLAIN
    with limits(batch_bytes=len(PLAIN) - 1), pytest.raises(LimitReached):
        decompress(codec, stream)


@pytest.mark.slow
def test_many_tiny_members_do_not_cost_their_square() -> None:
    # 20 bytes each; reading the rest of 2 MB anew for each of 100,000 would copy 100 GB.
    member = gzip.compress(b"", mtime=0)
    assert decompress(Codec.GZIP, member * 100_000) == b""


def test_threads_do_not_share_zstd_contexts() -> None:
    streams = [compress(Codec.ZSTD, PLAIN[n : n + 50_000]) for n in range(0, 400_000, 50_000)]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(20):
            plain = decompress(Codec.ZSTD, streams[index])
            wrong.extend([index] * (plain != PLAIN[index * 50_000 : (index + 1) * 50_000]))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(streams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
