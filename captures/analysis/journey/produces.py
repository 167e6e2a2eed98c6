"""Produce requests to wanted partitions, and the brokers' responses."""

from __future__ import annotations

from typing import NamedTuple

from captures.analysis.journey.found_records import MatchCollector
from captures.analysis.journey.ledger import Ledger
from captures.analysis.journey.record_query import RecordQuery
from captures.meaning import Names
from captures.meaning.exchange import Body, number, text
from captures.meaning.payload import headers
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition


class SentProduce(NamedTuple):
    """A Produce without its bodies.

    :ivar time: when it was sent, ns since the epoch
    :ivar answered: when it was answered, ns since the epoch; -1 if it was not
    :ivar sender: index in :attr:`~captures.analysis.journey.ledger.Ledger.senders`
    """

    time: int
    answered: int
    number: int
    sender: int


class ProduceTracker:
    """Records sends.

    :param names: returns names of topic IDs
    """

    def __init__(self, sought: RecordQuery, names: Names, ledger: Ledger, finds: MatchCollector) -> None:
        self._query = sought
        self._names = names
        self._ledger = ledger
        self._finds = finds

    def add(self, sent: SentProduce, request: Body, response: Body) -> None:
        """Learn from a Produce."""
        self._finds.begin()
        answers: dict[TopicPartition, Body] | None = None
        for tp, row in self._query.rows(request, "topic_data", self._names, "partition_data"):
            if answers is None:
                answers = dict(rows_by_partition(response, "responses", self._names, "partition_responses"))
            self._note(sent, request, tp, row, answers.get(tp))

    def _note(
        self, sent: SentProduce, request: Body, tp: TopicPartition, row: Body, answer: Body | None
    ) -> None:
        batches = headers(row.get("records"))
        if not batches:
            return
        first, log = batches[0], self._ledger.of(tp)
        base = -1 if answer is None else number(answer, "base_offset")
        counted = self._finds.counted
        count = counted(first) if len(batches) == 1 else sum(map(counted, batches))
        transaction = text(request, "transactional_id")
        added = log.sends.add(
            base,
            count,
            sent.time,
            sent.answered if answer is not None else -1,
            sent.number,
            sent.sender,
            first.producer_id,
            first.producer_epoch,
            first.base_sequence,
            0 if answer is None else number(answer, "error_code", 0),
            first.crc,
            first.size,
            number(request, "acks", 0),
            first.attributes,
            first.magic,
            self._ledger.texts(transaction) if transaction else -1,
        )
        if added and self._query.single:
            self._finds.in_sent(tp, len(log.sends) - 1, base, batches)
            if base >= 0:
                log.looked.add(base, base + count)
