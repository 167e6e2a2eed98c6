"""The pcap file format: a 24-byte file header, then records of a 16-byte header and a frame each.

Layout: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ and pcap-savefile(5). Byte order and time unit
follow from the magic number. In the "modified" variant of old Linux kernels, record headers have eight more bytes.
"""

from __future__ import annotations

from struct import Struct

import numpy as np

from captures.arrays import Bools, Bytes, Int64s
from captures.packets.errors import CaptureError
from captures.packets.records import Interface, ParsedBuffer, RecordColumns
from captures.packets.source import Source
from captures.packets.walk import view, walk

FILE_HEADER = 24

# magic number in the file's byte order -> ticks per second, bytes of a record header
_MAGICS = {0xA1B2C3D4: (1_000_000, 16), 0xA1B23C4D: (1_000_000_000, 16), 0xA1B2CD34: (1_000_000, 24)}

_DAY = 86_400
_MIN_FRAME = 14
_MAX_FRAME = 1 << 28
"""Larger than any frame: libpcap allows 256 KiB, 128 MiB for USB."""


def is_pcap(magic: bytes) -> bool:
    """Return whether a file that starts with these four bytes is a pcap file."""
    return int.from_bytes(magic, "little") in _MAGICS or int.from_bytes(magic, "big") in _MAGICS


class PcapFormat:
    """One pcap file: its header, and the reader of its records.

    :raises CaptureError: if the file header is incomplete
    """

    name = "pcap"
    length_field = 8
    minimum = 0
    multiple = 1

    def __init__(self, source: Source) -> None:
        header = source.read(0, FILE_HEADER)
        if len(header) < FILE_HEADER:
            raise CaptureError(
                source.path, len(header), f"the pcap file header is cut: {len(header)} of 24 bytes"
            )
        self.big_endian = int.from_bytes(header[:4], "big") in _MAGICS
        order = ">" if self.big_endian else "<"
        magic, _, _, _, _, snapshot, link = Struct(order + "IHHiIII").unpack(header)
        units, self.base = _MAGICS[magic]
        # the upper half of the last field is the length of the frame check sequence, if any
        self.interfaces = [Interface(link & 0xFFFF, snapshot, units=units)]
        self.secrets: list[bytes] = []
        self.start = FILE_HEADER
        self.maximum = max(min(snapshot, _MAX_FRAME), 1 << 18)
        self._header = np.dtype(
            [(name, order + "u4") for name in ("seconds", "fraction", "captured", "wire")]
        )
        first = source.read(FILE_HEADER, 4)
        near = int.from_bytes(first, "big" if self.big_endian else "little")
        self._earliest, self._latest = max(near - _DAY, 0), min(near + 400 * _DAY, (1 << 32) - 1)
        lowest = self._earliest >> 24
        self.marker = (0 if self.big_endian else 3, lowest, (self._latest >> 24) - lowest)
        self._units = units

    def believable(self, data: Bytes, positions: Int64s, end: int | Int64s) -> Bools:
        """Return a mask of places that may be a record header: a time near the first one, consistent lengths."""
        inside = positions + self.base <= end
        header = view(data, self._header)[np.where(inside, positions, 0)]
        seconds, captured, wire = header["seconds"], header["captured"], header["wire"]
        good: Bools = (
            inside & (seconds >= self._earliest) & (seconds <= self._latest) & (captured >= _MIN_FRAME)
        )
        good &= (header["fraction"] < self._units) & (captured <= wire) & (wire <= self.maximum)
        return good

    def parse(self, data: Bytes, start: int, end: int) -> ParsedBuffer:
        """Return all complete records of ``data[start:end]``."""
        walked = walk(data, start, end, self)
        header = view(data, self._header)[walked.offsets]
        captured = header["captured"].astype(np.int64)
        time = header["seconds"].astype(np.int64) * 1_000_000_000
        fraction = header["fraction"].astype(np.int64)
        time += fraction if self._units == 1_000_000_000 else fraction * 1000
        records = RecordColumns(
            frame=walked.offsets + self.base,
            captured=captured,
            wire=np.maximum(header["wire"], captured),
            time=time,
            interface=np.zeros(len(header), np.int32),
        )
        reason = "a record longer than any frame" if walked.damaged else ""
        return ParsedBuffer(records, walked.end, reason)
