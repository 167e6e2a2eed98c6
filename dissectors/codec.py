"""The compression codecs of record data and their properties (implemented in ``records/codecs.py``)."""

from __future__ import annotations

from enum import IntEnum

_NEVER = 3


class Codec(IntEnum):
    """Bits 0-2 of the attributes of a batch or message (``CompressionType.java``). 5-7 were never assigned.

    :ivar signature: first bytes of compressed data; empty if the format has none
    :ivar oldest_magic: oldest message format that may carry the codec; above every format if the codec is unknown
    """

    signature: bytes
    oldest_magic: int

    def __new__(cls, value: int, signature: bytes = b"", oldest_magic: int = _NEVER) -> Codec:
        member = int.__new__(cls, value)
        member._value_ = value
        member.signature = signature
        member.oldest_magic = oldest_magic
        return member

    NONE = 0, b"", 0
    GZIP = 1, b"\x1f\x8b", 0
    SNAPPY = 2, b"\x82SNAPPY\x00", 0  # xerial stream, written by Java clients; raw snappy has no mark
    LZ4 = 3, b"\x04\x22\x4d\x18", 0
    ZSTD = 4, b"\x28\xb5\x2f\xfd", 2  # KIP-110
    UNKNOWN_5 = 5
    UNKNOWN_6 = 6
    UNKNOWN_7 = 7

    @property
    def label(self) -> str:
        """The name in Kafka's settings and in kproxy's output: ``zstd``."""
        return self.name.lower()

    @property
    def known(self) -> bool:
        """Whether Kafka has assigned this number."""
        return self.oldest_magic < _NEVER


CODEC_MASK = 0x07
CODEC_LABELS = tuple(codec.label for codec in Codec)
"""Label by codec bits of the attributes: faster than looking up the member."""
KNOWN_CODECS = tuple(codec for codec in Codec if codec.known)
