"""Stitching connections that cross the edges of ranges.

A range's reading of a connection is accepted at a point where it agrees with the reading from before: the same bytes
come next, frames start at the same positions, the same requests are in flight. Everything before such a point is read
again from packets alone, with the code that reads whole captures; a connection that no range has read reliably is read
so from its first packet to its last. The result is thus that of one reading of everything, wherever the edges are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from captures.arrays import Int64s, distinct_values
from captures.exchanges import Capture
from captures.exchanges.capture import NoPackets
from captures.exchanges.checkpoints import CONNECTION_COLUMNS, COUNTERS, STREAM_COLUMNS, ConnectionState
from captures.exchanges.table import DetachedRow
from captures.packets import Conflict, JoinedSource, PacketBlock
from captures.packets.observation import NO_FILE, Observation
from captures.packets.reorder import BEHIND
from captures.packets.source import KEPT
from captures.packets.tls import KeyLog
from captures.ranges.clocks import ClockStart, GivenClock
from captures.ranges.edges import Edges, Packets, Pair, SplitConnection, pair_of, unpack
from captures.ranges.plan import Range
from captures.ranges.range_reader import facts_of, packets_between
from captures.ranges.whole_connections import Piece, StitchedConnections, StitchedExchange, WholeConnection
from dissectors.conversation.client import MAX_CLIENT_IDS
from dissectors.conversation.pairing import MAX_SILENT
from dissectors.sides import SIDES

_ROWS_AT_ONCE = 1 << 16


@dataclass(slots=True)
class _Chain:
    """The current connection between two endpoints.

    :ivar whole: index of the connection, -1 if the reading has not found it yet
    :ivar state: its state, unless the reading here continues it
    :ivar live: its id in the reading, if that continues it, else -1
    :ivar begins: positions in both streams from which the reading has the locations of bytes, if it continues the
        connection from a range
    :ivar taken: accepted readings of ranges: number of the range, id there, stream positions at that point
    """

    whole: int = -1
    state: ConnectionState | None = None
    live: int = -1
    begins: tuple[int, int] | None = None
    taken: list[tuple[int, int, tuple[int, int]]] = field(default_factory=list)


class _ConflictCapture(Capture):
    """A capture that records retransmitted bytes with different content."""

    def __init__(self, source: JoinedSource, *, keylog: KeyLog | None, packets: NoPackets) -> None:
        super().__init__(source, keylog=keylog, packets=packets)
        self.conflicts: list[Conflict] = []

    def _mark_conflicts(self, went_on: Int64s) -> None:
        self.conflicts += self.assembler.conflicts
        super()._mark_conflicts(went_on)


class _GivenFiles(Observation):
    """Finds the files of packets whose bytes are kept elsewhere.

    :ivar offsets: offsets of the next packets in the files
    """

    def __init__(self) -> None:
        super().__init__()
        self.offsets = np.empty(0, np.int64)

    def take(self, offsets: Int64s, times: Int64s, before: Int64s) -> Int64s:
        """Observe packets at the offsets in :attr:`offsets`."""
        return super().take(self.offsets, times, before)


class Stitcher:
    """Stitches the connections between some endpoints, range by range, in order.

    :param source: all files
    :param ranges: all ranges
    :param bases: number of packets before each range
    :param clocks: corrections of the clocks of ranges to that of the whole capture
    :param in_place: for each range, whether its bytes can be read from the files without reading everything before them
    :param refused: connections of ranges that must not be accepted, as number of the range and id there
    :ivar too_early: connections of ranges that were accepted although a later packet changes their exchanges
    """

    def __init__(
        self,
        source: JoinedSource,
        ranges: Sequence[Range],
        bases: Sequence[int],
        *,
        clocks: Sequence[ClockStart] | None = None,
        keylog: KeyLog | None = None,
        in_place: Sequence[bool] | None = None,
        refused: Collection[tuple[int, int]] = (),
    ) -> None:
        self._source = source
        self._ranges = ranges
        self._bases = bases
        self._in_place = in_place
        self._clocks = [ClockStart()] * len(ranges) if clocks is None else clocks
        self._refused = refused
        self.too_early: set[tuple[int, int]] = set()
        self._capture = _ConflictCapture(source, keylog=keylog, packets=NoPackets())
        self._clock = self._capture.assembler.clock = GivenClock()
        self._files = self._capture.connections.observation = _GivenFiles()
        self._capture.assembler.give_up_per_connection()
        self._chains: dict[Pair, _Chain] = {}
        self._known = 0
        self._whole_of: dict[int, int] = {}
        """Id in the reading -> index of the connection."""
        self._latest: dict[int, int] = {}
        """Connection -> its id in the reading that knows it best; it is not here if a range does."""
        self._void: set[int] = set()
        """Rows of the reading that another range reports."""
        self._as_known: dict[int, DetachedRow] = {}
        """Those of them that are over, as they were."""
        self._made = StitchedConnections()

    # ------------------------------------------------------------ range by range
    def feed(self, number: int, edges: Edges) -> None:
        """Add the edges of a range; ranges come in order.

        :raises CaptureError: if the files cannot be read
        """
        to_reread: dict[Pair, int] = {}
        for crossing in edges.crossings:
            if crossing.begins and not self._begin(number, edges.pairs[crossing.pair], crossing):
                self._refuse(number, crossing)
                to_reread[edges.pairs[crossing.pair]] = -1
        for pair in {
            edges.pairs[each] for each in distinct_values(edges.packets.pair).tolist()
        } | to_reread.keys():
            self._wake(pair)
        self._read(number, edges.pairs, edges.packets, edges.payload, edges.comments)
        last = np.full(len(edges.pairs), -1, np.int64)
        np.maximum.at(last, edges.packets.pair, edges.packets.number)
        for crossing in edges.crossings:
            if not crossing.begins and not self._accept(number, edges.pairs[crossing.pair], crossing):
                self._refuse(number, crossing)
                to_reread[edges.pairs[crossing.pair]] = int(last[crossing.pair])
        if to_reread:
            self._reread(number, to_reread)

    def _refuse(self, number: int, crossing: SplitConnection) -> None:
        self._made.refused.append((number, crossing.local))

    def _begin(self, number: int, pair: Pair, crossing: SplitConnection) -> bool:
        """Accept a connection that starts in a range; return False if it may depend on the connection before it."""
        chain, state = self._chains.get(pair), self._located(crossing)
        if self._is_refused(number, crossing):
            return False
        if chain is not None:
            before = chain.state
            if before is None or not before.settled:
                return False
            isn = {before.a: before.streams[0].isn, before.b: before.streams[1].isn}
            if min(isn.values()) < 0 or isn[state.a] == state.streams[0].isn:
                return False
            state = replace(state, generation=before.generation + 1)
        state = state.moved((0, 0), self._bases[number])
        whole = self._add_whole(state)
        self._count(whole, crossing.counters)
        self._take_part(whole, number, crossing, (0, 0), turned=False)
        self._chains[pair] = _Chain(whole, state, taken=[(number, crossing.local, (0, 0))])
        return True

    def _located(self, crossing: SplitConnection) -> ConnectionState:
        """Return the state of a connection; bytes that are not in the files are kept in the source."""
        if not crossing.payload:
            return crossing.state
        kept = {index: self._source.keep(data) for index, data in crossing.payload.items()}
        streams = []
        for stream in crossing.state.streams:
            position, offset, length = stream.places
            offset = np.array([kept.get(index, index) for index in offset.tolist()], np.int64)
            streams.append(replace(stream, places=(position, offset, length)))
        return replace(crossing.state, streams=(streams[0], streams[1]))

    def _is_refused(self, number: int, crossing: SplitConnection) -> bool:
        """Return whether a connection of a range must not be accepted, whatever came before."""
        early = crossing.early is not None and not self._clocks[number].is_true(crossing.early)
        return early or (number, crossing.local) in self._refused

    def _chain_of(self, pair: Pair) -> _Chain:
        return self._chains.setdefault(pair, _Chain())

    def _wake(self, pair: Pair) -> None:
        """Continue a connection in the reading."""
        chain = self._chain_of(pair)
        if chain.state is not None:
            chain.live, known = self._capture.thaw(chain.state)
            one, other = (
                int(stream.places[0][0]) if len(stream.places[0]) else stream.end
                for stream in chain.state.streams
            )
            chain.begins = one, other
            self._void.update(known)
            self._as_known |= {row: self._capture.table.row(row) for row in known}
            self._whole_of[chain.live] = chain.whole
            self._latest[chain.whole] = chain.live
            chain.state = None
            self._known = len(self._capture.connections)

    def _read(
        self,
        number: int,
        pairs: Sequence[Pair],
        packets: Packets,
        payload: dict[int, bytes],
        comments: dict[int, str],
    ) -> None:
        if len(packets):
            packets = replace(packets, clock=self._clocks[number].readings(packets.clock))
            self._read_from(self._bases[number], pairs, packets, payload, comments)

    def _read_from(
        self,
        base: int,
        pairs: Sequence[Pair],
        packets: Packets,
        payload: dict[int, bytes],
        comments: dict[int, str],
    ) -> None:
        """Read packets.

        :param packets: with readings of the clock of the whole capture
        :param base: added to their numbers
        """
        capture = self._capture
        offset = packets.offset.copy()
        kept = {index: self._source.keep(data) for index, data in payload.items()}
        if kept:
            offset = np.array([kept.get(index, index) for index in offset.tolist()], np.int64)
        book = capture.addresses
        ends = np.full((len(pairs), 2), -1, np.int32)
        for pair in distinct_values(packets.pair).tolist():
            ends[pair] = [book.intern(*end) for end in pairs[pair]]
        down = packets.down.astype(np.int64)
        self._look_back(pairs, packets)
        for begin in range(0, len(packets), _ROWS_AT_ONCE):
            rows = slice(begin, begin + _ROWS_AT_ONCE)
            some = packets.take(rows)
            first, last = int(some.number[0]), int(some.number[-1])
            self._clock.readings, self._files.offsets = some.clock, some.offset
            capture.take(
                PacketBlock(
                    source=self._source,
                    windows=(),
                    addresses=book,
                    number=some.number + base,
                    time=some.time,
                    src=ends[some.pair, down[rows]],
                    dst=ends[some.pair, 1 - down[rows]],
                    seq=some.seq,
                    ack=some.ack,
                    flags=some.flags,
                    window=some.window,
                    offset=offset[rows],
                    length=some.length,
                    captured=some.captured,
                    interface=np.zeros(len(some), np.int32),
                    comments={
                        packet + base: text for packet, text in comments.items() if first <= packet <= last
                    },
                )
            )
        self._check_conflicts()
        self._find_new()

    def _find_new(self) -> None:
        """Add the connections that the reading has found."""
        capture = self._capture
        for connection in range(self._known, len(capture.connections)):
            state = capture.freeze(connection)
            chain = self._chains[pair_of(state.a, state.b)]
            generation = state.generation
            if chain.whole >= 0:
                generation = self._made.connections[chain.whole].generation + 1
            chain.whole = self._add_whole(replace(state, generation=generation))
            chain.live, chain.begins, chain.taken = connection, None, []
            self._whole_of[connection] = chain.whole
            self._latest[chain.whole] = connection
        self._known = len(capture.connections)

    def _reread(self, number: int, to_reread: dict[Pair, int]) -> None:
        """Read all packets of a range between some endpoints, after those that were already read."""
        pairs = {pair: index for index, pair in enumerate(to_reread)}
        in_place = self._in_place is None or self._in_place[number]
        packets, payload = packets_between(
            self._source, self._ranges[number], to_reread.keys(), pairs, in_place=in_place
        )
        behind = packets.number > np.array(list(to_reread.values()), np.int64)[packets.pair]
        self._read(number, list(to_reread), packets.take(behind), payload, {})

    # ------------------------------------------------------------ readings accepted too early
    def _look_back(self, pairs: Sequence[Pair], packets: Packets) -> None:
        """Find retransmitted bytes whose originals only earlier ranges have located."""
        streams = self._capture.connections.streams
        connections, first = self._capture.connections, self._capture.addresses
        for index in distinct_values(packets.pair).tolist():
            chain = self._chains[pairs[index]]
            if chain.begins is None or chain.live < 0:
                continue
            chosen = np.flatnonzero((packets.pair == index) & (packets.length > 1) & (packets.captured > 0))
            for side in (0, 1):
                end = (int(connections.a[chain.live]), int(connections.b[chain.live]))[side]
                turned = (first.address(end), first.port(end)) != pairs[index][0]
                rows = chosen[packets.down[chosen] == turned]
                stream = 2 * chain.live + side
                distance = (packets.seq[rows] - np.uint32(streams.next_seq[stream] & 0xFFFF_FFFF)).view(
                    np.int32
                )
                position = int(streams.end[stream]) + distance.astype(np.int64)
                behind = position[(position < chain.begins[side]) & (distance >= -BEHIND)]
                if len(behind):
                    self._take_back(chain, side, int(behind.min()))

    def _take_back(self, chain: _Chain, side: int, position: int) -> None:
        """Record that the accepted readings of a stream from `position` on are incomplete."""
        for number, local, begins in reversed(chain.taken):
            self.too_early.add((number, local))
            if begins[side] <= position:
                break

    def _check_conflicts(self) -> None:
        """Find bytes that differ from those that accepted readings have used."""
        for conflict in self._capture.conflicts:
            chain = self._chain_with(conflict.stream >> 1)
            if chain is not None and chain.begins is not None:
                self._take_back(chain, conflict.stream & 1, conflict.start)
        self._capture.conflicts.clear()

    def _check_known(self) -> None:
        """Find requests of accepted readings that were answered although they need no response."""
        table, capture = self._capture.table, self._capture
        for row, was in self._as_known.items():
            if table.row(row) != was:
                chain = self._chain_with(was["connection"])
                if chain is not None:
                    side = capture.client_stream(was["connection"]) & 1
                    self._take_back(chain, side, was["request_position"])

    def _chain_with(self, live: int) -> _Chain | None:
        """Return the chain of the connection that the reading continues as `live`."""
        whole = self._whole_of.get(live)
        return next((chain for chain in self._chains.values() if chain.whole == whole), None)

    # ------------------------------------------------------------ accepting the reading of a range
    def _accept(self, number: int, pair: Pair, crossing: SplitConnection) -> bool:
        """Leave a connection to the reading of a range if that agrees with the reading here; return whether it does."""
        capture, chain = self._capture, self._chains[pair]
        live, snapshot, state = chain.live, crossing.agreed, self._located(crossing)
        assert snapshot is not None
        if self._is_refused(number, crossing):
            return False
        if live < 0 or not capture.can_freeze()[live]:
            return False
        frozen = capture.freeze(live)
        if not frozen.framed:
            return False
        turned = frozen.a != state.a
        sides = (1, 0) if turned else (0, 1)
        if not self._agree(number, frozen, snapshot, state, sides) or not _knows_enough(frozen, crossing):
            return False
        distances = (
            frozen.streams[0].end - snapshot.ends[sides[0]],
            frozen.streams[1].end - snapshot.ends[sides[1]],
        )
        self._void.update(capture.withdraw(live))
        later = (state.turned() if turned else state).moved(distances, self._bases[number])
        chain.state = _continued(frozen, later)
        chain.live, chain.begins = -1, None
        chain.taken.append((number, crossing.local, (frozen.streams[0].end, frozen.streams[1].end)))
        whole = chain.whole
        del self._latest[whole]
        counted = tuple(
            tuple(
                now - then for now, then in zip(crossing.counters[side], snapshot.counters[side], strict=True)
            )
            for side in sides
        )
        self._count(whole, (counted[0], counted[1]))
        self._take_part(whole, number, crossing, distances, turned=turned)
        self._update(whole, chain.state)
        return True

    def _agree(
        self,
        number: int,
        mine: ConnectionState,
        snapshot: Any,
        state: ConnectionState,
        sides: tuple[int, int],
    ) -> bool:
        if sides[mine.client_direction] != state.client_direction:
            return False
        for one, side in zip(mine.streams, sides, strict=True):
            if one.reset_time >= 0 or one.fin_time >= 0 or one.next_seq != snapshot.next_seq[side]:
                return False
            if one.end - one.frame != snapshot.ends[side] - snapshot.frames[side]:
                return False
            if one.conflicts:  # the range has this frame whole, but does not know of the conflict
                return False
        base = self._bases[number]
        waiting = [(packet + base, *rest) for packet, *rest in snapshot.waiting]
        names = ("packet", "correlation_id", "api_key", "version", "request_size")
        return waiting == [tuple(row[name] for name in names) for row in mine.waiting]

    # ------------------------------------------------------------ whole connections
    def _add_whole(self, state: ConnectionState) -> int:
        one, other = (
            {name: getattr(stream, name) for name in STREAM_COLUMNS} | dict.fromkeys(COUNTERS, 0)
            for stream in state.streams
        )
        columns = {name: getattr(state, name) for name in CONNECTION_COLUMNS}
        self._made.connections.append(
            WholeConnection(
                state.a, state.b, **columns, client_direction=state.client_direction, streams=(one, other)
            )
        )
        return len(self._made.connections) - 1

    def _count(self, whole: int, counters: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        for stream, values in zip(self._made.connections[whole].streams, counters, strict=True):
            for name, value in zip(COUNTERS, values, strict=True):
                stream[name] += value

    def _take_part(
        self, whole: int, number: int, crossing: SplitConnection, distances: tuple[int, int], *, turned: bool
    ) -> None:
        """Accept a range's part of a connection, apart from its exchanges."""
        made = self._made.connections[whole]
        of_requests = made.client_direction
        made.parts.append((number, crossing.local, (distances[of_requests], distances[1 - of_requests])))
        made.foreign = made.foreign or crossing.foreign
        made.ended_by_kproxy |= crossing.ended_by_kproxy
        made.upstream = crossing.upstream or made.upstream
        made.mechanism = crossing.mechanism or made.mechanism
        made.cluster = crossing.cluster or made.cluster
        base = self._bases[number]
        made.samples += [each._replace(packet=each.packet + base) for each in crossing.samples]
        self._made.counts[number] = self._made.counts.get(number, 0) + crossing.exchanges
        frames = (0, 0) if crossing.agreed is None else crossing.agreed.frames
        for skip in crossing.skipped:
            theirs = skip.stream & 1
            if skip.position >= frames[theirs]:
                side = theirs ^ turned
                made.skipped.append(
                    (side, skip.position + distances[side], skip.size, skip.reason, skip.at_end)
                )

    def _update(self, whole: int, state: ConnectionState) -> None:
        """Update the columns of a connection, except its counters."""
        made = self._made.connections[whole]
        if NO_FILE != made.last_file != state.last_file:
            self._made.links.add((made.last_file, state.last_file))
        made.last_time, made.last_file = state.last_time, state.last_file
        made.client_direction, made.handshake = state.client_direction, state.handshake
        for stream, now in zip(made.streams, state.streams, strict=True):
            stream["end"], stream["ack"], stream["next_seq"] = now.end, now.ack, now.next_seq
            stream["isn"], stream["syn_seen"] = now.isn, now.syn_seen
            for name in ("fin_time", "fin_position", "reset_time"):
                if stream[name] < 0:
                    stream[name] = getattr(now, name)

    # ------------------------------------------------------------ the end
    def finish(self) -> StitchedConnections:
        """Finish after the last range; return the result."""
        capture = self._capture
        for pair, chain in self._chains.items():
            if chain.state is not None and not chain.state.settled:
                self._wake(pair)
        capture.end()
        self._check_conflicts()
        self._check_known()
        self._made.links |= self._files.links
        for connection, whole in self._whole_of.items():
            self._take_reading(connection, whole)
        self._report(np.setdiff1d(np.arange(len(capture.table)), np.fromiter(self._void, np.int64)))
        return self._made

    def _report(self, rows: Int64s) -> None:
        """Gather exchanges, skipped bytes, samples and facts of the reading.

        :param rows: rows of its table to report
        """
        capture, made = self._capture, self._made.connections
        for skip in capture.skipped:
            entry = (skip.stream & 1, skip.position, skip.size, skip.reason, skip.at_end)
            made[self._whole_of[skip.stream >> 1]].skipped.append(entry)
        for sample in capture.samples:
            made[self._whole_of[sample.connection]].samples.append(sample)
        for connection, upstream in capture.samples.upstreams.items():
            made[self._whole_of[connection]].upstream = upstream
        column = capture.table.column("connection")
        self._made.exchanges = [self._stitched(row, int(column[row])) for row in rows.tolist()]
        facts = facts_of(capture, rows)
        for connection, index in self._whole_of.items():
            whole = made[index]
            whole.mechanism = facts.mechanisms.get(connection, whole.mechanism)
            whole.cluster = facts.clusters.get(connection, whole.cluster)
        self._made.facts = facts.of_no_connection

    def _take_reading(self, connection: int, whole: int) -> None:
        """Add the counters of the reading to a connection."""
        capture, made = self._capture, self._made.connections[whole]
        streams = capture.connections.streams
        one, other = (
            tuple(int(getattr(streams, name)[2 * connection + side]) for name in COUNTERS) for side in (0, 1)
        )
        self._count(whole, (one, other))
        if self._latest.get(whole) == connection:
            self._update(whole, capture.freeze(connection))
        if connection in capture.decryption.tls:
            made.tls = capture.decryption.tls[connection].info
        made.foreign = capture.foreign.get(connection, "") or made.foreign
        made.ended_by_kproxy |= connection in capture.notes.ended_connections

    def _stitched(self, row: int, connection: int) -> StitchedExchange:
        capture = self._capture
        values = capture.table.detached(row)
        stream, index = capture.client_stream(connection), capture.decryption.index_of(connection)
        pieces: list[list[Piece]] = []
        for side, number in zip(SIDES, (stream, stream ^ 1), strict=True):
            start, size = values[f"{side}_position"], values[f"{side}_size"]
            found = index.pieces(number, start, start + size) if size else ((), (), ())
            columns = (column.tolist() if size else () for column in found)  # type: ignore[union-attr]
            pieces.append([self._piece(*each) for each in zip(*columns, strict=True)])
        note = capture.notes.of(row)
        interventions = capture.notes.interventions(row, values)
        return StitchedExchange(
            self._whole_of[connection],
            values,
            (pieces[0], pieces[1]),
            note or None,
            interventions if interventions.flags else None,
        )

    def _piece(self, position: int, offset: int, length: int) -> Piece:
        data = self._source.read_or_zeros(offset, length) if offset >= KEPT else None
        return position, offset, length, data


def _continued(before: ConnectionState, later: ConnectionState) -> ConnectionState:
    """Return the state `later`, with the facts that only a reading from the connection's start has."""
    streams = tuple(
        replace(now, syn_seen=then.syn_seen, isn=then.isn if then.isn >= 0 else now.isn)
        for then, now in zip(before.streams, later.streams, strict=True)
    )
    return replace(
        later,
        generation=before.generation,
        client_known=before.client_known,
        first_number=before.first_number,
        first_time=before.first_time,
        syn_time=before.syn_time,
        handshake=before.handshake,
        whole=before.whole,
        streams=(streams[0], streams[1]),
        silent=(before.silent + later.silent)[-MAX_SILENT:],
        client_ids=list(dict.fromkeys(before.client_ids + later.client_ids))[:MAX_CLIENT_IDS],
    )


def _knows_enough(state: ConnectionState, crossing: SplitConnection) -> bool:
    """Return whether the client IDs that a range has not seen make no difference to its reading of a connection.

    They matter only if frames were searched for, or were too large to be believed of unknown clients.
    """
    snapshot = crossing.agreed
    assert snapshot is not None
    known = set(snapshot.client_ids)
    if known == set(state.client_ids):
        return True
    if not known.issubset(state.client_ids):
        return False
    missing = [COUNTERS.index(name) for name in ("lost", "cut")]
    lost = any(
        now[each] != then[each]
        for now, then in zip(crossing.counters, snapshot.counters, strict=True)
        for each in missing
    )
    skips = (each.position >= snapshot.frames[each.stream & 1] for each in crossing.skipped)
    return not (lost or any(skips))


def stitch(
    source: JoinedSource,
    ranges: Sequence[Range],
    bases: Sequence[int],
    packed: Sequence[tuple[int, bytes]],
    **options: Any,
) -> StitchedConnections:
    """Stitch connections.

    An accepted reading may turn out to be incomplete: bytes that are retransmitted much later may differ. Everything is
    then repeated without it.

    :param packed: numbers of ranges and their packed edges, in order
    """
    refused: set[tuple[int, int]] = set()
    while True:
        stitcher = Stitcher(source, ranges, bases, refused=refused, **options)
        for number, data in packed:
            stitcher.feed(number, unpack(data))
        made = stitcher.finish()
        if not stitcher.too_early:
            return made
        assert not stitcher.too_early & refused
        refused |= stitcher.too_early
