"""What Produce, Fetch and commits carry, partition by partition: taken apart once for all that look at it.

Batches are told by their headers, which are read when somebody asks for them; nothing is decompressed. Bodies that were
cut off give as much as they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from captures.analysis.fetch_sessions import FetchSeen, FetchSessions
from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, number
from captures.meaning.places import TopicPartition, rows_by_place
from dissectors.api_keys import ApiKey
from dissectors.records import Batch, RecordSet, TrailingEntry, record_set, records_size

_EMPTY: Body = {}
_NO_RECORDS = RecordSet()


@dataclass(slots=True, eq=False)
class PartitionRecords:
    """The records of one partition in a message.

    :ivar topic_partition: with the topic's name, or its ID where no message has told the name
    :ivar data: the records field; empty if there is none
    :ivar answer: partition struct of the response; empty if there is none
    """

    topic_partition: TopicPartition
    data: bytes
    answer: Body
    _held: RecordSet | None = None

    @property
    def topic(self) -> str:
        """Name or ID of the topic."""
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.topic_partition.partition

    @property
    def size(self) -> int:
        """Bytes of the records field."""
        return records_size(self.data)

    @property
    def error(self) -> int:
        """Code that the broker answered; 0 if none, or it did not answer."""
        return number(self.answer, "error_code", 0)

    @property
    def batches(self) -> Sequence[Batch]:
        """Complete ones; with magic 0 and 1, an uncompressed message is one."""
        return self._records().batches

    @property
    def trailing(self) -> TrailingEntry | None:
        """The entry at the end that was cut off; None if there is none."""
        return self._records().trailing

    @property
    def records(self) -> int | None:
        """Records announced; None if a compressed message set is among them, which does not tell."""
        total = 0
        for batch in self.batches:
            if batch.count is None:
                return None
            if not batch.control:
                total += batch.count
        return total

    def _records(self) -> RecordSet:
        if self._held is None:
            self._held = record_set(self.data) if self.data else _NO_RECORDS
        return self._held


class ProducedPartition(PartitionRecords):
    """One partition of a Produce."""

    __slots__ = ()

    @property
    def base_offset(self) -> int:
        """Offset of the first record, as the broker answered; -1 if it did not."""
        return number(self.answer, "base_offset")


class FetchedPartition(PartitionRecords):
    """One partition of a Fetch or ShareFetch response."""

    __slots__ = ()

    @property
    def high_watermark(self) -> int:
        """-1 if not told."""
        return number(self.answer, "high_watermark")

    @property
    def last_stable_offset(self) -> int:
        """-1 if not told."""
        return number(self.answer, "last_stable_offset")

    @property
    def log_start(self) -> int:
        """First offset in the log; -1 if not told."""
        return number(self.answer, "log_start_offset")

    @property
    def behind(self) -> int:
        """Offset behind the last complete batch; -1 if there is none.

        Transaction markers behind it are left out: no application gets to see them.
        """
        return next((batch.last_offset + 1 for batch in reversed(self.batches) if not batch.control), -1)


class CommittedPartition(NamedTuple):
    """An offset that an OffsetCommit or TxnOffsetCommit names.

    :ivar error: code that the broker answered, 0 for none; None if it did not answer for this partition
    """

    topic_partition: TopicPartition
    offset: int
    error: int | None


def commits_of(request: Body, response: Body, names: Names) -> Iterator[CommittedPartition]:
    """Yield what an OffsetCommit or TxnOffsetCommit is to store, but for negative offsets, which are none."""
    errors = {place: row.get("error_code") for place, row in rows_by_place(response, "topics", names)}
    for place, row in rows_by_place(request, "topics", names):
        offset = number(row, "committed_offset")
        if offset >= 0:
            yield CommittedPartition(place, offset, errors.get(place))


class RecordTraffic:
    """Takes exchanges apart; the latest one is remembered, as several ask for it.

    :param names: tells names of topic IDs
    """

    __slots__ = (
        "_committed",
        "_exchange",
        "_fetched",
        "_names",
        "_produced",
        "_seen",
        "_seen_of",
        "sessions",
    )

    def __init__(self, names: Names) -> None:
        self._names = names
        self.sessions = FetchSessions(names)
        self._seen_of: Exchange | None = None
        self._seen: FetchSeen | None = None
        self._exchange: Exchange | None = None
        self._produced: list[ProducedPartition] = []
        self._fetched: list[FetchedPartition] = []
        self._committed: list[CommittedPartition] = []

    def produced(self, exchange: Exchange) -> list[ProducedPartition]:
        """Return what a Produce sends; empty for other APIs."""
        self._look_at(exchange)
        return self._produced

    def fetched(self, exchange: Exchange) -> list[FetchedPartition]:
        """Return what a Fetch or ShareFetch was answered; empty for other APIs."""
        self._look_at(exchange)
        return self._fetched

    def committed(self, exchange: Exchange) -> list[CommittedPartition]:
        """Return what an OffsetCommit or TxnOffsetCommit is to store; empty for other APIs."""
        self._look_at(exchange)
        return self._committed

    def seen(self, exchange: Exchange) -> FetchSeen | None:
        """Return what a Fetch asks for, with what its session adds; None for other APIs.

        Whoever asks has to do so for every Fetch of the connections that matter to it: a session is followed so.
        """
        if exchange is not self._seen_of:
            self._seen = self.sessions.add(exchange)
            self._seen_of = exchange
        return self._seen

    def _look_at(self, exchange: Exchange) -> None:
        if exchange is self._exchange:
            return
        key = exchange.api_key
        self._produced = list(self._of_produce(exchange)) if key == ApiKey.PRODUCE else []
        self._fetched = list(self._of_fetch(exchange)) if key in (ApiKey.FETCH, ApiKey.SHARE_FETCH) else []
        self._committed = []
        if key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
            self._committed = list(commits_of(exchange.request_body, exchange.response_body, self._names))
        self._exchange = exchange

    def _of_produce(self, exchange: Exchange) -> Iterator[ProducedPartition]:
        answers = dict(rows_by_place(exchange.response_body, "responses", self._names, "partition_responses"))
        for place, row in rows_by_place(exchange.request_body, "topic_data", self._names, "partition_data"):
            yield ProducedPartition(place, _data(row), answers.get(place, _EMPTY))

    def _of_fetch(self, exchange: Exchange) -> Iterator[FetchedPartition]:
        for place, row in rows_by_place(exchange.response_body, "responses", self._names):
            yield FetchedPartition(place, _data(row), row)


def _data(row: Body) -> bytes:
    found = row.get("records")
    return found if isinstance(found, bytes) else b""
