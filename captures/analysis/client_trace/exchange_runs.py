"""Stretches: equal exchanges over some time, merged into one line of a log.

A stretch keeps figures, and the numbers of its first exchanges, however many it represents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from captures.analysis.client_identity import client_name
from captures.analysis.client_trace.apis import ApiWording
from captures.analysis.client_trace.model import NUMBERS_SHOWN, Line, Phase
from captures.exchanges import Exchange
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_NUMBER = re.compile(r"m-[0-9A-Za-z_-]{4}\b|\d[\d,.]*")
"""Numbers, and members as :func:`captures.meaning.words.member` shortens their IDs."""
_SHORT = 1_000_000  # ns; shorter latencies are not mentioned
_AT_ONCE = 100_000_000  # ns; shorter stretches have no rhythm


@dataclass(slots=True)
class Range:
    """The minimum and maximum of some numbers that are not negative; -1 if there are none."""

    low: int = -1
    high: int = -1

    def add(self, value: int) -> None:
        """Add a number."""
        self.low = value if self.low < 0 else min(self.low, value)
        self.high = max(self.high, value)

    def text(self) -> str:
        """Return a range of times in ns as text: ``0.8 ms to 12.0 s``; empty if there are none."""
        if self.high < 0:
            return ""
        low, high = span(self.low), span(self.high)
        return low if low == high else f"{low} to {high}"


@dataclass(slots=True, eq=False)
class ExchangeRun:
    """Equal exchanges, single or several in a row.

    :ivar key: identifies the subject; equal for all of its exchanges
    :ivar text: description of the first one
    :ivar end: when the last answer arrived
    :ivar latency: range of latencies, in ns
    """

    key: tuple[object, ...]
    manner: ApiWording
    time: int
    text: str = ""
    client: str = ""
    end: int = 0
    count: int = 0
    numbers: list[int] = field(default_factory=list)
    last: int | None = None
    last_time: int = 0
    connections: dict[int, None] = field(default_factory=dict)
    brokers: dict[str, None] = field(default_factory=dict)
    latency: Range = field(default_factory=Range)
    trouble: bool = False

    def add(self, exchange: Exchange) -> None:
        """Add one exchange."""
        self.count += 1
        self.time = min(self.time, exchange.time)
        self.last, self.last_time = exchange.number, exchange.time
        self.end = max(self.end, exchange.end)
        if len(self.numbers) < NUMBERS_SHOWN:
            self.numbers.append(exchange.number)
        self.client = self.client or client_name(exchange)
        self.connections[exchange.connection] = None
        self.brokers[exchange.shown_broker] = None
        if exchange.latency is not None:
            self.latency.add(max(exchange.latency, 0))

    def include(self, other: ExchangeRun) -> None:
        """Add another, later stretch of the same subject."""
        self.count += other.count
        self.time = min(self.time, other.time)
        self.last, self.last_time = other.last, max(self.last_time, other.last_time)
        self.end = max(self.end, other.end)
        self.numbers += other.numbers[: NUMBERS_SHOWN - len(self.numbers)]
        self.client = self.client or other.client
        self.connections |= other.connections
        self.brokers |= other.brokers
        if other.latency.high >= 0:
            self.latency.add(other.latency.low)
            self.latency.add(other.latency.high)

    @property
    def every(self) -> str:
        """Its frequency in words; empty for single exchanges, or a burst."""
        if self.count < 2 or self.last_time - self.time < _AT_ONCE:
            return ""
        apart = (self.last_time - self.time) / (self.count - 1)
        if apart >= SECOND / 2:
            return f"every {span(round(apart))}"
        return f"{SECOND / apart:,.0f} a second"

    def sentence(self) -> str:
        """Return it in words."""
        if self.count <= 1:
            after = f" (after {span(self.latency.high)})" if self.latency.high >= _SHORT else ""
            return f"{self.text}{after}"
        return f"{self.text} — and {words.listed([f'{self.count - 1:,} more like it', self.every])}"

    def line(self) -> Line:
        """Return the line of the log."""
        return Line(
            time=self.time,
            until=max(self.end, self.time),
            what=self.manner.what,
            phase=self.phase,
            text=self.sentence(),
            client=self.client,
            count=self.count,
            numbers=list(self.numbers),
            last=self.last,
            connections=sorted(self.connections),
            brokers=list(self.brokers),
            trouble=self.trouble,
            key=(self.manner.what, self.client, alike(self.text)),
        )

    @property
    def phase(self) -> Phase | None:
        """The heading of its line."""
        return self.manner.phase


class Heartbeats(ExchangeRun):
    """Heartbeats of a member in one generation."""

    def sentence(self) -> str:
        return words.listed([f"{words.counted(self.count, 'heartbeat')} {self.text}", self.every])


@dataclass(slots=True, eq=False)
class Commits(ExchangeRun):
    """Commits of a member.

    :ivar latest: position of the last one, in words
    """

    latest: str = ""

    def sentence(self) -> str:
        latest = self.latest or "nothing"
        if self.count == 1:
            return f"{self.text}: {latest}"
        many = words.listed([f"{self.count:,} times", self.every])
        return f"{self.text} — {many}; last {latest}"


@dataclass(slots=True, eq=False)
class Transactions(ExchangeRun):
    """Transactions of one transactional ID with the same outcome.

    :ivar ended: number of transactions; ``count`` is that of their exchanges
    :ivar lasted: times from their first request to the response to the last
    """

    ended: int = 0
    lasted: Range = field(default_factory=Range)

    def sentence(self) -> str:
        each = "" if self.ended == 1 else " each"
        return f"{words.counted(self.ended, 'transaction')} {self.text}, {self.lasted.text()}{each}"


def alike(text: str) -> str:
    """Return a text without its numbers and members: equal for texts that differ only in these."""
    return _NUMBER.sub("#", text)
