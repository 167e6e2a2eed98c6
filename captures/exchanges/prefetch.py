"""Rows and frames of exchanges, fetched together if it is known which will be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.capture import Capture, FrameBytes
from captures.exchanges.payloads import payloads
from dissectors.headers import SIZE_BYTES
from dissectors.sides import SIDES, Side

MOST_ROWS = 4096
_MOST_BYTES = 4 << 20  # bytes of frames; a single exchange may have more


class PrefetchedRow(NamedTuple):
    """A row of the exchange table, as plain values, with its frames."""

    row: dict[str, Any]
    request: FrameBytes | None
    response: FrameBytes | None


class FramePrefetch:
    """Fetches rows of a capture's table with their frames; each fetched row can be taken once."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._fetched: dict[int, PrefetchedRow] = {}

    def __getitem__(self, row: int) -> PrefetchedRow:
        fetched = self._fetched.pop(row, None)
        if fetched is None:
            values = self._capture.table.row(row)
            fetched = PrefetchedRow(values, self._frame(values, "request"), self._frame(values, "response"))
        return fetched

    def _frame(self, row: dict[str, Any], side: Side) -> FrameBytes | None:
        return self._capture.frame(row["connection"], side, row[f"{side}_position"], row[f"{side}_size"])

    def fetch(self, rows: Sequence[int]) -> int:
        """Fetch the first of `rows`, as many as fit into memory together; return how many.

        :param rows: at most :data:`MOST_ROWS`
        """
        table, found = self._capture.table, np.array(rows, np.int64)
        sizes = sum(table.column(f"{side}_size")[found].astype(np.int64) for side in SIDES)
        found = found[: max(1, int(np.searchsorted(np.cumsum(sizes), _MOST_BYTES)))]
        values = table.rows(found)
        frames = [self._frames(found, values, side) for side in SIDES]
        self._fetched = dict(zip(found.tolist(), map(PrefetchedRow, values, *frames), strict=True))
        return len(found)

    def _frames(self, rows: Int64s, values: list[dict[str, Any]], side: Side) -> Iterator[FrameBytes | None]:
        there = self._capture.table.column(f"{side}_size")[rows] > 0
        read = iter(payloads(self._capture, rows[there], side))
        for row, exists in zip(values, there.tolist(), strict=True):
            payload = next(read) if exists else None
            if payload is None:
                yield self._frame(row, side)
            else:
                yield FrameBytes(payload, True, SIZE_BYTES + len(payload))
