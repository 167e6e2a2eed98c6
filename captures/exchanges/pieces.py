"""The unread rest of a block, and the bytes of one connection in the order of capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, overload

import numpy as np

from captures.arrays import Bools, Int64s, distinct_values
from captures.packets import SegmentBlock
from dissectors.conversation import client_stream, starts_with_request

_NEVER = np.int64(1 << 62)


class Piece(NamedTuple):
    """The next bytes of one direction, or a gap (``data`` None).

    :ivar direction: 0 or 1, as in the stream's number
    :ivar position: stream position of the first byte
    :ivar time: ns since the epoch
    :ivar packet: number of the packet
    :ivar missing: size of the gap, 0 if unknown
    :ivar cause: a :class:`~captures.packets.GapCause`
    """

    direction: int
    position: int
    time: int
    packet: int
    data: bytes | None
    missing: int = 0
    cause: int = 0


class UnreadSegments:
    """Rows and gaps of a block that have not been taken yet.

    :ivar rows: mask of the remaining rows
    :ivar gaps: mask of the remaining gaps
    :ivar places: where in :attr:`memory` each row begins
    :ivar connection: the connection of each row
    :ivar gap_connection: the connection of each gap
    """

    def __init__(self, block: SegmentBlock) -> None:
        self.block = block
        self.memory, self.places = block.memory()
        self.rows = np.ones(len(block), np.bool_)
        self.gaps = np.ones(len(block.gaps), np.bool_)
        self.connection: Int64s = block.stream >> 1
        self.gap_connection: Int64s = block.gaps.stream >> 1
        self._when, self._gap_when, self._gap_since = _capture_order(block)

    def __bool__(self) -> bool:
        return bool(self.rows.any() or self.gaps.any())

    def connections(self) -> Int64s:
        """Return the connections with remaining rows or gaps."""
        return distinct_values(np.concatenate((self.connection[self.rows], self.gap_connection[self.gaps])))

    def with_gaps(self) -> Int64s:
        """Return the connections with remaining gaps."""
        return distinct_values(self.gap_connection[self.gaps])

    def before_gaps(self) -> Bools:
        """Return a mask of the remaining rows that were captured before the first gap of their connection opened.

        A gap shows only by later bytes of its stream; the other direction may have answered in the meantime.
        """
        connections, which = np.unique(self.gap_connection[self.gaps], return_inverse=True)
        first = np.full(len(connections) + 1, _NEVER)
        np.minimum.at(first, which, self._gap_since[self.gaps])
        indexes = np.searchsorted(connections, self.connection)
        indexes[~np.isin(self.connection, connections)] = len(connections)
        before: Bools = self.rows & (self._when <= first[indexes])
        # bytes after a gap in a stream may have been captured before bytes in front of it
        streams, which = np.unique(self.block.gaps.stream[self.gaps], return_inverse=True)
        behind = np.full(len(streams) + 1, _NEVER)
        np.minimum.at(behind, which, self.block.gaps.segment[self.gaps])
        indexes = np.searchsorted(streams, self.block.stream)
        indexes[~np.isin(self.block.stream, streams)] = len(streams)
        before &= np.arange(len(self.rows)) < behind[indexes]
        return before

    def take(self, connection: int) -> SegmentSequence:
        """Take everything that is left of a connection: the pieces of both directions in the order of capture."""
        block = self.block
        low, high = np.searchsorted(block.stream, (2 * connection, 2 * connection + 2)).tolist()
        rows = low + np.flatnonzero(self.rows[low:high])
        self.rows[low:high] = False
        if not len(self.gaps):
            return SegmentSequence(
                self, rows[self._when[rows].argsort(kind="stable")], np.zeros(len(rows), np.bool_)
            )
        holes = np.flatnonzero(self.gaps & (self.gap_connection == connection))
        self.gaps[holes] = False
        when = np.concatenate((self._when[rows], self._gap_when[holes]))
        # a gap sorts before its row
        indexes = np.concatenate((2 * rows + 1, 2 * block.gaps.segment[holes]))
        order = np.lexsort((indexes, when))
        return SegmentSequence(self, np.concatenate((rows, holes))[order], order >= len(rows))


class SegmentSequence(Sequence[Piece]):
    """Pieces of one connection in the order of capture; their bytes are read on access.

    :ivar holes: increasing indexes of the gaps among them
    """

    def __init__(self, rest: UnreadSegments, rows: Int64s, is_hole: Bools) -> None:
        self._rest = rest
        self._rows = rows
        self._is_hole = is_hole
        self.holes: list[int] = np.flatnonzero(is_hole).tolist()

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Piece: ...
    @overload
    def __getitem__(self, at: slice) -> list[Piece]: ...
    def __getitem__(self, at: int | slice) -> Piece | list[Piece]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        row, block = self._rows.item(at), self._rest.block
        if self._is_hole[at]:
            holes = block.gaps
            direction, position = holes.stream.item(row) & 1, holes.position.item(row)
            return Piece(direction, position, 0, 0, None, holes.missing.item(row), holes.cause.item(row))
        return Piece(
            block.stream.item(row) & 1,
            block.position.item(row),
            block.time.item(row),
            block.number.item(row),
            self._rest.memory.read(self._rest.places.item(row), block.length.item(row)),
        )

    def leave(self, begin: int) -> None:
        """Leave the pieces from `begin` on unread for another reader."""
        rows, is_hole = self._rows[begin:], self._is_hole[begin:]
        self._rest.rows[rows[~is_hole]] = True
        self._rest.gaps[rows[is_hole]] = True


def _capture_order(block: SegmentBlock) -> tuple[Int64s, Int64s, Int64s]:
    """Return when rows and gaps were captured, as packet numbers.

    :returns: the packet of each row; for each gap the packet that revealed it at the latest; and for each gap the last
        packet before it in its stream, -1 if that is not in the block
    """
    holes = block.gaps
    if not len(block):
        return np.empty(0, np.int64), np.maximum(holes.number, 0), holes.number
    # a segment that filled a gap was captured after those behind the gap
    begins = np.diff(block.stream, prepend=-1) != 0
    lift = np.cumsum(begins) * (int(block.number.max()) + 1)
    when: Int64s = np.maximum.accumulate(block.number + lift) - lift
    low = np.searchsorted(block.stream, holes.stream, "left")
    high = np.searchsorted(block.stream, holes.stream, "right")
    before, last = np.maximum(holes.segment - 1, 0), np.minimum(holes.segment, len(block) - 1)
    since = np.where(holes.segment > low, when[before], -1)
    since = np.maximum(since, holes.number)
    # bytes cut from a packet are missing at once, lost ones with the next packet of the stream; if the block has none,
    # a closing packet or the other direction reveals the loss
    shown = np.where(holes.segment < high, when[last], when.max())
    return when, np.where(holes.number >= 0, since, shown), since


# ---------------------------------------------------------------- the client's direction
#: sums of the bytes of both directions at which they are inspected; the last one forces a decision
LOOKS = (1 << 12, 1 << 16)


class RoleFinder:
    """Finds the client's direction from the first bytes of both directions, in the order of capture.

    The first captured bytes of a connection are mostly the start of a packet, and so of a frame: a request there
    decides at once. Otherwise the bytes are inspected when there are enough of them.

    :param limits: API key -> (lowest, highest) request version
    """

    def __init__(self, limits: Mapping[int, tuple[int, int]]) -> None:
        self._limits = limits
        self._heads = (bytearray(), bytearray())
        self._undecided = [True, True]
        """Whether it is still open that a request begins with the direction's first byte."""
        self._size = 0
        self._looks = list(LOOKS)

    def add(self, piece: Piece) -> int | None:
        """Add the next bytes; return the client's direction once it is known."""
        if piece.data is None:
            return None
        head, direction = self._heads[piece.direction], piece.direction
        head += piece.data
        self._size += len(piece.data)
        if self._undecided[direction]:
            begins = starts_with_request(bytes(head), self._limits)
            if begins:
                return direction
            self._undecided[direction] = begins is None
        if self._size < self._looks[0]:
            return None
        look = self._looks.pop(0)
        role = client_stream(bytes(self._heads[0][:look]), bytes(self._heads[1][:look]), self._limits)
        return role if self._looks else role or 0

    def settle(self) -> int:
        """Return the client's direction according to the bytes so far, as no more arrive."""
        # if the bytes do not decide, the sender of the first packet is as good a guess as any
        return client_stream(bytes(self._heads[0]), bytes(self._heads[1]), self._limits) or 0
