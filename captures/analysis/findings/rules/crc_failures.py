"""Record batches whose checksum does not match their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import partitions_shown
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.record_traffic import FetchedPartition, ProducedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange, Flag
from captures.exchanges.broker_logs import Lack
from captures.exchanges.shapes import BatchTrait
from captures.meaning import words
from dissectors.api_keys import ApiKey

_SENT = (
    "The bytes changed at the client or on the way to the place of capture, and the broker refuses these "
    "batches. Check the client's memory, its codec library, and proxies in between."
)
_RECEIVED = (
    "The bytes changed on the broker's disk or after it, and consumers cannot get past a damaged batch unless"
    " they seek beyond it. Check disks and memory. Another replica may have the batch intact: compare the "
    "same offsets there (kafka-dump-log.sh --deep-iteration on the brokers)."
)


class _Flow(NamedTuple):
    client: str
    topic: str
    api: str


class _Damage(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    batches: int = 0
    partitions: set[int] = set()


class CrcFailures(Rule):
    """Computes the checksum of every completely captured batch."""

    name = "crc_failures"
    needs = Lack.RECORDS
    title = "Damaged record batches"
    about = (
        "The checksum of a record batch (CRC-32C; CRC-32 for messages of magic 0 and 1) does not match its bytes."
        " Brokers refuse such a batch with CORRUPT_MESSAGE (LogValidator.java). A consumer that gets one stops "
        "there; the damage happened on the broker's disk or after it. TCP's own checksum rarely misses such "
        "damage, so first suspect memory, disks, and programs in between that change bytes. Batches with bytes "
        "missing from the capture are left out."
    )
    severity = Severity.HIGH
    key = Key.CLIENT
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH})

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._found: dict[_Flow, _Damage] = {}
        self._batches = 0
        self._incomplete = 0

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        lacking = rows.flagged(Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED | Flag.CONFLICTING)
        found: Bools = lacking | rows.with_batches(BatchTrait.DAMAGED)
        sent = rows.columns.ragged("flow_batches")
        batches = rows.nothing
        batches[sent.rows[sent.values > 0]] = True
        return found | rows.evidence_of(batches & ~lacking & rows.of_api(self.apis or ()))

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.PRODUCE:
            self._check(exchange, Flag.REQUEST_DAMAGED, self.context.records.produced(exchange))
        else:
            self._check(exchange, Flag.RESPONSE_DAMAGED, self.context.records.fetched(exchange))

    def _check(
        self, exchange: Exchange, damaged: Flag, parts: Iterable[ProducedPartition | FetchedPartition]
    ) -> None:
        if exchange.flag & (damaged | Flag.CONFLICTING):
            self._incomplete += 1
            return
        for part in parts:
            self._batches += len(part.batches)
            wrong = sum(not batch.crc_valid for batch in part.batches)
            if wrong:
                flow = _Flow(client_name(exchange), part.topic, exchange.api)
                damage = self._found.setdefault(flow, _Damage())
                damage.seen.add(exchange)
                damage.batches += wrong
                damage.partitions.add(part.partition)

    def findings(self) -> Iterator[Finding]:
        for flow, damage in self._found.items():
            sent = flow.api == "Produce"
            yield self.finding(
                f"client {flow.client}, topic {flow.topic}, {flow.api}",
                f"Client {flow.client} {'sent' if sent else 'got'} "
                f"{words.counted(damage.batches, 'record batch', 'record batches')} of {flow.topic} "
                f"({partitions_shown(damage.partitions)}) whose checksum does not match the bytes.",
                _SENT if sent else _RECEIVED,
                damage.seen,
                filter_text=f"api == {flow.api} and {of_client(flow.client)} and {of_topic(flow.topic)}",
            )

    def blind(self) -> str:
        if not self._incomplete:
            return "" if self._batches else "no record batches were captured"
        return (
            f"{words.counted(self._incomplete, 'message')} with records lack bytes in the capture: "
            "checksums of their batches were not computed"
        )
