"""The contents of Produce, Fetch and commits by partition, parsed once for all users.

Only batch headers are read; nothing is decompressed. Truncated bodies give what they contain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from captures.analysis.fetch_sessions import FetchSessions, ObservedFetch
from captures.exchanges import Exchange
from captures.exchanges.shapes import offset_reached
from captures.meaning import Names
from captures.meaning.exchange import Body, number
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition
from dissectors.api_keys import ApiKey
from dissectors.left_out import original_size
from dissectors.records import Batch, RecordSet, TrailingEntry, record_set

_EMPTY: Body = {}
_NO_RECORDS = RecordSet()


@dataclass(slots=True, eq=False)
class PartitionRecords:
    """The records of one partition in a message.

    :ivar topic: its name, or its ID if no message has revealed the name
    :ivar size: bytes of the records field
    :ivar batches: complete batches; with magic 0 and 1, an uncompressed message is one
    :ivar error: code in the response; 0 if none, or there was no response
    """

    topic_partition: TopicPartition
    topic: str
    partition: int
    size: int
    batches: Sequence[Batch]
    error: int

    @property
    def records(self) -> int | None:
        """Announced records; None if there is a compressed message set, which does not announce its records."""
        total = 0
        for batch in self.batches:
            if batch.count is None:
                return None
            if not batch.control:
                total += batch.count
        return total


@dataclass(slots=True, eq=False)
class ProducedPartition(PartitionRecords):
    """One partition of a Produce.

    :ivar base_offset: offset of the first record in the response; -1 if unknown
    """

    base_offset: int


@dataclass(slots=True, eq=False)
class FetchedPartition(PartitionRecords):
    """One partition of a Fetch or ShareFetch response.

    :ivar trailing: the entry at the end that was cut off; None if there is none
    :ivar high_watermark: -1 if unknown
    :ivar last_stable_offset: -1 if unknown
    :ivar log_start: first offset in the log; -1 if unknown
    """

    trailing: TrailingEntry | None
    high_watermark: int
    last_stable_offset: int
    log_start: int

    @property
    def behind(self) -> int:
        """Offset after the last complete batch without control records; -1 if there is none."""
        return offset_reached(self.batches)


class CommittedPartition(NamedTuple):
    """An offset in an OffsetCommit or TxnOffsetCommit.

    :ivar error: code in the response, 0 for none; None if there was none for this partition
    """

    topic_partition: TopicPartition
    offset: int
    error: int | None


def commits_of(request: Body, response: Body, names: Names) -> Iterator[CommittedPartition]:
    """Yield the offsets that an OffsetCommit or TxnOffsetCommit stores; negative ones mean none and are left out."""
    errors = {tp: row.get("error_code") for tp, row in rows_by_partition(response, "topics", names)}
    for tp, row in rows_by_partition(request, "topics", names):
        offset = number(row, "committed_offset")
        if offset >= 0:
            yield CommittedPartition(tp, offset, errors.get(tp))


class RecordTraffic:
    """Parses exchanges; the result of the latest one is cached, as it has several users.

    :param names: returns names of topic IDs
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self.sessions = FetchSessions(names)
        self._seen_of: Exchange | None = None
        self._seen: ObservedFetch | None = None
        self._exchange: Exchange | None = None
        self._produced: list[ProducedPartition] = []
        self._fetched: list[FetchedPartition] = []
        self._committed: list[CommittedPartition] = []

    def produced(self, exchange: Exchange) -> list[ProducedPartition]:
        """Return the partitions of a Produce; empty for other APIs."""
        if exchange is not self._exchange:
            self._read_traffic(exchange)
        return self._produced

    def fetched(self, exchange: Exchange) -> list[FetchedPartition]:
        """Return the partitions of a Fetch or ShareFetch response; empty for other APIs."""
        if exchange is not self._exchange:
            self._read_traffic(exchange)
        return self._fetched

    def committed(self, exchange: Exchange) -> list[CommittedPartition]:
        """Return the offsets of an OffsetCommit or TxnOffsetCommit; empty for other APIs."""
        if exchange is not self._exchange:
            self._read_traffic(exchange)
        return self._committed

    def seen(self, exchange: Exchange) -> ObservedFetch | None:
        """Return what a Fetch requests, including its session; None for other APIs.

        Must be called for every Fetch of a connection, to follow its session.
        """
        if exchange is not self._seen_of:
            self._seen = self.sessions.add(exchange)
            self._seen_of = exchange
        return self._seen

    def _read_traffic(self, exchange: Exchange) -> None:
        key = exchange.api_key
        self._produced = list(self._of_produce(exchange)) if key == ApiKey.PRODUCE else []
        self._fetched = list(self._of_fetch(exchange)) if key in (ApiKey.FETCH, ApiKey.SHARE_FETCH) else []
        self._committed = []
        if key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
            self._committed = list(commits_of(exchange.request_body, exchange.response_body, self._names))
        self._exchange = exchange

    def _of_produce(self, exchange: Exchange) -> Iterator[ProducedPartition]:
        answers = dict(
            rows_by_partition(exchange.response_body, "responses", self._names, "partition_responses")
        )
        for tp, row in rows_by_partition(exchange.request_body, "topic_data", self._names, "partition_data"):
            size, held = _records(row)
            answer = answers.get(tp, _EMPTY)
            error, base_offset = number(answer, "error_code", 0), number(answer, "base_offset")
            yield ProducedPartition(tp, *tp, size, held.batches, error, base_offset)

    def _of_fetch(self, exchange: Exchange) -> Iterator[FetchedPartition]:
        for tp, row in rows_by_partition(exchange.response_body, "responses", self._names):
            size, held = _records(row)
            yield FetchedPartition(
                tp,
                *tp,
                size,
                held.batches,
                number(row, "error_code", 0),
                held.trailing,
                number(row, "high_watermark"),
                number(row, "last_stable_offset"),
                number(row, "log_start_offset"),
            )


def _records(row: Body) -> tuple[int, RecordSet]:
    data = row.get("records")
    return (original_size(data), record_set(data)) if data and isinstance(data, bytes) else (0, _NO_RECORDS)
