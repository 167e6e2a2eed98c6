"""Records that brokers refuse: invalid, too large, or out of sequence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import NO_PRODUCE, some_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule
from captures.analysis.record_traffic import ProducedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.meaning import words
from captures.meaning.exchange import number
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode, error_name

# ---------------------------------------------------------------- refused records


class Refusal(NamedTuple):
    """What a broker refuses: the subject of a finding."""

    client: str
    topic: str
    code: int

    @property
    def subject(self) -> str:
        return f"client {self.client}, topic {self.topic}, {error_name(self.code)}"

    @property
    def filter(self) -> str:
        return (
            f"api == Produce and {of_client(self.client)} and {of_topic(self.topic)} and error == {self.code}"
        )


class _RefusedBatches(msgspec.Struct):
    """Batches that a broker refused with one error.

    :ivar example: what the broker says of one, or what one held; empty if unknown
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    example: str = ""


class RefusedRecords(Rule):
    """Looks at the partitions of Produce requests, by client, topic and error.

    :cvar codes: errors that it looks for
    :cvar advice: error -> what to do
    :cvar severities: error -> severity, if it is not that of the rule
    :cvar outcome: what became of the batches, as the end of the sentence
    """

    apis = frozenset({ApiKey.PRODUCE})
    unseen = NO_PRODUCE
    codes: ClassVar[Collection[int]]
    advice: ClassVar[Mapping[int, str]] = {}
    severities: ClassVar[Mapping[int, Severity]] = {}
    outcome: ClassVar[str] = ""

    _silent: dict[str, None] = {}
    _refused: dict[Refusal, _RefusedBatches] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.of_producers(self.codes)

    def add(self, exchange: Exchange) -> None:
        self.saw_any = True
        if number(exchange.request_body, "acks") == 0:
            self._silent[client_name(exchange)] = None
        for part in self.context.records.produced(exchange):
            self.produced(exchange, part)

    def produced(self, exchange: Exchange, part: ProducedPartition) -> None:
        """Add a partition of a Produce."""
        raise NotImplementedError

    def refuse(self, exchange: Exchange, part: ProducedPartition) -> _RefusedBatches:
        """Count a refused partition of a Produce; return those of its client, topic and error."""
        refusal = Refusal(client_name(exchange), part.topic, part.error)
        refused = self._refused.setdefault(refusal, _RefusedBatches())
        refused.seen.add(exchange)
        return refused

    def findings(self) -> Iterator[Finding]:
        for refusal, refused in self._refused.items():
            example = f": {words.clipped(refused.example, 200)}" if refused.example else ""
            yield self.finding(
                refusal.subject,
                f"The broker refused {words.counted(refused.seen.count, 'batch', 'batches')} of client "
                f"{refusal.client} for {refusal.topic} with {error_name(refusal.code)}{example}{self.outcome}.",
                self.advice[refusal.code],
                refused.seen,
                filter_text=refusal.filter,
                severity=self.severities.get(refusal.code),
            )

    def blind(self) -> str:
        """Return why errors cannot be seen, or not all."""
        if not self._silent:
            return super().blind()
        return f"brokers report no errors to clients that produce with acks=0: {some_of(self._silent)}"


# ---------------------------------------------------------------- rejected_records

_REJECTION_ADVICE: dict[int, str] = {
    ErrorCode.CORRUPT_MESSAGE: (
        "The checksum is right, so the broker refuses the content: a topic with cleanup.policy=compact needs a "
        "key in every record (brokers before 2.4 report it this way), and a batch has to have as many records as "
        "it announces. Check the broker's log."
    ),
    ErrorCode.INVALID_TIMESTAMP: (
        "The timestamps are outside the range that the topic allows (message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms, before 3.6 message.timestamp.difference.max.ms). Correct the clocks, or "
        "do not take timestamps from the data."
    ),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "The topic is stored in an old message format that lacks a feature of the client, such as headers, "
        "transactions or idempotence: raise message.format.version, or do without the feature."
    ),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: (
        "Use another compression.type: the topic or the request version does not allow this codec (zstd needs "
        "Produce v7, so Kafka 2.1)."
    ),
    ErrorCode.INVALID_RECORD: (
        "A record breaks a rule of the topic: cleanup.policy=compact needs keys, and timestamps and offsets in a "
        "batch have to be in order. The response names the records (KIP-467)."
    ),
}


class RejectedRecords(RefusedRecords):
    """Looks for Produce requests whose records the broker refuses."""

    name = "rejected_records"
    title = "Records that the broker refuses"
    about = (
        "The broker refused a Produce with an error that a retry cannot fix: INVALID_RECORD (87), "
        "INVALID_TIMESTAMP (32), CORRUPT_MESSAGE (2) with a correct checksum, UNSUPPORTED_COMPRESSION_TYPE (76), "
        "UNSUPPORTED_FOR_MESSAGE_FORMAT (43). Nothing of the batch was written. Since KIP-467 the response names "
        "the records."
    )
    severity = Severity.HIGH
    key = Key.CLIENT
    codes = _REJECTION_ADVICE.keys()
    advice = _REJECTION_ADVICE
    outcome = "; nothing of them was written"

    def produced(self, exchange: Exchange, part: ProducedPartition) -> None:
        # wrong checksums are another finding
        if part.error in _REJECTION_ADVICE and all(batch.crc_valid for batch in part.batches):
            refused = self.refuse(exchange, part)
            message = next((error.message for error in exchange.errors if error.message), "")
            refused.example = refused.example or message


# ---------------------------------------------------------------- record_too_large

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class _TopicRefusals(msgspec.Struct):
    """Refused requests of one client for one topic.

    :ivar single: those with a single record, which cannot be split
    :ivar codes: number of each error
    :ivar largest: bytes of the largest refused records field
    :ivar passed: bytes of the largest accepted records field
    """

    batches: Occurrences = msgspec.field(default_factory=Occurrences)
    single: Occurrences = msgspec.field(default_factory=Occurrences)
    codes: set[int] = set()
    largest: int = 0
    passed: int = 0


class RecordTooLarge(RefusedRecords):
    """Looks for Produce requests that were refused for their size."""

    name = "record_too_large"
    title = "Records that are too large for the broker"
    about = (
        "The broker refused a Produce with MESSAGE_TOO_LARGE (10): a batch, as compressed, is larger than "
        "max.message.bytes of the topic (message.max.bytes of the broker). The Java producer splits such a batch "
        "and sends its parts (Sender.java, KIP-126); other clients fail all its records. A single record cannot "
        "be split: it is not written, and the application gets RecordTooLargeException. RECORD_LIST_TOO_LARGE "
        "(18) means that a batch is larger than segment.bytes."
    )
    severity = Severity.HIGH
    key = Key.CLIENT
    codes = _TOO_LARGE

    _found: dict[tuple[str, str], _TopicRefusals] = {}

    def produced(self, exchange: Exchange, part: ProducedPartition) -> None:
        key = client_name(exchange), part.topic
        if part.error in _TOO_LARGE:
            found = self._found.setdefault(key, _TopicRefusals())
            (found.single if part.records == 1 else found.batches).add(exchange)
            found.codes.add(part.error)
            # if the capture lacks the records, the size of the request bounds theirs
            found.largest = max(found.largest, part.size or exchange.request_size)
        elif not part.error and exchange.response is not None and key in self._found:
            self._found[key].passed = max(self._found[key].passed, part.size)

    def findings(self) -> Iterator[Finding]:
        for (client, topic), found in self._found.items():
            names = " and ".join(map(error_name, sorted(found.codes)))
            codes = ", ".join(map(str, sorted(found.codes)))
            shown = f"api == Produce and {of_client(client)} and {of_topic(topic)} and error in {{{codes}}}"
            if found.single:
                yield self.finding(
                    f"client {client}, topic {topic}, single records",
                    f"{words.counted(found.single.count, 'record')} of client {client} for {topic} "
                    f"{'is' if found.single.count == 1 else 'are'} too large for the broker ({names}, up to "
                    f"{words.volume(found.largest)}) and "
                    f"{'was' if found.single.count == 1 else 'were'} not written.",
                    "Make the records smaller: compress them, because the compressed size counts, or store large "
                    "values elsewhere and send a reference. Or raise max.message.bytes of the topic together with the"
                    " producer's max.request.size, and max.partition.fetch.bytes of consumers older than 0.10.1.",
                    found.single,
                    filter_text=shown,
                )
            if found.batches:
                taken = (
                    f"; the largest taken afterwards has {words.volume(found.passed)}" if found.passed else ""
                )
                yield self.finding(
                    f"client {client}, topic {topic}, batches",
                    f"{words.counted(found.batches.count, 'batch', 'batches')} of client {client} for {topic} "
                    f"{'was' if found.batches.count == 1 else 'were'} refused as too large ({names}, up to "
                    f"{words.volume(found.largest)}{taken}).",
                    "Set the producer's batch.size (librdkafka: batch.size and message.max.bytes) below "
                    "max.message.bytes of the topic. The Java producer splits and resends such batches, which costs "
                    "time; other clients lose their records.",
                    found.batches,
                    filter_text=shown,
                    severity=Severity.MEDIUM,
                )


# ---------------------------------------------------------------- sequence_gaps

_SEQUENCES = 1 << 31
_MOST_KEPT = 20_000
"""Most sequences that are kept; the oldest are dropped first."""

_SEQUENCE_ADVICE: dict[int, str] = {
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
    codes = _SEQUENCE_ADVICE.keys()
    advice = _SEQUENCE_ADVICE
    severities: ClassVar = {ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Severity.LOW}

    _next: dict[_Sequence, int] = {}

    def produced(self, exchange: Exchange, part: ProducedPartition) -> None:
        if part.error in _SEQUENCE_ADVICE:
            refused = self.refuse(exchange, part)
            refused.example = refused.example or self._example(part)
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

    def _example(self, part: ProducedPartition) -> str:
        """Return the sequence number of the last idempotent batch, and the one that was due; empty if there is none."""
        for batch in reversed(part.batches):
            if batch.producer_id >= 0:
                key = _Sequence(batch.producer_id, batch.producer_epoch, part.topic, part.partition)
                due = f", where {self._next[key]} was due after what was written" if key in self._next else ""
                return (
                    f"producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence {batch.base_sequence} "
                    f"to partition {part.partition}{due}"
                )
        return ""
