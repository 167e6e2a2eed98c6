"""Which exchanges of several captures a command is to work on: by filter, time, connection, count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING

from kproxy.cli.times import resolve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from captures.exchanges import Capture, ExchangeReader
    from captures.filters import Filter

    Int64s = NDArray[np.int64]


@dataclass(slots=True)
class Selecting:
    """Selects exchanges, capture after capture.

    :param wanted: the filter, None lets all pass
    :param begin: moment before which nothing is selected, as :class:`~kproxy.cli.times.Moment` takes it
    :param end: moment after which nothing is
    :param connections: ids of connections, empty selects all
    :param count: how many exchanges at most, over all captures
    """

    wanted: Filter | None = None
    begin: str | None = None
    end: str | None = None
    zone: tzinfo | None = None
    connections: tuple[int, ...] = ()
    count: int | None = None
    _first: int | None = None
    _taken: int = 0

    def indexes(self, capture: Capture, reader: ExchangeReader) -> Int64s:
        """Return the indexes of the selected exchanges, as :meth:`ExchangeReader.exchange` takes them, rising.

        Bodies are decoded only where the filter needs them.
        """
        import numpy as np

        if self._first is None and len(capture.connections):
            self._first = int(capture.connections.first_time.min())
        mask = self._by_columns(capture)
        if self.wanted is None:
            found = np.flatnonzero(mask)
        else:
            found = self.wanted.select(reader)
            found = found[mask[found]]
        if self.count is not None:
            found = found[: max(self.count - self._taken, 0)]
        self._taken += len(found)
        return found

    def _by_columns(self, capture: Capture) -> NDArray[np.bool_]:
        """Return a mask in the order of numbering."""
        import numpy as np

        table = capture.table
        mask = np.ones(len(table), np.bool_)
        asked = table.column("request_size") > 0
        time = np.where(asked, table.column("request_first"), table.column("response_first"))
        low = resolve(self.begin, self._first or 0, self.zone) if self.begin else None
        high = resolve(self.end, self._first or 0, self.zone) if self.end else None
        if low is not None:
            mask &= time >= low
        if high is not None:
            mask &= time <= high
        if self.connections:
            mask &= np.isin(table.column("connection"), self.connections)
        ordered: NDArray[np.bool_] = mask[table.order()]
        return ordered
