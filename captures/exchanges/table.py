"""The exchange table: one row per request with its response, in columns, with the place of its bytes.

A row costs :data:`ROW_BYTES` bytes. Bodies are not in it; they are read from the capture when a view asks for them.
Rows are added as requests become complete and filled in when their response does; :meth:`ExchangeTable.order`
gives the numbering that users see: by the first byte of the request in the capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_TIME = -1


class Flag(IntFlag):
    """What is special about an exchange; several may hold."""

    UNANSWERED = 1
    """The connection or the capture ended before a response came."""
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

    @property
    def names(self) -> list[str]:
        """The flags set, in lower case."""
        return [flag.name.lower() for flag in Flag if flag in self and flag.name] if self else []


COLUMNS = np.dtype(
    [
        ("connection", np.int32),
        ("client_id", np.int32),
        ("api_key", np.int16),
        ("version", np.int16),
        ("flags", np.uint16),
        ("correlation_id", np.int32),
        ("request_position", np.int64),
        ("request_size", np.int32),
        ("response_position", np.int64),
        ("response_size", np.int32),
        ("request_first", np.int64),
        ("request_last", np.int64),
        ("response_first", np.int64),
        ("response_last", np.int64),
        ("packet", np.int64),
    ]
)
"""Columns of the table.

``connection``: id in the capture. ``client_id``: index into :attr:`ExchangeTable.client_ids`, -1 unknown.
``api_key``: -1 if unknown (an orphan response, a SASL token). Positions are those of the size field's first byte in
the stream of that side, sizes count it too; size 0 means that there is no such frame. Times are nanoseconds since
the epoch, of the packets that carried the first and the last byte, -1 if there is none. ``packet`` is the number
of the packet with the first byte of the request, or of the response if there is no request.
"""

ROW_BYTES = COLUMNS.itemsize


class ExchangeTable:
    """Growable columns; ``table.column(name)`` is a view of the rows in use."""

    def __init__(self) -> None:
        self._rows = np.zeros(1024, COLUMNS)
        self._size = 0
        self.client_ids: list[str | None] = []
        self._client_numbers: dict[bytes | None, int] = {}

    def __len__(self) -> int:
        return self._size

    def column(self, name: str) -> NDArray[Any]:
        """Return one column of all rows, in the order in which they were added."""
        return self._rows[name][: self._size]

    def append(self, count: int) -> slice:
        """Add ``count`` rows of zeros with nothing known; return where they are."""
        start, end = self._size, self._size + count
        if end > len(self._rows):
            grown = np.zeros(max(end, 2 * len(self._rows)), COLUMNS)
            grown[:start] = self._rows[:start]
            self._rows = grown
        self._size = end
        rows = self._rows[start:end]
        rows["client_id"] = rows["api_key"] = rows["version"] = -1
        for name in ("request_first", "request_last", "response_first", "response_last"):
            rows[name] = NO_TIME
        return slice(start, end)

    def set(self, rows: Any, **columns: Any) -> None:
        """Assign columns of some rows (index, slice or array of indexes)."""
        view = self._rows[: self._size]
        for name, values in columns.items():
            view[name][rows] = values

    def mark(self, rows: Any, flags: Flag) -> None:
        """Add flags to some rows."""
        self._rows["flags"][: self._size][rows] |= np.uint16(flags)

    def client_number(self, client_id: bytes | None) -> int:
        """Return the number under which a client ID is kept in the ``client_id`` column."""
        number = self._client_numbers.get(client_id)
        if number is None:
            number = self._client_numbers[client_id] = len(self.client_ids)
            self.client_ids.append(None if client_id is None else client_id.decode(errors="replace"))
        return number

    def row(self, index: int) -> dict[str, Any]:
        """Return one row as plain values."""
        return dict(zip(COLUMNS.names or (), self._rows[index].tolist(), strict=True))

    def order(self) -> NDArray[np.int64]:
        """Return row indexes in the order of numbering: by the first byte of the request in the capture."""
        keys = (self.column("request_position"), self.column("connection"), self.column("packet"))
        return np.lexsort(keys).astype(np.int64)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order().tolist())
