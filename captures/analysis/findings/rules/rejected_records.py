"""Records that the broker refuses for other reasons than their size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from captures.analysis.client_identity import client_name
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.refused_records import Refusal, RefusedRecords
from captures.analysis.findings.rule import RuleContext
from captures.analysis.record_traffic import ProducedPartition
from captures.exchanges import Exchange
from captures.meaning import words
from dissectors.error_codes import ErrorCode, error_name

_ADVICE: dict[int, str] = {
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
    codes = _ADVICE.keys()

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._found: dict[Refusal, Occurrences] = {}
        self._messages: dict[Refusal, Counter[str]] = {}

    def produced(self, exchange: Exchange, part: ProducedPartition) -> None:
        # wrong checksums are another finding
        if part.error not in _ADVICE or not all(batch.crc_valid for batch in part.batches):
            return
        refusal = Refusal(client_name(exchange), part.topic, part.error)
        self._found.setdefault(refusal, Occurrences()).add(exchange)
        message = next((error.message for error in exchange.errors if error.message), "")
        messages = self._messages.setdefault(refusal, Counter())
        if message and (message in messages or not messages):
            messages[message] += 1

    def findings(self) -> Iterator[Finding]:
        for refusal, seen in self._found.items():
            message = next(iter(self._messages[refusal]), "")
            yield self.finding(
                refusal.subject,
                f"The broker refused {words.counted(seen.count, 'batch', 'batches')} of client {refusal.client} for "
                f"{refusal.topic} with {error_name(refusal.code)}"
                f"{f': {words.clipped(message, 200)}' if message else ''}; nothing of them was written.",
                _ADVICE[refusal.code],
                seen,
                filter_text=refusal.filter,
            )
