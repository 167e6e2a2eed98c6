"""The pcapng file format: typed blocks, in sections that each have their own byte order and interfaces.

Layout: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/. The reader handles section headers, interface
descriptions, enhanced, simple and (obsolete) packet blocks, interface statistics for their drop counts, and decryption
secrets, whose bytes are kept for decryption. Other blocks are counted and skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812  # the name says what it is

import numpy as np

from captures.arrays import Bools, Bytes, Int64s, distinct_values
from captures.packets.errors import CaptureError
from captures.packets.records import Interface, ParsedBuffer, RecordColumns
from captures.packets.source import Source
from captures.packets.table import Statistics
from captures.packets.walk import view, walk
from dissectors.budget import limit, shown

SECTION_HEADER = 0x0A0D0D0A  # the same in both byte orders, section 4.1
INTERFACE_DESCRIPTION = 1
OBSOLETE_PACKET = 2
SIMPLE_PACKET = 3
NAME_RESOLUTION = 4
INTERFACE_STATISTICS = 5
ENHANCED_PACKET = 6
DECRYPTION_SECRETS = 0x0A

_NAMES = {NAME_RESOLUTION: "name resolution", INTERFACE_STATISTICS: "interface statistics"}
_NAMES |= {DECRYPTION_SECRETS: "decryption secrets", 0x0BAD: "custom", 0x40000BAD: "custom"}
_HANDLED_BLOCKS = (SECTION_HEADER, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, DECRYPTION_SECRETS)
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_TLS_KEY_LOG = 0x544C534B  # "TLSK", section 4.7
_FIRST_SPAN = 1 << 16

_LATEST_SECOND = (1 << 62) // 1_000_000_000
"""Seconds since the epoch, in 2116: later than any time in a pcap file; half of the range of 64-bit nanoseconds."""

# option codes: 4.2 (interfaces), 3.5 (comments), 4.6 (statistics)
_COMMENT = 1
_IF_NAME, _IF_DESCRIPTION, _IF_RESOLUTION, _IF_OFFSET = 2, 3, 9, 14
_DROPPED_BY_INTERFACE, DROPPED_BY_SYSTEM = 5, 7


def is_pcapng(magic: bytes) -> bool:
    """Return whether a file that starts with these four bytes is a pcapng file."""
    return int.from_bytes(magic, "big") == SECTION_HEADER


class _Clocks:
    """Interface properties needed for packets, one column each; the last row is that of an unknown interface."""

    def __init__(self) -> None:
        self.units = np.full(16, 1_000_000, np.uint64)
        self.offset = np.zeros(16, np.int64)
        self.snapshot = np.zeros(16, np.int64)

    def add(self, number: int, interface: Interface) -> None:
        for name, value in (
            ("units", interface.units),
            ("offset", interface.offset),
            ("snapshot", interface.snapshot_length),
        ):
            column = getattr(self, name)
            if number + 1 == len(column):
                column = np.append(column, np.full(len(column), column[-1]))
                setattr(self, name, column)
            column[number] = value


class PcapngFormat:
    """One pcapng file and its contents so far.

    :ivar interfaces: all interfaces of all sections, in file order
    :ivar secrets: TLS key logs (NSS format) of the decryption secrets blocks
    :raises CaptureError: if the file does not start with a complete section header
    """

    name = "pcapng"
    length_field = 4
    base = 0
    minimum = 12
    maximum = 1 << 28
    multiple = 4
    start = 0

    def __init__(self, source: Source, statistics: Statistics) -> None:
        self.interfaces: list[Interface] = []
        self.secrets: list[bytes] = []
        self._statistics = statistics
        self._first_interface = 0  # of the current section
        self._clocks = _Clocks()
        self._sections = 0
        self._secrets_left = limit("file_secrets")
        self._stopped = ""
        self._rows = 0  # packets found in the buffer so far
        self._comments: dict[int, str] = {}
        self._drops: dict[int, int] = {}
        self._switch(False)
        header = source.read(0, 28)
        if len(header) < 28:
            reason = f"the pcapng section header is cut: {len(header)} of 28 bytes"
            raise CaptureError(source.path, len(header), reason)
        if not self._set_byte_order(np.frombuffer(header, np.uint8), 0):
            raise CaptureError(source.path, 8, "the pcapng section header has no byte-order magic")

    def _switch(self, big_endian: bool) -> None:
        self.big_endian = big_endian
        order = self._order = ">" if big_endian else "<"
        self.marker = (3 if big_endian else 0, ENHANCED_PACKET, 0)
        self._u16s = Struct(order + "HH")
        packet = [(name, order + "u4") for name in ("interface", "high", "low", "captured", "wire")]
        self._block = np.dtype([("type", order + "u4"), ("length", order + "u4")])
        self._packet = np.dtype(packet)

    def _set_byte_order(self, data: Bytes, at: int) -> bool:
        """Adopt the byte order of the section header at `at`; return False if there is none."""
        magic = bytes(data[at + 8 : at + 12])
        for big_endian in (False, True):
            if int.from_bytes(magic, "big" if big_endian else "little") == _BYTE_ORDER_MAGIC:
                if big_endian != self.big_endian:
                    self._switch(big_endian)
                return True
        return False

    def believable(self, data: Bytes, positions: Int64s, end: int | Int64s) -> Bools:
        """Return a mask of places that may be a block: its length is repeated at its end, as section 3.1 requires."""
        inside = positions + 12 <= end
        positions = np.where(inside, positions, 0)
        length = view(data, self._block)[positions]["length"].astype(np.int64)
        good: Bools = inside & (length >= 12) & (length <= self.maximum) & (length & 3 == 0)
        last = np.where(good & (positions + length <= end), positions + length - 4, 0)
        good &= (last == 0) | (view(data, self._order + "u4")[last] == length)
        return good

    def parse(self, data: Bytes, start: int, end: int) -> ParsedBuffer:
        """Return all complete blocks of ``data[start:end]``, across section headers of either byte order."""
        parts: list[RecordColumns] = []
        self._stopped, self._comments, self._rows = "", {}, 0

        def parsed(end: int, damaged: str = "") -> ParsedBuffer:
            records = RecordColumns.concatenated(parts)
            return ParsedBuffer(records, end, damaged, bool(self._stopped), self._comments)

        # After a change of byte order only a little is walked at first: the next change may be near, and
        # walking beyond it would be wasted, again and again.
        position, span = start, end - start
        while True:
            if end - position >= 12 and bytes(data[position : position + 4]) == b"\x0a\x0d\x0d\x0a":
                was = self.big_endian
                if not self._set_byte_order(data, position):
                    return parsed(position, "a section header without byte-order magic")
                if self.big_endian != was:
                    span = _FIRST_SPAN
            limit = min(position + span, end)
            walked = walk(data, position, limit, self)
            foreign = self._first_foreign(data, walked.offsets)
            offsets = walked.offsets[:foreign]
            records, taken = self._records(data, offsets)
            parts.append(records)
            if self._stopped:
                return parsed(int(offsets[taken]), self._stopped)
            if foreign < len(walked.offsets):
                position = int(walked.offsets[foreign])
            elif walked.end > position and walked.damaged:
                position = walked.end  # a section of the other byte order, or real damage: look again
            elif walked.damaged:
                return parsed(walked.end, "a block of an impossible length")
            elif limit == end:
                return parsed(walked.end)
            else:
                position, span = walked.end, span * 4

    def _number(self, data: bytes, *, signed: bool = False) -> int:
        return int.from_bytes(data, "big" if self.big_endian else "little", signed=signed)

    def _first_foreign(self, data: Bytes, offsets: Int64s) -> int:
        types = view(data, self._order + "u4")[offsets]
        for index in np.flatnonzero(types == SECTION_HEADER).tolist():
            at = int(offsets[index]) + 8
            if self._number(data[at : at + 4].tobytes()) != _BYTE_ORDER_MAGIC:
                return int(index)
        return len(offsets)

    def _records(self, data: Bytes, offsets: Int64s) -> tuple[RecordColumns, int]:
        """Return the packets among the blocks at `offsets`, and process the other blocks.

        :returns: the packets, and the number of blocks processed, which is lower only if a limit is reached
        """
        if not len(offsets):
            return RecordColumns.none(), 0
        block = view(data, self._block)[offsets]
        kind = block["type"]
        length = block["length"].astype(np.int64)
        is_packet = (kind == ENHANCED_PACKET) | (kind == SIMPLE_PACKET) | (kind == OBSOLETE_PACKET)
        first_interface = np.full(len(offsets), self._first_interface, np.int64)
        taken = len(offsets)
        if not is_packet.all():
            others = np.flatnonzero(~is_packet)
            handled = np.isin(kind[others], _HANDLED_BLOCKS)
            sections = [(0, self._first_interface)]
            for index in others[handled].tolist():
                at, size = int(offsets[index]), int(length[index])
                self._handle_block(int(kind[index]), data[at : at + size - 4].tobytes())
                if self._stopped:
                    taken = index
                    break
                if kind[index] == SECTION_HEADER:
                    sections.append((index, self._first_interface))
            self._count_skipped(kind[others[~handled & (others < taken)]])
            begin, first = np.array(sections, np.int64).T
            first_interface = np.repeat(first, np.diff(begin, append=len(offsets)))
            is_packet[taken:] = False
            offsets, kind, length = offsets[is_packet], kind[is_packet], length[is_packet]
            first_interface = first_interface[is_packet]
        return self._packets(data, offsets, kind, length, first_interface), taken

    def _count_skipped(self, kinds: np.ndarray) -> None:
        for kind, count in zip(
            *(part.tolist() for part in np.unique(kinds, return_counts=True)), strict=True
        ):
            self._statistics.blocks_skipped[_NAMES.get(kind, f"type {kind:#x}")] += count

    def _packets(
        self, data: Bytes, offsets: Int64s, kind: np.ndarray, length: Int64s, first_interface: Int64s
    ) -> RecordColumns:
        fields = view(data, self._packet)[offsets + 8]
        interface = fields["interface"].astype(np.int64)
        captured = fields["captured"].astype(np.int64)
        wire = fields["wire"].astype(np.int64)
        ticks = fields["high"].astype(np.uint64) << np.uint64(32) | fields["low"]
        frame = offsets + 28
        obsolete = kind == OBSOLETE_PACKET
        if obsolete.any():  # 16 bits of interface number, then 16 bits of drop count
            interface[obsolete] = view(data, self._order + "u2")[offsets[obsolete] + 8]
        simple = kind == SIMPLE_PACKET
        room = length - 32
        if simple.any():
            interface[simple] = 0
            frame[simple] -= 16
            room[simple] += 16
            wire[simple] = view(data, self._order + "u4")[offsets[simple] + 8]
            snapshot = self._snapshot(first_interface[simple])
            captured[simple] = np.minimum(wire[simple], snapshot)
        interface += first_interface
        # a damaged block may announce more than it holds
        captured = np.clip(captured, 0, np.maximum(room, 0))
        interface[interface >= len(self.interfaces)] = -1
        time = self._times(ticks, interface)
        time[simple] = 0
        records = RecordColumns(frame, captured, np.maximum(wire, captured), time, interface.astype(np.int32))
        with_options = ~simple & (room - (captured + 3 & ~3) >= 8)
        for row in np.flatnonzero(with_options).tolist():
            at = int(frame[row] + (captured[row] + 3 & ~3))
            texts = [
                value.decode(errors="replace")
                for code, value in self._options(data[at : int(offsets[row] + length[row]) - 4].tobytes())
                if code == _COMMENT
            ]
            if texts:
                self._comments[self._rows + row] = "\n".join(texts)
        self._rows += len(records)
        return records

    def _snapshot(self, interface: Int64s) -> Int64s:
        found = self._clocks.snapshot[np.minimum(interface, len(self.interfaces) - 1)]
        return np.where(found == 0, self.maximum, found)

    def _times(self, ticks: np.ndarray, interface: Int64s) -> Int64s:
        """Return nanoseconds since the epoch from clock ticks, by the resolution of each packet's interface.

        An impossible time counts as unknown: 0, as for a simple packet. Differences of all others fit 64 bits.
        """
        time = np.zeros(len(ticks), np.int64)
        clock, offset = self._clocks.units[interface], self._clocks.offset[interface]
        for units in distinct_values(clock).tolist():
            same_unit = clock == units
            seconds = (ticks[same_unit] // np.uint64(units)).astype(np.int64)
            rest = ticks[same_unit] % np.uint64(units)
            if units <= 1_000_000_000 and 1_000_000_000 % units == 0:
                nanoseconds = rest.astype(np.int64) * (1_000_000_000 // units)
            else:  # finer than a nanosecond, or a power of two: exact to a nanosecond or two
                nanoseconds = (rest.astype(np.float64) * (1e9 / units)).astype(np.int64)
            about = seconds + offset[same_unit].astype(np.float64)  # no offset makes a float overflow
            known = (about >= 0) & (about < _LATEST_SECOND)
            time[same_unit] = np.where(known, (seconds + offset[same_unit]) * 1_000_000_000 + nanoseconds, 0)
        return time

    def _handle_block(self, kind: int, block: bytes) -> None:
        """Process a block that is not a packet, without its last four bytes. One too short for its kind is only
        counted.
        """
        try:
            if kind == SECTION_HEADER:
                if self._exceeds_limit("file_sections", self._sections, "section"):
                    return
                self._sections += 1
                self._first_interface = len(self.interfaces)
            elif kind == INTERFACE_DESCRIPTION:
                interface = self._interface(block)
                if self._exceeds_limit("file_interfaces", len(self.interfaces), "interface"):
                    return
                self._clocks.add(len(self.interfaces), interface)
                self.interfaces.append(interface)
            else:
                if kind == DECRYPTION_SECRETS:
                    self._keep_secrets(block)
                elif kind == INTERFACE_STATISTICS:
                    self._drop_counts(block)
                self._statistics.blocks_skipped[_NAMES.get(kind, f"type {kind:#x}")] += 1
        except StructError:
            self._statistics.blocks_skipped[f"type {kind:#x}, too short"] += 1

    def _exceeds_limit(self, name: str, count: int, what: str) -> bool:
        """Return whether one more than `count` would exceed the limit, which ends reading."""
        if count >= limit(name):
            self._stopped = f"stopped here: {what} {count + 1:,} would go over the limit {shown(name)}"
        return bool(self._stopped)

    def _interface(self, block: bytes) -> Interface:
        link_type, _, snapshot = Struct(self._order + "HHI").unpack_from(block, 8)
        interface = Interface(link_type, snapshot)
        for code, value in self._options(block[16:]):
            if code == _IF_NAME:
                interface.name = value.decode(errors="replace")
            elif code == _IF_DESCRIPTION:
                interface.description = value.decode(errors="replace")
            elif code == _IF_RESOLUTION and value:
                exponent = value[0] & 0x7F
                # with finer units a 64-bit tick count could not hold one second
                interface.units = 1 << min(exponent, 63) if value[0] & 0x80 else 10 ** min(exponent, 18)
            elif code == _IF_OFFSET and len(value) == 8:
                seconds = self._number(value, signed=True)
                interface.offset = max(min(seconds, 1 << 33), -(1 << 33))  # range of 64-bit nanoseconds
        return interface

    def _keep_secrets(self, block: bytes) -> None:
        kind, size = Struct(self._order + "II").unpack_from(block, 8)
        secrets = block[16:][:size]
        if kind == _TLS_KEY_LOG and 0 < len(secrets) <= self._secrets_left:
            self.secrets.append(secrets)
            self._secrets_left -= len(secrets)

    def _drop_counts(self, block: bytes) -> None:
        """Add the drop counts. Interface statistics hold running totals: the last block of each interface counts."""
        (interface,) = Struct(self._order + "I").unpack_from(block, 8)
        dropped = sum(
            self._number(value)
            for code, value in self._options(block[20:])
            if code in (_DROPPED_BY_INTERFACE, DROPPED_BY_SYSTEM) and len(value) == 8
        )
        number = self._first_interface + interface
        self._statistics.dropped += dropped - self._drops.get(number, 0)
        self._drops[number] = dropped

    def _options(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield options as (code, value), up to the end mark or a malformed one (section 3.5)."""
        at = 0
        while at + 4 <= len(data):
            code, length = self._u16s.unpack_from(data, at)
            if code == 0 or at + 4 + length > len(data):
                return
            yield code, data[at + 4 : at + 4 + length]
            at += 4 + (length + 3 & ~3)
