"""Connections that continue from one batch of arriving files to the next.

The carried state is self-contained: the state of each ordinary connection with the bytes that may still be needed, and
for other connections all packets since they were last ordinary. So the files of a batch may be deleted before the next
one is read, and a program that was ended continues where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from captures.arrays import Int64s, distinct_values
from captures.exchanges.checkpoints import ConnectionState, StreamState
from captures.ranges.edges import Packets, Pair, pair_of
from captures.ranges.stitcher import Stitcher
from captures.ranges.whole_connections import StitchedConnections, WholeConnection

_LATE = 1_000_000_000
"""Nanoseconds for which a closed connection may still receive packets."""

Key = tuple[int, int, int]
"""Identity of an exchange: number of the packet, and the stream positions of request and response."""


@dataclass(slots=True)
class ConnectionCheckpoint:
    """The state of an ordinary connection.

    :ivar data: the bytes that may still be needed, of both directions; places are offsets in them
    """

    state: ConnectionState
    data: tuple[bytes, bytes]


@dataclass(slots=True)
class OpenConnection:
    """A connection that :meth:`~captures.exchanges.Capture.can_freeze` excludes.

    :ivar since: its last state as an ordinary connection, None if it never was one
    :ivar packets: all packets since then; numbers count over all batches
    :ivar payload: bytes of these packets, by offset
    :ivar comments: packet comments by number
    :ivar reported: exchanges that were already reported
    """

    since: ConnectionCheckpoint | None
    packets: Packets
    payload: dict[int, bytes]
    comments: dict[int, str]
    reported: set[Key]


@dataclass(slots=True)
class Checkpoint:
    """Connections that continue in the next batch.

    :ivar kept: ordinary connections
    :ivar open: all others
    :ivar wholes: both, over all ranges so far
    """

    kept: dict[Pair, ConnectionCheckpoint] = field(default_factory=dict)
    open: dict[Pair, OpenConnection] = field(default_factory=dict)
    wholes: dict[Pair, WholeConnection] = field(default_factory=dict)


class CheckpointStitcher(Stitcher):
    """Stitches the connections of a batch, starting from those of the previous batch.

    :param carried: the previous batch's checkpoint
    """

    def __init__(self, *args: Any, carried: Checkpoint, **options: Any) -> None:
        super().__init__(*args, **options)
        self._began: dict[Pair, ConnectionState | None] = {}
        """Connections that are being read -> where they stood when that began."""
        self._fed: dict[Pair, list[Packets]] = {}
        self._bytes: dict[int, bytes] = {}
        self._comments: dict[int, str] = {}
        self._reported: dict[Pair, set[Key]] = {}
        self._to_reread: dict[Pair, WholeConnection] = {}
        self._places = 0
        for pair, kept in carried.kept.items():
            self._put_back(pair, kept, carried.wholes[pair])
        self._read_on(carried)

    # ------------------------------------------------------------ in
    def _put_back(self, pair: Pair, kept: ConnectionCheckpoint, whole: WholeConnection) -> None:
        whole.parts = []
        self._made.connections.append(whole)
        chain = self._chain_of(pair)
        chain.whole, chain.state = len(self._made.connections) - 1, self._put_beside(kept)

    def _put_beside(self, kept: ConnectionCheckpoint) -> ConnectionState:
        """Return the state of a connection; its bytes are kept beside the source's files."""
        streams = [
            self._with_places(stream, self._source.keep(data) if data else 0)
            for stream, data in zip(kept.state.streams, kept.data, strict=True)
        ]
        return replace(kept.state, streams=(streams[0], streams[1]))

    @staticmethod
    def _with_places(stream: StreamState, base: int) -> StreamState:
        position, offset, length = stream.places
        return replace(stream, places=(position, offset + base, length))

    def _read_on(self, carried: Checkpoint) -> None:
        """Read the carried packets of open connections again."""
        parts: list[Packets] = []
        pairs = list(carried.open)
        payload: dict[int, bytes] = {}
        comments: dict[int, str] = {}
        for index, (pair, each) in enumerate(carried.open.items()):
            if each.since is not None:
                self._put_back(pair, each.since, carried.wholes[pair])
            else:
                self._to_reread[pair] = carried.wholes[pair]
            self._reported[pair] = each.reported
            self._wake(pair)
            parts.append(replace(each.packets, pair=np.full(len(each.packets), index, np.int32)))
            payload |= each.payload
            comments |= each.comments
        packets = Packets.joined(parts)
        if len(packets):
            order = np.argsort(packets.number, kind="stable")
            self._read_from(0, pairs, packets.take(order), payload, comments)

    def _wake(self, pair: Pair) -> None:
        chain = self._chain_of(pair)
        if chain.live < 0:
            self._began[pair], self._fed[pair] = chain.state, []
        super()._wake(pair)

    def _read_from(
        self,
        base: int,
        pairs: Sequence[Pair],
        packets: Packets,
        payload: dict[int, bytes],
        comments: dict[int, str],
    ) -> None:
        for index in distinct_values(packets.pair).tolist():
            mine = packets.take(packets.pair == index)
            self._fed[pairs[index]].append(replace(mine, number=mine.number + base))
        self._bytes |= payload
        self._comments |= {number + base: text for number, text in comments.items()}
        super()._read_from(base, pairs, packets, payload, comments)

    def _find_new(self) -> None:
        known = len(self._made.connections)
        super()._find_new()
        for whole in self._made.connections[known:]:
            pair = pair_of(whole.a, whole.b)
            # the previous connection between these endpoints has ended and is not read again with this one
            self._began[pair] = None
            self._fed[pair] = [each.take(each.number >= whole.first_number) for each in self._fed[pair]]
            before = self._to_reread.pop(pair, None)
            if before is not None and before.first_number == whole.first_number:
                whole.generation = before.generation
                whole.mechanism, whole.cluster = before.mechanism, before.cluster

    # ------------------------------------------------------------ out
    def carry(self, latest: int) -> tuple[StitchedConnections, Checkpoint]:
        """Finish the batch; return its connections and exchanges, and the checkpoint for the next batch.

        :param latest: time of the latest packet, ns since the epoch
        """
        capture, carried = self._capture, Checkpoint()
        for pair, chain in self._chains.items():
            state = chain.state
            if state is not None and not state.settled and _is_closed(state, latest):
                self._wake(pair)
        live = {chain.live: pair for pair, chain in self._chains.items() if chain.live >= 0}
        ids = np.array(sorted(live), np.int64)
        gone = ids[capture.connections.closed_before(ids, latest - _LATE)] if len(ids) else ids
        followed = [each for each in self._whole_of if each not in live]
        over = [*followed, *gone.tolist()]
        capture.pairing.close(over)
        for each in gone.tolist():
            del self._chains[live.pop(each)]
        still = capture.can_freeze()
        for connection, pair in live.items():
            if still[connection]:
                self._leave(pair, connection)
            else:
                carried.open[pair] = self._opened(pair)
        self._keep(carried, latest)
        open_ids = {connection for connection, pair in live.items() if pair in carried.open}
        self._collect(open_ids, {connection: carried.open[live[connection]] for connection in open_ids})
        return self._made, carried

    def _leave(self, pair: Pair, connection: int) -> None:
        chain = self._chains[pair]
        chain.state, chain.live = self._capture.freeze(connection), -1
        self._void.update(self._capture.withdraw(connection))

    def _opened(self, pair: Pair) -> OpenConnection:
        packets = Packets.joined(self._fed[pair])
        offset, payload = packets.offset.copy(), {}
        for row, size in enumerate(packets.captured.tolist()):
            if size:
                index = int(offset[row])
                data = self._bytes.get(index)
                # negative, because offsets in the files of the next batch start at zero again
                self._places -= 1
                payload[self._places] = self._source.read_or_zeros(index, size) if data is None else data
                offset[row] = self._places
        packets = replace(packets, offset=offset)
        numbers = set(packets.number.tolist())
        comments = {number: text for number, text in self._comments.items() if number in numbers}
        began = self._began[pair]
        since = None if began is None else self._kept(began)
        return OpenConnection(since, packets, payload, comments, set(self._reported.get(pair, ())))

    def _kept(self, state: ConnectionState) -> ConnectionCheckpoint:
        data, streams = [], []
        for stream in state.streams:
            # bytes needed only for retransmissions are dropped with their file
            position, offset, length = stream.needed_only().places
            places = zip(offset.tolist(), length.tolist(), strict=True)
            data.append(b"".join(self._source.read_or_zeros(*place) for place in places))
            streams.append(replace(stream, places=(position, np.cumsum(length) - length, length)))
        return ConnectionCheckpoint(replace(state, streams=(streams[0], streams[1])), (data[0], data[1]))

    def _keep(self, carried: Checkpoint, latest: int) -> None:
        """Add the connections that continue to the checkpoint."""
        for pair, chain in self._chains.items():
            if chain.whole < 0:
                continue
            if pair in carried.open:
                carried.wholes[pair] = self._made.connections[chain.whole]
            elif chain.state is not None and not (chain.state.settled and _is_closed(chain.state, latest)):
                carried.kept[pair] = self._kept(chain.state)
                carried.wholes[pair] = self._made.connections[chain.whole]

    def _collect(self, open_ids: set[int], opened: dict[int, OpenConnection]) -> None:
        """Gather the exchanges that this batch reports; of open connections only the complete ones."""
        capture = self._capture
        for connection, whole in self._whole_of.items():
            if connection not in open_ids:
                self._take_reading(connection, whole)
        rows = np.setdiff1d(np.arange(len(capture.table)), np.fromiter(self._void, np.int64))
        self._report(rows[capture.table.is_complete(rows)])
        connections = capture.table.column("connection")
        for row in rows.tolist():
            each = opened.get(int(connections[row]))
            if each is not None and capture.table.is_complete(np.array([row]))[0]:
                each.reported.add(self._key(row))

    def _report(self, rows: Int64s) -> None:
        connections = self._capture.table.column("connection")
        new = [
            row
            for row in rows.tolist()
            if self._key(row) not in self._reported.get(self._pair_of(int(connections[row])), ())
        ]
        super()._report(np.array(new, np.int64))

    def _key(self, row: int) -> Key:
        column = self._capture.table.column
        names = ("packet", "request_position", "response_position")
        packet, request, response = (int(column(name)[row]) for name in names)
        return packet, request, response

    def _pair_of(self, connection: int) -> Pair:
        whole = self._made.connections[self._whole_of[connection]]
        return pair_of(whole.a, whole.b)


def _is_closed(state: ConnectionState, latest: int) -> bool:
    """Return whether a connection was reset, or closed from both sides, at least `_LATE` before `latest`."""
    streams, before = state.streams, latest - _LATE
    if any(0 <= stream.reset_time < before for stream in streams):
        return True
    return all(0 <= stream.fin_time < before for stream in streams)
