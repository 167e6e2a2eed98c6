"""A barrier that keeps the two directions of a connection in step while one of them waits behind a gap.

The reassembler delivers a stream up to the first gap, and the rest once the gap is filled or given up. Meanwhile the
other direction continues: responses would precede their requests, and pairing would depend on where the blocks of a
capture end. Here, everything captured after the first waiting packet waits with it. That includes bytes that have
filled a part of the gap, which otherwise would be read before earlier bytes of the other direction. So everything
passed on was captured before everything still to come, and the order of both directions does not depend on blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from captures.arrays import distinct_values
from captures.packets import GapCause, Gaps, SegmentBlock

#: most rows that may wait, of all connections; beyond that, order is given up to save memory
MAX_HELD_ROWS = 1 << 18

_NEVER = 1 << 62

_ROWS = ("stream", "position", "offset", "length", "time", "delivered", "number", "flags")
_GAPS = ("stream", "position", "missing", "cause", "number")


class _WaitingSegments(NamedTuple):
    """Columns of segments and gaps, in the order of ``_ROWS`` and ``_GAPS``."""

    rows: list[NDArray[Any]]
    gaps: list[NDArray[Any]]


class ReorderBarrier:
    """Holds back segments and gaps of connections with a stalled direction."""

    def __init__(self) -> None:
        self._held: _WaitingSegments | None = None

    @property
    def holding(self) -> list[int]:
        """The streams with held-back segments or gaps."""
        if self._held is None:
            return []
        streams: list[int] = distinct_values(
            np.concatenate((self._held.rows[0], self._held.gaps[0]))
        ).tolist()
        return streams

    def feed(self, block: SegmentBlock, waiting: dict[int, int]) -> SegmentBlock:
        """Return the readable part of a block and of what was held back, as one block.

        :param waiting: streams with packets behind a gap -> number of the first such packet
        """
        if self._held is None and not waiting:
            return block
        rows = [getattr(block, name) for name in _ROWS]
        gaps = [getattr(block.gaps, name) for name in _GAPS]
        if self._held is not None:
            rows, gaps = _joined(self._held.rows, rows), _joined(self._held.gaps, gaps)
            self._held = None
        rows = _ordered(rows)
        gaps = _ordered(gaps)
        if len(rows[0]) <= MAX_HELD_ROWS:
            rows, gaps = self._hold(rows, gaps, waiting)
        columns: dict[str, Any] = dict(zip(_ROWS, rows, strict=True))
        return replace(block, **columns, gaps=gaps_before(rows[0], rows[1], gaps))

    def _hold(
        self, rows: list[NDArray[Any]], gaps: list[NDArray[Any]], waiting: dict[int, int]
    ) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        stream, position, number = rows[0], rows[1], rows[_ROWS.index("number")]
        go, gaps_go = np.ones(len(stream), np.bool_), np.ones(len(gaps[0]), np.bool_)
        since: dict[int, int] = {}
        for stalled, first in waiting.items():
            since[stalled >> 1] = min(first, since.get(stalled >> 1, first))
        for own_stream in sorted(2 * connection + direction for connection in since for direction in (0, 1)):
            low, high = np.searchsorted(stream, (own_stream, own_stream + 1)).tolist()
            gap_stream, gap_position, missing, cause, cut = gaps
            # a loss shows with the next packet, a cut packet at once
            later = np.flatnonzero((gap_stream == own_stream) & (cut > since[own_stream >> 1]))
            first = int(gap_position[later].min()) if len(later) else _NEVER
            if len(rows_later := np.flatnonzero(number[low:high] > since[own_stream >> 1])):
                first = min(first, int(position[low + int(rows_later[0])]))
            go[low + int(position[low:high].searchsorted(first)) : high] = False
            gaps_go &= (gap_stream != own_stream) | (
                gap_position + missing < first + (cause == GapCause.SNAPLEN)
            )
            gaps_go[later] = False
        if not (go.all() and gaps_go.all()):
            self._held = _WaitingSegments(
                [column[~go] for column in rows], [column[~gaps_go] for column in gaps]
            )
        return [column[go] for column in rows], [column[gaps_go] for column in gaps]


def _joined(before: list[NDArray[Any]], after: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return [np.concatenate(pair) for pair in zip(before, after, strict=True)]


def _ordered(columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Sort by stream; the rows of a stream keep their order, held ones before newer ones."""
    order = np.argsort(columns[0], kind="stable")
    return [column[order] for column in columns]


def gaps_before(stream: NDArray[Any], position: NDArray[Any], gaps: list[NDArray[Any]]) -> Gaps:
    """Return gaps (stream, position, missing, cause, number) with the row that follows each."""
    before = np.empty(len(gaps[0]), np.int64)
    for index, (gap_stream, gap_position) in enumerate(zip(gaps[0].tolist(), gaps[1].tolist(), strict=True)):
        low, high = np.searchsorted(stream, (gap_stream, gap_stream + 1)).tolist()
        before[index] = low + int(np.searchsorted(position[low:high], gap_position, "left"))
    gap_stream_column, gap_position_column, missing, cause, cut = gaps
    return Gaps(gap_stream_column, gap_position_column, missing, cause, cut, before)
