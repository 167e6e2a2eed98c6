"""The bytes of one connection in the order in which they were captured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from captures.exchanges.bulk import Bools, Int64s
from captures.packets import GapCause, SegmentBlock


class Piece(NamedTuple):
    """The next bytes of one direction, or a hole (``data`` None).

    :ivar direction: 0 or 1, as in the stream's number
    :ivar row: the segment's row in its block, -1 for a hole
    :ivar packet: number of the packet
    :ivar missing: size of the hole, 0 if it cannot be known
    :ivar cause: a :class:`~captures.packets.GapCause`
    """

    direction: int
    row: int
    position: int
    time: int
    packet: int
    data: bytes | None
    missing: int = 0
    cause: int = 0


def pieces_in_order(
    connection: int, block: SegmentBlock, data: bytes, starts: Int64s, skip: Bools, *, gaps: bool
) -> list[Piece]:
    """Return the pieces of both directions as they were captured, each direction in stream order."""
    merged: list[tuple[int, int, Piece]] = []
    holes = block.gaps
    for direction in (0, 1):
        stream = 2 * connection + direction
        low, high = np.searchsorted(block.stream, (stream, stream + 1)).tolist()
        # a segment that filled a hole was captured after those behind it
        when = np.maximum.accumulate(block.number[low:high]).tolist()
        columns = (starts, block.length, block.position, block.time, block.number, skip)
        cells = zip(*(column[low:high].tolist() for column in columns), strict=True)
        for row, (begin, length, position, time, packet, skipped) in enumerate(cells, low):
            if not skipped:
                piece = Piece(direction, row, position, time, packet, data[begin : begin + length])
                merged.append((when[row - low], 2 * row + 1, piece))
        for hole in np.flatnonzero(holes.stream == stream).tolist() if gaps else ():
            row, cause = int(holes.segment[hole]), int(holes.cause[hole])
            # what was cut from a packet is missing at once, what was lost only before the next packet
            behind = row == high or (cause == GapCause.SNAPLEN and row > low)
            number = (when[row - low - behind]) if when else 0
            position, missing = int(holes.position[hole]), int(holes.missing[hole])
            piece = Piece(direction, -1, position, 0, 0, None, missing, cause)
            merged.append((number, 2 * row, piece))
    merged.sort(key=lambda entry: entry[:2])
    return [piece for _, _, piece in merged]
