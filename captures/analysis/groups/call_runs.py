"""Runs of calls, found in columns: calls of members that only repeat the one before.

They need not be read: the last call of a run records how many it represents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.groups.calls import HEARTBEATS, OF_MEMBERS
from captures.analysis.groups.context import PAUSE
from captures.arrays import Bools, Int32s, Int64s
from captures.exchanges.columns import NO_VALUE
from dissectors.api_keys import ApiKey


class PassedCalls(NamedTuple):
    """Facts about skipped calls, needed when a later call is read.

    :ivar calls: number of skipped calls of the same run since the previous call that was read
    :ivar longest: longest time in ns from one of these to the next, this call included
    :ivar last_contact: time of the group's last skipped request to the broker; 0 if the last one was read
    """

    calls: int = 0
    longest: int = 0
    last_contact: int = 0


class CallRuns:
    """Finds the calls of a capture that continue a run and are followed by another call of it.

    A run belongs to one member on one connection. It ends at any other call to the group that may not be skipped: a
    failed call, one with news, or a lookup of the coordinator.

    :param rows: rows of a capture, or of a part of it, with the columns ``groups``, ``call``, ``member``
    :param read: mask of exchanges that are read anyway
    :ivar passed: mask of the exchanges that need not be read
    """

    def __init__(self, rows: DecisionColumns, read: Bools) -> None:
        self._rows = rows
        columns, key = rows.columns, rows.api_key
        call, groups = columns.flat("call"), columns.ragged("groups")
        self._connection, self._time = columns.flat("connection"), columns.flat("time")
        alike = (call >= 0) & rows.untouched & (rows.latency != NO_VALUE) & (rows.group >= 0)
        ends = rows.of_api({*OF_MEMBERS, ApiKey.FIND_COORDINATOR}) & ~alike
        chosen = np.flatnonzero(alike)
        # number of calls before each that ended runs of its group
        ending = np.sort(self._place(groups.values, groups.rows)[ends[groups.rows]])
        era = np.searchsorted(ending, self._place(rows.group[chosen], chosen))
        kind = np.where(rows.of_api(HEARTBEATS), -1, key)
        indexes = [each[chosen] for each in (columns.flat("member"), kind, self._connection, rows.group)]
        order = np.lexsort((chosen, *indexes))
        self._chosen = chosen = chosen[order]
        codes = [columns.flat(name)[chosen] for name in ("call", "client_id")]
        self._gaps = np.diff(self._time[chosen], prepend=self._time[chosen[:1]])
        goes_on = (self._gaps >= 0) & (self._gaps <= PAUSE) & (np.arange(len(chosen)) > 0)
        for each in (*codes, *(each[order] for each in (era, *indexes))):
            goes_on[1:] &= each[1:] == each[:-1]
        self.passed = rows.nothing
        self.passed[chosen[:-1]] = goes_on[:-1] & goes_on[1:]
        self.passed &= ~read

    def _place(self, groups: Int64s, rows: Int64s | Int32s) -> Int64s:
        """Return keys that sort exchanges by group, then by number."""
        return groups.astype(np.int64) * len(self._rows.columns) + rows

    def passed_calls(self) -> dict[int, PassedCalls]:
        """Return the facts about skipped calls, by the number of the call after them."""
        assert self._rows.numbers is not None
        found, numbers = dict[int, PassedCalls](), self._rows.numbers
        read = np.flatnonzero(~self.passed[self._chosen])
        counts = np.diff(read, prepend=-1) - 1
        longest = np.maximum.reduceat(self._gaps, np.append(0, read[:-1] + 1)) if len(read) else self._gaps
        some = np.flatnonzero(counts)
        of = numbers[self._chosen[read[some]]].tolist(), counts[some].tolist(), longest[some].tolist()
        for number, calls, gap in zip(*of, strict=True):
            found[number] = PassedCalls(calls, gap)
        for row, last_call in self._last_contacts():
            number = int(numbers[row])
            found[number] = found.get(number, PassedCalls())._replace(last_contact=last_call)
        return found

    def _last_contacts(self) -> Iterator[tuple[int, int]]:
        """Yield the row of each call that follows a skipped one of the same group and broker, with that one's time."""
        names = dict[str | None, int]()
        brokers = np.array(
            [names.setdefault(name, len(names)) for name in self._rows.columns.texts("broker")], np.int64
        )
        calls = np.flatnonzero(self._rows.of_api(OF_MEMBERS))
        indexes = brokers[self._connection[calls]], self._rows.group[calls]
        order = np.lexsort((calls, *indexes))
        calls = calls[order]
        behind = self.passed[calls[:-1]] & ~self.passed[calls[1:]]
        for each in indexes:
            behind &= np.diff(each[order]) == 0
        yield from zip(calls[1:][behind].tolist(), self._time[calls[:-1][behind]].tolist(), strict=True)
