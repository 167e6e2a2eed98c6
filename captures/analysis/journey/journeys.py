"""Journeys of records through a cluster: the search for records, and everything that a capture shows about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.journey.commits import CommitTracker
from captures.analysis.journey.fetches import Deliveries
from captures.analysis.journey.found_records import MatchCollector
from captures.analysis.journey.ledger import Ledger, PartitionLog, Sender
from captures.analysis.journey.log_facts import LogFacts
from captures.analysis.journey.model import Journey
from captures.analysis.journey.produces import ProduceTracker, SentProduce
from captures.analysis.journey.record_query import RecordQuery
from captures.analysis.journey.stories import JourneyBuilder
from captures.analysis.journey.totals import TopicWaits
from captures.analysis.journey.transactions import Transactions
from captures.analysis.journey.waits import Waits
from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader, ExchangeTable
from captures.exchanges.projected_reader import ProjectedExchanges, ProjectedReader
from captures.meaning import Names
from captures.meaning.exchange import Body
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import MEMBER_APIS, ApiKey

MOST_ROWS = 4096
"""Produce exchanges that are read together."""
_NOTHING: Body = {}
FOLLOWING = "following records"
"""The activity named in error reports."""


_SHARES = frozenset({
    "request.group_id", "request.member_id", "request.share_session_epoch", "request.topics",
    "request.forgotten_topics_data", "response.responses", "response.error_code",
})  # fmt: skip
_NEEDS: dict[int, frozenset[str]] = {
    ApiKey.PRODUCE: frozenset({
        "request.transactional_id", "request.acks", "request.topic_data",
        "response.responses.name", "response.responses.topic_id",
        "response.responses.partition_responses.index", "response.responses.partition_responses.error_code",
        "response.responses.partition_responses.base_offset",
    }),
    ApiKey.FETCH: frozenset({
        "request.replica_id", "request.replica_state", "request.isolation_level", "request.session_id",
        "request.session_epoch", "request.topics.topic", "request.topics.topic_id",
        "request.topics.partitions.partition", "request.topics.partitions.fetch_offset",
        "request.forgotten_topics_data",
        "response.session_id", "response.responses.topic", "response.responses.topic_id",
        "response.responses.partitions.partition_index", "response.responses.partitions.high_watermark",
        "response.responses.partitions.last_stable_offset", "response.responses.partitions.records",
    }),
    ApiKey.SHARE_FETCH: _SHARES,
    ApiKey.SHARE_ACKNOWLEDGE: _SHARES,
}  # fmt: skip
_OTHERS = frozenset({
    "groups", "topics", "members", "transactions", "producers",
    "request.topics", "response.topics", "response.error_code", "response.assignment",
    "response.active_tasks", "request.topology.subtopologies", "request.member_epoch",
    "request.committed", "request.markers",
})  # fmt: skip

READ = MEMBER_APIS | {
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.WRITE_TXN_MARKERS,
}  # fmt: skip
"""APIs that may be part of a record's journey: others need not be read."""


def needs(key: int) -> frozenset[str]:
    """Return the needed fields of an API (:class:`~captures.exchanges.projected_reader.ProjectedExchanges`)."""
    return _NEEDS.get(key, _OTHERS)


class FirstAndLast(NamedTuple):
    """The first and the last offset of a partition."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class JourneyResult:
    """The result of a search.

    :ivar journeys: journeys of the matching records, by partition and offset; empty if the query is for all records of
        a topic
    :ivar more: number of further matches
    :ivar waits: waits of all records; None if the query is for single records
    :ivar offsets: topic and partition -> first and last offset that the capture covers
    """

    JSON = "sought=query partitions journeys more waits"

    query: RecordQuery
    journeys: list[Journey]
    more: int
    waits: TopicWaits | None
    offsets: dict[TopicPartition, tuple[int, int]]

    @property
    def partitions(self) -> list[FirstAndLast]:
        """The offsets by partition."""
        return [FirstAndLast(*tp, *offsets) for tp, offsets in self.offsets.items()]

    @property
    def groups(self) -> list[str]:
        """Names of the groups in the result."""
        named = {each.group for journey in self.journeys for each in journey.groups}
        named |= {each.group for each in self.waits.groups} if self.waits is not None else set()
        return sorted(name for name in named if name is not None)

    def of_groups(self, groups: set[str]) -> JourneyResult:
        """Return the result without other groups, and without consumers that have none."""
        journeys = [
            replace(journey, groups=[each for each in journey.groups if each.group in groups])
            for journey in self.journeys
        ]
        waits = self.waits
        if waits is not None:
            waits = replace(waits, groups=[each for each in waits.groups if each.group in groups])
        return replace(self, journeys=journeys, waits=waits)


class Journeys:
    """Follows records; exchanges must be in the order of their numbers, each once.

    :param names: returns names of topic IDs; called for the result, too
    :param table: table of the exchanges, which has the times of complete responses. Without it, a response counts from
        its first byte, as far as the exchange's latency is known
    """

    def __init__(self, sought: RecordQuery, names: Names, table: ExchangeTable | None = None) -> None:
        self._query = sought
        self._names = names
        self._table = table
        self._ledger = Ledger()
        self._finds = MatchCollector(sought)
        self._producing = ProduceTracker(sought, names, self._ledger, self._finds)
        self._deliveries = Deliveries(sought, names, self._ledger, self._finds)
        self._committing = CommitTracker(sought, names, self._ledger)
        self._transactions = Transactions()

    @property
    def beyond(self) -> Counter[str]:
        """Number of batches that were not searched completely, by the name of the limit."""
        return self._finds.beyond

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange of any API."""
        key = exchange.api_key
        if key is None:
            return
        answered = self._answered(exchange)
        if key == ApiKey.PRODUCE:
            request = exchange.request_body
            response = exchange.response_body
            sender = self._ledger.sender(
                exchange.connection,
                lambda: Sender(client_name(exchange), exchange.client, exchange.broker, exchange.connection),
            )
            sent = SentProduce(exchange.time, answered, exchange.number, sender)
            self._producing.add(sent, request, response)
        elif key == ApiKey.FETCH:
            self._deliveries.add(exchange, answered)
        else:
            self._deliveries.hear(exchange)
            if key == ApiKey.SHARE_FETCH:
                self._deliveries.add(exchange, answered)
            self._committing.add(exchange, answered)
            self._transactions.add(exchange, answered)

    def read(self, reader: ExchangeReader) -> Iterator[int]:
        """Learn from a whole capture, decoding only what is needed; yield the number of processed exchanges.

        Equals :meth:`add` with each exchange, but Produce requests, which are the most frequent, are processed first,
        without creating exchanges.
        """
        rows = reader.rows
        keys = reader.capture.table.column("api_key")[rows]
        produced = np.flatnonzero(keys == ApiKey.PRODUCE)
        for done in range(0, len(produced), MOST_ROWS):
            self._read_produced(reader, rows, produced[done : done + MOST_ROWS])
            yield done
        others = np.flatnonzero(np.isin(keys, [*READ]) & (keys != ApiKey.PRODUCE))
        add = reader.capture.faults.guarded(self.add, FOLLOWING)
        for done, (_, exchange) in enumerate(ProjectedExchanges(reader, needs).read(others)):
            add(exchange)
            yield len(produced) + done

    def _read_produced(self, reader: ExchangeReader, rows: Int64s, indexes: Int64s) -> None:
        capture, own_rows = reader.capture, rows[indexes]
        columns = [
            capture.table.column(name)[own_rows].tolist()
            for name in ("request_first", "response_last", "connection", "client_id")
        ]
        parts = ProjectedReader(capture, needs).read(own_rows)
        numbers = (indexes + reader.first).tolist()
        for number, part, sent, answered, connection, client in zip(numbers, parts, *columns, strict=True):
            request = part.request
            if request is not None and request.value:
                sender = self._ledger.sender(connection, partial(_sender, capture, connection, client))
                response = part.response.value if part.response is not None else None
                try:
                    self._producing.add(
                        SentProduce(sent, answered, number, sender), request.value, response or _NOTHING
                    )
                except Exception as error:
                    capture.faults.note(error, FOLLOWING, number)

    def _answered(self, exchange: Exchange) -> int:
        if exchange.response is None and not exchange.response_size:
            return -1
        if self._table is not None:
            last = int(self._table.column("response_last")[exchange.row])
            if last >= 0:
                return last
        return exchange.end

    def result(self, most: int | None = None) -> JourneyResult:
        """Return the current result.

        :param most: most records that are listed one by one
        """
        self._deliveries.close()
        partitions = self._partitions()
        journeys: list[Journey] = []
        more = self._finds.more
        waits = None
        if self._query.single:
            stories = JourneyBuilder(self._ledger, partitions, self._transactions, self._deliveries)
            found = [each for each in self._finds.found if each.tp in partitions]
            journeys, left = stories.of(found, most) if found else (stories.at(self._query), 0)
            more += left
        else:
            summed = Waits(self._ledger)
            for tp, log in sorted(partitions.items()):
                summed.add(tp, log)
            waits = summed.result()
        return JourneyResult(self._query, journeys, more, waits, _offsets(partitions))

    def facts(self) -> LogFacts:
        """Return the current facts about the records of wanted partitions."""
        return LogFacts(self._ledger, self._partitions(), self._transactions)

    def _partitions(self) -> dict[TopicPartition, PartitionLog]:
        """Return the wanted partitions, by topic name if it was revealed in the meantime."""
        logs = self._ledger.partitions
        for tp in list(logs):
            name = self._names(tp.topic)
            if name is not None and name != tp.topic:
                named = tp._replace(topic=name)
                into = logs.get(named)
                self._finds.move(tp, named, 0 if into is None else len(into.sends))
                log = logs.pop(tp)
                if into is None:
                    logs[named] = log
                else:
                    into.include(log)
        return {tp: log for tp, log in logs.items() if self._query.has_partition(*tp)}


def _sender(capture: Capture, connection: int, client: int) -> Sender:
    address, broker = capture.endpoints(connection)
    name = (capture.table.client_ids[client] if client >= 0 else None) or address.rpartition(":")[0]
    return Sender(name, address, broker, connection)


def _offsets(partitions: dict[TopicPartition, PartitionLog]) -> dict[TopicPartition, tuple[int, int]]:
    found: dict[TopicPartition, tuple[int, int]] = {}
    for tp, log in sorted(partitions.items()):
        sends, deliveries = log.sends.rows(), log.deliveries.rows()
        sends = sends[sends["base"] >= 0]
        first = np.concatenate([sends["base"], deliveries["first"]])
        last = np.concatenate([sends["base"] + sends["count"] - 1, deliveries["last"]])
        if len(first):
            found[tp] = int(first.min()), int(last.max())
    return found
