"""Which exchanges of a capture a command is to work on: by filter, time, connection, count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from itertools import islice
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
    """Selects exchanges of a capture.

    :param wanted: the filter, None lets all pass
    :param begin: moment before which nothing is selected, as :class:`~kproxy.cli.times.Moment` takes it
    :param end: moment after which nothing is
    :param connections: ids of connections, empty selects all
    :param count: how many exchanges at most
    :param since: ns since the epoch: of a capture that grows, what began before is only learned from
    """

    wanted: Filter | None = None
    begin: str | None = None
    end: str | None = None
    zone: tzinfo | None = None
    connections: tuple[int, ...] = ()
    count: int | None = None
    since: int | None = None

    def indexes(self, capture: Capture, reader: ExchangeReader) -> Int64s:
        """Return the indexes of the selected exchanges, as :meth:`ExchangeReader.exchange` takes them, rising.

        Bodies are decoded only where the filter needs them.
        """
        import numpy as np

        found = [index for index, _ in self._walk(capture, reader)]
        return np.array(found, np.int64)

    def exchanges(self, capture: Capture, reader: ExchangeReader) -> Iterator[Exchange]:
        """Yield the selected exchanges, each decoded once."""
        if self.wanted is None:
            yield from reader.several(self.indexes(capture, reader).tolist())
            return
        for index, exchange in self._walk(capture, reader):
            yield reader.exchange(index) if exchange is None else exchange

    def as_they_come(
        self,
        capture: Capture,
        reader: ExchangeReader,
        pause: Callable[[], None],
        look: Callable[[Exchange], None] = lambda _: None,
    ) -> Iterator[Exchange]:
        """Yield the selected exchanges of a capture that grows, each as soon as it is complete.

        :param reader: one that is live
        :param pause: called whenever all was yielded that has come
        :param look: called with every exchange, selected or not
        """
        return islice(self._coming(capture, reader, pause, look), self.count)

    def _coming(
        self,
        capture: Capture,
        reader: ExchangeReader,
        pause: Callable[[], None],
        look: Callable[[Exchange], None],
    ) -> Iterator[Exchange]:
        from captures.filters.live import LiveFilter

        wanted = LiveFilter(self.wanted, reader)
        for rows in capture.updates():
            low, high = self.bounds(capture)
            if self.since is not None:
                early = self._times(capture, rows) < self.since
                reader.pass_over(rows[early].tolist())
                rows = rows[~early]
            for exchange in reader.take(rows.tolist()):
                look(exchange)
                fits = wanted.fits(exchange)  # asked about all: it learns from them
                if self.connections and exchange.connection not in self.connections:
                    continue
                if fits and (low is None or exchange.time >= low) and (high is None or exchange.time <= high):
                    yield exchange
            pause()

    def bounds(self, capture: Capture) -> tuple[int | None, int | None]:
        """Return begin and end in ns since the epoch, None where not limited."""
        first = int(capture.connections.first_time.min()) if len(capture.connections) else 0
        low = resolve(self.begin, first, self.zone) if self.begin else None
        high = resolve(self.end, first, self.zone) if self.end else None
        return low, high

    def rows(self, capture: Capture) -> NDArray[np.bool_]:
        """Return a mask over the rows of the table, in their order there: all but the filter."""
        import numpy as np

        table = capture.table
        mask = np.ones(len(table), np.bool_)
        time = self._times(capture, slice(None))
        low, high = self.bounds(capture)
        if low is not None:
            mask &= time >= low
        if high is not None:
            mask &= time <= high
        if self.connections:
            mask &= np.isin(table.column("connection"), self.connections)
        return mask

    @staticmethod
    def _times(capture: Capture, rows: Int64s | slice) -> Int64s:
        """Return when the exchanges of some rows began."""
        import numpy as np

        asked, begin, answered = (
            capture.table.column(name)[rows] for name in ("request_size", "request_first", "response_first")
        )
        return np.where(asked > 0, begin, answered)

    def _walk(self, capture: Capture, reader: ExchangeReader) -> Iterator[tuple[int, Exchange | None]]:
        """Return indexes of selected exchanges, with the exchange where it had to be decoded."""
        return islice(self._fitting(capture, reader), self.count)

    def _fitting(self, capture: Capture, reader: ExchangeReader) -> Iterator[tuple[int, Exchange | None]]:
        chosen = self.rows(capture)
        if self.wanted is not None:
            yield from self.wanted.fitting(reader, among=chosen)
            return
        for index in chosen[capture.table.order()].nonzero()[0].tolist():
            yield index, None
