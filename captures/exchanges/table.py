"""The exchange table: one row per request with its response, in columns, with the positions of its bytes.

A row costs :data:`ROW_BYTES` bytes. Bodies are not in it; they are read from the capture on demand. Rows are added as
requests become complete and filled in when their response does; :meth:`ExchangeTable.order` gives the numbering that
users see: by the first byte of the request in the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntFlag
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bools, Int64s
from captures.exchanges.broker_logs import BrokerLogColumn, BrokerLogs
from captures.interventions import Interventions
from dissectors.sides import SIDES, Side

NO_TIME = -1


class Flag(IntFlag):
    """Peculiarities of an exchange; several may apply."""

    UNANSWERED = 1
    """The connection or the capture ended before a response arrived."""
    NO_RESPONSE_EXPECTED = 2
    """Produce with acks=0: Kafka's broker sends nothing; others may answer all the same."""
    ORPHAN = 4
    """A response whose request was not captured."""
    SASL_TOKEN = 8
    """Raw SASL tokens, without Kafka headers."""
    REQUEST_DAMAGED = 16
    """Bytes of the request are missing."""
    RESPONSE_DAMAGED = 32
    """Bytes of the response are missing."""
    CONFLICTING = 64
    """Bytes of it were captured twice, with different content; the first copy is shown."""
    RESYNCHRONISED = 128
    """Its request or response follows bytes that belong to no frame: its start is a guess from the header."""
    NOT_RECORDED = 256
    """Bytes of the broker are missing where the response would be: it is unknown whether one was sent; or a broker's
    request log has the request without its response."""
    RESPONSE_LOGGED = 512
    """The packets lack the response; it is that of a broker's request log, at the time that the broker measured."""
    REQUEST_LOGGED = 1024
    """The packets lack the request; it is that of a broker's request log."""

    @property
    def names(self) -> list[str]:
        """Names of the set flags, in lower case."""
        return list(_names(self)) if self else []


@lru_cache
def _names(flags: Flag) -> tuple[str, ...]:
    """Return the names of set flags; cached, because iterating an ``IntFlag`` takes longer than the rest of a line."""
    return tuple(flag.name.lower() for flag in Flag if flag in flags and flag.name)


NO_ANSWER_SEEN = Flag.UNANSWERED | Flag.NOT_RECORDED
"""Flags of a request whose response was due and is not in the capture: its absence proves nothing."""
SETTLED = NO_ANSWER_SEEN | Flag.NO_RESPONSE_EXPECTED | Flag.ORPHAN
"""Flags of an exchange without a response, or without a request, that will not be completed."""
LOGGED_SIDES: dict[Side, Flag] = {"request": Flag.REQUEST_LOGGED, "response": Flag.RESPONSE_LOGGED}
"""Flags of exchanges of which the packets lack a side, which is that of a broker's request log."""

COLUMNS: dict[str, tuple[type[np.signedinteger[Any] | np.unsignedinteger[Any]], int]] = {
    "connection": (np.int32, 0),
    "client_id": (np.int32, -1),
    "api_key": (np.int16, -1),
    "version": (np.int16, -1),
    "flags": (np.uint16, 0),
    "correlation_id": (np.int32, 0),
    "request_position": (np.int64, 0),
    "request_size": (np.int32, 0),
    "response_position": (np.int64, 0),
    "response_size": (np.int32, 0),
    "request_first": (np.int64, NO_TIME),
    "request_last": (np.int64, NO_TIME),
    "response_first": (np.int64, NO_TIME),
    "response_last": (np.int64, NO_TIME),
    "packet": (np.int64, 0),
}
"""Columns of the table: type, and value in a new row.

``connection``: id in the capture. ``client_id``: index into :attr:`ExchangeTable.client_ids`, -1 unknown.
``api_key``: -1 if unknown (an orphan response, a SASL token). Positions are those of the size field's first byte in
the stream of that side, sizes count it too; size 0 means that there is no such frame. Times are nanoseconds since
the epoch, of the packets that carried the first and the last byte, -1 if there is none. ``packet`` is the number
of the packet with the first byte of the request, or of the response if there is no request.
"""

ROW_BYTES = sum(np.dtype(kind).itemsize for kind, _ in COLUMNS.values())

DetachedRow = dict[str, Any]
"""A row of a table, with the client ID as text instead of the table's number for it."""

_FIRST_ROWS = 1024


def cluster_time(measured: int, done: Interventions) -> int:
    """Return a measured latency, in ns, without the time that the request stayed in kproxy."""
    # bytes that arrived while others waited did not wait as long as these
    return measured - min(done.request_delay_ns, max(measured, 0))


class ExchangeTable:
    """Growable columns; ``table.column(name)`` is a view of the rows in use."""

    def __init__(self) -> None:
        self._columns: dict[str, NDArray[Any]] = {
            name: np.full(_FIRST_ROWS, blank, kind) for name, (kind, blank) in COLUMNS.items()
        }
        self._size = 0
        self.client_ids: list[str | None] = []
        self._client_numbers: dict[bytes | None, int] = {}
        self.intervened: Callable[[], Mapping[int, Interventions]] = dict
        """Returns the rows in which kproxy intervened (:meth:`captures.exchanges.notes.Notes.intervened`)."""
        self.broker_logs = BrokerLogs()
        """Entries of the brokers' request logs, by request."""
        self.by_time = False
        """Whether rows are ordered by their times: those of a request log are added after all captured ones."""

    def __len__(self) -> int:
        return self._size

    def column(self, name: str) -> NDArray[Any]:
        """Return one column of all rows, in the order in which they were added."""
        return self._columns[name][: self._size]

    def append(self, count: int, **columns: Any) -> slice:
        """Add ``count`` rows with the given columns and blanks elsewhere; return their slice."""
        start, end = self._size, self._size + count
        capacity = len(self._columns["flags"])
        if end > capacity:
            self._resize(max(end, capacity + capacity // 2))
        self._size = end
        rows = slice(start, end)
        for name, values in columns.items():
            self._columns[name][rows] = values
        return rows

    def add(self, **columns: Any) -> int:
        """Add one row with the given columns and blanks elsewhere; return its index."""
        row = self._size
        if row == len(self._columns["flags"]):
            self._resize(row + row // 2)
        self._size += 1
        for name, value in columns.items():
            self._columns[name][row] = value
        return row

    def _resize(self, capacity: int) -> None:
        for name, (kind, blank) in COLUMNS.items():
            grown = np.empty(capacity, kind)
            grown[: self._size] = self.column(name)
            grown[self._size :] = blank
            self._columns[name] = grown

    def set(self, rows: Any, **columns: Any) -> None:
        """Set columns of some rows (index, slice or array of indexes)."""
        for name, values in columns.items():
            self._columns[name][rows] = values

    def mark(self, rows: Any, flags: Flag) -> None:
        """Add flags to some rows."""
        self._columns["flags"][rows] |= np.uint16(flags)

    def mark_logged(self) -> None:
        """Mark what a request log has and the packets lack.

        Requests made from it that look unanswered are not recorded: the broker finished those.
        """
        if len(self.broker_logs):
            rows = self.only_logged() & ((self.column("flags") & Flag.UNANSWERED) != 0)
            self._columns["flags"][np.flatnonzero(rows)] ^= np.uint16(NO_ANSWER_SEEN)
            for side, flag in LOGGED_SIDES.items():
                added, logged = self.broker_log_column(f"{side}_added", slice(None))
                self.mark(np.flatnonzero(logged & (added > 0)), flag)

    def only_logged(self) -> Bools:
        """Return a mask of the exchanges that were made from a request log: they were not captured."""
        captured, logged = self.broker_log_column("captured", slice(None))
        found: Bools = logged & (captured == 0)
        return found

    def keep(self, rows: Bools) -> Int64s:
        """Drop all other rows; the remaining ones move up.

        :param rows: a mask over all rows
        :returns: for each old row its new index, -1 if it was dropped
        """
        renumbered = np.where(rows, np.cumsum(rows) - 1, -1)
        kept = {name: self.column(name)[rows] for name in COLUMNS}
        self._size = int(np.count_nonzero(rows))
        self._columns = kept
        self._resize(max(self._size, _FIRST_ROWS))
        return renumbered

    def restore(self, columns: Mapping[str, NDArray[Any]], client_ids: list[str | None]) -> None:
        """Take the place of another table, by its columns and client IDs; no more rows are added then."""
        self._columns = {name: np.array(columns[name], kind) for name, (kind, _) in COLUMNS.items()}
        self._size = len(self._columns["flags"])
        self.client_ids = client_ids

    def began(self, rows: Any) -> Int64s:
        """Return when exchanges began, in ns since the epoch: with the response if the request was not recorded."""
        asked = self.column("request_size")[rows] > 0
        times: Int64s = np.where(asked, *(self.column(f"{side}_first")[rows] for side in SIDES))
        return times

    def latency(self, rows: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the latencies of brokers in ns, and a mask of the exchanges that have one.

        The latency is the time from the last byte of the request to the first byte of the response, less the time that
        the request stayed in kproxy. Exchanges answered by kproxy itself have none.

        :param rows: any index of a column
        """
        # a missing frame has no time; sizes would show it too, but are two more columns to read
        asked, answered = (self.column(name)[rows] for name in ("request_last", "response_first"))
        passed, there = answered - asked, (asked != NO_TIME) & (answered != NO_TIME)
        intervened = self.intervened()
        if intervened:
            indexes = np.arange(len(self))[rows]
            for at in np.flatnonzero(np.isin(indexes, list(intervened))).tolist():
                done = intervened[int(indexes[at])]
                there[at] &= not done.answered
                passed[at] = cluster_time(int(passed[at]), done)
        return passed, there

    def broker_log_column(self, name: str, rows: Any) -> BrokerLogColumn:
        """Return a column of the brokers' request logs for some rows (:class:`captures.interventions.BrokerLog`)."""
        return self.broker_logs.column_of_rows(name, np.arange(len(self))[rows], self.column("packet")[rows])

    def sizes(self, side: Side, rows: Any) -> Int64s:
        """Return frame sizes in bytes as sent, including bytes that a request log states but omits."""
        sizes: Int64s = self.column(f"{side}_size")[rows].astype(np.int64)
        if not len(self.broker_logs):
            return sizes
        left_out, logged = self.broker_log_column(f"{side}_left_out", rows)
        return np.where(logged, sizes + left_out, sizes)

    def add_detached(self, row: DetachedRow, connection: int) -> int:
        """Add a row of another table, as :meth:`detached` returned it; return its index."""
        client_id = row["client_id"]
        number = client_id if client_id == -1 else self.number_of_text(client_id)
        values = {name: row[name] for name in COLUMNS}
        return self.add(**values | {"connection": connection, "client_id": number})

    def number_of_text(self, client_id: str | None) -> int:
        """Return the number of a client ID, given as text, for the ``client_id`` column."""
        return self.client_number(None if client_id is None else client_id.encode())

    def client_number(self, client_id: bytes | None) -> int:
        """Return the number of a client ID for the ``client_id`` column."""
        number = self._client_numbers.get(client_id)
        if number is None:
            number = self._client_numbers[client_id] = len(self.client_ids)
            self.client_ids.append(None if client_id is None else client_id.decode(errors="replace"))
        return number

    def row(self, index: int) -> dict[str, Any]:
        """Return one row as plain values."""
        return {name: self._columns[name].item(index) for name in COLUMNS}

    def detached(self, index: int) -> DetachedRow:
        """Return one row in a form that other tables can add."""
        values = self.row(index)
        number = values["client_id"]
        return values | {"client_id": self.client_ids[number] if number >= 0 else -1}

    def rows(self, indexes: Int64s) -> list[dict[str, Any]]:
        """Return several rows as plain values."""
        columns = (self._columns[name][indexes].tolist() for name in COLUMNS)
        return [dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]

    def order(self) -> Int64s:
        """Return row indexes in the order of numbering: by the first byte of the request, or its time."""
        return self.in_order(np.arange(len(self)))

    def numbers(self) -> Int64s:
        """Return the number of the exchange in each row, counted over the whole capture."""
        numbers = np.empty(len(self), np.int64)
        numbers[self.order()] = np.arange(1, len(self) + 1)
        return numbers

    def in_order(self, rows: Int64s) -> Int64s:
        """Return row indexes in the order of numbering."""
        keys = [self.column(name)[rows] for name in ("request_position", "connection", "packet")]
        if self.by_time:
            keys.append(self.began(rows))
        return rows if _rise(keys) else rows[np.lexsort(keys)]

    def is_complete(self, rows: Int64s) -> Bools:
        """Return a mask of complete rows: answered, or certain to stay without answer or without request."""
        complete: Bools = self.column("response_size")[rows] > 0
        complete |= self.column("flags")[rows] & np.uint16(SETTLED) != 0
        return complete

    def __iter__(self) -> Iterator[int]:
        return iter(self.order().tolist())


def _rise(keys: list[NDArray[Any]]) -> bool:
    """Return whether rows are sorted by `keys`, of which the last is the primary one, as for :func:`numpy.lexsort`."""
    rising = np.True_
    for key in keys:
        before, after = key[:-1], key[1:]
        rising = (before < after) | ((before == after) & rising)
    return bool(np.all(rising))
