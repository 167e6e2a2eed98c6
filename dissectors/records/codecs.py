"""The compression codecs of record data, with the deviations of real clients.

Rules of this file:

* Output is bounded by the rest of a budget while it is produced: a bomb costs its limit, never its full size.
* :func:`inflate` never raises on malformed bytes: it returns what could be recovered and the problem.
* Libraries implement the codecs themselves; this file adds only Kafka's containers around them: the xerial
  block stream around snappy and the LZ4 header checksum of old clients (KIP-57).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import cramjam
import lz4.frame
import zstandard
from isal import igzip, igzip_lib, isal_zlib

from dissectors.budget import Budget, LimitReached, limit, message_budget
from dissectors.codec import Codec
from dissectors.errors import DecodeError

Buffer = bytes | bytearray | memoryview


class _SizeExceeded(Exception):  # noqa: N818  # internal to this file
    """The decompressed size exceeds the bound."""


class InflatedBytes(NamedTuple):
    """The recoverable part of decompressed bytes, and the problem with them (None if there is none).

    The offset of ``problem`` counts compressed bytes from the first byte passed in.
    """

    data: bytes
    problem: DecodeError | None = None


def bound_of(compressed: int, budget: Budget, within: str = "batch_bytes") -> tuple[int, str]:
    """Return the maximum decompressed size, and the name of the limit that sets it.

    :param compressed: number of compressed bytes
    :param budget: budget of the message that contains them
    :param within: the limit of this part alone
    """
    by_ratio = max(limit("batch_ratio_floor"), limit("batch_ratio") * compressed)
    left = budget.left("message_bytes")
    return min((left, "message_bytes"), (limit(within), within), (by_ratio, "batch_ratio"))


def inflate(
    codec: Codec | int,
    data: Buffer,
    budget: Budget | None = None,
    *,
    magic: int = 2,
    within: str = "batch_bytes",
) -> InflatedBytes:
    """Decompress the intact part of ``data``. Raises nothing; see :class:`InflatedBytes`.

    Output that would exceed a limit is dropped: the problem is a :class:`~dissectors.budget.LimitReached` then.

    :param budget: budget of the message that contains the data; None if the data is a message of its own
    :param within: name of the limit of this part alone
    """
    if not isinstance(data, bytes):
        data = bytes(data)
    if codec == Codec.NONE:
        return InflatedBytes(data)
    if not data:
        return InflatedBytes(b"", DecodeError("no compressed data", 0, truncated=True))
    budget = message_budget() if budget is None else budget
    bound, name = bound_of(len(data), budget, within)
    implementation = _IMPLEMENTATIONS.get(codec)
    if implementation is None:
        return InflatedBytes(b"", DecodeError(f"unknown compression codec {int(codec)}", 0))
    try:
        found = implementation.inflate(data, bound, magic)
    except _SizeExceeded:
        what = f"decompressing {len(data):,} bytes of {Codec(codec).label}"
        return InflatedBytes(b"", LimitReached(name, what, 0))
    budget.spend("message_bytes", len(found.data))
    return found


def compress(codec: Codec | int, data: Buffer, *, magic: int = 2) -> bytes:
    """Compress as Apache's Java client does: xerial snappy, independent LZ4 blocks without content size.

    :param magic: 0 writes the LZ4 header checksum that brokers before 0.10 require (KIP-57)
    :raises ValueError: unknown codec
    """
    data = bytes(data)
    if codec == Codec.NONE:
        return data
    implementation = _IMPLEMENTATIONS.get(codec)
    if implementation is None:
        raise ValueError(f"no compression codec {int(codec)}")
    return implementation.compress(data, magic)


class _Implementation(NamedTuple):
    """The two directions of a codec.

    :ivar inflate: called with compressed bytes, the maximum size of the output, and the magic; raises
        :class:`_SizeExceeded`
    :ivar compress: called with bytes and the magic
    """

    inflate: Callable[[bytes, int, int], InflatedBytes]
    compress: Callable[[bytes, int], bytes]


class _PerThread(threading.local):
    """zstd contexts: costly to create, and not to be shared between threads."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressor = zstandard.ZstdCompressor()


_PER_THREAD = _PerThread()


# --- gzip, LZ4 and zstd: streams of members ----------------------------------------------------------


class _StreamCodec(NamedTuple):
    """How to create and feed a library's decompressor object.

    A library drops decompressed output when it meets corrupt input, so after an error the stream is read again in small
    pieces to keep the intact part.

    :ivar first: input bytes per feed on the first attempt; None for all, if the library itself caps the output
    """

    name: str
    open: Callable[[], Any]
    feed: Callable[[Any, memoryview, int], bytes]
    magic: bytes
    errors: tuple[type[Exception], ...]
    first: int | None


_SMALL_PIECE = 512


def _inflate_stream(codec: _StreamCodec, data: bytes, bound: int) -> InflatedBytes:
    whole = _feed_members(codec, data, bound, codec.first or len(data))
    if whole.problem is None:
        return whole
    return _feed_members(codec, data, bound, _SMALL_PIECE)


def _feed_members(codec: _StreamCodec, data: bytes, bound: int, piece: int) -> InflatedBytes:
    view = memoryview(data)
    parts: list[bytes] = []
    total = pos = 0
    stream = codec.open()
    while pos < len(data):
        try:
            part = codec.feed(stream, view[pos : pos + piece], bound - total + 1)
        except codec.errors as error:
            # zstd's message about corrupt data depends on what the context has decompressed before
            why = "" if codec is _ZSTD else f": {error}"
            return InflatedBytes(b"".join(parts), DecodeError(f"corrupt {codec.name} data{why}", pos))
        pos = min(pos + piece, len(data))
        total += len(part)
        if total > bound:
            raise _SizeExceeded
        parts.append(part)
        if stream.eof:
            pos -= len(stream.unused_data or b"")
            if pos == len(data):
                return InflatedBytes(parts[0] if len(parts) == 1 else b"".join(parts))
            if not data.startswith(codec.magic, pos):
                extra = DecodeError(f"{len(data) - pos} bytes after the end of the {codec.name} data", pos)
                return InflatedBytes(b"".join(parts), extra)
            # Members may be tiny and many, and each hands its unread input back as a copy.
            piece = min(piece, 4096)
            stream = codec.open()
    short = DecodeError(f"{codec.name} data ends before its end mark", len(data), truncated=True)
    return InflatedBytes(b"".join(parts), short)


_GZIP = _StreamCodec(
    "gzip",
    lambda: isal_zlib.decompressobj(31),  # 31: gzip container only
    lambda stream, piece, room: stream.decompress(piece, room),
    Codec.GZIP.signature,
    (cast("type[Exception]", igzip_lib.IsalError),),  # the stubs call the class an instance
    None,
)
_LZ4 = _StreamCodec(
    "lz4",
    lz4.frame.LZ4FrameDecompressor,
    lambda stream, piece, room: stream.decompress(piece, max_length=room),
    Codec.LZ4.signature,
    (RuntimeError,),
    None,
)
# zstd's decompressor object has no output cap. A block turns at least 4 bytes into at most 128 KiB
# (RFC 8878 section 3.1.1.2), so one piece adds at most 16 MiB before the bound is checked.
_ZSTD = _StreamCodec(
    "zstd",
    lambda: _PER_THREAD.decompressor.decompressobj(),
    lambda stream, piece, _room: stream.decompress(piece),
    Codec.ZSTD.signature,
    (zstandard.ZstdError,),
    _SMALL_PIECE,
)


# --- zstd ---------------------------------------------------------------------------------------------


def _inflate_zstd(data: bytes, bound: int) -> InflatedBytes:
    try:
        size = zstandard.frame_content_size(data)
    except zstandard.ZstdError:
        return InflatedBytes(b"", DecodeError("corrupt zstd data: no frame header", 0))
    if size > bound:
        raise _SizeExceeded
    if not size:  # the library would return nothing, whatever frames follow
        return _inflate_stream(_ZSTD, data, bound)
    # Java's stream writer omits the content size (-1). A guess that holds for nearly all batches
    # saves the piecewise path, and costs only address space.
    room = size if size >= 0 else min(bound, 32 * len(data) + 4096)
    try:
        whole = _PER_THREAD.decompressor.decompress(data, max_output_size=room, allow_extra_data=False)
    except zstandard.ZstdError:
        return _inflate_stream(_ZSTD, data, bound)
    return InflatedBytes(whole)


# --- snappy -------------------------------------------------------------------------------------------

_XERIAL_MAGIC = Codec.SNAPPY.signature
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK = 32 * 1024


def _xerial(data: bytes) -> bytes:
    parts: list[Any] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _inflate_snappy(data: bytes, bound: int) -> InflatedBytes:
    """Decompress xerial's block stream, as written by Java, or raw snappy; the eight magic bytes tell them apart."""
    if data.startswith(_XERIAL_MAGIC):
        return _inflate_xerial(data, bound)
    try:
        return InflatedBytes(bytes(_snappy_block(data, bound)))
    except cramjam.DecompressionError as error:
        return InflatedBytes(b"", DecodeError(f"corrupt snappy data: {error}", 0))


def _snappy_block(block: Buffer, bound: int) -> Any:
    """Decompress raw snappy. It announces its size, so the bound is checked before anything is allocated."""
    if cramjam.snappy.decompress_raw_len(block) > bound:
        raise _SizeExceeded
    return cramjam.snappy.decompress_raw(block)


def _inflate_xerial(data: bytes, bound: int) -> InflatedBytes:
    """Decompress blocks of raw snappy, each after its int32 length.

    The two version numbers after the magic are ignored: some clients wrote them little-endian. The header
    is repeated where streams were concatenated (org.xerial.snappy.SnappyInputStream).
    """
    view = memoryview(data)
    parts: list[Any] = []
    total = pos = 0
    problem: DecodeError | None = None
    while pos < len(data):
        if data.startswith(_XERIAL_MAGIC, pos):
            pos += len(_XERIAL_HEADER)
            if pos > len(data):
                problem = DecodeError("xerial header is cut short", len(data), truncated=True)
            continue
        body = pos + 4
        size = int.from_bytes(view[pos:body], "big", signed=True)
        if body > len(data) or body + size > len(data):
            problem = DecodeError("xerial snappy block is cut short", pos, truncated=True)
            break
        if size < 0:
            problem = DecodeError(f"xerial snappy block of {size} bytes", pos)
            break
        try:
            block = _snappy_block(view[body : body + size], bound - total)
        except cramjam.DecompressionError as error:
            problem = DecodeError(f"corrupt snappy block: {error}", pos)
            break
        parts.append(block)
        total += len(block)
        pos = body + size
    return InflatedBytes(b"".join(parts), problem)


# --- LZ4 ----------------------------------------------------------------------------------------------

_LZ4_BROKEN_FROM = 0  # before KIP-57 the checksum ran from the frame magic ...
_LZ4_RIGHT_FROM = 4  # ... instead of from the descriptor after it


def _inflate_lz4(data: bytes, bound: int, magic: int) -> InflatedBytes:
    """Decompress a frame after correcting an old client's checksum, which is also a problem outside magic 0."""
    if not _has_broken_checksum(data):
        return _inflate_stream(_LZ4, data, bound)
    inflated = _inflate_stream(_LZ4, _with_lz4_checksum(data, _LZ4_RIGHT_FROM), bound)
    if magic == 0 or inflated.problem is not None:
        return inflated
    reason = f"lz4 header checksum of clients before 0.10 (KIP-57) with magic {magic}"
    return InflatedBytes(inflated.data, DecodeError(reason, _lz4_header_end(data)))


def _compress_lz4(data: bytes, magic: int) -> bytes:
    frame: bytes = lz4.frame.compress(data, block_linked=False, store_size=False)
    return _with_lz4_checksum(frame, _LZ4_BROKEN_FROM) if magic == 0 else frame


def _has_broken_checksum(data: bytes) -> bool:
    if len(data) < 5 or data[4] & 0x01:  # a dictionary ID: no Kafka client writes one
        return False
    end = _lz4_header_end(data)
    return (
        end < len(data)
        and data[end] == _lz4_checksum(data[_LZ4_BROKEN_FROM:end])
        and data[end] != _lz4_checksum(data[_LZ4_RIGHT_FROM:end])
    )


def _lz4_header_end(data: bytes) -> int:
    """Return the position of the header checksum byte: after magic, FLG, BD and any content size that FLG announces."""
    return 14 if data[4] & 0x08 else 6


def _with_lz4_checksum(data: bytes, start: int) -> bytes:
    end = _lz4_header_end(data)
    return data[:end] + bytes((_lz4_checksum(data[start:end]),)) + data[end + 1 :]


def _lz4_checksum(header: bytes) -> int:
    """Return the second byte of xxHash-32, seed 0, of fewer than 16 bytes (LZ4 frame format 1.6.3).

    The lz4 package does not expose its hash. Headers here have at most 14 bytes, so only the tail
    of the algorithm is needed, not its loop over stripes of 16 bytes.
    """
    mask = 0xFFFFFFFF
    p1, p2, p3, p4, p5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1

    def rotate(value: int, bits: int) -> int:
        value &= mask
        return value << bits | value >> 32 - bits

    words = len(header) & ~3
    state = p5 + len(header)
    for pos in range(0, words, 4):
        state = rotate(state + int.from_bytes(header[pos : pos + 4], "little") * p3, 17) * p4
    for byte in header[words:]:
        state = rotate(state + byte * p5, 11) * p1
    state &= mask
    state = (state ^ state >> 15) * p2 & mask
    state = (state ^ state >> 13) * p3 & mask
    return (state ^ state >> 16) >> 8 & 0xFF


_IMPLEMENTATIONS: dict[int, _Implementation] = {
    Codec.GZIP: _Implementation(
        lambda data, bound, _magic: _inflate_stream(_GZIP, data, bound),
        lambda data, _magic: igzip.compress(data, 2, mtime=0),
    ),
    Codec.SNAPPY: _Implementation(
        lambda data, bound, _magic: _inflate_snappy(data, bound), lambda data, _magic: _xerial(data)
    ),
    Codec.LZ4: _Implementation(_inflate_lz4, _compress_lz4),
    Codec.ZSTD: _Implementation(
        lambda data, bound, _magic: _inflate_zstd(data, bound),
        lambda data, _magic: _PER_THREAD.compressor.compress(data),
    ),
}
