"""The columns passed between the steps: packets, segments, gaps, and statistics.

Every column is a numpy array; the arrays of one table have the same length and the same order. Times are
int64 nanoseconds since the Unix epoch; a time of 0 means that the capture has none. Offsets are byte
offsets for :meth:`captures.packets.source.Source.read`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bytes, Columns, Int32s, Int64s, UInt16s, UInt32s

if TYPE_CHECKING:
    from captures.packets.addresses import AddressBook
    from captures.packets.source import Source


PADDING = 128
"""Spare zero bytes after every buffer, so that a gather of a fixed-size header never leaves it."""

# TCP flags as in the header's 14th byte (RFC 9293 section 3.1).
FIN = 0x01
SYN = 0x02
RST = 0x04
PSH = 0x08
ACK = 0x10


class GapCause(IntEnum):
    """Why bytes of a stream are missing."""

    UNKNOWN = 0
    """Given up: too much was waiting behind the hole, or the capture or connection ended."""
    NOT_CAPTURED = 1
    """The receiver acknowledged the bytes, so they were delivered; the capture lacks them."""
    SNAPLEN = 2
    """The packet was captured, but cut short by the snapshot length."""

    @property
    def label(self) -> str:
        """The cause in words."""
        return ("unknown", "not captured", "cut by the snapshot length")[self]


class FileDamage(msgspec.Struct):
    """A place of the capture file that could not be read.

    :ivar offset: byte offset in the (decompressed) capture
    :ivar skipped: bytes skipped to continue; 0 if reading ended here
    :ivar reason: what is wrong, in words
    :ivar path: the file
    """

    offset: int
    skipped: int
    reason: str
    path: str = ""


class Statistics(msgspec.Struct):
    """Counters of a capture so far. Every packet record is counted under exactly one outcome.

    ``packets == tcp + sum(not_tcp.values()) + fragments_waiting`` holds at any time.

    :ivar packets: packet records in the file
    :ivar tcp: packets that became a row of a :class:`PacketBlock`
    :ivar not_tcp: other packets, by reason: ``UDP``, ``ARP``, ``IP fragment``, ``malformed IP``,
        ``headers cut by the snapshot length``, ``link type 147 (USER0)`` and so on
    :ivar fragments_waiting: IP fragments kept because their datagram is incomplete
    :ivar tunnels: TCP packets found inside a tunnel, by its name
    :ivar blocks_skipped: pcapng blocks that are not packets and are not needed, by name
    :ivar dropped: packets that the capturing machine reports as dropped (pcapng interface statistics)
    :ivar cut: TCP packets whose payload was cut by the snapshot length
    :ivar damage: places of the file that could not be read
    """

    packets: int = 0
    tcp: int = 0
    not_tcp: Counter[str] = msgspec.field(default_factory=Counter)
    fragments_waiting: int = 0
    tunnels: Counter[str] = msgspec.field(default_factory=Counter)
    blocks_skipped: Counter[str] = msgspec.field(default_factory=Counter)
    dropped: int = 0
    cut: int = 0
    damage: list[FileDamage] = []

    def add(self, other: Statistics) -> None:
        """Add the counters of another file."""
        for name in self.__struct_fields__:
            total = getattr(self, name)
            total += getattr(other, name)
            setattr(self, name, total)


class Window(msgspec.Struct):
    """A range of a source that is in memory.

    :ivar data: its bytes, followed by padding
    :ivar offset: offset of ``data[0]`` in the source
    :ivar size: number of bytes
    """

    data: Bytes
    offset: int
    size: int


_NO_COLUMNS = ("source", "windows", "addresses", "comments")


@dataclass(slots=True)
class PacketBlock:
    """The TCP packets of one block of a capture, one row each, in file order; for several files, in time order.

    :ivar source: the source of the bytes
    :ivar windows: the ranges in memory: one, or several where files are merged
    :ivar addresses: the address book to which ``src`` and ``dst`` refer
    :ivar number: int64, 1-based number of the packet record in the file (as shown by Wireshark)
    :ivar time: int64, capture time
    :ivar src: int32, endpoint that sent the packet
    :ivar dst: int32, endpoint that the packet was sent to
    :ivar seq: uint32, sequence number
    :ivar ack: uint32, acknowledgment number (valid if ``flags & ACK``)
    :ivar flags: uint8
    :ivar window: uint16, unscaled
    :ivar offset: int64, offset of the payload in the source
    :ivar length: int32, payload bytes on the wire
    :ivar captured: int32, payload bytes in the file, at most ``length``
    :ivar interface: int32, 0-based over all sections of the file
    :ivar comments: pcapng packet comments by packet number, TCP or not
    """

    COLUMNS: ClassVar[tuple[str, ...]]
    """All columns, in the order of their declaration."""
    PLACES: ClassVar[tuple[str, ...]] = ("offset",)
    """Columns that hold offsets in the source."""

    source: Source
    windows: tuple[Window, ...]
    addresses: AddressBook
    number: Int64s
    time: Int64s
    src: Int32s
    dst: Int32s
    seq: UInt32s
    ack: UInt32s
    flags: Bytes
    window: UInt16s
    offset: Int64s
    length: Int32s
    captured: Int32s
    interface: Int32s
    comments: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.number)

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the source, from memory if available there."""
        for window in self.windows:
            begin = offset - window.offset
            if 0 <= begin <= window.size - size:
                return window.data[begin : begin + size].tobytes()
        return self.source.read(offset, size)


PacketBlock.COLUMNS = tuple(each.name for each in fields(PacketBlock) if each.name not in _NO_COLUMNS)


class Gaps(Columns):
    """Holes in streams, sorted by stream, then position.

    :ivar stream: int64, as in :class:`SegmentBlock`
    :ivar position: int64, stream position of the first missing byte
    :ivar missing: int64, number of missing bytes; 0 if it cannot be known (the stream continues at
        ``position``, but its bytes before and after that are unrelated)
    :ivar cause: uint8, a :class:`GapCause`
    :ivar number: int64, number of the packet cut by the snapshot length, -1 if none was
    :ivar segment: int64, row of the segment block before which the hole lies, or the row after the
        stream's last one
    """

    stream: Int64s
    position: Int64s
    missing: Int64s
    cause: Bytes
    number: Int64s
    segment: Int64s


SPARE = 64
"""Number of bytes that a read may extend beyond valid data."""


class Memory:
    """The bytes of a block, followed by bytes added later, to be read at many places at once.

    :ivar view: the bytes of the block; places from :attr:`size` on refer to added bytes
    :param data: the block's bytes, uint8, with at least :data:`SPARE` spare bytes at the end
    """

    def __init__(self, data: Bytes) -> None:
        self.view = data.data
        self.size = len(data)
        self._added = bytearray()

    def add(self, data: bytes) -> int:
        """Append bytes; return their place."""
        position = self.size + len(self._added)
        self._added += data
        self._added += bytes(SPARE)
        return position

    def gather(self, dtype: np.dtype[Any], positions: Int64s) -> NDArray[Any]:
        """Read an item of at most :data:`SPARE` bytes at each place."""
        found: NDArray[Any] = _gather(self.view, dtype, np.minimum(positions, self.size - dtype.itemsize))
        beside = np.flatnonzero(positions >= self.size)
        if len(beside):
            found[beside] = _gather(self._added, dtype, positions[beside] - self.size)
        return found

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position` on."""
        if position >= self.size:
            position -= self.size
            return bytes(self._added[position : position + size])
        return bytes(self.view[position : position + size])


def _gather(buffer: Any, dtype: np.dtype[Any], at: Int64s) -> NDArray[Any]:
    return np.ndarray((max(len(buffer) - dtype.itemsize + 1, 0),), dtype, buffer, 0, (1,))[at]


class SegmentBlock(msgspec.Struct):
    """Payload in stream order: the segments delivered by one block of packets, sorted by stream, then position.

    The segments and gaps of a stream tile it: each starts where the previous one ended, within a block and
    from block to block, without overlaps or omissions.

    :ivar stream: int64, ``2 * connection + direction``; direction 0 is sent by endpoint ``a`` of the
        connection, 1 by ``b``
    :ivar position: int64, position in the stream; 0 is the first byte after the SYN, or the first captured
        one if the SYN was not captured
    :ivar offset: int64, offset of the bytes in the source
    :ivar length: int64, bytes, never 0
    :ivar time: int64, capture time of the packet that carried the bytes
    :ivar delivered: int64, time from which the bytes were in order: ``time``, or that of the later packet that
        filled the hole before them
    :ivar number: int64, packet number
    :ivar flags: uint8, TCP flags of that packet
    :ivar gaps: the holes
    :ivar connections: ids of the connections first seen in this block
    :ivar source: the source of the bytes
    :ivar block: the packets that the segments came from, None for segments flushed by :meth:`TcpAssembler.finish`
    """

    stream: Int64s
    position: Int64s
    offset: Int64s
    length: Int64s
    time: Int64s
    delivered: Int64s
    number: Int64s
    flags: Bytes
    gaps: Gaps
    connections: range
    source: Source | None
    block: PacketBlock | None

    def __len__(self) -> int:
        return len(self.stream)

    def memory(self) -> tuple[Memory, Int64s]:
        """Return the bytes of all rows, without copying those already in memory if possible.

        Bytes of earlier blocks (they waited behind a hole) are read from the source.

        :returns: the bytes, and the start of each row in them (int64)
        """
        windows = () if self.block is None else self.block.windows
        if len(windows) == 1:
            data, positions = windows[0].data, self.offset - windows[0].offset
            positions[(positions < 0) | (positions + self.length > windows[0].size)] = -1
        else:
            data, positions = self._gathered(windows)
        memory = Memory(data)
        for row in np.flatnonzero(positions < 0).tolist():
            positions[row] = memory.add(self._read(int(self.offset[row]), int(self.length[row])))
        return memory, positions

    def _gathered(self, windows: tuple[Window, ...]) -> tuple[Bytes, Int64s]:
        """Return the rows' bytes from several windows, concatenated, and the start of each row in them; -1 if not
        included.
        """
        positions = np.full(len(self), -1, np.int64)
        parts, size = [], 0
        for window in windows:
            begin = self.offset - window.offset
            inside = (begin >= 0) & (begin + self.length <= window.size)
            if inside.any():
                low, high = int(begin[inside].min()), int((begin + self.length)[inside].max())
                positions[inside] = begin[inside] + size - low
                parts.append(window.data[low:high])
                size += high - low
        return np.concatenate([*parts, np.zeros(PADDING, np.uint8)]), positions

    def _read(self, offset: int, size: int) -> bytes:
        assert self.source is not None
        # a spool may have dropped them: framing continues after them, and reading the frame reports the loss
        return self.source.read_or_zeros(offset, size)
