"""One side of a comparison: all that is counted of a capture, or of a stretch of its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappush, heappushpop

from captures.analysis.client_identity import client_name
from captures.analysis.client_stats import ClientRow, ClientStats
from captures.analysis.clients.inventory import Client, Clients
from captures.analysis.comparison.model import SideFacts
from captures.analysis.comparison.rhythm import MOST_EXAMPLES, Rhythm
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.latency import LatencyStats
from captures.analysis.negotiation import Negotiation
from captures.analysis.time_shares import ShareRow, TimeShares
from captures.analysis.version_matrix import Matrix
from captures.exchanges import Capture, Exchange, Flag
from captures.meaning import Names
from dissectors.error_codes import error_name
from dissectors.units import SECOND


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, in ns since the epoch; None where it has no end."""

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
    """Counts one side.

    :param label: what it is called
    :param names: tells names of topic IDs
    :param window: only what began in it is counted; the groups and findings learn from that only, too
    :ivar requests: by API
    :ivar shares: by API and client
    :ivar errors: responses that have them
    :ivar unanswered: requests without an answer, by API
    :ivar faults: of its capture
    """

    def __init__(self, label: str, capture: Capture, names: Names, window: Window | None = None) -> None:
        self.label = label
        self.faults = capture.faults
        self.window = window or Window()
        self.requests: Rhythm[str] = Rhythm()
        self.shares: Rhythm[tuple[str, str]] = Rhythm()
        self.errors: Rhythm[ErrorKind] = Rhythm()
        self.unanswered: Rhythm[str] = Rhythm()
        self.latency = LatencyStats()
        self._slowest: dict[str, list[tuple[int, int]]] = {}
        self._negotiation = Negotiation(capture)
        self._clients = ClientStats()
        self._settings = Clients(capture)
        self._diagnosis = Diagnosis(capture, names)
        self._time_shares = TimeShares(capture, names)
        self._exchanges = 0
        self._first: int | None = None
        self._last = 0

    def add(self, exchange: Exchange) -> None:
        """Count one exchange, if it is in the window."""
        time = exchange.time
        if time not in self.window:
            return
        self._exchanges += 1
        self._first = time if self._first is None else min(self._first, time)
        self._last = max(self._last, time)
        self._count(exchange)
        self.latency.add(exchange)
        self._note_slow(exchange)
        self._negotiation.add(exchange)
        self._clients.add(exchange)
        self._settings.add(exchange)
        self._diagnosis.add(exchange)
        self._time_shares.add(exchange)

    def _count(self, exchange: Exchange) -> None:
        time, number, api = exchange.time, exchange.number, exchange.api
        for rhythm in (self.requests, self.shares, self.errors, self.unanswered):
            rhythm.cover(time)
        if exchange.request_size:
            self.requests.add(api, time, number)
            self.shares.add((api, client_name(exchange)), time, number)
        if Flag.UNANSWERED in exchange.flag:
            self.unanswered.add(api, time, number)
        expected = {error.path for error in exchange.expected}
        kinds = {ErrorKind(api, error_name(each.code), each.path in expected) for each in exchange.errors}
        for kind in kinds:
            self.errors.add(kind, time, number)

    def _note_slow(self, exchange: Exchange) -> None:
        if exchange.latency is None or (exchange.wait and exchange.wait >= exchange.latency):
            return
        slow = self._slowest.setdefault(exchange.api, [])
        (heappush if len(slow) < MOST_EXAMPLES else heappushpop)(
            slow, (exchange.latency - exchange.wait, exchange.number)
        )

    # ------------------------------------------------------------ what was counted
    @property
    def seconds(self) -> float:
        """How long it went on, from its first exchange to its last."""
        if self._first is None:
            return 0.0
        return (self._last - self._first) / SECOND

    def facts(self) -> SideFacts:
        """Return it as a whole."""
        return SideFacts(
            label=self.label,
            first=self._first,
            last=self._last,
            seconds=self.seconds,
            exchanges=self._exchanges,
            clients=len(self.clients),
        )

    def slowest(self, api: str) -> tuple[int, ...]:
        """Return the numbers of the slowest exchanges of an API, the slowest first."""
        return tuple(number for _, number in sorted(self._slowest.get(api, []), reverse=True))

    def time_shares(self) -> dict[str, ShareRow]:
        """Return where the time of each API went."""
        return {row.api: row for row in self._time_shares.result()}

    @cached_property
    def clients(self) -> list[ClientRow]:
        """The clients, asked for once all exchanges were added."""
        return self._clients.result()

    def configured(self) -> list[Client]:
        """Return the clients with their settings."""
        return self._settings.result()

    def matrix(self) -> Matrix:
        """Return who offers and uses which versions."""
        return self._negotiation.result()

    def findings(self) -> list[Finding]:
        """Return what is wrong in it; of what TCP shows, too, only what was in the window."""
        window = self.window
        return [
            each
            for each in self._diagnosis.findings()
            if (window.high is None or each.first <= window.high)
            and (window.low is None or each.last >= window.low)
        ]

    def rebalances(self, timelines: Sequence[GroupTimeline] | None = None) -> list[Rebalance]:
        """Return the rebalances that began in it.

        :param timelines: of the whole capture, which tell more than the window's own; None: those of this side
        """
        told = self._diagnosis.groups.result() if timelines is None else timelines
        return [each for timeline in told for each in timeline.rebalances if each.time in self.window]
