"""Which exchanges of several captures a command is to work on: by filter, time, connection, count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING

from kproxy.cli.times import resolve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from captures.exchanges import Capture, Exchange, ExchangeReader
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

        found = [index for index, _ in self._walk(capture, reader)]
        return np.array(found, np.int64)

    def exchanges(self, capture: Capture, reader: ExchangeReader) -> Iterator[Exchange]:
        """Yield the selected exchanges of a capture, each decoded once."""
        for index, exchange in self._walk(capture, reader):
            yield reader.exchange(index) if exchange is None else exchange

    @property
    def enough(self) -> bool:
        """Whether as many were selected as were wanted."""
        return self.count is not None and self._taken >= self.count

    def bounds(self, capture: Capture) -> tuple[int | None, int | None]:
        """Return begin and end in ns since the epoch, None where not limited.

        What counts from the first packet counts from that of the first capture.
        """
        if self._first is None and len(capture.connections):
            self._first = int(capture.connections.first_time.min())
        low = resolve(self.begin, self._first or 0, self.zone) if self.begin else None
        high = resolve(self.end, self._first or 0, self.zone) if self.end else None
        return low, high

    def rows(self, capture: Capture) -> NDArray[np.bool_]:
        """Return a mask over the rows of the table, in their order there: all but the filter."""
        import numpy as np

        table = capture.table
        mask = np.ones(len(table), np.bool_)
        asked = table.column("request_size") > 0
        time = np.where(asked, table.column("request_first"), table.column("response_first"))
        low, high = self.bounds(capture)
        if low is not None:
            mask &= time >= low
        if high is not None:
            mask &= time <= high
        if self.connections:
            mask &= np.isin(table.column("connection"), self.connections)
        return mask

    def _walk(self, capture: Capture, reader: ExchangeReader) -> Iterator[tuple[int, Exchange | None]]:
        """Yield indexes of selected exchanges, with the exchange where it had to be decoded."""
        for index, exchange in self._fitting(capture, reader):
            if self.enough:
                return
            self._taken += 1
            yield index, exchange

    def _fitting(self, capture: Capture, reader: ExchangeReader) -> Iterator[tuple[int, Exchange | None]]:
        order = capture.table.order()
        chosen = self.rows(capture)[order]
        if self.wanted is None:
            for index in chosen.nonzero()[0].tolist():
                yield index, None
            return
        from captures.filters import TableColumns, context_of

        context = context_of(reader, self.wanted)
        matches, undecided = self.wanted.mask(TableColumns.of(capture), context)
        sure, possible = matches[order], (matches | undecided)[order]
        for index in (chosen & possible).nonzero()[0].tolist():
            if sure[index]:
                yield index, None
                continue
            exchange = reader.exchange(index)
            if self.wanted.match(exchange, context):
                yield index, exchange
