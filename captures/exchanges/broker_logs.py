"""Entries of the brokers' request logs, by the packets of the requests."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bools, Int64s
from captures.interventions import BrokerLog


class Lack(Enum):
    """What a request log does not contain; the value says it in words."""

    RECORDS = "a request log has the size of records, not the records"
    PACKETS = "a request log tells nothing of packets and connections"
    SILENCE = "a request log has only requests that the broker has finished"


_TEXTS = ("listener", "principal")
_NUMBERS = tuple(name for name in BrokerLog.__struct_fields__ if name not in _TEXTS)
_COLUMNS = (*_NUMBERS, *_TEXTS)


def _key_of(row: Any) -> Any:
    """Return what stands for a row in place of a packet."""
    return -1 - row


class BrokerLogColumn(NamedTuple):
    """A column for some packets: values, and a mask of those that are present."""

    values: Int64s
    present: Bools


class BrokerLogs:
    """Entries of request logs in columns, by the packet of the request; of captured requests, by row of the table, as
    several may begin in one packet.

    :ivar captured: number of entries whose exchanges were captured, too
    """

    def __init__(self) -> None:
        self.captured = 0
        self._packets = array("q")
        self._values = array("q")
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._read: tuple[Int64s, NDArray[Any]] = (
            np.empty(0, np.int64),
            np.empty((0, len(_COLUMNS)), np.int64),
        )

    def __len__(self) -> int:
        return len(self._packets)

    @property
    def lacks(self) -> frozenset[Lack]:
        """What is unknown about exchanges read from request logs; empty if there are no entries. If packets of the same
        time were captured, only records of exchanges that they lack are unknown.
        """
        if not self.captured:
            return frozenset(Lack) if self else frozenset()
        _, values = self._columns()
        sizes = [_COLUMNS.index(name) for name in ("request_left_out", "response_left_out")]
        return frozenset({Lack.RECORDS}) if values[:, sizes].any() else frozenset()

    def add(self, entries: Iterable[tuple[int, BrokerLog]]) -> None:
        """Add entries with the numbers of their packets."""
        for packet, entry in entries:
            self.captured += entry.captured
            self._packets.append(packet)
            self._values.extend(getattr(entry, name) for name in _NUMBERS)
            self._values.extend(self._code(getattr(entry, name)) for name in _TEXTS)

    def forget(self, packet: int) -> None:
        """Drop the entries of packets before `packet`."""
        packets, values = self._columns()
        kept = packets >= packet
        self._packets, self._values = (
            array("q", packets[kept].tolist()),
            array("q", values[kept].ravel().tolist()),
        )

    def add_captured(self, row: int, entry: BrokerLog) -> None:
        """Add the entry of a captured exchange."""
        self.add([(_key_of(row), entry)])

    def of_row(self, row: int, packet: int) -> BrokerLog | None:
        """Return the entry of an exchange, None if it has none."""
        return (self.of(_key_of(row)) if self.captured else None) or self.of(packet)

    def of(self, packet: int) -> BrokerLog | None:
        """Return the entry of the request that begins in `packet`, None if it has none."""
        packets, values = self._columns()
        at = int(np.searchsorted(packets, packet))
        if at == len(packets) or packets[at] != packet:
            return None
        row: dict[str, Any] = dict(zip(_COLUMNS, values[at].tolist(), strict=True))
        flags = {name: bool(row[name]) for name in ("captured", "request_added", "response_added")}
        return BrokerLog(**row | flags | {name: self._texts[row[name]] for name in _TEXTS})

    def column(self, name: str, packets: Int64s) -> BrokerLogColumn:
        """Return one value for each of some packets with requests; texts are given as codes."""
        known, values = self._columns()
        if not len(known):
            return BrokerLogColumn(np.zeros(len(packets), np.int64), np.zeros(len(packets), np.bool_))
        at = np.minimum(np.searchsorted(known, packets), len(known) - 1)
        return BrokerLogColumn(values[at, _COLUMNS.index(name)], known[at] == packets)

    def column_of_rows(self, name: str, rows: Int64s, packets: Int64s) -> BrokerLogColumn:
        """Return one value for each of some exchanges, by their rows and the packets of their requests."""
        found = self.column(name, packets)
        if not self.captured:
            return found
        captured = self.column(name, _key_of(rows))
        return BrokerLogColumn(
            np.where(captured.present, captured.values, found.values), captured.present | found.present
        )

    def _code(self, text: str) -> int:
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def _columns(self) -> tuple[Int64s, NDArray[Any]]:
        if len(self._read[0]) != len(self._packets):
            values = np.array(self._values, np.int64).reshape(-1, len(_COLUMNS))
            packets = np.array(self._packets, np.int64)
            order = np.argsort(packets, kind="stable")
            self._read = packets[order], values[order]
        return self._read
