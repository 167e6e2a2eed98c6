"""Compressed bytes: gzip, snappy (raw and xerial), LZ4 (also with the checksum of old clients), zstd.

The first byte of an input selects codec and magic, the second the limits; the rest is compressed data.

* :func:`inflate` never raises, and returns no more than its limits allow; :func:`decompress` returns the same or
  raises the same problem.
* The output of a truncated stream and that of the whole stream agree up to the shorter one. (A corrupt stream may give
  less than one truncated before the corruption, because libraries return nothing of the corrupt piece.)
* Streams that zlib, the other LZ4 and the other zstd library accept as complete give the same bytes here.
* Bytes survive compression and decompression; with a limit below their size they are refused as a bomb.
* Memory is bounded for each input, whatever sizes it announces (:class:`fuzz.target.Target`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import cramjam
import lz4.frame
import zstandard

from dissectors.budget import LimitReached, changed, message_budget
from dissectors.codec import KNOWN_CODECS
from dissectors.records import Codec, InflatedBytes, compress, inflate
from dissectors.records.codecs import bound_of
from fuzz.target import Input, check

LONGEST = 4096
SECONDS = 5

_LIMITS = (
    {"batch_bytes": 1 << 20, "batch_ratio_floor": 1 << 16},
    {"batch_bytes": 1 << 14, "batch_ratio_floor": 1 << 10, "batch_ratio": 10},
    {"batch_bytes": 64, "batch_ratio_floor": 64},
)


def run(data: bytes) -> None:
    """Decompress the input, and compress it as plain data."""
    given = Input(data)
    chosen, which = given.number(), given.number()
    codec, magic = Codec(chosen & 7), (chosen >> 3) % 3
    limits, rest = _LIMITS[which % 3], given.rest()
    with changed(**limits):
        whole = inflated(codec, rest, magic)
        part = inflated(codec, rest[: zlib.crc32(rest) % (len(rest) + 1)], magic)
    if not isinstance(whole.problem, LimitReached) and codec:
        shorter, longer = sorted((whole.data, part.data), key=len)
        check(longer.startswith(shorter), "a cut stream gives other bytes")
    compare(codec, rest, whole)
    there_and_back(codec, rest, magic)


def inflated(codec: Codec, data: bytes, magic: int) -> InflatedBytes:
    """Decompress both ways."""
    found = inflate(codec, data, magic=magic)
    if codec is not Codec.NONE:
        check(
            len(found.data) <= bound_of(len(data), message_budget())[0],
            "bytes",
            len(found.data),
            "of",
            len(data),
        )
    if found.problem is not None:
        check(found.problem.reason, "a problem without a reason")
        check(0 <= found.problem.offset <= len(data), "a problem at", found.problem.offset)
    check(not isinstance(found.problem, LimitReached) or not found.data, "a bomb that gives bytes")
    return found


def compare(codec: Codec, data: bytes, found: InflatedBytes) -> None:
    """Compare with other libraries if they accept the bytes as one complete stream."""
    if isinstance(found.problem, LimitReached):
        return
    other = _BY_OTHERS[codec](data, _LIMITS[0]["batch_bytes"]) if codec in _BY_OTHERS else None
    if other is not None:
        check(found.problem is None, "others take it, not we:", found.problem)
        check(found.data == other, "others find other bytes")


def _zlib(data: bytes, most: int) -> bytes | None:
    stream = zlib.decompressobj(31)
    try:
        made = stream.decompress(data, most)
    except zlib.error:
        return None
    return made if stream.eof and not stream.unused_data else None


def _lz4(data: bytes, most: int) -> bytes | None:
    try:
        made = (
            bytes(cramjam.lz4.decompress(data))
            if lz4.frame.get_frame_info(data)["content_size"] < most
            else None
        )
    except (RuntimeError, cramjam.DecompressionError, ValueError):
        return None
    return made


def _zstd(data: bytes, most: int) -> bytes | None:
    try:
        size = zstandard.get_frame_parameters(data).content_size
        made = bytes(cramjam.zstd.decompress(data)) if size < most else None
    except (zstandard.ZstdError, cramjam.DecompressionError):
        return None
    # cramjam returns nothing for some corrupt frames, which zstd itself refuses
    return made if made is not None and len(made) >= size else None


_BY_OTHERS = {Codec.GZIP: _zlib, Codec.LZ4: _lz4, Codec.ZSTD: _zstd}


def there_and_back(codec: Codec, data: bytes, magic: int) -> None:
    """Check that bytes survive compression and decompression."""
    if not codec.known or not data:
        return
    packed = compress(codec, data, magic=magic)
    check(inflate(codec, packed, magic=magic) == (data, None), "other bytes come back")
    if codec is not Codec.NONE:
        with changed(batch_bytes=len(data) - 1):
            found = inflate(codec, packed, magic=magic)
        check(isinstance(found.problem, LimitReached), "more than the limit is not refused:", found.problem)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield streams of every codec, with and without sizes, checksums and further members, and bombs."""
    text = b"".join(b"record %d of a batch; " % number for number in range(40))
    for codec in KNOWN_CODECS[1:]:
        for magic in (0, 2):
            yield f"{codec.label}-{magic}", head(codec, magic) + compress(codec, text, magic=magic)
        zeros = compress(codec, bytes(1 << 15))
        yield f"{codec.label}-zeros", head(codec) + zeros
        yield f"{codec.label}-bomb", head(codec)[:1] + b"\1" + zeros
        yield f"{codec.label}-empty", head(codec) + compress(codec, b"")
    yield "gzip-members", head(Codec.GZIP) + compress(Codec.GZIP, text[:50]) + compress(Codec.GZIP, text[50:])
    yield "snappy-raw", head(Codec.SNAPPY) + bytes(cramjam.snappy.compress_raw(text))
    size = lz4.frame.compress(text, store_size=True, content_checksum=True, block_checksum=True)
    yield "lz4-checksums", head(Codec.LZ4) + size
    yield "lz4-linked", head(Codec.LZ4) + lz4.frame.compress(text * 9, block_linked=True, block_size=4)
    yield "zstd-checksum", head(Codec.ZSTD) + zstandard.ZstdCompressor(write_checksum=True).compress(text)
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    yield "zstd-no-size", head(Codec.ZSTD) + stream.compress(text) + stream.flush()
    yield "none", head(Codec.NONE) + text[:30]
    yield "unknown", head(Codec.UNKNOWN_5) + text[:30]


def head(codec: Codec, magic: int = 2) -> bytes:
    """Return the first bytes of an input."""
    return bytes((codec | magic << 3, 0))
