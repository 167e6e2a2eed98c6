"""What Produce, Fetch and commits carry, partition by partition: taken apart once for all that look at it.

Batches are told by their headers; nothing is decompressed. Bodies that were cut off give as much as they hold.
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

    :ivar topic: its name, or its ID where no message has told the name
    :ivar size: bytes of the records field
    :ivar batches: complete ones; with magic 0 and 1, an uncompressed message is one
    :ivar error: code that the broker answered; 0 if none, or it did not answer
    """

    topic_partition: TopicPartition
    topic: str
    partition: int
    size: int
    batches: Sequence[Batch]
    error: int

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


@dataclass(slots=True, eq=False)
class ProducedPartition(PartitionRecords):
    """One partition of a Produce.

    :ivar base_offset: of the first record, as the broker answered; -1 if it did not
    """

    base_offset: int


@dataclass(slots=True, eq=False)
class FetchedPartition(PartitionRecords):
    """One partition of a Fetch or ShareFetch response.

    :ivar trailing: the entry at the end that was cut off; None if there is none
    :ivar high_watermark: -1 if not told
    :ivar last_stable_offset: -1 if not told
    :ivar log_start: first offset in the log; -1 if not told
    """

    trailing: TrailingEntry | None
    high_watermark: int
    last_stable_offset: int
    log_start: int

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
        if exchange is not self._exchange:
            self._take_apart(exchange)
        return self._produced

    def fetched(self, exchange: Exchange) -> list[FetchedPartition]:
        """Return what a Fetch or ShareFetch was answered; empty for other APIs."""
        if exchange is not self._exchange:
            self._take_apart(exchange)
        return self._fetched

    def committed(self, exchange: Exchange) -> list[CommittedPartition]:
        """Return what an OffsetCommit or TxnOffsetCommit is to store; empty for other APIs."""
        if exchange is not self._exchange:
            self._take_apart(exchange)
        return self._committed

    def seen(self, exchange: Exchange) -> FetchSeen | None:
        """Return what a Fetch asks for, with what its session adds; None for other APIs.

        Ask for every Fetch of a connection: that is how its session is followed.
        """
        if exchange is not self._seen_of:
            self._seen = self.sessions.add(exchange)
            self._seen_of = exchange
        return self._seen

    def _take_apart(self, exchange: Exchange) -> None:
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
            size, held = _records(row)
            answer = answers.get(place, _EMPTY)
            error, base_offset = number(answer, "error_code", 0), number(answer, "base_offset")
            yield ProducedPartition(place, *place, size, held.batches, error, base_offset)

    def _of_fetch(self, exchange: Exchange) -> Iterator[FetchedPartition]:
        for place, row in rows_by_place(exchange.response_body, "responses", self._names):
            size, held = _records(row)
            yield FetchedPartition(
                place,
                *place,
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
    return (records_size(data), record_set(data)) if data and isinstance(data, bytes) else (0, _NO_RECORDS)
