"""Matching records, where they were first found, and the search for them in batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from captures.analysis.journey.record_query import RecordQuery
from captures.meaning.topic_partitions import TopicPartition
from dissectors.budget import LimitReached, message_budget
from dissectors.records import Batch, Record

MOST_FOUND = 10_000
"""Most records that are reported one by one; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A matching record.

    :ivar send: row of :data:`~captures.analysis.journey.ledger.SENDS`; -1 if it was found in a Fetch
    :ivar offset: -1 if unknown where it was found
    """

    tp: TopicPartition
    send: int
    offset: int
    record: Record
    batch: BatchPosition


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """The position of a record in its batch, and the batch header; -1 for unknown numbers.

    :ivar index: index among the sent records, or in the batch, from 0
    :ivar size: bytes, with the header
    :ivar records: announced records; None in a compressed message set, which does not announce them
    """

    index: int
    records: int | None
    size: int
    magic: int
    codec: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool

    @classmethod
    def of(cls, batch: Batch, index: int) -> BatchPosition:
        """Return it for a batch and a record's index."""
        return cls(
            index=index,
            magic=batch.magic,
            codec=batch.codec.label,
            size=batch.size,
            records=batch.count,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=batch.transactional,
        )


class MatchCollector:
    """Collects matching records.

    :ivar more: number of matches beyond :data:`MOST_FOUND`
    :ivar beyond: number of batches that were not read completely, by the name of the limit
    """

    def __init__(self, sought: RecordQuery) -> None:
        self._query = sought
        self.found: list[FoundRecord] = []
        self.more = 0
        self.beyond: Counter[str] = Counter()
        self._budget = message_budget()

    def begin(self) -> None:
        """Begin another message, with a fresh budget."""
        self._budget = message_budget()

    def counted(self, batch: Batch) -> int:
        """Return the number of records in a batch; a compressed message set has to be decoded for it."""
        return len(self.records(batch)) if batch.count is None else batch.count

    def records(self, batch: Batch) -> list[Record]:
        """Return the records of a batch, within the budget of its message."""
        records, problems = batch.read(self._budget)
        for problem in problems:
            if isinstance(problem, LimitReached):
                self.beyond[problem.limit] += 1
        return records

    def in_sent(self, tp: TopicPartition, send: int, base: int, batches: list[Batch]) -> None:
        """Search the records that a Produce sends to a partition.

        :param send: row of the send
        :param base: offset of the first record, -1 if unknown
        """
        sought, index = self._query, 0
        for batch in batches:
            count = self.counted(batch)
            wanted = self._wanted(batch, index, base, count)
            if wanted:
                for at, record in enumerate(self.records(batch)):
                    offset = base + index + at if base >= 0 else -1
                    if offset == sought.offset if sought.offset is not None else sought.fits(record):
                        self._add(FoundRecord(tp, send, offset, record, BatchPosition.of(batch, index + at)))
            index += count

    def _wanted(self, batch: Batch, index: int, base: int, count: int) -> bool:
        offset = self._query.offset
        if offset is not None:
            return base >= 0 and base + index <= offset < base + index + count
        return self._query.may_hold(batch)

    def in_fetched(self, tp: TopicPartition, batch: Batch) -> None:
        """Search the records of a fetched batch."""
        sought = self._query
        if sought.offset is not None:
            if (
                batch.control
                or not (batch.magic < 2 or batch.base_offset <= sought.offset)
                or (sought.offset > batch.last_offset)
            ):
                return
        elif not sought.may_hold(batch):
            return
        for at, record in enumerate(self.records(batch)):
            if record.offset == sought.offset if sought.offset is not None else sought.fits(record):
                self._add(FoundRecord(tp, -1, record.offset, record, BatchPosition.of(batch, at)))

    def move(self, tp: TopicPartition, to: TopicPartition, shift: int) -> None:
        """Rename the partition of found records.

        :param shift: number of rows that the new partition had before
        """
        for at, each in enumerate(self.found):
            if each.tp == tp:
                send = each.send + shift if each.send >= 0 else -1
                self.found[at] = replace(each, tp=to, send=send)

    def _add(self, found: FoundRecord) -> None:
        if len(self.found) < MOST_FOUND:
            self.found.append(found)
        else:
            self.more += 1


def offsets_of(batches: list[Batch], asked: int) -> tuple[int, int] | None:
    """Return the first and last offset that a Fetch delivers; None if it delivers no records.

    A compressed message set does not show its first offset: it is assumed to be the requested one.

    :param asked: requested offset; earlier records are delivered only because batches are complete, and dropped by the
        client
    """
    last = next((batch for batch in reversed(batches) if not batch.control), None)
    if last is None or last.last_offset < asked:
        return None
    first = next(batch for batch in batches if not batch.control and batch.last_offset >= asked)
    begin = asked if first.count is None and asked >= 0 else first.base_offset
    return max(begin, asked), last.last_offset
