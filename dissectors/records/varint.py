"""Zig-zag varints of record batches (protobuf's encoding; ``ByteUtils.java`` in Kafka).

Fast paths elsewhere inline encodings of one and two bytes and come here for longer ones.
"""

from __future__ import annotations

from dissectors.errors import DecodeError


def read_varint(buf: bytes, pos: int, bits: int = 32) -> tuple[int, int]:
    """Value and position after it of the zig-zag varint at ``pos``.

    :param bits: 32 (at most 5 bytes) or 64 (at most 10 bytes)
    :raises DecodeError: the bytes end early, or the value needs more than ``bits`` bits
    """
    start = pos
    try:
        byte = buf[pos]
        value = byte & 0x7F
        shift = 7
        while byte > 0x7F:
            if shift >= bits:
                raise DecodeError(f"varint is longer than {bits} bits", start)
            pos += 1
            byte = buf[pos]
            value |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise DecodeError("varint ends early", start, truncated=True) from None
    if value >> bits:
        raise DecodeError(f"varint is longer than {bits} bits", start)
    return (value >> 1) ^ -(value & 1), pos + 1
