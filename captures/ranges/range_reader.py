"""One range of a capture, read by itself: which exchanges are certain, and which connections have to be read again.

A connection that started before the range is read from its first packet in it. Once requests and responses alternate,
this reading soon equals one that has seen everything before; from then on its exchanges are finished in the range,
provided that the stitcher, which knows how the connection reached that point, agrees (:mod:`captures.ranges.stitcher`).
The stitcher reads again what came before, and whole connections that never reached that point, from packet headers
alone; their payload stays in the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np

from captures.arrays import Bools, Int64s, distinct_values
from captures.exchanges import Capture, ExchangeReader
from captures.exchanges.checkpoints import COUNTERS, ConnectionState
from captures.exchanges.samples import Sample
from captures.exchanges.table import COLUMNS, Flag
from captures.packets import CaptureError, JoinedReader, JoinedSource, PacketBlock, PacketReader
from captures.packets.reader import BLOCK_SIZE, Part
from captures.packets.source import KEPT
from captures.packets.tls import KeyLog
from captures.ranges.clocks import SpanClock
from captures.ranges.edges import Edges, Packets, Pair, Snapshot, SplitConnection, SyncPoint, pair_of
from captures.ranges.plan import Range
from dissectors.session_context import SessionContext, SessionFacts

_FIRST_BLOCK = 1 << 18
"""Bytes of the first block, which is small because the reading of most busy connections is reliable after it."""


@dataclass(slots=True)
class FinishedExchanges:
    """The exchanges that are finished in a range, unless the stitcher refuses their connections.

    :ivar columns: columns of the exchange table; connection ids and packet numbers are those of the range
    :ivar client_ids: texts of the ``client_id`` column
    """

    columns: dict[str, np.ndarray[Any, Any]]
    client_ids: list[str | None]

    def __len__(self) -> int:
        return len(self.columns["flags"])


@dataclass(slots=True)
class _ReliableStart:
    """The point from which the reading of a connection is reliable.

    :ivar snapshot: state of the connection there
    :ivar rows: number of rows of the table there
    :ivar waiting: rows of its requests in flight there
    :ivar silent: rows of its latest requests that need no response
    """

    snapshot: Snapshot
    rows: int
    waiting: list[int]
    silent: list[int]


class RangePackets:
    """The packets of a range, a :class:`PacketBlock` at a time.

    :param source: all files
    """

    def __init__(self, source: JoinedSource, part: Range) -> None:
        self._part = Part(part.begin, 1 << 62 if part.end is None else part.end, part.known, _FIRST_BLOCK)
        self._cut = part.end is not None or part.begin > 0
        self._readers: list[PacketReader] = []
        self.joined = JoinedReader(source, BLOCK_SIZE, self._reader, range(*part.files))

    def _reader(self, *args: Any, **options: Any) -> PacketReader:
        if not self._cut:
            return PacketReader(*args, **options)
        reader = PacketReader(*args, part=self._part, **options)
        self._readers.append(reader)
        return reader

    def __iter__(self) -> Iterator[PacketBlock]:
        return iter(self.joined)

    @property
    def edges(self) -> tuple[int, int]:
        """Offsets of the first record and after the last one; -1 for the end of the file."""
        if not self._readers:
            return (self._part.begin, -1)
        return self._readers[0].begin, self._readers[0].end


class RangeReader:
    """Reads a range.

    :param source: all files
    :param in_place: whether the bytes of packets can be read from the files without reading everything before them
    :ivar capture: the range as a capture that has not ended
    """

    def __init__(
        self, source: JoinedSource, part: Range, *, keylog: KeyLog | None = None, in_place: bool = True
    ) -> None:
        self.part = part
        self._source = source
        self._unreadable = len(source.unreadable)
        self._packets = RangePackets(source, part)
        self._in_place = in_place
        self.capture = Capture(source, keylog=keylog, packets=self._packets.joined)
        self._clock = self.capture.assembler.clock = SpanClock(part.clock)
        self._sure: dict[int, _ReliableStart] = {}
        """Connections that began before, and since when they are sure of themselves."""
        self._apart: set[int] = set()
        """Connections that were sure of themselves, and turned out not to be."""
        self._begins = np.zeros(0, np.bool_)
        self._wanted = np.zeros(0, np.bool_)
        """Connections whose packets are kept."""
        self._kept: list[tuple[PacketBlock, Int64s, Int64s]] = []
        """Packets, their connections, and the readings of the clock."""
        self._payload: dict[int, bytes] = {}
        self._comments: dict[int, str] = {}
        self._rows = 0
        self._troubles = np.zeros(0, np.int64)
        self._early: dict[int, int] = {}
        """Connections of which bytes were missing -> reading of the clock before the first of them."""
        self._keys: tuple[int, int] | None = None

    def read(self) -> None:
        """Read the whole range.

        :raises CaptureError: if the file cannot be read at all
        """
        for block in self._packets:
            self.capture.take(block)
            self._comments |= block.comments
            if len(block):
                self._keep(block)
                self._look(int(block.number[-1]))

    # ------------------------------------------------------------ while it is read
    def _keep(self, block: PacketBlock) -> None:
        """Keep the packets of connections whose reading is not reliable yet."""
        capture, connections = self.capture, self.capture.connections
        known = len(self._wanted)
        if len(connections) > known:
            begins = connections.client_known[known:] & (connections.syn_time[known:] >= 0)
            self._begins = np.append(self._begins, begins)
            self._wanted = np.append(self._wanted, ~begins)
        highest = int(block.time.max())
        self._keys = (
            (self._keys[0], max(self._keys[1], highest)) if self._keys else (int(block.time[0]), highest)
        )
        stream = capture.assembler.stream
        rows = np.flatnonzero(self._wanted[stream >> 1])
        self._taint(block, stream)
        self._note_troubles()
        if len(rows):
            readings = capture.assembler.readings[rows]
            self._kept.append((_rows_of(block, rows), stream[rows] >> 1, readings))
            self._keep_payload(block, rows)

    def _keep_payload(self, block: PacketBlock, rows: Int64s) -> None:
        rows = rows[block.captured[rows] > 0]
        if self._in_place:
            rows = rows[block.offset[rows] >= KEPT]
        places = zip(block.offset[rows].tolist(), block.captured[rows].tolist(), strict=True)
        self._payload.update((offset, block.bytes_at(offset, size)) for offset, size in places)

    def _taint(self, block: PacketBlock, stream: Int64s) -> None:
        """Distrust connections that retransmit bytes first sent before their reading was reliable.

        Only an earlier range has the original bytes and can compare them. A single byte is a keep-alive.
        """
        if not self._sure:
            return
        streams = self.capture.connections.streams
        since = np.full(len(streams), -1 << 62, np.int64)
        for connection, sure in self._sure.items():
            since[2 * connection : 2 * connection + 2] = sure.snapshot.ends
        expected = streams.next_seq.astype(np.uint32)
        position = streams.end[stream] + (block.seq - expected[stream]).view(np.int32)
        behind = (position < since[stream]) & (block.length > 1)
        for connection in distinct_values(stream[behind] >> 1).tolist():
            self._distrust(connection)

    def _note_troubles(self) -> None:
        """Record the first clock reading at which bytes of a connection are or were missing."""
        assembler = self.capture.assembler
        streams = assembler.connections.streams
        troubles = streams.lost + streams.reordered
        more = troubles.copy()
        more[: len(self._troubles)] -= self._troubles
        self._troubles = troubles
        first = int(assembler.readings[0])
        for stream in (*np.flatnonzero(more).tolist(), *assembler.disordered):
            self._early.setdefault(stream >> 1, first)

    def _distrust(self, connection: int) -> None:
        if self._sure.pop(connection, None) is not None:
            self._apart.add(connection)

    def _look(self, packet: int) -> None:
        """Find connections whose reading has become reliable, and those whose reading no longer is.

        :param packet: number of the last packet read
        """
        capture = self.capture
        column = capture.table.column
        new = slice(self._rows, len(capture.table))
        orphans = column("flags")[new] & np.uint16(Flag.ORPHAN) != 0
        for connection in distinct_values(column("connection")[new][orphans]).tolist():
            self._distrust(connection)
        self._rows = len(capture.table)
        streams = capture.connections.streams
        sure = self._wanted & capture.can_freeze()
        answered = np.zeros(len(sure), np.bool_)
        answered[[each for each in capture.pairing.bulk.has_answered().tolist() if each < len(sure)]] = True
        sure &= answered
        open_yet = (streams.ack >= 0) & (streams.fin_time < 0) & (streams.reset_time < 0)
        sure &= np.all(open_yet.reshape(-1, 2), axis=1)
        for connection in np.flatnonzero(sure).tolist():
            self._wanted[connection] = False
            if connection not in self._apart:
                self._sure[connection] = _sure(capture, connection, packet)

    # ------------------------------------------------------------ results
    @property
    def mark(self) -> SyncPoint:
        """Summary of the range, from which its packets and exchanges are numbered."""
        begin, end = self._packets.edges
        capture = self.capture
        return SyncPoint(
            number=self.part.number,
            begin=begin,
            end=end,
            first_key=self._keys[0] if self._keys else None,
            last_key=self._keys[1] if self._keys else None,
            latest=capture.latest,
            observation=capture.connections.observation,
            clock=self._clock.span,
            first_exchange=self._first_exchange(),
            statistics=capture.statistics,
            secrets=list(self._packets.joined.secrets),
            unreadable=self._source.unreadable[self._unreadable :],
            copies=self._source.copies,
            noted=bool(self._comments),
        )

    def _first_exchange(self) -> int | None:
        times = self.capture.table.began(self.rows())
        return int(times.min()) if len(times) else None

    def results(self) -> tuple[FinishedExchanges, Edges]:
        """Return the exchanges that are finished here, and the edges for the stitcher."""
        capture = self.capture
        crossing = self._crossing()
        pairs = self._pairs()
        rows = self.rows(crossing)
        chosen = {name: capture.table.column(name)[rows] for name in COLUMNS}
        counts = np.bincount(chosen["connection"], minlength=len(crossing))
        samples: dict[int, list[Sample]] = {}
        for sample in capture.samples:
            since = self._sure.get(sample.connection)
            if since is None or sample.packet > since.snapshot.packet:
                samples.setdefault(sample.connection, []).append(sample)
        crossings = [
            self._split_connection(connection, pairs) for connection in np.flatnonzero(crossing).tolist()
        ]
        for each in crossings:
            each.exchanges, each.samples = int(counts[each.local]), samples.get(each.local, [])
            each.upstream = capture.samples.upstreams.get(each.local)
        packets, payload = self._packets_of(crossing, pairs)
        names = [pair for pair, _ in sorted(pairs.items(), key=lambda each: each[1])]
        edges = Edges(names, crossings, packets, payload, self._comments)
        return FinishedExchanges(chosen, list(capture.table.client_ids)), edges

    def facts(self) -> SessionFacts:
        """Return the session facts of the exchanges that are finished here; connections have the ids of the range."""
        return facts_of(self.capture, np.flatnonzero(self.rows()))

    def rows(self, crossing: Bools | None = None) -> Bools:
        """Return a mask of the rows of the table that are finished here."""
        capture, table = self.capture, self.capture.table
        crossing = self._crossing() if crossing is None else crossing
        connection = table.column("connection")
        first = np.zeros(len(crossing), np.int64)
        good: Bools = crossing[connection]
        for each, sure in self._sure.items():
            first[each] = sure.rows
        good &= np.arange(len(table)) >= first[connection]
        good[[row for each, sure in self._sure.items() if crossing[each] for row in sure.waiting]] = True
        waits = np.array(
            [
                row
                for each in np.flatnonzero(crossing).tolist()
                for row in capture.pairing.bulk.waiting(each).tolist()
            ],
            np.int64,
        )
        good[waits] = False
        return good

    def _crossing(self) -> Bools:
        """Return a mask of the connections whose reading is reliable from some packet to the end of the range."""
        capture, connections = self.capture, self.capture.connections
        flags = capture.table.column("flags")
        for connection, since in list(self._sure.items()):
            # a request of an earlier range was answered although it needs no response
            if not np.all(flags[since.silent] & np.uint16(Flag.NO_RESPONSE_EXPECTED)):
                self._distrust(connection)
        sure = capture.can_freeze()
        agreed = self._begins.copy()
        agreed[list(self._sure)] = True
        agreed[list(self._apart)] = False
        sure &= agreed
        ends = np.sort(np.stack((connections.a, connections.b)).astype(np.int64), axis=0)
        _, which, count = np.unique(ends[0] << 32 | ends[1], return_inverse=True, return_counts=True)
        sure &= count[which] == 1  # connections between the same endpoints depend on the one before
        return sure

    def _pairs(self) -> dict[Pair, int]:
        """Number the pairs of endpoints."""
        pairs: dict[Pair, int] = {}
        book, connections = self.capture.addresses, self.capture.connections
        for a, b in zip(connections.a.tolist(), connections.b.tolist(), strict=True):
            pair = pair_of((book.address(a), book.port(a)), (book.address(b), book.port(b)))
            pairs.setdefault(pair, len(pairs))
        return pairs

    def _split_connection(self, connection: int, pairs: dict[Pair, int]) -> SplitConnection:
        state = self.capture.freeze(connection)
        if not self._in_place:
            state.streams = state.streams[0].needed_only(), state.streams[1].needed_only()
        sure = self._sure.get(connection)
        single = self.capture.pairing.single_connections.get(connection)
        return SplitConnection(
            pair=pairs[pair_of(state.a, state.b)],
            local=connection,
            begins=sure is None,
            agreed=None if sure is None else sure.snapshot,
            state=state,
            counters=_counters(self.capture, connection),
            skipped=[] if single is None else list(single.skipped),
            foreign="" if single is None else single.foreign,
            ended_by_kproxy=connection in self.capture.notes.ended_connections,
            early=self._early.get(connection),
            payload=self._payload_of(state),
        )

    def _payload_of(self, state: ConnectionState) -> dict[int, bytes]:
        found = {}
        for stream in state.streams:
            _, offset, length = stream.places
            for place, size in zip(offset.tolist(), length.tolist(), strict=True):
                if not self._in_place or place >= KEPT:
                    found[place] = self._source.read_or_zeros(place, size)
        return found

    def _packets_of(self, crossing: Bools, pairs: dict[Pair, int]) -> tuple[Packets, dict[int, bytes]]:
        """Return the packets to read again, and their payload.

        If a connection turns out to need packets that were not kept, the range is scanned once more.
        """
        missing = ~crossing & ~self._wanted
        mixed = np.flatnonzero(missing).tolist()
        whole = {pair for pair, number in pairs.items() if number in self._numbers(mixed, pairs)}
        kept = [
            packets_from(block, clock, self.capture.addresses, pairs, connection, ~missing)
            for block, connection, clock in self._kept
        ]
        payload = self._payload
        if whole:
            numbers = np.array([pairs[pair] for pair in whole], np.int64)
            kept = [part.take(~np.isin(part.pair, numbers)) for part in kept]
            reread, more = packets_between(self._source, self.part, whole, pairs, in_place=self._in_place)
            kept, payload = [*kept, reread], payload | more
        packets = Packets.joined(kept)
        return packets.take(np.argsort(packets.number, kind="stable")), payload

    def _numbers(self, connections: Collection[int], pairs: dict[Pair, int]) -> set[int]:
        book, columns = self.capture.addresses, self.capture.connections
        found = set()
        for each in connections:
            ends = [
                (book.address(end), book.port(end)) for end in (int(columns.a[each]), int(columns.b[each]))
            ]
            found.add(pairs[pair_of(ends[0], ends[1])])
        return found


def _rows_of(block: PacketBlock, rows: Int64s) -> PacketBlock:
    """Return some rows of a block, without the bytes in memory."""
    columns = {name: getattr(block, name)[rows] for name in PacketBlock.COLUMNS}
    return PacketBlock(source=block.source, windows=(), addresses=block.addresses, **columns)


def packets_from(
    block: PacketBlock, clock: Int64s, book: Any, pairs: dict[Pair, int], connection: Int64s, wanted: Bools
) -> Packets:
    """Return packets with their pairs of endpoints.

    :param clock: clock reading at each packet
    :param connection: connection of each packet
    :param wanted: mask of connections; packets of the others are left out
    """
    rows = np.flatnonzero(wanted[connection])
    src, dst = block.src[rows].astype(np.int64), block.dst[rows].astype(np.int64)
    distinct, which = np.unique(src << 32 | dst, return_inverse=True)
    known = []
    for both in distinct.tolist():
        ends = [(book.address(end), book.port(end)) for end in (both >> 32, both & 0xFFFF_FFFF)]
        between = pair_of(ends[0], ends[1])
        known.append((pairs[between], between[0] != ends[0]))
    pair = np.array([each for each, _ in known], np.int32)[which]
    down = np.array([each for _, each in known], np.uint8)[which]
    names = (name for name in Packets.__slots__ if name not in ("pair", "down", "clock"))
    columns = {name: getattr(block, name)[rows] for name in names}
    return Packets(pair=pair, down=down, clock=clock[rows], **columns)


def packets_between(
    source: JoinedSource,
    part: Range,
    wanted: Collection[Pair],
    pairs: dict[Pair, int],
    *,
    in_place: bool,
) -> tuple[Packets, dict[int, bytes]]:
    """Scan a range again for all packets between the given endpoints.

    :param pairs: numbers of the pairs
    :returns: the packets, and the payload of those that cannot be read in place
    """
    found: list[Packets] = []
    payload: dict[int, bytes] = {}
    clock = SpanClock(part.clock)
    for block in RangePackets(source, part):
        readings = clock.read(block.time)
        book = block.addresses
        both = block.src.astype(np.int64) << 32 | block.dst.astype(np.int64)
        distinct, which = np.unique(both, return_inverse=True)
        chosen = np.zeros(len(distinct), np.bool_)
        for number, each in enumerate(distinct.tolist()):
            ends = [(book.address(end), book.port(end)) for end in (each >> 32, each & 0xFFFF_FFFF)]
            chosen[number] = pair_of(ends[0], ends[1]) in wanted
        rows = np.flatnonzero(chosen[which]) if len(distinct) else np.zeros(0, np.int64)
        if not len(rows):
            continue
        some = _rows_of(block, rows)
        nobody = np.zeros(len(rows), np.int64)
        found.append(packets_from(some, readings[rows], book, pairs, nobody, np.ones(1, np.bool_)))
        for offset, size in zip(some.offset.tolist(), some.captured.tolist(), strict=True):
            if size and (not in_place or offset >= KEPT):
                payload[offset] = block.bytes_at(offset, size)
    return Packets.joined(found), payload


def in_buckets(edges: Edges, count: int) -> dict[int, Edges]:
    """Divide edges among stitching tasks by pair of endpoints; return them by bucket."""
    bucket = np.array([crc32(repr(pair).encode()) % count for pair in edges.pairs], np.int64)
    indexes = np.zeros(len(bucket), np.int32)
    made = {}
    for number in distinct_values(bucket).tolist():
        chosen = np.flatnonzero(bucket == number)
        indexes[chosen] = np.arange(len(chosen))
        packets = edges.packets.take(np.flatnonzero(bucket[edges.packets.pair] == number))
        packets.pair = indexes[packets.pair]
        crossings = [
            replace(each, pair=int(indexes[each.pair]))
            for each in edges.crossings
            if bucket[each.pair] == number
        ]
        offsets = set(packets.offset.tolist()) if edges.payload else set()
        numbers = set(packets.number.tolist()) if edges.comments else set()
        made[number] = Edges(
            [edges.pairs[each] for each in chosen.tolist()],
            crossings,
            packets,
            {offset: data for offset, data in edges.payload.items() if offset in offsets},
            {packet: text for packet, text in edges.comments.items() if packet in numbers},
        )
    return made


def _counters(capture: Capture, connection: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    streams = capture.connections.streams
    one, other = (
        tuple(int(getattr(streams, name)[stream]) for name in COUNTERS)
        for stream in (2 * connection, 2 * connection + 1)
    )
    return one, other


def _sure(capture: Capture, connection: int, packet: int) -> _ReliableStart:
    streams, standing = capture.connections.streams, capture.pairing.bulk.handover(connection)
    both = slice(2 * connection, 2 * connection + 2)
    seq, ends = streams.next_seq[both].tolist(), streams.end[both].tolist()
    snapshot = Snapshot(
        next_seq=(seq[0], seq[1]),
        ends=(ends[0], ends[1]),
        frames=standing.positions,
        waiting=requests_of(capture, standing.waiting),
        counters=_counters(capture, connection),
        packet=packet,
        client_ids=[
            text for each in standing.client_ids if (text := capture.table.client_ids[each]) is not None
        ],
    )
    return _ReliableStart(snapshot, len(capture.table), standing.waiting, standing.silent)


def requests_of(capture: Capture, rows: list[int]) -> list[tuple[int, ...]]:
    """Return the identities of requests: number of the packet, correlation ID, API key, version, size."""
    names = ("packet", "correlation_id", "api_key", "version", "request_size")
    columns = [capture.table.column(name)[rows].tolist() for name in names]
    return list(zip(*columns, strict=True))


def facts_of(capture: Capture, rows: Int64s) -> SessionFacts:
    """Return the session facts of the exchanges in `rows`."""
    reader = ExchangeReader(capture, annotate=False, summary=False, live=True, knowledge=SessionContext())
    for _ in reader.learn_from(rows):
        pass
    return reader.knowledge.facts


def read_range(
    source: JoinedSource, part: Range, *, keylog: KeyLog | None = None, in_place: bool = True
) -> RangeReader:
    """Read a range. A read error is noted in `source`; everything before it is kept."""
    reading = RangeReader(source, part, keylog=keylog, in_place=in_place)
    try:
        reading.read()
    except CaptureError as error:
        source.report(error)
    return reading
