"""What Produce and Fetch exchanges carry, partition by partition: made once, for all rules that look at it.

Batches are told by their headers; nothing is decompressed. Bodies that were cut off give as much as they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from captures.analysis.client_identity import client_name
from captures.analysis.fetch_sessions import FetchSeen, FetchSessions
from captures.analysis.findings.common import answered, asked, replica_of, some_of, whole_ids
from captures.exchanges import Exchange
from captures.meaning import Names, words
from captures.meaning.exchange import Body, number, rows, text
from captures.meaning.places import TopicPartition, each, index
from dissectors.api_keys import ApiKey
from dissectors.records import Batch, TrailingEntry, record_set, records_size

NO_PRODUCE = "no Produce request was captured"
NO_FETCH = "no Fetch of a consumer was captured"

_EMPTY: Body = {}
_UNNAMED = "?"


@dataclass(frozen=True, slots=True)
class PartitionRecords:
    """The records of one partition in a message.

    :ivar topic: its name, or its ID where no message has told the name
    :ivar size: bytes of the records field
    :ivar batches: complete ones; with magic 0 and 1, an uncompressed message is one
    :ivar error: code that the broker answered; 0 if none, or it did not answer
    """

    topic: str
    partition: int
    size: int
    batches: Sequence[Batch]
    error: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and the partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def records(self) -> int | None:
        """Records announced; None if a compressed message set is among them, which does not tell."""
        return _records(self.batches)


@dataclass(frozen=True, slots=True)
class ProducedPartition(PartitionRecords):
    """One partition of a Produce.

    :ivar base_offset: of the first record, as the broker answered; -1 if it did not
    """

    base_offset: int


@dataclass(frozen=True, slots=True)
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


class ProduceAnswers:
    """Whether brokers tell producers of errors; for rules that look for these."""

    __slots__ = ("_requests", "_silent")

    def __init__(self) -> None:
        self._requests = 0
        self._silent: dict[str, None] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from a Produce."""
        self._requests += 1
        if number(asked(exchange), "acks") == 0:
            self._silent[client_name(exchange)] = None

    def blind(self) -> str:
        """Return why errors cannot be seen, in words; empty if they can."""
        if not self._requests:
            return NO_PRODUCE
        if not self._silent:
            return ""
        return f"brokers tell no errors to clients that write with acks=0: {some_of(self._silent)}"


class RecordTraffic:
    """Takes Produce and Fetch exchanges apart; the latest one is remembered, as several rules ask for it.

    :param names: tells names of topic IDs
    """

    __slots__ = ("_exchange", "_fetched", "_names", "_produced", "_seen", "_seen_of", "_sessions")

    def __init__(self, names: Names) -> None:
        self._names = whole_ids(names)
        self._sessions = FetchSessions(names)
        self._seen_of: Exchange | None = None
        self._seen: FetchSeen | None = None
        self._exchange: Exchange | None = None
        self._produced: list[ProducedPartition] = []
        self._fetched: list[FetchedPartition] = []

    def produced(self, exchange: Exchange) -> list[ProducedPartition]:
        """Return what a Produce sends; empty for other APIs."""
        self._look_at(exchange)
        return self._produced

    def fetched(self, exchange: Exchange) -> list[FetchedPartition]:
        """Return what a Fetch or ShareFetch was answered; empty for other APIs."""
        self._look_at(exchange)
        return self._fetched

    def seen(self, exchange: Exchange) -> FetchSeen | None:
        """Return what a Fetch asks for, with what its session adds; None for other APIs.

        Whoever asks has to do so for every Fetch of the connections that matter to it: a session is followed so.
        """
        if exchange is not self._seen_of:
            self._seen_of = exchange
            self._seen = self._sessions.add(exchange)
        return self._seen

    def _look_at(self, exchange: Exchange) -> None:
        if exchange is self._exchange:
            return
        self._exchange = exchange
        self._produced = self._of_produce(exchange) if exchange.api_key == ApiKey.PRODUCE else []
        self._fetched = (
            self._of_fetch(exchange) if exchange.api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH) else []
        )

    def _of_produce(self, exchange: Exchange) -> list[ProducedPartition]:
        answers = {
            (topic, index(row)): row
            for topic, row in each(rows(answered(exchange), "responses"), self._names)
        }
        found = []
        for topic, row in each(rows(asked(exchange), "topic_data"), self._names):
            partition = index(row)
            if partition is None or topic == _UNNAMED:
                continue
            data = row.get("records")
            data = data if isinstance(data, bytes) else b""
            answer = answers.get((topic, partition), _EMPTY)
            found.append(
                ProducedPartition(
                    topic=topic,
                    partition=partition,
                    size=records_size(data),
                    batches=record_set(data).batches if data else (),
                    error=number(answer, "error_code", 0),
                    base_offset=number(answer, "base_offset"),
                )
            )
        return found

    def _of_fetch(self, exchange: Exchange) -> list[FetchedPartition]:
        found = []
        for topic, row in each(rows(answered(exchange), "responses"), self._names):
            partition = index(row)
            if partition is None or topic == _UNNAMED:
                continue
            data = row.get("records")
            data = data if isinstance(data, bytes) else b""
            held = record_set(data) if data else None
            found.append(
                FetchedPartition(
                    topic=topic,
                    partition=partition,
                    size=records_size(data),
                    batches=held.batches if held is not None else (),
                    trailing=held.trailing if held is not None else None,
                    error=number(row, "error_code", 0),
                    high_watermark=number(row, "high_watermark"),
                    last_stable_offset=number(row, "last_stable_offset"),
                    log_start=number(row, "log_start_offset"),
                )
            )
        return found


def _records(batches: Sequence[Batch]) -> int | None:
    total = 0
    for batch in batches:
        if batch.count is None:
            return None
        if not batch.control:
            total += batch.count
    return total


def consumer(exchange: Exchange) -> str:
    """Return the client of a Fetch; empty if that is a broker or a controller."""
    return "" if replica_of(exchange) >= 0 else client_name(exchange)


def partitions_shown(numbers: Iterable[int]) -> str:
    """Return partitions in words: ``partition 3``, ``partitions 0-2``."""
    every = set(numbers)
    return f"{'partition' if len(every) == 1 else 'partitions'} {words.ranges(every)}"


def transactional_id(exchange: Exchange) -> str:
    """Return the transactional ID of a request of a producer; empty if it has none."""
    request = asked(exchange)
    return text(request, "transactional_id") or text(request, "v3_and_below_transactional_id")
