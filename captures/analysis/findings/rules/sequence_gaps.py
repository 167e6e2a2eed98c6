"""Idempotent producers whose sequence numbers differ from those that the broker expects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.refused_records import Refusal, RefusedRecords
from captures.analysis.findings.rule import RuleContext
from captures.analysis.record_traffic import ProducedPartition
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.meaning import words
from dissectors.error_codes import ErrorCode, error_name

_SEQUENCES = 1 << 31
_MOST_KEPT = 20_000
"""Most sequences that are kept; the oldest are dropped first."""

_SEVERITY: dict[int, Severity] = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Severity.MEDIUM,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Severity.LOW,
    ErrorCode.UNKNOWN_PRODUCER_ID: Severity.MEDIUM,
}
_ADVICE: dict[int, str] = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        "Records may be missing: compare with the results that the application got. An earlier batch was not "
        "written or was given up (delivery.timeout.ms), or the broker lost the producer's state: look for earlier"
        " errors and timeouts of this producer. With librdkafka and clients before 2.5 the producer has to be "
        "created anew; the Java client since 2.5 continues with a new epoch (KIP-360)."
    ),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: (
        "No data is lost: the broker already has these records, and the producer treats the error as success. "
        "Responses came too late or got lost: check request.timeout.ms and the network."
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: (
        "The broker has forgotten the producer: retention removed its records, or it wrote nothing for "
        "transactional.id.expiration.ms (producer.id.expiration.ms). Make retention longer than the pauses of the"
        " producer, or update brokers and clients to 2.5 or later (KIP-360)."
    ),
}


class _Sequence(NamedTuple):
    producer: int
    epoch: int
    topic: str
    partition: int


class _SequenceErrors(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    example: str = ""


class SequenceGaps(RefusedRecords):
    """Looks for batches that the broker refused because of their sequence number."""

    name = "sequence_gaps"
    needs = Lack.RECORDS
    title = "Sequence numbers out of order"
    about = (
        "Idempotent producers number their batches per partition, and the broker accepts them only in order (KIP-98, "
        "ProducerAppendInfo.java). OUT_OF_ORDER_SEQUENCE_NUMBER (45) means that batches in between are missing, "
        "DUPLICATE_SEQUENCE_NUMBER (46) that it already has the batch, UNKNOWN_PRODUCER_ID (59) that it has forgotten "
        "the producer."
    )
    codes = _ADVICE.keys()

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._next: dict[_Sequence, int] = {}
        self._found: dict[Refusal, _SequenceErrors] = {}

    def produced(self, exchange: Exchange, part: ProducedPartition) -> None:
        if part.error in _ADVICE:
            self._refused(exchange, part)
        elif not part.error and exchange.response is not None:
            self._taken(part)

    def _taken(self, part: ProducedPartition) -> None:
        for batch in part.batches:
            if batch.producer_id >= 0 and batch.base_sequence >= 0:
                key = _Sequence(batch.producer_id, batch.producer_epoch, part.topic, part.partition)
                self._next.pop(key, None)
                self._next[key] = (batch.base_sequence + (batch.count or 0)) % _SEQUENCES
        while len(self._next) > _MOST_KEPT:
            del self._next[next(iter(self._next))]

    def _refused(self, exchange: Exchange, part: ProducedPartition) -> None:
        refused = self._found.setdefault(
            Refusal(client_name(exchange), part.topic, part.error), _SequenceErrors()
        )
        refused.seen.add(exchange)
        if refused.example:
            return
        for batch in part.batches:
            if batch.producer_id < 0:
                continue
            key = _Sequence(batch.producer_id, batch.producer_epoch, part.topic, part.partition)
            expected = self._next.get(key)
            refused.example = (
                f"producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence {batch.base_sequence} to "
                f"partition {part.partition}"
                + ("" if expected is None else f", where {expected} was due after what was written")
            )

    def findings(self) -> Iterator[Finding]:
        for refusal, refused in self._found.items():
            yield self.finding(
                refusal.subject,
                f"The broker refused {words.counted(refused.seen.count, 'batch', 'batches')} of client "
                f"{refusal.client} for {refusal.topic} with "
                f"{error_name(refusal.code)}{f': {refused.example}' if refused.example else ''}.",
                _ADVICE[refusal.code],
                refused.seen,
                filter_text=refusal.filter,
                severity=_SEVERITY[refusal.code],
            )
