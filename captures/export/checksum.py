"""The Internet checksum (RFC 1071) of IPv4 headers, and of TCP segments with their pseudo header."""

from __future__ import annotations

import numpy as np

from captures.arrays import Bytes, Int64s

_TCP = 6
_LONG = 512  # from this many bytes on numpy is faster than a long integer
_WORD, _SUM = np.dtype("<u4"), np.dtype(np.uint64)
_KEPT = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.int64)  # masks for the first 0 to 3 bytes of the last word


def internet_checksum(data: bytes) -> int:
    """Return the one's complement of the one's complement sum of ``data`` as 16-bit big-endian words.

    A number modulo 0xFFFF is the one's complement sum of its 16-bit digits, so that one division of a long
    integer does in C what a loop over the words would do.
    """
    if len(data) & 1:
        data += b"\0"
    return -int.from_bytes(data) % 0xFFFF


def words_sum(data: bytes | memoryview) -> int:
    """Return a number congruent to the sum of ``data`` as 16-bit big-endian words, modulo 0xFFFF.

    Such sums can be added, so that a checksum needs no copy of the data it covers. All parts but the last must have an
    even length. Fastest if ``data`` is aligned to 4 bytes in memory.
    """
    size = len(data)
    if size < _LONG:
        return int.from_bytes(data) << 8 * (size & 1)
    whole = size & ~3
    total = int(np.frombuffer(data, _WORD, whole >> 2).sum(dtype=_SUM))
    # the sum of words with their bytes swapped is the sum with its bytes swapped (RFC 1071 section 2 (B))
    return (total << 8) % 0xFFFF + words_sum(data[whole:])


def words_sums(data: Bytes, begin: Int64s, size: Int64s) -> Int64s:
    """Return :func:`words_sum` of many consecutive stretches at once.

    :param begin: start of each stretch, a multiple of 4
    :param size: bytes of each; at least four more bytes follow the last stretch
    """
    start, count = int(begin[0]), size >> 2
    first = begin - start >> 2
    words = np.frombuffer(
        data, _WORD, int(first[-1] + count[-1]) + 1, start
    )  # only the words needed: all of them are converted
    edges = np.stack((first, first + count), axis=1).ravel()
    sums = np.add.reduceat(words, edges, dtype=_SUM)[::2].astype(np.int64)
    sums[count == 0] = 0
    sums += words[first + count] & _KEPT[size & 3]
    # see words_sum
    return (sums << 8) % 0xFFFF


def tcp_checksum(source: bytes, destination: bytes, segment: bytes) -> int:
    """Return the checksum of a TCP segment whose checksum field is zero.

    :param source: IPv4 or IPv6 address, 4 or 16 bytes
    :param destination: address of the same family
    :param segment: TCP header and payload
    """
    pseudo = source + destination + len(segment).to_bytes(4) + _TCP.to_bytes(4)
    return internet_checksum(pseudo + segment)
