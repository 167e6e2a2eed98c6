"""The exchanges of all connections: a fast path in bulk, and a slow path by connection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from captures.arrays import Int64s, distinct_values
from captures.exchanges.bulk import BulkPairing, Handover
from captures.exchanges.checkpoints import ConnectionState
from captures.exchanges.decrypt import Decryption
from captures.exchanges.pieces import UnreadSegments
from captures.exchanges.single import SingleConnection, Skip
from captures.exchanges.table import ExchangeTable, Flag
from captures.packets import Connections, SegmentBlock
from dissectors.apis import version_limits

# socket.request.max.bytes is 100 MiB by default; responses have no limit. The first bytes of TLS, read as a size, are
# 320 MiB or more. Larger frames are left to the slow path
_MAX_FRAME = 1 << 28


class ExchangePairing:
    """Pairs the requests and responses of connections into the exchange table.

    :param note_fault: called with a connection that triggered an internal error, and the error; the rest of the
        connection is not read
    :ivar bulk: the fast path
    :ivar single_connections: the slow path, by connection
    :ivar ordinary: mask of the connections on the fast path; connections newer than the last packet are missing
    :ivar skipped: ranges of streams that belong to no frame, and why
    :ivar foreign: connections that are not Kafka, and the protocol they resemble
    :ivar swapped: closed connections whose direction 1 is the client's
    """

    def __init__(
        self,
        table: ExchangeTable,
        connections: Connections,
        decryption: Decryption,
        note_fault: Callable[[int, Exception], None],
    ) -> None:
        self._table = table
        self._connections = connections
        self._decryption = decryption
        self._note_fault = note_fault
        self._limits = version_limits()
        self.bulk = BulkPairing(table, self._limits, _MAX_FRAME)
        self.single_connections: dict[int, SingleConnection] = {}
        self.ordinary = np.zeros(0, np.bool_)
        self._left: set[int] = set()
        """Connections that are not read further because of an internal error."""
        self.swapped: set[int] = set()
        self.skipped: list[Skip] = []
        self.foreign: dict[int, str] = {}

    def client_stream(self, connection: int) -> int:
        """Return the stream that carries the requests of a connection."""
        single = self.single_connections.get(connection)
        return 2 * connection + (connection in self.swapped if single is None else single.client_direction)

    def feed(self, block: SegmentBlock) -> None:
        """Pair the exchanges of the next segments.

        :param block: segments in stream order, decrypted
        """
        self.grow()
        if not len(block) and not len(block.gaps):
            return
        self._admit(block)
        rest = UnreadSegments(block)
        given_up: set[int] = set()
        while rest:
            self._feed_singles(rest, given_up)
            self._feed_bulk(rest, given_up)

    def grow(self) -> None:
        """Make room for new connections."""
        self.ordinary = np.append(
            self.ordinary, np.zeros(len(self._connections) - len(self.ordinary), np.bool_)
        )

    def is_ordinary(self, connection: int) -> bool:
        """Return whether a connection is on the fast path."""
        return connection < len(self.ordinary) and bool(self.ordinary[connection])

    def _feed_singles(self, rest: UnreadSegments, given_up: set[int]) -> None:
        """Feed connections on the slow path; those that have become ordinary return to the fast path.

        :param given_up: connections that the fast path gave up in this block; it does not get them again
        """
        connections = rest.connections()
        handovers = []
        for connection in connections[~self.ordinary[connections]].tolist():
            if connection in self._left:
                rest.take(connection)
                continue
            single = self._single(connection)
            try:
                handover = single.feed(rest, to_the_end=connection in given_up)
            except Exception as error:
                self._leave(connection, error)
                continue
            if handover is not None:
                handovers.append((handover, single.client_direction))
                self.ordinary[connection] = True
        self.bulk.take_over(handovers)

    def _feed_bulk(self, rest: UnreadSegments, given_up: set[int]) -> None:
        """Feed the ordinary connections, each up to its next gap; those no longer ordinary are handed over."""
        rows = rest.before_gaps() & self.ordinary[rest.connection]
        if rows.any():
            handovers = self.bulk.feed(rest.block, rest.memory, rest.places, rows)
            given_up.update(handover.connection for handover in handovers)
            rest.rows &= ~rows
            for handover in handovers:
                self._take_over(handover)
                rest.rows |= rows & (rest.connection == handover.connection)
        gaps = rest.with_gaps()
        for handover in self.bulk.hand_over(set(gaps[self.ordinary[gaps]].tolist())):
            self._take_over(handover)

    def _admit(self, block: SegmentBlock) -> None:
        """Put connections on the fast path that start in this block with both handshakes and a request."""
        connections, distinct = self._connections, distinct_values(block.stream >> 1)
        distinct = distinct[~self.ordinary[distinct]]
        whole = connections.client_known[distinct] & connections.streams.syn_seen.reshape(-1, 2)[
            distinct
        ].all(axis=1)
        for new, is_whole in zip(distinct.tolist(), whole.tolist(), strict=True):
            if new in self.single_connections:
                continue
            if is_whole:
                self.ordinary[new] = True
                self.bulk.admit(new)
            else:
                self._single(new)

    def _single(self, connection: int) -> SingleConnection:
        single = self.single_connections.get(connection)
        if single is None:
            single = self.single_connections[connection] = SingleConnection(
                connection,
                self._table,
                self._decryption.index_of(connection),
                self._limits,
                client_known=bool(self._connections.client_known[connection]),
                whole=bool(self._connections.streams.syn_seen[2 * connection : 2 * connection + 2].all()),
            )
        return single

    def _take_over(self, handover: Handover) -> None:
        self.ordinary[handover.connection] = False
        try:
            self._single(handover.connection).adopt(handover)
        except Exception as error:
            self._leave(handover.connection, error)

    def _leave(self, connection: int, error: Exception) -> None:
        """Stop reading a connection that triggered an internal error; what was read of it stays."""
        self._note_fault(connection, error)
        self._left.add(connection)

    def finish(self) -> None:
        """Finish all connections: no more segments arrive."""
        rows, handovers = self.bulk.finish()
        self._table.mark(rows, Flag.UNANSWERED)
        for handover in handovers:
            self._take_over(handover)
        for single in self.single_connections.values():
            self._finish_single(single)
        with_exchanges = set(self._table.column("connection").tolist())
        for connection in self._decryption.tls:
            inside = self.foreign.get(connection)
            summary = self._decryption.summary(connection)
            if inside is not None:
                self.foreign[connection] = f"{summary}, inside: {inside}"
            elif connection not in with_exchanges:
                self.foreign[connection] = str(summary)

    def close(self, connections: list[int]) -> None:
        """Finish connections that receive no more data; those that have sent nothing are ignored."""
        for handover in self.bulk.hand_over(set(filter(self.is_ordinary, connections))):
            self._take_over(handover)
        for connection in connections:
            single = self.single_connections.pop(connection, None)
            if single is not None:
                self._finish_single(single)
                if single.client_direction:
                    self.swapped.add(connection)

    def close_before(self, before: int) -> None:
        """Finish connections on the slow path that were closed before `before`, in ns since the epoch."""
        singles = np.array(list(self.single_connections), np.int64)
        self.close(singles[self._connections.closed_before(singles, before)].tolist())

    def _finish_single(self, single: SingleConnection) -> None:
        if single.is_open and single.connection not in self._left:
            try:
                single.finish(self._ended_by(single.connection))
            except Exception as error:
                self._leave(single.connection, error)
        self.skipped.extend(single.skipped)
        if single.foreign:
            self.foreign[single.connection] = single.foreign

    def _ended_by(self, connection: int) -> str:
        closed = self._connections[connection].closed
        return "the capture ended" if closed == "open" else f"the connection was {closed.split()[0]}"

    def renumber(self, renumbered: Int64s) -> None:
        """Follow rows of the table to their new indexes; -1 for dropped ones."""
        self.bulk.renumber(renumbered)
        for single in self.single_connections.values():
            single.renumber(renumbered)

    # ------------------------------------------------------------ state, out and in
    def handover(self, connection: int) -> Handover | None:
        """Return the state of a connection on the fast path, which continues; None if it is not on it."""
        return self.bulk.handover(connection) if self.is_ordinary(connection) else None

    def resume(self, paired: Handover, state: ConnectionState) -> None:
        """Continue with a connection of another capture on the fast path.

        :param paired: its state, with rows of this table
        """
        new = paired.connection
        index = self._decryption.index_of(new)
        single = self.single_connections[new] = SingleConnection(
            new, self._table, index, self._limits, client_known=False, whole=state.whole
        )
        single.stand_by(state.client_direction)
        self.bulk.take_over([(paired, state.client_direction)])
        self.ordinary[new] = True

    def withdraw(self, connection: int) -> list[int]:
        """Stop reading a connection that another capture continues. Return the rows in flight."""
        if not self.is_ordinary(connection):
            return []
        (paired,) = self.bulk.hand_over({connection})
        self.ordinary[connection] = False
        return paired.waiting

    def restore(self, swapped: list[int], skipped: list[Skip], foreign: dict[int, str]) -> None:
        """Restore the result of a finished reading."""
        self.swapped, self.skipped, self.foreign = set(swapped), skipped, foreign
