"""Consumers whose fetch size is too small for the batches that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import NO_FETCH, consumer, partitions_shown
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.analysis.record_traffic import FetchedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.exchanges.columns import NO_VALUE
from captures.meaning import words
from captures.meaning.exchange import number, rows
from dissectors.api_keys import ApiKey


class _Flow(NamedTuple):
    client: str
    topic: str


class _FetchSizes(msgspec.Struct):
    """Responses to a client's fetches of a topic.

    :ivar answers: number of partitions with records
    :ivar oversize: those with a single batch that is larger than the requested size
    :ivar cut: those with only a part of a single message
    :ivar runs: partition -> consecutive such responses
    :ivar longest: the most consecutive ones
    :ivar largest: bytes of the largest such batch or message
    :ivar limit: requested bytes
    """

    answers: int = 0
    oversize: Occurrences = msgspec.field(default_factory=Occurrences)
    cut: Occurrences = msgspec.field(default_factory=Occurrences)
    runs: dict[int, int] = {}
    longest: int = 0
    largest: int = 0
    limit: int = 0


class TinyFetches(Rule):
    """Compares the sizes of batches with those that fetches request."""

    name = "tiny_fetches"
    needs = Lack.RECORDS
    title = "Fetch sizes too small for the batches"
    about = (
        "A consumer asks for fewer bytes of a partition (max.partition.fetch.bytes) than its batches have. Since "
        "Fetch v3 the broker still returns the first batch (KIP-74), but only one per Fetch, so reading is slow. "
        "Older brokers return only the beginning of the message, which the consumer cannot use, so it is stuck "
        "there forever (RecordTooLargeException)."
    )
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.FETCH})
    thresholds = (
        Threshold(
            "count",
            10,
            Unit.COUNT,
            "responses with one oversize batch of a topic, from which a finding is reported",
        ),
        Threshold(
            "share",
            50,
            Unit.PERCENT,
            "share of the responses with records that contain a single oversize batch",
        ),
        Threshold(
            "cut",
            2,
            Unit.COUNT,
            "responses in a row with only part of one message, from which a finding is reported",
        ),
    )
    unseen = NO_FETCH

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._flows: dict[_Flow, _FetchSizes] = {}
        self._limits: dict[tuple[int, str], int] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        allowed = rows.columns.flat("max_bytes")[rows.of_consumers]
        least = int(allowed[allowed != NO_VALUE].min(initial=np.iinfo(np.int64).max))
        sizes, batches = rows.columns.ragged("flow_bytes"), rows.columns.ragged("flow_batches").values
        held = rows.of_consumers[sizes.rows] & (sizes.values > 0)
        # a field with one batch may end with a part of another
        cut = bool((held & (batches == 0)).any())
        largest = int(sizes.values[held & (batches == 1)].max(initial=0))
        if rows.merged("sizes of fetches", (cut, largest, least), _too_small) or rows.ever(
            "interventions", ~rows.untouched
        ):
            return None
        answered = rows.of_consumers & (rows.columns.flat("response_told") > 0)
        decoded = answered & (rows.columns.flat("min_bytes") >= 0)
        return rows.earliest("answered fetches", rows.evidence_of(answered)) | rows.earliest(
            "answered fetches, decoded", rows.evidence_of(decoded)
        )

    def add(self, exchange: Exchange) -> None:
        client = consumer(exchange)
        request = exchange.request_body
        if not client or not request or not exchange.response_body:
            return
        self.saw_any = True
        line = exchange.connection, client
        # within a session partitions are named once, but a client uses the same limit for all
        sizes = [
            number(row, "partition_max_bytes")
            for topic in rows(request, "topics")
            for row in rows(topic, "partitions")
        ]
        limit = self._limits[line] = max(sizes, default=self._limits.get(line, 0))
        whole = number(request, "max_bytes", 0)
        if limit > 0:
            for part in self.context.records.fetched(exchange):
                if part.size and not part.error:
                    flow = self._flows.setdefault(_Flow(client, part.topic), _FetchSizes())
                    self._answer(exchange, flow, part, min(limit, whole) if whole > 0 else limit)

    @staticmethod
    def _answer(exchange: Exchange, flow: _FetchSizes, part: FetchedPartition, limit: int) -> None:
        flow.answers += 1
        if not part.batches:
            if part.trailing is not None and part.trailing.kind == "partial":
                flow.cut.add(exchange)
                flow.runs[part.partition] = flow.runs.get(part.partition, 0) + 1
                flow.longest = max(flow.longest, flow.runs[part.partition])
                flow.largest = max(flow.largest, part.trailing.announced or 0)
                flow.limit = limit
            return
        flow.runs.pop(part.partition, None)
        if len(part.batches) == 1 and part.batches[0].size > limit:
            flow.oversize.add(exchange)
            flow.largest = max(flow.largest, part.batches[0].size)
            flow.limit = limit

    def findings(self) -> Iterator[Finding]:
        for (client, topic), flow in self._flows.items():
            shown = f"api == Fetch and {of_client(client)} and {of_topic(topic)}"
            size = f"up to {words.volume(flow.largest)}" if flow.largest else "larger"
            if flow.longest >= self.limit("cut"):
                stuck = [partition for partition, run in flow.runs.items() if run >= self.limit("cut")]
                then = f"it cannot continue in {partitions_shown(stuck)}" if stuck else "later it continued"
                yield self.finding(
                    f"client {client}, topic {topic}, cut",
                    f"Client {client} fetches at most {words.volume(flow.limit)} of a partition of {topic}, and "
                    f"{words.counted(flow.cut.count, 'response')} contained only the start of one message ({size}): "
                    f"{then}.",
                    "Raise max.partition.fetch.bytes (old consumers: fetch.message.max.bytes) above the largest "
                    "message, or update the client: since Fetch v3 the broker returns such a message whole.",
                    flow.cut,
                    filter_text=shown,
                    severity=Severity.HIGH if stuck else Severity.MEDIUM,
                )
            if (
                flow.oversize.count >= self.limit("count")
                and flow.oversize.count >= self.limit("share") / 100 * flow.answers
            ):
                yield self.finding(
                    f"client {client}, topic {topic}",
                    f"Client {client} fetches at most {words.volume(flow.limit)} of a partition of {topic}, less than "
                    f"one batch ({size}): {flow.oversize.count:,} of {words.counted(flow.answers, 'response')} had a "
                    "single batch.",
                    "Raise max.partition.fetch.bytes (default 1 MiB) and fetch.max.bytes of this consumer above the "
                    "size of the batches, so that one Fetch returns several.",
                    flow.oversize,
                    filter_text=f"{shown} and batches == 1 and records.size > {flow.limit}",
                )


def _too_small(parts: Sequence[tuple[bool, int, int]]) -> bool:
    """Return whether messages were cut, or batches are larger than the least size that was requested.

    :param parts: whether there are cut messages, bytes of the largest single batch, least requested bytes
    """
    cut, largest, least = zip(*parts, strict=True)
    return any(cut) or max(largest) > min(least)
