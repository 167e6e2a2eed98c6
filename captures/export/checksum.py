"""The Internet checksum (RFC 1071), of IPv4 headers and of TCP segments with their pseudo header."""

from __future__ import annotations

_TCP = 6


def internet_checksum(data: bytes) -> int:
    """Return the one's complement of the one's complement sum of ``data`` as 16-bit big-endian words.

    A number modulo 0xFFFF is the one's complement sum of its 16-bit digits, so that one division of a long
    integer does in C what a loop over the words would do.
    """
    if len(data) & 1:
        data += b"\0"
    return -int.from_bytes(data) % 0xFFFF


def tcp_checksum(source: bytes, destination: bytes, segment: bytes) -> int:
    """Return the checksum of a TCP segment whose checksum field is zero.

    :param source: IPv4 or IPv6 address, 4 or 16 bytes
    :param destination: the other address, of the same family
    :param segment: TCP header and payload
    """
    pseudo = source + destination + len(segment).to_bytes(4) + _TCP.to_bytes(4)
    return internet_checksum(pseudo + segment)
