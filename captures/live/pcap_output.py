"""Packets of a device that makes the records of its pcap file itself."""

from __future__ import annotations

import os
from struct import Struct

_FILE_HEADER = Struct("=IHHiIII")
_RECORD_HEADER = Struct("=IIII")
_NANOSECOND_MAGIC = 0xA1B23C4D


class PcapOutput:
    """Writes records to a nanosecond pcap file; the part of :class:`~captures.live.device.Device` that does so.

    Subclasses append records to ``_pending``.

    :param link_type: of pcap files
    :param snapshot_length: bytes kept of each packet
    """

    delay = 0.0

    def __init__(self, link_type: int, snapshot_length: int) -> None:
        self._link_type = link_type
        self._snapshot_length = snapshot_length
        self._file = -1
        self._pending: list[bytes] = []

    def write_to(self, descriptor: int) -> None:
        self.end_file()
        self._file = os.dup(descriptor)
        header = (_NANOSECOND_MAGIC, 2, 4, 0, 0, self._snapshot_length, self._link_type)
        self._pending = [_FILE_HEADER.pack(*header)]

    def flush(self) -> None:
        view = memoryview(b"".join(self._pending))
        self._pending.clear()
        while view:
            view = view[os.write(self._file, view) :]

    def end_file(self) -> None:
        self._pending.clear()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def pcap_record(seconds: int, nanoseconds: int, frame: bytes, size: int) -> bytes:
    """Return the record of a packet.

    :param frame: the captured part
    :param size: bytes on the wire
    """
    return _RECORD_HEADER.pack(seconds, nanoseconds, len(frame), size) + frame
