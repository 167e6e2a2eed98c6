"""TLS decryption: ciphertext segments in, plaintext segments out, if the key log has the secrets.

A stage between reassembly and framing. Connections that do not begin with TLS pass unchanged. The others are taken out
of the block and replaced by their decrypted bytes, which are kept beside the capture (:meth:`Source.keep`), with the
time and number of the packet that completed each TLS record. Positions then count plaintext bytes.

While a key log grows, connections with missing secrets wait for them, and are then decrypted from their first byte.
Waiting ciphertext is held in memory, bounded per connection and in total.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
from msgspec.structs import replace

from captures.arrays import Bools, Int64s, distinct_values
from captures.exchanges.pieces import Piece, UnreadSegments
from captures.exchanges.reorder_barrier import gaps_before
from captures.packets import Connections, GapCause, SegmentBlock, SegmentIndex, Source
from captures.packets.tls import (
    FIRST_CONTENT_TYPES,
    KeyLog,
    MissingData,
    Plaintext,
    TlsConnection,
    is_client_hello,
    looks_like_tls,
)
from dissectors.budget import limit, shown
from dissectors.conversation import Side

FIRST_BYTES = 64

_ROWS = ("stream", "position", "offset", "length", "time", "delivered", "number", "flags")
_GAPS = ("stream", "position", "missing", "cause", "number")


class _Arrivals:
    """Arrival times of the bytes of one direction: a TLS record that waited still gets the time of its last byte.

    :ivar position: bytes so far, including missing ones
    """

    __slots__ = ("_ends", "_packets", "_times", "position")

    def __init__(self) -> None:
        self.position = 0
        self._ends: list[int] = []
        self._times: list[int] = []
        self._packets: list[int] = []

    def add(self, size: int, time: int, packet: int) -> None:
        self.position += size
        self._ends.append(self.position)
        self._times.append(time)
        self._packets.append(packet)

    def of(self, end: int) -> tuple[int, int]:
        """Return time and packet of the byte before position `end`."""
        at = min(bisect_left(self._ends, end), len(self._ends) - 1)
        return self._times[at], self._packets[at]

    def forget(self) -> None:
        """Keep only the newest arrival: everything before it was read."""
        del self._ends[:-1], self._times[:-1], self._packets[:-1]


class Decryption:
    """Decrypts the TLS connections of a capture.

    :param ciphertext: index of the captured bytes of all streams
    :param keylog: the secrets; may be empty
    :ivar plaintext: index of the decrypted bytes
    :ivar tls: the TLS connections, by id
    """

    def __init__(
        self, source: Source, ciphertext: SegmentIndex, connections: Connections, keylog: KeyLog
    ) -> None:
        self.plaintext = SegmentIndex(source)
        self.tls: dict[int, TlsConnection] = {}
        self._source = source
        self._ciphertext = ciphertext
        self._connections = connections
        self._keylog = keylog
        self._client_direction: dict[int, int] = {}
        self._arrivals: dict[tuple[int, Side], _Arrivals] = {}
        self._waiting: set[int] = set()
        self._looked_at = np.zeros(0, np.bool_)
        self._rows: list[tuple[int, ...]] = []
        self._gaps: list[tuple[int, ...]] = []

    def index_of(self, connection: int) -> SegmentIndex:
        """Return the index of a connection's bytes, decrypted ones for TLS."""
        return self.plaintext if connection in self.tls else self._ciphertext

    def feed(self, block: SegmentBlock) -> SegmentBlock:
        """Return the block with plaintext instead of ciphertext."""
        distinct = distinct_values(np.concatenate((block.stream, block.gaps.stream)) >> 1)
        self._look_at(block, distinct)
        if not self.tls:
            return block
        if self._keylog.growing:
            self._keylog.refresh()
            self._retry()
        distinct = np.array(
            [connection for connection in distinct.tolist() if connection in self.tls], np.int64
        )
        if len(distinct):
            rest = UnreadSegments(block)
            for connection in distinct.tolist():
                for piece in rest.take(connection):
                    self._receive(connection, piece)
            self._bound()
        if not (len(distinct) or self._rows or self._gaps):
            return block
        return self._replace(block, distinct)

    def pass_over(self, connection: int) -> None:
        """Mark a connection as no TLS, as another capture has found at its start."""
        missing = connection + 1 - len(self._looked_at)
        self._looked_at = np.append(self._looked_at, np.zeros(max(missing, 0), np.bool_))
        self._looked_at[connection] = True

    def finish(self, block: SegmentBlock) -> SegmentBlock:
        """Return the bytes that were still waiting for secrets or ciphertext, in a block like the last one."""
        self._keylog.finish()
        for connection in self._client_direction:
            self._take(connection, self.tls[connection].finish())
        # the rest of the block was read already; a connection may have only a gap there
        return self._replace(block, distinct_values(np.concatenate((block.stream, block.gaps.stream)) >> 1))

    def forget(self, before: int) -> None:
        """Drop decryption state of connections that ended before `before`.

        :param before: nanoseconds since the epoch
        """
        self.plaintext.forget(before)
        known = np.fromiter(self._client_direction, np.int64, len(self._client_direction))
        for connection in known[self._connections.closed_before(known, before)].tolist():
            if connection not in self._waiting:
                self.tls[connection].release()
                del self._client_direction[connection]
                for side in Side:
                    del self._arrivals[connection, side]

    def summary(self, connection: int) -> str | None:
        """Return a summary of a TLS connection, None if it is not one."""
        tls = self.tls.get(connection)
        if tls is None:
            return None
        if tls.info.reason and not len(self._keylog):
            tls.info.reason = self._no_secrets()
        return tls.info.summary()

    def _no_secrets(self) -> str:
        path, trouble = self._keylog.path, self._keylog.trouble
        if path is None:
            return "no key log was given"
        if trouble:
            return f"the key log {path} cannot be read: {trouble}"
        return f"the key log {path} has no secrets"

    # ------------------------------------------------------------ in
    def _look_at(self, block: SegmentBlock, connections: Int64s) -> None:
        """Decide from the first bytes of each direction which connections are TLS."""
        missing = len(self._connections) - len(self._looked_at)
        if missing > 0:
            self._looked_at = np.append(self._looked_at, np.zeros(missing, np.bool_))
        new = connections[~self._looked_at[connections]]
        self._looked_at[new] = True
        if not (len(new) and len(block)):
            return
        memory, places = block.memory()
        streams = 2 * np.repeat(new, 2) + np.tile((0, 1), len(new))
        rows = np.searchsorted(block.stream, streams)
        there = np.append(block.stream, -1)[rows] == streams
        begins = np.zeros(len(streams), np.bool_)
        begins[there] = np.isin(memory.gather(np.dtype("u1"), places[rows[there]]), FIRST_CONTENT_TYPES)
        for at in np.flatnonzero(begins.reshape(-1, 2).any(axis=1)).tolist():
            connection, pair = int(new[at]), slice(2 * at, 2 * at + 2)
            heads = [
                memory.read(int(places[row]), min(int(block.length[row]), FIRST_BYTES)) if found else b""
                for row, found in zip(rows[pair].tolist(), there[pair].tolist(), strict=True)
            ]
            # a peer that answers plaintext with a TLS alert does not make it a TLS connection
            verdicts = [looks_like_tls(head) for head in heads if head]
            if True in verdicts and False not in verdicts:
                self.tls[connection] = TlsConnection(self._keylog)
                self._arrivals.update({(connection, side): _Arrivals() for side in Side})
                known = bool(self._connections.client_known[connection])
                swapped = not known and bool(heads[1]) and bool(is_client_hello(heads[1]))
                self._client_direction[connection] = int(swapped)

    def _receive(self, connection: int, piece: Piece) -> None:
        if connection not in self._client_direction:
            return  # it ended long ago
        tls = self.tls[connection]
        side = (Side.CLIENT, Side.BROKER)[piece.direction ^ self._client_direction[connection]]
        arrivals = self._arrivals[connection, side]
        if piece.data is None:
            arrivals.position += piece.missing
            events = tls.gap(side, piece.missing, GapCause(piece.cause).label)
        else:
            arrivals.add(len(piece.data), piece.time, piece.packet)
            events = tls.receive(side, piece.data)
        self._take(connection, events)

    def _retry(self) -> None:
        """Look for the secrets of waiting connections."""
        for connection in list(self._waiting):
            self._take(connection, self.tls[connection].retry())

    def _bound(self) -> None:
        """Give up waiting connections, the largest first, until the rest is within the limit."""
        held = {connection: self.tls[connection].held for connection in self._waiting}
        total, allowed = sum(held.values()), limit("tls_bytes_in_all")
        if total <= allowed:
            return
        reason = f"more ciphertext kept waiting would go over the limit {shown('tls_bytes_in_all')}"
        for most in sorted(held, key=held.__getitem__, reverse=True):
            if total <= allowed:
                return
            self._take(most, self.tls[most].give_up(reason))
            total -= held[most]

    def _take(self, connection: int, events: list[Any]) -> None:
        swapped = self._client_direction[connection]
        for event in events:
            if not isinstance(event, Plaintext | MissingData):
                continue
            stream = 2 * connection + (swapped ^ (event.side is Side.BROKER))
            if isinstance(event, MissingData):
                self._gaps.append((stream, event.position, 0, int(GapCause.UNKNOWN), -1))
            elif event.data:
                time, packet = self._arrivals[connection, event.side].of(event.end)
                offset = self._source.keep(event.data)
                self._rows.append((stream, event.position, offset, len(event.data), time, time, packet, 0))
        if self.tls[connection].waiting:
            self._waiting.add(connection)
            return
        self._waiting.discard(connection)
        for side in Side:
            self._arrivals[connection, side].forget()

    # ------------------------------------------------------------ out
    def _replace(self, block: SegmentBlock, taken: Int64s) -> SegmentBlock:
        """Return the block with the taken connections replaced by what was decrypted."""
        clear: Bools = ~np.isin(block.stream >> 1, taken)
        clear_gaps = ~np.isin(block.gaps.stream >> 1, taken)
        new = np.array(self._rows, np.int64).reshape(-1, len(_ROWS)).T
        new_gaps = np.array(self._gaps, np.int64).reshape(-1, len(_GAPS)).T
        self._rows, self._gaps = [], []
        self.plaintext.append(self._block(block, list(new), list(new_gaps)))
        rows = [
            np.concatenate((getattr(block, name)[clear], column))
            for name, column in zip(_ROWS, new, strict=True)
        ]
        gaps = [
            np.concatenate((getattr(block.gaps, name)[clear_gaps], column))
            for name, column in zip(_GAPS, new_gaps, strict=True)
        ]
        return self._block(block, rows, gaps)

    @staticmethod
    def _block(block: SegmentBlock, rows: list[Int64s], gaps: list[Int64s]) -> SegmentBlock:
        order = np.argsort(rows[0], kind="stable")
        columns: dict[str, Any] = {name: column[order] for name, column in zip(_ROWS, rows, strict=True)}
        columns["flags"] = columns["flags"].astype(np.uint8)
        order = np.argsort(gaps[0], kind="stable")
        ordered = [column[order] for column in gaps]
        return replace(block, **columns, gaps=gaps_before(columns["stream"], columns["position"], ordered))
