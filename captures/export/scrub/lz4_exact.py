"""LZ4 frames of an exact size (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md and Frame_format.md).

A frame here holds blocks of at most 64 KiB, each compressed or stored. To lengthen a frame, whole blocks are stored; in
one of the remaining blocks, matches are written as literals, the last of them in part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import lz4.block
import lz4.frame
import msgspec

from dissectors.records import Codec
from dissectors.records import compress as compress_records

_BLOCK = 64 * 1024
_STORED = 1 << 31
_MIN_MATCH = 4
_END_MARK = bytes(4)
_PARTIAL = 64  # matches tried for the last few bytes
_MOST_OF_MATCH = 600


class _Frame(NamedTuple):
    """The header and trailer around the blocks."""

    header: bytes
    trailer: bytes


def compress(plain: bytes, size: int, *, magic: int = 2) -> bytes | None:
    """Compress to an LZ4 frame of ``size`` bytes; None if it cannot be that short.

    :param magic: 0 has the header checksum of old clients (KIP-57)
    """
    chunks = [plain[start : start + _BLOCK] for start in range(0, len(plain), _BLOCK)]
    packed = [
        lz4.block.compress(chunk, mode="high_compression", compression=9, store_size=False)
        for chunk in chunks
    ]
    blocks = [
        min((_with_length(block), _stored(chunk)), key=len)
        for chunk, block in zip(chunks, packed, strict=True)
    ]
    for frame in _frames(plain, magic):
        extra = size - sum(map(len, blocks)) - len(frame.header) - len(frame.trailer)
        if extra < 0:
            return None
        made = _grown(chunks, packed, blocks, extra)
        if made is not None:
            return b"".join((frame.header, *made, frame.trailer))
    return None


def _frames(plain: bytes, magic: int) -> Iterator[_Frame]:
    """Yield possible headers and trailers of a frame, the shortest first."""
    yield _Frame(compress_records(Codec.LZ4, b"", magic=magic)[:7], _END_MARK)
    if magic == 0:
        return
    checked = lz4.frame.compress(plain, block_linked=False, store_size=False, content_checksum=True)
    yield _Frame(checked[:7], checked[-8:])
    sized = lz4.frame.compress(plain, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
    yield _Frame(sized[:15], _END_MARK)


def _with_length(block: bytes) -> bytes:
    return len(block).to_bytes(4, "little") + block


def _stored(chunk: bytes) -> bytes:
    return (len(chunk) | _STORED).to_bytes(4, "little") + chunk


def _grown(chunks: list[bytes], packed: list[bytes], blocks: list[bytes], extra: int) -> list[bytes] | None:
    """Return blocks that are ``extra`` bytes longer, None if that is impossible."""
    made = list(blocks)
    left = []
    for index, chunk in enumerate(chunks):
        growth = 4 + len(chunk) - len(made[index])
        if 0 < growth <= extra:
            made[index] = _stored(chunk)
            extra -= growth
        else:
            left.append(index)
    if not extra:
        return made
    for index in left:
        if len(made[index]) == 4 + len(packed[index]):
            longer = _Block.parse(packed[index]).grown(extra)
            if longer is not None:
                made[index] = _with_length(longer.encoded(chunks[index]))
                return made
    return None


class _Sequence(msgspec.Struct):
    """Literals, then a match; the last sequence of a block has no match (``match`` 0)."""

    literals: int
    match: int
    offset: int

    @property
    def size(self) -> int:
        size = 1 + _extension(self.literals) + self.literals
        return size if not self.match else size + 2 + _extension(self.match - _MIN_MATCH)


def _extension(length: int) -> int:
    """Return the number of bytes that a length takes beyond its half of the token."""
    return 0 if length < 15 else 1 + (length - 15) // 255


class _Block:
    """A block as sequences."""

    def __init__(self, sequences: list[_Sequence]) -> None:
        self._sequences = sequences

    @classmethod
    def parse(cls, data: bytes) -> _Block:
        """Parse a block that is known to be valid."""
        sequences = []
        pos = 0
        while pos < len(data):
            token = data[pos]
            literals, pos = _read_length(data, pos + 1, token >> 4)
            pos += literals
            if pos == len(data):
                sequences.append(_Sequence(literals, 0, 0))
                break
            offset = int.from_bytes(data[pos : pos + 2], "little")
            match, pos = _read_length(data, pos + 2, token & 15)
            sequences.append(_Sequence(literals, match + _MIN_MATCH, offset))
        return cls(sequences)

    def grown(self, extra: int) -> _Block | None:
        """Return a block that decodes to the same bytes and is ``extra`` bytes longer, or None."""
        sequences = [_Sequence(one.literals, one.match, one.offset) for one in self._sequences]
        while extra and len(sequences) > 1:
            before, last = sequences[-2:]
            joined = _Sequence(before.literals + before.match + last.literals, 0, 0)
            growth = joined.size - before.size - last.size
            if growth > extra:
                break
            sequences[-2:] = [joined]
            extra -= growth
        if extra and not _shorten(sequences, extra):
            return None
        return _Block(sequences)

    def encoded(self, plain: bytes) -> bytes:
        """Return the bytes of the block."""
        parts = []
        start = 0
        for sequence in self._sequences:
            match = sequence.match - _MIN_MATCH if sequence.match else 0
            parts.append(bytes((min(sequence.literals, 15) << 4 | min(match, 15),)))
            parts.append(_length_bytes(sequence.literals))
            parts.append(plain[start : start + sequence.literals])
            if sequence.match:
                parts.append(sequence.offset.to_bytes(2, "little"))
                parts.append(_length_bytes(match))
            start += sequence.literals + sequence.match
        return b"".join(parts)


def _shorten(sequences: list[_Sequence], extra: int) -> bool:
    """Shorten one or two matches at their ends, so that the block grows by ``extra``; return whether it did."""
    seen: dict[int, tuple[int, int]] = {}
    first = max(len(sequences) - 1 - _PARTIAL, 0)
    for index in range(len(sequences) - 2, first - 1, -1):
        # the last match makes the big step, the others the rest
        most = sequences[index].match if not seen else _MOST_OF_MATCH
        growths = list(_growths(sequences[index], sequences[index + 1], extra, most))
        for growth, taken in growths:
            other = seen.get(extra - growth)
            if growth == extra or (other is not None and other[0] > index + 1):  # never two neighbours
                _take(sequences, index, taken)
                if growth != extra and other is not None:
                    _take(sequences, *other)
                return True
        for growth, taken in growths:
            seen.setdefault(growth, (index, taken))
    return False


def _growths(sequence: _Sequence, following: _Sequence, extra: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the growth of a block if bytes at the end of a match become literals of the next sequence, and how many
    bytes.

    :param extra: largest growth of interest
    :param most: most bytes to take from the match
    """
    extension = _extension
    match, literals = sequence.match - _MIN_MATCH, following.literals
    before = extension(match) + extension(literals)
    for taken in range(1, min(match, most) + 1):
        growth = taken + extension(match - taken) + extension(literals + taken) - before
        if growth > extra:
            break
        yield growth, taken


def _take(sequences: list[_Sequence], index: int, taken: int) -> None:
    sequences[index].match -= taken
    sequences[index + 1].literals += taken


def _read_length(data: bytes, pos: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            byte = data[pos]
            length += byte
            pos += 1
            if byte != 255:
                break
    return length, pos


def _length_bytes(length: int) -> bytes:
    if length < 15:
        return b""
    whole, rest = divmod(length - 15, 255)
    return b"\xff" * whole + bytes((rest,))
