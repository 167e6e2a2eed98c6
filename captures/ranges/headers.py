"""The headers of a range's exchanges as an exchange table, without reading the range again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import ExchangeTable
from captures.exchanges.notes import Notes
from captures.exchanges.table import COLUMNS
from captures.interventions import NO_UPSTREAM, UpstreamBroker
from captures.names import Names
from captures.packets import AddressBook
from captures.ranges.exchange_numbers import Context
from captures.ranges.range_reader import FinishedExchanges


class HeaderCapture:
    """The parts of a capture that the headers of exchanges need; connections have ids of their own.

    :param ends: client and broker of each connection
    """

    def __init__(self, table: ExchangeTable, ends: Sequence[tuple[str, str]]) -> None:
        self.table = table
        self.names = Names()
        self.notes = Notes(table, lambda connection: 2 * connection)
        self._ends = ends

    def endpoints(self, connection: int) -> tuple[str, str]:
        """Return client and broker as ``host:port``."""
        return self._ends[connection]

    def upstream_of(self, connection: int) -> UpstreamBroker:
        """Return :data:`NO_UPSTREAM`: filters, which need brokers, are decided with the range at hand."""
        return NO_UPSTREAM


class Headers(NamedTuple):
    """The exchanges of a range, in the order of their numbers.

    :ivar rows: rows of the table of ``capture``
    :ivar connections: ids in the whole capture
    """

    capture: HeaderCapture
    rows: Int64s
    numbers: Int64s
    connections: Int64s


def headers_of(finished: FinishedExchanges, context: Context) -> Headers:
    """Return the headers of a range's exchanges.

    :param finished: exchanges that the reading of the range has finished
    """
    book, table = AddressBook(), ExchangeTable()
    ends: list[tuple[str, str]] = []
    ids: list[int] = []
    for local in context.locals:
        ends.append((book.text(book.intern(*local.client)), book.text(book.intern(*local.broker))))
        ids.append(local.connection)
    _add_finished(table, finished, context)
    here: dict[int, int] = {}
    for each in context.stitched:
        if each.connection not in here:
            client, broker = context.connections[each.connection].ends
            here[each.connection] = len(ids)
            ends.append((book.text(book.intern(*client)), book.text(book.intern(*broker))))
            ids.append(each.connection)
        table.add_detached(each.row, here[each.connection])
    connections = np.array(ids, np.int64)[table.column("connection")]
    rows = np.lexsort((table.column("request_position"), connections, table.column("packet")))
    numbers = context.first_number + np.arange(len(rows))
    return Headers(HeaderCapture(table, ends), rows, numbers, connections[rows])


def _add_finished(table: ExchangeTable, finished: FinishedExchanges, context: Context) -> None:
    """Add the exchanges that are finished in the range, except those of connections that the context does not list."""
    local = finished.columns["connection"]
    indexes = np.full(int(local.max()) + 1 if len(local) else 0, -1, np.int64)
    for index, each in enumerate(context.locals):
        if each.local < len(indexes):
            indexes[each.local] = index
    good = indexes[local] >= 0
    columns = {name: finished.columns[name][good] for name in COLUMNS}
    columns["connection"] = indexes[local][good]
    columns["packet"] = columns["packet"] + context.first_packet
    distances = np.array([each.distances[0] for each in context.locals], np.int64)
    if len(distances):
        columns["request_position"] = columns["request_position"] + distances[columns["connection"]]
    numbers = list(map(table.number_of_text, finished.client_ids))
    columns["client_id"] = np.array([*numbers, -1], np.int64)[columns["client_id"]]
    table.append(int(np.count_nonzero(good)), **columns)
