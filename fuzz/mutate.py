"""Mutations: changed bytes, extreme numbers, and pieces removed, inserted, repeated, or copied from another input.

They are not guided by coverage. :mod:`fuzz.plain` makes its inputs with them, and targets whose mutators know the
structure of an input apply them to its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

EXTREMES = {
    size: tuple(
        (value & (1 << 8 * size) - 1).to_bytes(size, "big")
        for value in (
            *(0, 1, 2, -1, -2, 16, 127, 128, 255, 256, 32767, 32768, 65535, 1 << 31, (1 << 31) - 1),
            *((1 << 8 * size - 1) - 1, -1 << 8 * size - 1, (1 << 8 * size - 1) - 2, 1 - (1 << 8 * size - 1)),
        )
    )
    for size in (1, 2, 4, 8)
}
"""Numbers at which code is likely to be wrong, by their size in bytes: where signs change, ends of types, none."""

_MOST_STEPS = 6
_LONGEST_PIECE = 64


def havoc(data: bytes, rng: Random, longest: int, words: Sequence[bytes] = (), other: bytes = b"") -> bytes:
    """Return bytes changed in a few places.

    :param longest: maximum length of the result in bytes
    :param words: byte strings with a meaning to the reader
    :param other: another input whose pieces may be used
    """
    out = bytearray(data)
    for _ in range(1 + int(rng.random() ** 2 * _MOST_STEPS)):
        _step(out, rng, words, other)
    return bytes(out[:longest])


def _step(out: bytearray, rng: Random, words: Sequence[bytes], other: bytes) -> None:
    at = int(rng.random() * (len(out) + 1))
    piece = 1 + int(rng.random() ** 3 * _LONGEST_PIECE)
    match int(rng.random() * 10):
        case 0 | 1:
            out[at : at + 1] = bytes((out[at] ^ 1 << rng.getrandbits(3),)) if at < len(out) else b"\0"
        case 2:
            out[at : at + 1] = bytes((rng.getrandbits(8),))
        case 3 | 4:
            extreme = rng.choice(EXTREMES[rng.choice((1, 2, 4, 4, 8))])
            out[at : at + len(extreme)] = extreme
        case 5:
            del out[at : at + piece]
        case 6:
            out[at:at] = out[at : at + piece]
        case 7:
            out[at:at] = rng.choice(words) if words else rng.randbytes(piece)
        case 8:
            begin = int(rng.random() * (len(other) + 1))
            taken = other[begin : begin + rng.choice((piece, len(other)))]
            out[at : at + rng.choice((0, len(taken)))] = taken
        case _:
            if at < len(out):
                out[at] = (out[at] + rng.choice((-1, 1, 3, 16))) & 0xFF
