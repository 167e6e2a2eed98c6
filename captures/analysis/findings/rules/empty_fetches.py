"""Consumers that fetch too often without getting records, and those that wait too long for more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import RowGroups
from captures.analysis.findings.common import NO_FETCH, consumer
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rates import Busiest
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.columns import NO_VALUE
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.meaning.exchange import number
from dissectors.api_keys import ApiKey
from dissectors.units import MS

_MOST_OF_THE_WAIT = 0.9


class _Line(NamedTuple):
    """A connection of a client with a broker."""

    connection: int
    client: str
    broker: str


class _FetchCounts(msgspec.Struct):
    """The results of the fetches on a connection.

    :ivar fetches: number of fetches without an error or throttling
    :ivar busiest: period with the most empty responses
    :ivar max_wait: ms, in the latest request
    :ivar delayed: responses with less than ``min_bytes`` that came only after ``max_wait``
    """

    fetches: int = 0
    empty: Occurrences = msgspec.field(default_factory=Occurrences)
    busiest: Busiest = msgspec.field(default_factory=Busiest)
    max_wait: int = 0
    min_bytes: int = 0
    delayed: Occurrences = msgspec.field(default_factory=Occurrences)


class EmptyFetches(Rule):
    """Counts responses without records, and checks how long they waited."""

    name = "empty_fetches"
    title = "Fetches that return empty, or wait in vain"
    about = (
        "A Fetch waits at the broker until min_bytes are available or max_wait_ms is over (fetch.min.bytes, "
        "fetch.max.wait.ms; DelayedFetch.scala). With a short wait, or min_bytes 0, an idle consumer asks over "
        "and over: requests that cost client and broker and return nothing. With large min_bytes on a topic with "
        "little traffic, every record waits until max_wait_ms is over."
    )
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.FETCH})
    thresholds = (
        Threshold(
            "count", 100, Unit.COUNT, "empty answers on a connection within 10 s that are needed to judge"
        ),
        Threshold(
            "rate", 10, Unit.A_SECOND, "empty answers on a connection, from which a finding is reported"
        ),
        Threshold(
            "share", 50, Unit.PERCENT, "of the answers that must be empty, or must have waited in vain"
        ),
        Threshold(
            "delayed",
            20,
            Unit.COUNT,
            "answers that waited for min_bytes in vain, from which a finding is reported",
        ),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._lines: dict[_Line, _FetchCounts] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        fetches = np.flatnonzero(rows.of_consumers & rows.answered)
        clients, names = rows.clients
        sizes = rows.columns.ragged("flow_bytes")
        size = np.bincount(sizes.rows, sizes.values, len(clients))[fetches]
        least = rows.columns.flat("min_bytes")[fetches]
        lines = RowGroups(rows.connection[fetches], clients[fetches])
        first = fetches[lines.first]
        of_lines = rows.connection[first].tolist(), clients[first].tolist()
        keys = [(connection, names[client]) for connection, client in zip(*of_lines, strict=True)]
        empty, delayed = rows.totals(
            "fetches without records", keys, lines.sums(size == 0), lines.sums((size > 1) & (size < least))
        )
        found = (empty >= self.limit("count")) | (delayed >= self.limit("delayed"))
        shown = rows.nothing
        shown[fetches] = found[lines.of]
        told = rows.answered & (rows.latency != NO_VALUE) & (rows.columns.flat("response_told") > 0)
        return shown | rows.earliest("decoded fetches", rows.evidence_of(rows.of_consumers & told))

    def add(self, exchange: Exchange) -> None:
        client = consumer(exchange)
        response, latency = exchange.response_body, exchange.latency
        if not client or not response or latency is None:
            return
        line = self._lines.setdefault(_Line(exchange.connection, client, exchange.broker), _FetchCounts())
        if exchange.errors or number(response, "throttle_time_ms", 0) > 0:
            return
        request = exchange.request_body
        line.fetches += 1
        line.max_wait = number(request, "max_wait_ms", 0)
        line.min_bytes = number(request, "min_bytes", 0)
        size = sum(part.size for part in self.context.records.fetched(exchange))
        if not size:
            line.empty.add(exchange)
            line.busiest.add(exchange.time)
        elif 1 < size < line.min_bytes and latency >= line.max_wait * MS * _MOST_OF_THE_WAIT:
            line.delayed.add(exchange)

    def findings(self) -> Iterator[Finding]:
        by_client: dict[str, tuple[_Line, _FetchCounts]] = {}
        waiting: dict[str, tuple[_Line, _FetchCounts]] = {}
        share = self.limit("share") / 100
        for line, fetching in self._lines.items():
            empty, delayed = fetching.empty, fetching.delayed
            if (
                fetching.busiest.count >= self.limit("count")
                and fetching.busiest.rate >= self.limit("rate")
                and empty.count >= share * fetching.fetches
                and (
                    line.client not in by_client
                    or by_client[line.client][1].busiest.rate < fetching.busiest.rate
                )
            ):
                by_client[line.client] = line, fetching
            if delayed.count >= self.limit("delayed") and delayed.count >= share * (
                fetching.fetches - empty.count
            ):
                waiting.setdefault(line.client, (line, fetching))
        yield from (self._empty(line, fetching) for line, fetching in by_client.values())
        yield from (self._delayed(line, fetching) for line, fetching in waiting.values())

    def _empty(self, line: _Line, fetching: _FetchCounts) -> Finding:
        share = 100 * fetching.empty.count / fetching.fetches
        return self.finding(
            f"client {line.client}",
            f"{share:.0f}% of the fetches of client {line.client} from {line.broker} returned empty, "
            f"up to {fetching.busiest.rate:,.0f} a second (fetch.max.wait.ms={fetching.max_wait}, "
            f"fetch.min.bytes={fetching.min_bytes}).",
            "Let the broker wait longer: fetch.max.wait.ms=500 (librdkafka: fetch.wait.max.ms) with fetch.min.bytes "
            "of 1 or more. A poll with a short timeout does not need a short wait at the broker. A broker that "
            "answers before the wait is over has news without records, or trouble with a partition.",
            fetching.empty,
            filter_text=f"api == Fetch and {of_client(line.client)} and broker == {quoted(line.broker)}"
            " and records == 0",
        )

    def _delayed(self, line: _Line, fetching: _FetchCounts) -> Finding:
        return self.finding(
            f"client {line.client}, min_bytes",
            f"Client {line.client} waited all of its fetch.max.wait.ms ({fetching.max_wait}) for "
            f"{words.counted(fetching.delayed.count, 'response')} with records, which were less than its "
            f"fetch.min.bytes ({words.volume(fetching.min_bytes)}).",
            "If delay matters more than the number of requests, lower fetch.min.bytes or fetch.max.wait.ms of this "
            "consumer. Otherwise there is nothing to do.",
            fetching.delayed,
            filter_text=f"api == Fetch and {of_client(line.client)} and records > 0"
            f" and latency >= {round(fetching.max_wait * _MOST_OF_THE_WAIT)}ms",
        )

    def blind(self) -> str:
        return "" if self._lines else NO_FETCH
