"""The exchanges of a session in list order, and what is known of each."""

from __future__ import annotations

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Capture, ExchangeReader
from captures.exchanges.columns.arrays import GrowingArray
from dissectors.record_values import Payload
from dissectors.session_context import SessionContext


class ListedExchanges:
    """The exchanges by index: 0 is the oldest that is kept, whose number is :attr:`first`.

    :ivar reader: decodes exchanges for display
    :ivar plain: decodes them for counting: without summaries, and with records left as bytes
    :ivar complete: whether each exchange is complete
    :ivar fits: whether each matches the filter
    """

    def __init__(self, capture: Capture, *, show_secrets: bool, payload: Payload) -> None:
        knowledge = SessionContext()
        self.reader = ExchangeReader(
            capture, show_secrets=show_secrets, payload=payload, live=True, knowledge=knowledge
        )
        self.plain = ExchangeReader(capture, annotate=False, summary=False, live=True, knowledge=knowledge)
        self.complete = GrowingArray(np.bool_)
        self.fits = GrowingArray(np.bool_)
        self._table = capture.table
        self._listed = 0
        """Number of table rows that are or were in the list."""
        self._index_of_row = GrowingArray(np.int64)

    def __len__(self) -> int:
        return len(self.reader)

    @property
    def first(self) -> int:
        """Number of the oldest exchange."""
        return self.reader.first

    @property
    def in_flight(self) -> int:
        """How many exchanges are incomplete."""
        return len(self) - int(np.count_nonzero(self.complete.array))

    def extend(self, *, fits: bool) -> int:
        """Append the new rows of the table, and return how many.

        :param fits: whether they match the filter, as far as is known
        """
        begin, rows = len(self), self._table.in_order(np.arange(self._listed, len(self._table)))
        self._listed = len(self._table)
        self.reader.extend(rows)
        self.plain.extend(rows)
        self.complete.append(np.zeros(len(rows), np.bool_))
        self.fits.append(np.full(len(rows), fits))
        missing = len(self._table) - len(self._index_of_row)
        self._index_of_row.append(np.full(max(missing, 0), -1))
        self._index_of_row.array[rows] = np.arange(begin, begin + len(rows))
        return len(rows)

    def index_of(self, row: int) -> int:
        """Return the index of a row of the table, -1 if it is not listed."""
        return int(self._index_of_row.array[row])

    def settle(self, rows: Int64s) -> Int64s:
        """Mark rows of the table as complete, and return the indexes of those that are listed."""
        settled = self._index_of_row.array[rows]
        settled = settled[settled >= 0]
        self.complete.array[settled] = True
        return settled

    def sort(self) -> Int64s | None:
        """Order the exchanges by their first byte in the capture.

        :returns: for each old index the new one; None if nothing moved
        """
        rows = self.reader.rows
        order = self._table.in_order(rows)
        if order is rows:
            return None
        old = self._index_of_row.array[order]
        self.reader.reorder(order)
        self.plain.reorder(order)
        self._index_of_row.array[order] = np.arange(len(order))
        for flags in (self.complete, self.fits):
            flags.array[:] = flags.array[old]
        moved = np.empty(len(old), np.int64)
        moved[old] = np.arange(len(old))
        return moved

    def drop(self, count: int, renumbered: Int64s) -> None:
        """Drop the oldest exchanges.

        :param renumbered: for each old row of the table its new index, -1 if it was dropped
        """
        self._listed = len(self._table)
        self.reader.drop(count, renumbered)
        self.plain.drop(count, renumbered)
        for flags in (self.complete, self.fits):
            flags.keep(np.arange(len(flags)) >= count)
        self._index_of_row = GrowingArray(np.int64)
        self._index_of_row.append(np.full(len(self._table), -1))
        self._index_of_row.array[self.reader.rows] = np.arange(len(self))
