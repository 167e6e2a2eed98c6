"""Producers that send many tiny batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns, of_own_keys
from captures.analysis.findings.common import NO_PRODUCE
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rates import Busiest
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.meaning import words
from dissectors.api_keys import ApiKey


class _BatchSizes(msgspec.Struct):
    """The produced batches of a client.

    :ivar requests: number of Produce requests
    :ivar busiest: period with the most requests
    :ivar batches: number of batches, each of one partition in one request; with magic 0 and 1, a message set is one
    :ivar records: number of records in them
    """

    requests: Occurrences = msgspec.field(default_factory=Occurrences)
    busiest: Busiest = msgspec.field(default_factory=Busiest)
    batches: int = 0
    records: int = 0
    size: int = 0


class SmallBatches(Rule):
    """Counts the records of batches, and the requests."""

    name = "small_batches"
    needs = Lack.RECORDS
    title = "Tiny batches"
    about = (
        "At its peak a producer sends many requests a second, with hardly more than one record in each batch. "
        "Every batch costs a header of 61 bytes, a request and a response, and an append on the leader and on "
        "each follower, and it leaves little to compress. linger.ms sets how long the producer waits for more "
        "records (0 by default before Kafka 4.0, 5 since, KIP-1030)."
    )
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.PRODUCE})
    thresholds = (
        Threshold(
            "requests", 200, Unit.COUNT, "Produce requests of a client within 10 s that are needed to judge"
        ),
        Threshold(
            "rate", 50, Unit.A_SECOND, "Produce requests of a client, from which a finding is reported"
        ),
        Threshold("records", 3, Unit.COUNT, "average records in a batch, below which batches are tiny"),
        Threshold("size", 4096, Unit.BYTES, "average size of a batch, below which batches are tiny"),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._clients: dict[str, _BatchSizes] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        produces, sent = rows.of_api({ApiKey.PRODUCE}), rows.produced
        clients, names = rows.clients
        count = len(names)
        evidence = rows.evidence_of(produces)
        by_client = dict(Counter(names[client] for client in clients[evidence].tolist()))
        first = rows.merged("evidence of produced data", by_client, _first, of_own_keys)
        shown = np.array([first.get(name, 0) for name in names], np.int64)
        unknown = (sent.uncounted > 0) | (sent.batches == 0)
        of_batches = (np.ones_like(sent.size), sent.records, sent.size, unknown)
        requests, touched, batches, records, size, unknown = rows.totals(
            "sizes of batches",
            names,
            *(np.bincount(clients[mask], minlength=count) for mask in (produces, produces & ~rows.untouched)),
            *(np.bincount(sent.client, values, count) for values in of_batches),
        )
        small = (records <= self.limit("records") * batches) & (size <= self.limit("size") * batches)
        small &= requests >= self.limit("requests")
        times = rows.columns.flat("time")
        for client in np.flatnonzero(small).tolist() if rows.whole else ():
            busiest = Busiest()
            for time in times[produces & (clients == client)].tolist():
                busiest.add(time)
            small[client] = busiest.count >= self.limit("requests") and busiest.rate >= self.limit("rate")
        small |= (shown >= self.limit("requests")) | (touched > 0) | (unknown > 0)
        found: Bools = produces & small[clients] | rows.earliest("produced data", evidence)
        return found

    def add(self, exchange: Exchange) -> None:
        parts = self.context.records.produced(exchange)
        client = self._clients.setdefault(client_name(exchange), _BatchSizes())
        for part in parts:
            records = part.records
            if records is None or not part.batches:
                return  # compressed messages of magic 0 and 1 do not show how many they contain
            client.batches += 1
            client.records += records
            client.size += part.size
        client.requests.add(exchange)
        client.busiest.add(exchange.time)

    def findings(self) -> Iterator[Finding]:
        for name, client in self._clients.items():
            busiest = client.busiest
            if busiest.count < self.limit("requests") or not client.batches:
                continue
            records, size = client.records / client.batches, client.size / client.batches
            if (
                busiest.rate < self.limit("rate")
                or records >= self.limit("records")
                or size >= self.limit("size")
            ):
                continue
            yield self.finding(
                f"client {name}",
                f"Client {name} sent {busiest.rate:,.0f} Produce requests a second at its peak, with {records:.1f} "
                f"records ({words.volume(round(size))}) in a batch on average.",
                "Let the producer wait for more records: linger.ms=5 to 100 (librdkafka: queue.buffering.max.ms). Do "
                "not wait for the response or flush after every record. Keys spread over very many partitions also "
                "make batches small.",
                client.requests,
                filter_text=f"api == Produce and {of_client(name)}",
            )

    def blind(self) -> str:
        return "" if self._clients else NO_PRODUCE


def _first(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return the first counts that are not empty."""
    return next(filter(None, parts), {})
