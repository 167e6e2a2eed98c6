"""Compression to an exact size: blanked records must fill the bytes of the original records.

Blanked data compresses better than the original, so a codec's output has to be lengthened and still be readable by
every client. Padding after the end is not used, because clients treat it differently.

* gzip: empty stored blocks (RFC 1951 section 3.2.4), five bytes each; a comment in the header for the rest.
* zstd: empty raw blocks (RFC 8878 section 3.1.1.2), three bytes each; a content checksum, or a dictionary ID of 0,
  which means none, for the rest.
* snappy, LZ4: copies of earlier bytes are written as literals again, until the size matches.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import zstandard

from captures.export.scrub import lz4_exact, snappy_exact
from dissectors.records import Codec

_FCOMMENT = 0x10  # RFC 1952 section 2.3.1
_EMPTY_STORED = b"\x00\x00\x00\xff\xff"
_EMPTY_RAW = b"\x00\x00\x00"
_ZSTD_LEVELS = (3, 19)


def compress_exactly(codec: Codec, plain: bytes, size: int, *, magic: int = 2) -> tuple[Codec, bytes] | None:
    """Compress to exactly ``size`` bytes, with another codec of the same magic if this one cannot.

    :returns: the codec used, and the bytes; None if no codec compresses to that size
    """
    # an LZ4 frame of magic 0 has the checksum of old clients, which newer ones reject: it replaces no other codec
    others = (
        other for other in _COMPRESSORS if other.oldest_magic <= magic and (magic or other is not Codec.LZ4)
    )
    for choice in dict.fromkeys((codec, *others)):
        packed = _COMPRESSORS[choice](plain, size, magic) if choice in _COMPRESSORS else None
        if packed is not None:
            assert len(packed) == size
            return choice, packed
    return None


def _gzip(plain: bytes, size: int) -> bytes | None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(plain) + deflate.flush()
    extra = size - len(body) - 18
    if extra < 0:
        return None
    blocks, rest = divmod(extra, len(_EMPTY_STORED))
    comment = b" " * (rest - 1) + b"\0" if rest else b""
    header = bytes((0x1F, 0x8B, 8, _FCOMMENT if rest else 0, 0, 0, 0, 0, 0, 255))
    trailer = zlib.crc32(plain).to_bytes(4, "little") + (len(plain) & 0xFFFFFFFF).to_bytes(4, "little")
    return header + comment + _EMPTY_STORED * blocks + body + trailer


def _zstd(plain: bytes, size: int) -> bytes | None:
    for level in _ZSTD_LEVELS:
        for checksum in (False, True):
            frame = zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(plain)
            extra = size - len(frame)
            if extra >= 0 and extra % len(_EMPTY_RAW) == 0:
                return _lengthened(frame, extra // len(_EMPTY_RAW), 0)
        # of a remainder of 0, 1 or 2 bytes, the four bytes of the checksum handle one case; a dictionary ID the other
        frame = zstandard.ZstdCompressor(level=level, write_checksum=False).compress(plain)
        extra = size - len(frame)
        if extra >= 0:
            blocks, rest = divmod(extra, len(_EMPTY_RAW))
            return _lengthened(frame, blocks, rest)
    return None


def _lengthened(frame: bytes, blocks: int, dictionary_bytes: int) -> bytes:
    """Add empty blocks, and a dictionary ID field of 0, 1 or 2 bytes, to a frame that has none."""
    descriptor = frame[4]
    before_id = 5 if descriptor & 0x20 else 6  # a single segment has no window descriptor
    size_field = (1 if descriptor & 0x20 else 0, 2, 4, 8)[descriptor >> 6]
    header = frame[:4] + bytes((descriptor | dictionary_bytes,)) + frame[5:before_id]
    content = before_id + size_field
    return header + bytes(dictionary_bytes) + frame[before_id:content] + _EMPTY_RAW * blocks + frame[content:]


_COMPRESSORS: dict[Codec, Callable[[bytes, int, int], bytes | None]] = {
    Codec.ZSTD: lambda plain, size, _magic: _zstd(plain, size),
    Codec.GZIP: lambda plain, size, _magic: _gzip(plain, size),
    Codec.LZ4: lambda plain, size, magic: lz4_exact.compress(plain, size, magic=magic),
    Codec.SNAPPY: lambda plain, size, _magic: snappy_exact.compress(plain, size),
}
"""The best compressors first. A codec that is missing here is replaced by one of these."""
