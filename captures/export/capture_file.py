"""A selection of exchanges as a pcapng file.

Original packets that show the exchanges are copied. What was decrypted, or joined from IP fragments, is written as
synthetic TCP on an interface of its own. Several captures are written one after the other; the packets of each keep
their order, with synthetic packets inserted by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO

import msgspec
import numpy as np

from captures.exchanges import Progress
from captures.exchanges.notes import without_values
from captures.export.packets import original_packets
from captures.export.pcapng_writer import Packet, PcapngWriter
from captures.export.scrub import Scrubber
from captures.export.selection import Selection
from captures.export.synthetic import ETHERNET_SEGMENT, SyntheticPacket, synthetic_packets
from captures.packets.records import Interface

_SYNTHETIC = "synthetic TCP: frames as kproxy saw them, not packets as they were captured"
_BATCH = 512


class WriteResult(msgspec.Struct):
    """Counts of what was written.

    :ivar exchanges: selected exchanges
    :ivar packets: all packets
    :ivar synthetic: synthetic packets among them
    """

    exchanges: int = 0
    packets: int = 0
    synthetic: int = 0


class CaptureFileWriter:
    """Writes selections of one or more captures to one pcapng section.

    :param scrub: blank what captures must not give away (:mod:`captures.export.scrub`)
    :param synthetic: write synthetic TCP for all exchanges
    :ivar written: counts so far
    :ivar notes: sentences that the reader of the file should know
    """

    def __init__(self, file: BinaryIO, *, scrub: bool = False, synthetic: bool = False) -> None:
        self._writer = PcapngWriter(file)
        self._scrub = scrub
        self._all_synthetic = synthetic
        self._synthetic_interface = -1
        self.written = WriteResult()
        self.notes: list[str] = []

    def write(self, selection: Selection, progress: Progress | None = None) -> None:
        """Write the packets of a selection, with the notes on its exchanges as comments.

        :param progress: called with the bytes of the capture copied so far, and its size
        """
        for done in self.steps(selection):
            if progress is not None:
                progress(done, selection.capture.source.size)

    def steps(self, selection: Selection) -> Iterator[int]:
        """Write as :meth:`write` does, some hundred packets per step; yield the bytes of the capture copied so far.

        For callers that have other work between steps. Rows of the exchange table must not move meanwhile.
        """
        capture = selection.capture
        scrubber = Scrubber(capture) if self._scrub else None
        if self._all_synthetic:
            selection.elsewhere = set(selection.connections.tolist())
        connection = capture.table.column("connection")[selection.rows]
        made = np.isin(connection, list(selection.elsewhere))
        synthetic = _PeekableStream(
            synthetic_packets(
                capture,
                selection.rows[made],
                read=scrubber.pieces if scrubber else None,
                segment_size=ETHERNET_SEGMENT,
                comments={frame: self._comment(text) for frame, text in capture.notes.by_frame().items()},
            )
        )
        if not made.all():
            rewrite = scrubber.rewrite if scrubber else None
            interfaces: dict[int, int] = {}
            for declared, originals, done in original_packets(selection, rewrite=rewrite):
                self._originals(declared, interfaces, originals, synthetic)
                yield done
        for _ in self._put(self._made(synthetic)):
            yield capture.source.size
        self.written.exchanges += len(selection)
        self.written.packets = self._writer.packets
        if scrubber is not None:
            self.notes += scrubber.notes()

    def _originals(
        self,
        declared: list[Interface],
        interfaces: dict[int, int],
        originals: list[Packet],
        synthetic: _PeekableStream,
    ) -> None:
        packets: list[Packet] = []
        for interface, time, data, wire, comment in originals:
            if synthetic.time <= time:
                packets += self._made(synthetic, time)
            number = interfaces.get(interface)
            if number is None:
                number = interfaces[interface] = self._declare(declared[interface])
            packets.append(Packet(number, time, data, wire, self._comment(comment)))
        for _ in self._put(packets):
            pass

    def _made(self, synthetic: _PeekableStream, until: float = float("inf")) -> Iterator[Packet]:
        for time, _, data, comment, missing in synthetic.until(until):
            if self._synthetic_interface < 0:
                self._synthetic_interface = self._writer.interface(name="synthetic", description=_SYNTHETIC)
            self.written.synthetic += 1
            yield Packet(self._synthetic_interface, time, data, len(data) + missing, comment)

    def _comment(self, text: str) -> str:
        """Return the comment without values if the file is scrubbed: comments of the proxy may contain some."""
        return without_values(text) if self._scrub else text

    def _declare(self, interface: Interface) -> int:
        return self._writer.interface(
            interface.link_type,
            name=interface.name,
            description=interface.description,
            snapshot_length=interface.snapshot_length,
        )

    def _put(self, packets: Iterable[Packet]) -> Iterator[int]:
        """Write in batches, large enough to be fast and small enough for memory; yield the size of each."""
        rest = iter(packets)
        while batch := list(islice(rest, _BATCH)):
            self._writer.write_packets(batch)
            yield len(batch)


class _PeekableStream:
    """Synthetic packets with a look at the time of the next one."""

    def __init__(self, packets: Iterator[SyntheticPacket]) -> None:
        self._packets = packets
        self._next = next(packets, None)

    @property
    def time(self) -> float:
        """Time of the next packet, infinite after the last."""
        return float("inf") if self._next is None else self._next.time

    def until(self, time: float) -> Iterator[SyntheticPacket]:
        """Yield the packets up to `time`."""
        while self._next is not None and self._next.time <= time:
            packet, self._next = self._next, next(self._packets, None)
            yield packet
