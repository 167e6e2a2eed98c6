"""One side of a comparison: everything that is counted for a capture, or for a time range of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from captures.analysis.client_stats import ClientRow, ClientStats
from captures.analysis.clients.client_reader import read_clients
from captures.analysis.clients.inventory import Client, Clients
from captures.analysis.comparison.model import SideFacts
from captures.analysis.comparison.time_slices import MOST_EXAMPLES, TimeSlicedCounts
from captures.analysis.decision_columns import TAKEN as DECISIVE
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import (
    ExchangeGroup,
    RowGroups,
    api_names,
    client_names,
    exchange_groups,
)
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.latency import LatencyStats
from captures.analysis.negotiation import Matrix, Negotiation
from captures.analysis.time_shares import ShareRow, TimeShares
from captures.arrays import Int64s
from captures.exchanges import Capture, ExchangeReader, Flag
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from captures.meaning import Names
from dissectors.error_codes import error_name
from dissectors.units import SECOND

_TAKEN = (*DECISIVE, "wait_reason")
_LEARNING = "learning what to compare"
"""The activity named in error reports."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time range, in ns since the epoch; None for an open end."""

    low: int | None = None
    high: int | None = None

    def __contains__(self, time: int) -> bool:
        return (self.low is None or time >= self.low) and (self.high is None or time <= self.high)


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """An error of an API.

    :ivar expected: whether it belonged to a normal conversation
    """

    api: str
    name: str
    expected: bool


class Side:
    """The counts of one side.

    :param label: its label
    :param names: returns names of topic IDs
    :param window: count only exchanges that began in it; groups and findings learn from these only, too
    :ivar requests: requests by API
    :ivar shares: requests by API and client
    :ivar errors: responses by error
    :ivar unanswered: requests without an answer, by API
    :ivar groups: its exchanges, in groups for statistics
    :ivar faults: internal errors of its capture
    """

    def __init__(self, label: str, capture: Capture, names: Names, window: Window | None = None) -> None:
        self.label = label
        self.faults = capture.faults
        self.window = window or Window()
        self.requests: TimeSlicedCounts[str] = TimeSlicedCounts()
        self.shares: TimeSlicedCounts[tuple[str, str]] = TimeSlicedCounts()
        self.errors: TimeSlicedCounts[ErrorKind] = TimeSlicedCounts()
        self.unanswered: TimeSlicedCounts[str] = TimeSlicedCounts()
        self.latency = LatencyStats()
        self._slowest: dict[str, tuple[int, ...]] = {}
        self._negotiation = Negotiation(capture)
        self._clients = ClientStats()
        self._settings = Clients(capture)
        self._diagnosis = Diagnosis(capture, names)
        self._time_shares = TimeShares(capture, names)
        self.groups: list[ExchangeGroup] = []
        self._first: int | None = None
        self._last = 0

    def read(self, reader: ExchangeReader) -> Iterator[int]:
        """Learn from the exchanges that began in the window; yield the progress as exchange numbers."""
        indexes = self._indexes(reader)
        columns = ExchangeColumns(reader.capture, reader.rows[indexes])
        yield from (reader.first + done for done in columns.preparing(_TAKEN))
        if not len(columns):
            return
        times = columns.flat("time")
        self._first, self._last = int(times.min()), int(times.max())
        for learn in (
            partial(self._count, columns, indexes + reader.first),
            partial(self._note_slow, columns, indexes + reader.first),
            partial(self.latency.add_columns, columns, reader, indexes),
            partial(self._time_shares.add_columns, columns, reader, indexes),
            partial(self._introduce, columns, reader, indexes),
        ):
            self.faults.contained(learn, _LEARNING, None)
        yield from read_clients(reader, self._settings, indexes)
        for exchange in self._diagnosis.add_all(reader, columns, indexes):
            yield exchange.number

    def _indexes(self, reader: ExchangeReader) -> Int64s:
        times = ExchangeColumns(reader.capture, reader.rows).flat("time")
        inside = np.ones(len(times), np.bool_)
        if self.window.low is not None:
            inside &= times >= self.window.low
        if self.window.high is not None:
            inside &= times <= self.window.high
        return np.flatnonzero(inside)

    def _count(self, columns: ExchangeColumns, numbers: Int64s) -> None:
        times = columns.flat("time")
        for rhythm in (self.requests, self.shares, self.errors, self.unanswered):
            rhythm.cover_all(times)
        (api, apis), (client, clients) = api_names(columns), client_names(columns)
        asked = columns.flat("request_size") > 0
        unanswered = columns.flat("flags") & int(Flag.UNANSWERED) != 0
        for rows in RowGroups(api):
            name, requests, waiting = apis[api[rows[0]]], rows[asked[rows]], rows[unanswered[rows]]
            self.requests.extend(name, times[requests], numbers[requests])
            self.unanswered.extend(name, times[waiting], numbers[waiting])
        for rows in RowGroups(api, client):
            requests = rows[asked[rows]]
            share = apis[api[rows[0]]], clients[client[rows[0]]]
            self.shares.extend(share, times[requests], numbers[requests])
        for column, expected in (("error_codes", False), ("expected_error_codes", True)):
            errors = columns.ragged(column)
            seen = np.unique(np.stack([errors.rows, errors.values]), axis=1)  # each error once per response
            for row, code in seen.T.tolist():
                kind = ErrorKind(apis[api[row]], error_name(code), expected)
                self.errors.add(kind, int(times[row]), int(numbers[row]))

    def _note_slow(self, columns: ExchangeColumns, numbers: Int64s) -> None:
        latency, wait = columns.flat("latency"), columns.flat("wait")
        worked = np.flatnonzero((latency != NO_VALUE) & ((wait == 0) | (wait < latency)))
        api, apis = api_names(columns)
        for rows in RowGroups(api[worked]):
            busy = worked[rows]
            slowest = np.lexsort((numbers[busy], latency[busy] - wait[busy]))[::-1][:MOST_EXAMPLES]
            self._slowest[apis[api[busy[0]]]] = tuple(numbers[busy[slowest]].tolist())

    def _introduce(self, columns: ExchangeColumns, reader: ExchangeReader, indexes: Int64s) -> None:
        self.groups = exchange_groups(columns, indexes + reader.first)
        for group in self.groups:
            self._clients.count(group)
            self._negotiation.count(group)
        rows = DecisionColumns(columns)
        introducing, learning = rows.introducing, Negotiation.deciding(rows)
        introduce = self.faults.guarded(self._clients.introduce, _LEARNING)
        learn = self.faults.guarded(self._negotiation.learn, _LEARNING)
        needed = np.flatnonzero(introducing | learning)
        for row, exchange in zip(needed.tolist(), reader.several(indexes[needed].tolist()), strict=True):
            if introducing[row]:
                introduce(exchange)
            if learning[row]:
                learn(exchange)

    # ------------------------------------------------------------ results
    @property
    def seconds(self) -> float:
        """Time from its first exchange to its last."""
        if self._first is None:
            return 0.0
        return (self._last - self._first) / SECOND

    def facts(self) -> SideFacts:
        """Return the side as a whole."""
        return SideFacts(
            label=self.label,
            first=self._first,
            last=self._last,
            seconds=self.seconds,
            exchanges=sum(group.exchanges for group in self.groups),
            clients=len(self.clients),
        )

    def slowest(self, api: str) -> tuple[int, ...]:
        """Return the numbers of the slowest exchanges of an API, the slowest first."""
        return self._slowest.get(api, ())

    def time_shares(self) -> dict[str, ShareRow]:
        """Return the shares of time by API."""
        return {row.api: row for row in self._time_shares.result()}

    @cached_property
    def clients(self) -> list[ClientRow]:
        """The clients; to be read once all exchanges were added."""
        return self._clients.result()

    def configured(self) -> list[Client]:
        """Return the clients with their settings."""
        return self._settings.result()

    def matrix(self) -> Matrix:
        """Return the versions that are offered and used."""
        return self._negotiation.result()

    def findings(self) -> list[Finding]:
        """Return its findings; those about TCP only if they are in the window."""
        window = self.window
        return [
            each
            for each in self._diagnosis.findings()
            if (window.high is None or each.first <= window.high)
            and (window.low is None or each.last >= window.low)
        ]

    def rebalances(self, timelines: Sequence[GroupTimeline] | None = None) -> list[Rebalance]:
        """Return the rebalances that began in it.

        :param timelines: groups of the whole capture, which know more than the window's own; None: those of this side
        """
        found = self._diagnosis.groups.result() if timelines is None else timelines
        return [each for timeline in found for each in timeline.rebalances if each.time in self.window]
