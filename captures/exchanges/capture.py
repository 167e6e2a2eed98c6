"""A capture as a table of exchanges, with the bytes of every frame within reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from captures.exchanges.bulk import PADDING, Bools, BulkPairing, Handover, Int64s
from captures.exchanges.decrypt import Decryption
from captures.exchanges.instep import InStep
from captures.exchanges.single import SingleConnection, Skip
from captures.exchanges.table import ExchangeTable, Flag
from captures.packets import (
    Connections,
    SegmentBlock,
    SegmentIndex,
    Source,
    Statistics,
    TcpAssembler,
    open_source,
    read_packets,
)
from captures.packets.reader import BLOCK_SIZE
from captures.packets.tls import KeyLog
from dissectors.apis import version_limits

# socket.request.max.bytes is 100 MiB unless configured; responses have no limit of their own. What TLS begins with
# would be a size from 320 MiB on: anything so large is left to the thorough way
MAX_FRAME = 1 << 28

SIZE_BYTES = 4

#: called with bytes of the capture read so far, and its size or None if unknown
Progress = Callable[[int, int | None], None]


@dataclass(slots=True)
class FrameBytes:
    """The bytes of a frame, as far as they were captured.

    :ivar payload: what follows the size field, up to the first hole
    :ivar complete: whether that is all of it
    :ivar have: offset of the first missing byte, from the first byte of the size field
    :ivar reason: why it is incomplete, in words
    """

    payload: bytes
    complete: bool
    have: int
    reason: str = ""


class Capture:
    """One capture file, read as far as the exchange table.

    :param block_size: how much of the file is read at a time, in bytes; the table does not depend on it
    :ivar table: the exchanges
    :ivar index: where the bytes of the streams are
    :ivar connections: the TCP connections
    :ivar statistics: what the packet reader met
    :ivar skipped: stretches of streams that belong to no frame, and why
    :ivar foreign: connections that are not Kafka, and what they look like
    :ivar decryption: the TLS connections
    """

    def __init__(self, source: Source, block_size: int = BLOCK_SIZE, *, keylog: KeyLog | None = None) -> None:
        self.source = source
        self.table = ExchangeTable()
        self.index = SegmentIndex(source)
        self._packets = read_packets(source, block_size)
        self._assembler = TcpAssembler(self.index)
        self._in_step = InStep()
        self._keylog = KeyLog() if keylog is None else keylog
        self.decryption = Decryption(source, self.index, self._assembler.connections, self._keylog)
        self._limits = version_limits()
        self._bulk = BulkPairing(self.table, self._limits, MAX_FRAME)
        self._singles: dict[int, SingleConnection] = {}
        self._ordinary = np.zeros(0, np.bool_)
        self._secrets = 0
        self._endpoints: dict[int, tuple[str, str]] = {}
        self.skipped: list[Skip] = []
        self.foreign: dict[int, str] = {}

    @property
    def connections(self) -> Connections:
        """The TCP connections met so far."""
        return self._assembler.connections

    @property
    def statistics(self) -> Statistics:
        """What the packet reader met so far."""
        return self._packets.statistics

    def read(self, progress: Progress | None = None) -> None:
        """Read the whole capture into the table.

        :raises CaptureError: if it is not a capture file
        """
        for block in self._packets:
            segments = self._assembler.feed(block)
            while self._secrets < len(self._packets.secrets):
                self._keylog.add(self._packets.secrets[self._secrets])
                self._secrets += 1
            self._feed(self.decryption.feed(self._in_step.feed(segments, self._assembler.waiting)))
            if progress is not None:
                progress(block.file_offset + block.size, self.source.size)
        last = self._in_step.feed(self._assembler.finish(), {})
        self._feed(self.decryption.feed(last))
        self._feed(self.decryption.finish(last))
        self._finish()

    # ------------------------------------------------------------ the two ways through
    def _feed(self, block: SegmentBlock) -> None:
        connections = self.connections
        self._ordinary = np.append(self._ordinary, np.zeros(len(connections) - len(self._ordinary), np.bool_))
        if not len(block) and not len(block.gaps):
            return
        connection = block.stream >> 1
        self._admit(block, connection)
        holes = np.unique(block.gaps.stream >> 1)
        for handover in self._bulk.hand_over(set(holes[self._ordinary[holes]].tolist())):
            self._take_over(handover)
        data, starts = block.payload(padding=PADDING)
        met = np.unique(np.concatenate((connection, block.gaps.stream >> 1)))
        singles = met[~self._ordinary[met]]
        done = self._feed_singles(block, data, starts, singles, np.zeros(len(block), np.bool_))
        rows = self._ordinary[connection] & ~done
        if not rows.any():
            return
        handovers = self._bulk.feed(block, data, starts, rows)
        for handover in handovers:
            self._take_over(handover)
        if handovers:
            given_up = np.array([handover.connection for handover in handovers], np.int64)
            self._feed_singles(block, data, starts, given_up, ~rows, again=True)

    def _admit(self, block: SegmentBlock, connection: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Let connections take the fast way that begin in this block with both handshakes and a request."""
        connections = self.connections
        for new in np.unique(connection).tolist():
            if new in self._singles or self._ordinary[new]:
                continue
            seen = connections.streams.syn_seen[2 * new : 2 * new + 2]
            if bool(connections.client_known[new]) and bool(seen.all()):
                self._ordinary[new] = True
                self._bulk.admit(new)
            else:
                self._single(new)

    def _single(self, connection: int) -> SingleConnection:
        single = self._singles.get(connection)
        if single is None:
            single = self._singles[connection] = SingleConnection(
                connection,
                self.table,
                self.decryption.index_of(connection),
                self._limits,
                client_known=bool(self.connections.client_known[connection]),
                whole=bool(self.connections.streams.syn_seen[2 * connection : 2 * connection + 2].all()),
            )
        return single

    def _take_over(self, handover: Handover) -> None:
        self._ordinary[handover.connection] = False
        self._single(handover.connection).adopt(handover)

    def _feed_singles(
        self,
        block: SegmentBlock,
        data: bytes,
        starts: Int64s,
        singles: Int64s,
        skip: Bools,
        *,
        again: bool = False,
    ) -> Bools:
        """Feed connections that are not ordinary; those that have become so go back to the bulk way.

        :param data: the payload of the block, and where in it each segment begins
        :param singles: the connections
        :param skip: rows that are not to be fed
        :param again: the bulk way has just given these connections up: what is left of the block is for them, their
            gaps were fed before
        :returns: rows that were fed, or skipped
        """
        done: Bools = skip | np.isin(block.stream >> 1, singles)
        for connection in singles.tolist():
            single = self._single(connection)
            returned = single.feed(block, data, starts, skip, gaps=not again, to_the_end=again)
            if returned is not None:
                handover, rest = returned
                self._bulk.take_over(handover, single.client_direction)
                self._ordinary[connection] = True
                done[rest] = False
        return done

    def _finish(self) -> None:
        rows, handovers = self._bulk.finish()
        self.table.mark(rows, Flag.UNANSWERED)
        for handover in handovers:
            self._take_over(handover)
        for connection, single in self._singles.items():
            single.finish(self._ended_by(connection))
            self.skipped.extend(single.skipped)
            if single.foreign:
                self.foreign[connection] = single.foreign
        with_exchanges = set(self.table.column("connection").tolist())
        for connection in self.decryption.tls:
            inside = self.foreign.get(connection)
            summary = self.decryption.summary(connection)
            if inside is not None:
                self.foreign[connection] = f"{summary}, inside: {inside}"
            elif connection not in with_exchanges:
                self.foreign[connection] = str(summary)

    def _ended_by(self, connection: int) -> str:
        closed = self.connections[connection].closed
        return "the capture ended" if closed == "open" else f"the connection was {closed.split()[0]}"

    # ------------------------------------------------------------ what views ask for
    def client_stream(self, connection: int) -> int:
        """Return the stream that carries the requests of a connection."""
        single = self._singles.get(connection)
        return 2 * connection + (single.client_direction if single is not None else 0)

    def endpoints(self, connection: int) -> tuple[str, str]:
        """Return client and broker of a connection as ``host:port``."""
        found = self._endpoints.get(connection)
        if found is None:
            found = self._endpoints[connection] = self._resolve(connection)
        return found

    def _resolve(self, connection: int) -> tuple[str, str]:
        ends = int(self.connections.a[connection]), int(self.connections.b[connection])
        texts = [self._packets.addresses.text(end) for end in ends]
        return (texts[1], texts[0]) if self.client_stream(connection) & 1 else (texts[0], texts[1])

    def frame(
        self, connection: int, side: Literal["request", "response"], position: int, size: int
    ) -> FrameBytes | None:
        """Return the bytes of a frame, or None if there is no such frame (``size`` 0)."""
        if not size:
            return None
        stream = self.client_stream(connection) ^ (side == "response")
        payload = self.decryption.index_of(connection).read_captured(
            stream, position + SIZE_BYTES, position + size
        )
        have = SIZE_BYTES + len(payload)
        if have == size:
            return FrameBytes(payload, True, size)
        reason = f"{size - have} of {size} bytes were not captured from here on"
        return FrameBytes(payload, False, have, reason)


def open_capture(path: str, block_size: int = BLOCK_SIZE, *, keylog: KeyLog | None = None) -> Capture:
    """Open a capture file, ``-`` for standard input; nothing but its beginning is read yet.

    :param block_size: how much of the file is read at a time, in bytes
    :param keylog: secrets of TLS connections; those in the capture itself are used too
    :raises CaptureError: if it cannot be opened, or is not a capture
    """
    return Capture(open_source(path), block_size, keylog=keylog)
