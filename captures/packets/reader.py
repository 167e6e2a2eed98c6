"""Reading a capture file block by block into packet columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from captures.packets.addresses import AddressBook
from captures.packets.errors import CaptureError
from captures.packets.network import NetworkDecoder, relocated
from captures.packets.pcap import PcapFormat, is_pcap
from captures.packets.pcapng import PcapngFormat, is_pcapng
from captures.packets.records import Interface, Parsed
from captures.packets.source import Source
from captures.packets.table import Bytes, Damage, PacketBlock, Statistics
from captures.packets.walk import PADDING, RecordLayout, resync

BLOCK_SIZE = 4 << 20  # small enough for the headers to be still in the processor cache when gathered
_MIN_BLOCK = 256


class _Format(RecordLayout, Protocol):
    """A capture file format."""

    start: int
    interfaces: list[Interface]
    secrets: list[bytes]

    def parse(self, data: Bytes, start: int, end: int) -> Parsed:
        """All complete records of ``data[start:end]``."""


class PacketReader:
    """Iterates over the packets of a capture, a :class:`PacketBlock` at a time.

    Blocks without TCP packets are not handed out, except those that carry comments.

    :ivar source: the capture
    :ivar format: ``pcap`` or ``pcapng``
    :ivar addresses: the endpoints met so far
    :ivar statistics: what was met so far
    """

    def __init__(self, source: Source, block_size: int = BLOCK_SIZE) -> None:
        self.source = source
        self.addresses = AddressBook()
        self.statistics = Statistics()
        self._block_size = max(block_size, _MIN_BLOCK)
        magic = source.read(0, 4)
        self._format: _Format
        if is_pcapng(magic):
            self.format = "pcapng"
            self._format = PcapngFormat(source, self.statistics)
        elif is_pcap(magic):
            self.format = "pcap"
            self._format = PcapFormat(source)
        else:
            begins = f"begins with {source.read(0, 8).hex(' ')}" if magic else "is empty"
            reason = f"not a capture file: {begins}; kproxy reads pcap, pcapng, gzip, zstd"
            if source.damage:
                reason += f" ({source.damage})"
            raise CaptureError(source.path, 0, reason)
        self._decoder = NetworkDecoder(source, self.addresses, self.statistics)
        self._blocks = self._read()

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces declared so far, over all sections."""
        return self._format.interfaces

    @property
    def secrets(self) -> list[bytes]:
        """TLS key logs (NSS format) embedded in the file, met so far."""
        return self._format.secrets

    def __iter__(self) -> Iterator[PacketBlock]:
        return self

    def __next__(self) -> PacketBlock:
        return next(self._blocks)

    def _read(self) -> Iterator[PacketBlock]:
        position, size = self._format.start, self._block_size
        while position < self.source.size:
            data, end = self._load(position, size)
            if not end:  # the file shrank meanwhile
                break
            parsed = self._format.parse(data, 0, end)
            if len(parsed.records):
                block = self._block(data, position, parsed)
                if len(block) or block.comments:
                    yield block
            position += parsed.end
            rest = end - parsed.end
            if parsed.damaged:
                position = self._skip_damage(data, parsed.end, end, position, parsed.damaged)
            elif position + rest >= self.source.size:
                if rest:
                    self._note(position, 0, f"the file ends inside packet {self.statistics.packets + 1}")
                break
            elif parsed.end == 0:
                size *= 2  # one record is larger than the block
                continue
            size = self._block_size
        if self.source.damage:
            self._note(self.source.size, 0, self.source.damage)

    def _block(self, data: Bytes, position: int, parsed: Parsed) -> PacketBlock:
        records = parsed.records
        first = self.statistics.packets + 1
        self.statistics.packets += len(records)
        tcp = self._decoder.decode(data, records, self._format.interfaces)
        return PacketBlock(
            source=self.source,
            data=data,
            file_offset=position,
            size=len(data) - PADDING,
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
            comments={first + row: text for row, text in records.comments.items()},
        )

    def _skip_damage(self, data: Bytes, place: int, end: int, position: int, reason: str) -> int:
        """Where to go on behind a record that cannot be one; the end of the file if nowhere."""
        step = self._format.multiple
        damaged = position
        found = resync(data, place + step, end, self._format)
        while found < 0:
            position += end - place
            if position >= self.source.size:
                self._note(damaged, 0, reason)
                return self.source.size
            data, end = self._load(position, self._block_size)
            place = 0
            found = resync(data, 0, end, self._format)
        position += found - place
        self._note(damaged, position - damaged, reason)
        return position

    def _load(self, position: int, size: int) -> tuple[Bytes, int]:
        """The next bytes of the file, padded, and how many they are."""
        data = np.empty(min(size, self.source.size - position) + PADDING, np.uint8)
        end = self.source.read_into(position, data.data[:-PADDING])
        data[end:] = 0
        return data, end

    def _note(self, offset: int, skipped: int, reason: str) -> None:
        self.statistics.damage.append(Damage(offset, skipped, reason))


def read_packets(source: Source, block_size: int = BLOCK_SIZE) -> PacketReader:
    """The TCP packets of a capture in blocks of about `block_size` bytes of the file.

    :raises CaptureError: if the source is not a pcap or pcapng file; on iteration if reading it fails
    """
    return PacketReader(source, block_size)
