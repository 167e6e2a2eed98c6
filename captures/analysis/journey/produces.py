"""What Produce requests send to the partitions that are sought, and what brokers answer."""

from __future__ import annotations

from typing import NamedTuple

from captures.analysis.journey.found_records import Finds
from captures.analysis.journey.ledger import Ledger
from captures.analysis.journey.record_query import RecordQuery
from captures.meaning import Names
from captures.meaning.exchange import Body, number, rows, text
from captures.meaning.payload import headers
from captures.meaning.places import TopicPartition, index, topic


class SentProduce(NamedTuple):
    """A Produce, but for its bodies.

    :ivar time: ns since the epoch, when it was sent
    :ivar answered: when it was answered; -1 if it was not
    :ivar sender: index of :attr:`~captures.analysis.journey.ledger.Ledger.senders`
    """

    time: int
    answered: int
    number: int
    sender: int


class ProduceTracker:
    """Notes what is sent.

    :param names: tells names of topic IDs
    """

    def __init__(self, sought: RecordQuery, names: Names, ledger: Ledger, finds: Finds) -> None:
        self._sought = sought
        self._names = names
        self._ledger = ledger
        self._finds = finds

    def add(self, sent: SentProduce, request: Body, response: Body) -> None:
        """Learn from a Produce."""
        self._finds.begin()
        answers: dict[TopicPartition, Body] | None = None
        for holder in rows(request, "topic_data"):
            name = topic(holder, self._whole)
            for row in rows(holder, "partition_data"):
                partition = index(row)
                if partition is None or not self._sought.may_be(name, partition, self._names):
                    continue
                if answers is None:
                    answers = self._answers(response)
                place = TopicPartition(name, partition)
                self._note(sent, request, place, row, answers.get(place))

    def _whole(self, uuid: str) -> str:
        return self._names(uuid) or uuid

    def _answers(self, response: Body) -> dict[TopicPartition, Body]:
        answers: dict[TopicPartition, Body] = {}
        for holder in rows(response, "responses"):
            name = topic(holder, self._whole)
            for row in rows(holder, "partition_responses"):
                partition = index(row)
                if partition is not None:
                    answers[TopicPartition(name, partition)] = row
        return answers

    def _note(
        self, sent: SentProduce, request: Body, place: TopicPartition, row: Body, answer: Body | None
    ) -> None:
        batches = headers(row.get("records"))
        if not batches:
            return
        first, log = batches[0], self._ledger.of(place)
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
        if added and self._sought.single:
            self._finds.in_sent(place, len(log.sends) - 1, base, batches)
            if base >= 0:
                log.looked.add(base, base + count - 1)
