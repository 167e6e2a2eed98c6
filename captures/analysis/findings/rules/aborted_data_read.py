"""Consumers that read records of aborted transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import NO_FETCH, consumer, partitions_shown
from captures.analysis.findings.finding import Finding, Occurrences
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.record_traffic import FetchedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.exchanges.shapes import BatchTrait
from captures.meaning import words
from captures.meaning.exchange import number
from dissectors.api_keys import ApiKey
from dissectors.budget import Budget, message_budget
from dissectors.errors import DecodeError
from dissectors.records import Batch, ControlType, control_record

_READ_COMMITTED = 1
_MOST_OPEN = 20_000
"""Most transactions whose end has not been read yet; the oldest are dropped first."""


class _TransactionRead(NamedTuple):
    """A transaction in one partition, as read by one client."""

    client: str
    topic: str
    partition: int
    producer: int


class _Open(msgspec.Struct):
    """Records of a transaction that were read before its end.

    :ivar end: offset after the last of them: records that are fetched again do not count twice
    """

    number: int
    time: int
    records: int = 0
    end: int = -1


class _AbortedRead(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    records: int = 0
    partitions: set[int] = set()


class AbortedDataRead(Rule):
    """Matches abort markers with records that the same consumer got before them."""

    name = "aborted_data_read"
    needs = Lack.RECORDS
    title = "Aborted records read"
    about = (
        "A consumer with isolation.level=read_uncommitted, the default of the Java client, gets the records of "
        "aborted transactions like any others (KIP-98). If the producer sends them again after the abort, the "
        "consumer gets them twice. A read_committed consumer receives these records too, with a list of those to "
        "skip. Detected by the abort markers in Fetch responses."
    )
    key = Key.CLIENT
    apis = frozenset({ApiKey.FETCH})
    unseen = NO_FETCH

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._open: dict[_TransactionRead, _Open] = {}
        self._found: dict[tuple[str, str], _AbortedRead] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        transactions = rows.of_consumers & rows.with_batches(BatchTrait.TRANSACTIONAL)
        found = rows.ever("transactions that are read", transactions)
        return None if found else rows.evidence_of(rows.of_consumers)

    def add(self, exchange: Exchange) -> None:
        client = consumer(exchange)
        if not client:
            return
        self.saw_any = True
        if number(exchange.request_body, "isolation_level", 0) == _READ_COMMITTED:
            return
        budget = message_budget()
        for part in self.context.records.fetched(exchange):
            for batch in part.batches:
                if batch.transactional:
                    reading = _TransactionRead(client, part.topic, part.partition, batch.producer_id)
                    self._batch(exchange, reading, part, batch, budget)

    def _batch(
        self,
        exchange: Exchange,
        reading: _TransactionRead,
        part: FetchedPartition,
        batch: Batch,
        budget: Budget,
    ) -> None:
        if batch.control:
            held = self._open.pop(reading, None)
            if held is not None and _aborts(batch, budget):
                read = self._found.setdefault((reading.client, part.topic), _AbortedRead())
                read.seen.note(held.number, held.time)
                read.records += held.records
                read.partitions.add(part.partition)
            return
        held = self._open.get(reading)
        if held is None:
            held = self._open[reading] = _Open(exchange.number, exchange.time)
            while len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]
        if batch.base_offset >= held.end:
            held.records += batch.count or 0
            held.end = batch.last_offset + 1

    def findings(self) -> Iterator[Finding]:
        for (client, topic), read in self._found.items():
            yield self.finding(
                f"client {client}, topic {topic}",
                f"Client {client} read {words.counted(read.records, 'record')} of "
                f"{words.counted(read.seen.count, 'aborted transaction')} from {topic} "
                f"({partitions_shown(read.partitions)}): it uses isolation.level=read_uncommitted.",
                "Set isolation.level=read_committed on this consumer, unless it is meant to see aborted records, as "
                "monitoring and mirroring tools may be.",
                read.seen,
                filter_text=f"api == Fetch and {of_client(client)} and {of_topic(topic)} and records > 0",
            )


def _aborts(batch: Batch, budget: Budget) -> bool:
    """Return whether a control batch holds an abort marker."""
    records, _ = batch.read(budget)
    for record in records:
        try:
            if control_record(record.key, record.value).type_id == ControlType.ABORT:
                return True
        except DecodeError:
            continue
    return False
