"""Reads a capture file block by block into packet columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from captures.arrays import Bytes
from captures.packets.addresses import AddressBook
from captures.packets.errors import NotACapture
from captures.packets.network import NetworkDecoder, relocated
from captures.packets.pcap import PcapFormat, is_pcap
from captures.packets.pcapng import PcapngFormat, is_pcapng
from captures.packets.rare import FragmentStore
from captures.packets.records import Interface, ParsedBuffer
from captures.packets.source import Source
from captures.packets.table import PADDING, FileDamage, PacketBlock, Statistics, Window
from captures.packets.walk import REACH, RecordLayout, lengths, resync
from dissectors.budget import limit, shown

BLOCK_SIZE = 4 << 20  # small enough for the headers to stay in the processor cache until gathered
_MIN_BLOCK = 256
_RAMP = 4
_HEAD = 28  # a pcapng section header; a pcap file header with the time of the first packet
_CONTEXT = 1 << 16  # bytes of a live capture searched for the next record after damage
_MOST_GARBAGE = 64 << 20  # bytes without a record after which to give up a live capture: it may never end


class _Format(RecordLayout, Protocol):
    """A capture file format."""

    name: str
    start: int
    interfaces: list[Interface]
    secrets: list[bytes]

    def parse(self, data: Bytes, start: int, end: int) -> ParsedBuffer:
        """Return all complete records of ``data[start:end]``."""


def recognise(source: Source, statistics: Statistics) -> _Format:
    """Return the format of a capture, recognised by its first bytes.

    :param statistics: where the format counts blocks that are not packets
    :raises CaptureError: if it is not a capture (:class:`NotACapture`), or its header is incomplete
    """
    source.wait_for(_HEAD)
    magic = source.read(0, 4)
    if is_pcapng(magic):
        return PcapngFormat(source, statistics)
    if is_pcap(magic):
        return PcapFormat(source)
    begins = f"begins with {source.read(0, 8).hex(' ')}" if magic else "is empty"
    reason = f"not a capture file: {begins}; kproxy reads pcap, pcapng, gzip, zstd, request logs of brokers"
    if source.damage:
        reason += f" ({source.damage})"
    raise NotACapture(source.path, 0, reason)


class Part(NamedTuple):
    """The records of a file whose headers start in a range of its bytes.

    :ivar begin: offset of the first byte; the search for a plausible record starts there
    :ivar end: offset after the last byte
    :ivar known: whether a record is known to start at ``begin``
    :ivar first_block: size of the first block in bytes; each following one is four times as large, up to the block
        size. 0 starts with the block size
    """

    begin: int = 0
    end: int = 1 << 62
    known: bool = False
    first_block: int = 0


WHOLE = Part()
"""All of a file."""


class PacketReader:
    """Iterates over the packets of a capture, a :class:`PacketBlock` at a time.

    Blocks without TCP packets are dropped, unless they have comments. A live source yields a block as soon as there is
    a whole record; iterating waits for it.

    :param addresses: address book of earlier files, to be continued
    :param fragments: waiting IP fragments of earlier files
    :param part: the part of the file to read
    :ivar source: the capture
    :ivar addresses: the endpoints found so far
    :ivar statistics: the counters so far
    :ivar done: bytes of the capture read so far
    :ivar begin: position of the first record of the part, known once it is read
    :ivar end: position of the record after the last one of the part, known at the end
    """

    def __init__(
        self,
        source: Source,
        block_size: int = BLOCK_SIZE,
        *,
        addresses: AddressBook | None = None,
        fragments: FragmentStore | None = None,
        part: Part = WHOLE,
    ) -> None:
        self.source = source
        self.addresses = AddressBook() if addresses is None else addresses
        self.statistics = Statistics()
        self.done = 0
        self.begin = self.end = 0
        self._block_size = max(block_size, _MIN_BLOCK)
        self._part = part
        self._format: _Format | None = None
        if not source.live:
            self._recognised()
        self._decoder = NetworkDecoder(source, self.addresses, self.statistics, fragments)
        self._blocks = self._read()

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces declared so far, in all sections."""
        return [] if self._format is None else self._format.interfaces

    @property
    def secrets(self) -> list[bytes]:
        """TLS key logs (NSS format) embedded in the file, found so far."""
        return [] if self._format is None else self._format.secrets

    def __iter__(self) -> Iterator[PacketBlock]:
        return self

    def __next__(self) -> PacketBlock:
        return next(self._blocks)

    def _recognised(self) -> _Format:
        if self._format is None:
            self._format = recognise(self.source, self.statistics)
        return self._format

    def _read(self) -> Iterator[PacketBlock]:
        if self.source.live and not self.source.wait_for(1) and self.source.stopped:
            return
        layout, part = self._recognised(), self._part
        position = self.begin = self.end = self._first(layout)
        block_size, needed = min(part.first_block or self._block_size, self._block_size), 0
        while position < part.end:
            data, end = self._load(position, max(min(block_size, part.end - position), needed))
            if not end:
                break
            parsed = layout.parse(data, 0, end)
            if len(parsed.records):
                block = self._block(data, position, parsed)
                self.done = position + parsed.end
                if len(block) or block.comments:
                    yield block
            position += parsed.end
            block_size, needed = min(_RAMP * block_size, self._block_size), 0
            stopped = parsed.damaged if parsed.stopped else ""
            if parsed.damaged and len(self.statistics.damage) >= limit("file_damage"):
                count = len(self.statistics.damage) + 1
                stopped = (
                    f"stopped here: damaged place {count:,} would go over the limit {shown('file_damage')}"
                )
            if stopped:
                self._note(position, 0, stopped)
                position = self.source.size
                break
            if parsed.damaged:
                found = self._skip_damage(data[parsed.end :], end - parsed.end, position, parsed.damaged)
                if found is None:
                    position = self.source.size
                    break
                position = found
            elif not parsed.end:  # the first record is incomplete
                wanted = _record_size(data, end, layout)
                if not self.source.wait_for(position + wanted):
                    if not self.source.stopped:
                        self._note(position, 0, f"the file ends inside {self._next_packet()}")
                    position = self.source.size
                    break
                needed = wanted
        self.end = max(position, self.begin)
        if self.source.damage and part is WHOLE:
            self._note(self.source.size, 0, self.source.damage)

    def _next_packet(self) -> str:
        """Return a name for the next packet: within a part, its number is unknown."""
        return f"packet {self.statistics.packets + 1}" if self._part is WHOLE else "a packet"

    def _first(self, layout: _Format) -> int:
        part = self._part
        if part.known or part.begin <= layout.start:
            return max(part.begin, layout.start)
        position, window = part.begin, _CONTEXT
        while True:
            data, end = self._load(position, window)
            found = resync(data, 0, end, layout) if end else 0
            if found >= 0:
                return position + found
            if position + end >= self.source.size:
                return self.source.size
            position, window = position + max(end - layout.base, 1), self._block_size

    def _block(self, data: Bytes, position: int, parsed: ParsedBuffer) -> PacketBlock:
        records = parsed.records
        first = self.statistics.packets + 1
        self.statistics.packets += len(records)
        tcp = self._decoder.decode(data, records, self.interfaces)
        return PacketBlock(
            source=self.source,
            windows=(Window(data, position, len(data) - PADDING),),
            addresses=self.addresses,
            number=tcp.row + first,
            time=records.time[tcp.row],
            src=tcp.src.astype(np.int32),
            dst=tcp.dst.astype(np.int32),
            seq=tcp.seq.astype(np.uint32),
            ack=tcp.ack.astype(np.uint32),
            flags=tcp.flags.astype(np.uint8),
            window=tcp.window.astype(np.uint16),
            offset=relocated(tcp.offset, position),
            length=tcp.length.astype(np.int32),
            captured=tcp.captured.astype(np.int32),
            interface=records.interface[tcp.row],
            comments={first + row: text for row, text in parsed.comments.items()},
        )

    def _skip_damage(self, data: Bytes, end: int, position: int, reason: str) -> int | None:
        """Return the position at which to continue after an impossible record; None if there is none.

        :param data: the bytes from that record on, `end` of them
        :param position: their position in the source
        """
        layout, damaged = self._recognised(), position
        pos, reach = layout.multiple, _CONTEXT if self.source.live else REACH
        final = False
        while True:
            if end < pos + reach:  # the following blocks may decide about a place
                final = not self.source.wait_for(position + pos + reach)
                data, end = self._load(position, max(self._block_size, pos + 2 * reach))
            # a live capture may return less than is available
            limit = end if final else max(end - reach + 1, pos)
            found = resync(data, pos, end, layout, limit=limit, reach=reach)
            if found >= 0:
                break
            if final:
                self._note(damaged, 0, reason)
                return None
            position, pos = position + limit, 0
            data, end = data[limit:], end - limit
            if self.source.live and (passed := position - damaged) > _MOST_GARBAGE:
                self._note(damaged, 0, f"{reason}, and no packet in the {passed:,} bytes behind it")
                return None
        position += found
        self._note(damaged, position - damaged, reason)
        return position

    def _load(self, position: int, size: int) -> tuple[Bytes, int]:
        """Return the next bytes of the file, padded, and their number; 0 at its end."""
        if self.source.complete:
            size = max(min(size, self.source.size - position), 0)
        data = np.empty(size + PADDING, np.uint8)
        end = self.source.read_into(position, data.data[:-PADDING])
        data = data[: end + PADDING]
        data[end:] = 0
        return data, end

    def _note(self, offset: int, skipped: int, reason: str) -> None:
        self.statistics.damage.append(FileDamage(offset, skipped, reason, self.source.path))


def _record_size(data: Bytes, end: int, layout: RecordLayout) -> int:
    """Return the size of the record at the start of `data`, or of its header if that is incomplete."""
    header = layout.base + layout.minimum
    if end < header:
        return header
    return max(layout.base + int(lengths(data, layout)[layout.length_field]), header)
