"""Batches and records that are larger than the broker accepts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.refused_records import RefusedRecords
from captures.analysis.findings.rule import RuleContext
from captures.analysis.record_traffic import ProducedPartition
from captures.exchanges import Exchange
from captures.meaning import words
from dissectors.error_codes import ErrorCode

_TOO_LARGE: dict[int, str] = {
    ErrorCode.MESSAGE_TOO_LARGE: "MESSAGE_TOO_LARGE",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RECORD_LIST_TOO_LARGE",
}


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

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._found: dict[tuple[str, str], _TopicRefusals] = {}

    def produced(self, exchange: Exchange, part: ProducedPartition) -> None:
        key = client_name(exchange), part.topic
        if part.error in _TOO_LARGE:
            self._refused(self._found.setdefault(key, _TopicRefusals()), exchange, part)
        elif not part.error and exchange.response is not None and key in self._found:
            self._found[key].passed = max(self._found[key].passed, part.size)

    @staticmethod
    def _refused(found: _TopicRefusals, exchange: Exchange, part: ProducedPartition) -> None:
        (found.single if part.records == 1 else found.batches).add(exchange)
        found.codes.add(part.error)
        # if the capture lacks the records, the size of the request bounds theirs
        found.largest = max(found.largest, part.size or exchange.request_size)

    def findings(self) -> Iterator[Finding]:
        for (client, topic), found in self._found.items():
            names = " and ".join(_TOO_LARGE[code] for code in sorted(found.codes))
            codes = ", ".join(str(code) for code in sorted(found.codes))
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
