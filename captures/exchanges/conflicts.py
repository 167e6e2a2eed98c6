"""Bytes that were captured twice with different content, and the flag on the exchanges that contain them.

The second copy may arrive before the frame is complete, or long after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from captures.arrays import Int64s, distinct_values
from captures.exchanges.table import ExchangeTable, Flag
from captures.packets import Conflict


class Conflicts:
    """Conflicts whose exchanges have yet to be found.

    :param table: the exchanges
    :param client_stream: returns the stream with the requests of a connection
    """

    def __init__(self, table: ExchangeTable, client_stream: Callable[[int], int]) -> None:
        self._table = table
        self._client_stream = client_stream
        self._open: dict[int, list[Conflict]] = {}

    def open_from(self, stream: int, position: int) -> list[tuple[int, int]]:
        """Return byte ranges [start, end) of a stream in conflicts whose frames are not complete.

        :param position: start of the next or unfinished frame; bytes before it are left out
        """
        found = self._open.get(stream, ())
        return [(max(each.start, position), each.end) for each in found if each.end > position]

    def take_over(self, stream: int, places: Iterable[tuple[int, int]]) -> None:
        """Add conflicts that another capture has found, as :meth:`open_from` returns them."""
        for start, end in places:
            self._open.setdefault(stream, []).append(Conflict(stream, start, end))

    def mark(self, more: Iterable[Conflict], went_on: Int64s) -> None:
        """Mark the exchanges of these conflicts, and of earlier ones whose frames were not complete.

        :param went_on: streams that may have new frames; may contain repetitions
        """
        waiting = set(self._open)
        for conflict in more:
            self._open.setdefault(conflict.stream, []).append(conflict)
        if not self._open:
            return
        # finding the exchanges of a stream scans the table
        for stream in [
            *waiting.intersection(distinct_values(went_on).tolist()),
            *(self._open.keys() - waiting),
        ]:
            self._open[stream] = list(self._mark(stream, self._open[stream]))
            if not self._open[stream]:
                del self._open[stream]

    def _mark(self, stream: int, conflicts: list[Conflict]) -> Iterator[Conflict]:
        """Mark the exchanges of one stream; yield conflicts that reach beyond its current frames."""
        side = "request" if stream == self._client_stream(stream >> 1) else "response"
        size = self._table.column(f"{side}_size")
        rows = np.flatnonzero((self._table.column("connection") == stream >> 1) & (size > 0))
        begin: Int64s = self._table.column(f"{side}_position")[rows]
        order = np.argsort(begin)
        rows, begin = rows[order], begin[order]
        end = begin + size[rows]
        for conflict in conflicts:
            low, high = end.searchsorted(conflict.start, "right"), begin.searchsorted(conflict.end)
            self._table.mark(rows[low:high], Flag.CONFLICTING)
            if not len(end) or conflict.end > end[-1]:
                yield conflict
