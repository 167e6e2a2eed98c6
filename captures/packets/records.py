"""Packet records, as both file formats yield them before the frames are decoded."""

from __future__ import annotations

import msgspec

from captures.arrays import Columns, Int32s, Int64s


class Interface(msgspec.Struct):
    """A capture interface.

    :ivar link_type: number of the link layer (https://www.tcpdump.org/linktypes.html)
    :ivar snapshot_length: bytes kept of each packet, 0 if unlimited
    :ivar name: ``eth0`` and the like, empty if the file has none
    :ivar description: text of the capturing tool
    :ivar units: clock ticks per second
    :ivar offset: seconds to add to each time stamp (pcapng if_tsoffset)
    """

    link_type: int
    snapshot_length: int = 0
    name: str = ""
    description: str = ""
    units: int = 1_000_000
    offset: int = 0


class RecordColumns(Columns):
    """Packet records of one buffer, one row each, in file order.

    :ivar frame: int64, index of the frame's first byte in the buffer
    :ivar captured: int64, bytes of the frame in the file
    :ivar wire: int64, bytes of the frame on the wire, at least `captured`
    :ivar time: int64, nanoseconds since the epoch, 0 if unknown
    :ivar interface: int32, index of the interface; -1 if the file does not declare it
    """

    frame: Int64s
    captured: Int64s
    wire: Int64s
    time: Int64s
    interface: Int32s


class ParsedBuffer(msgspec.Struct):
    """The result of parsing a buffer.

    :ivar records: the complete packet records
    :ivar end: index in the buffer of the first byte not used
    :ivar damaged: why the bytes at `end` cannot be a record, or empty if more bytes are needed
    :ivar stopped: whether to read nothing after `end`, for the reason in `damaged`
    :ivar comments: comments on packets by row
    """

    records: RecordColumns
    end: int
    damaged: str = ""
    stopped: bool = False
    comments: dict[int, str] = {}
