"""Deliveries of wanted partitions by Fetch and ShareFetch responses, and how far consumers may read."""

from __future__ import annotations

from dataclasses import replace

from captures.analysis.client_identity import client_name
from captures.analysis.fetch_sessions import FetchSessions, ObservedFetch
from captures.analysis.journey.found_records import MatchCollector, offsets_of
from captures.analysis.journey.ledger import Ledger, PartitionLog, Reader
from captures.analysis.journey.record_query import RecordQuery
from captures.exchanges import Exchange
from captures.filters.groups import GroupInference
from captures.meaning import Names
from captures.meaning.exchange import Body, number, rows, text
from captures.meaning.payload import headers
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import MEMBER_APIS, ApiKey
from dissectors.errors import DecodeError
from dissectors.records import Batch, ControlType, control_record

_READ_COMMITTED = 1


class Deliveries:
    """Records deliveries with their readers; the exchanges of a connection must be in order.

    :param names: returns names of topic IDs
    """

    def __init__(self, sought: RecordQuery, names: Names, ledger: Ledger, finds: MatchCollector) -> None:
        self._query = sought
        self._names = names
        self._ledger = ledger
        self._finds = finds
        self._sessions = FetchSessions(names)
        self._inference = GroupInference(names)
        self._readers: dict[tuple[int, str, int, bool, str], int] = {}
        self._samples: dict[int, Exchange] = {}
        """By reader without a known group: a Fetch to infer it from later."""
        self._asked_at: dict[int, int] = {}
        self._observed = 0

    def hear(self, exchange: Exchange) -> None:
        """Learn group memberships from an exchange of any API."""
        if exchange.api_key in MEMBER_APIS:
            self._inference.observe(exchange)
            self._observed += 1

    def add(self, exchange: Exchange, answered: int) -> None:
        """Learn from a Fetch or ShareFetch.

        :param answered: time of the response, ns since the epoch; -1 if there was none
        """
        seen = self._sessions.add(exchange)
        if seen is None or answered < 0:
            return
        self._finds.begin()
        reader: int | None = None
        for tp, row in self._query.rows(exchange.response_body, "responses", self._names):
            if reader is None:
                reader = self._reader(exchange, seen)
            log = self._ledger.of(tp)
            log.readable.extend(number(row, "high_watermark"), answered, exchange.number)
            log.stable.extend(number(row, "last_stable_offset"), answered, exchange.number)
            batches = headers(row.get("records"))
            if not batches:
                continue
            self._deliver(exchange, seen, tp, row, batches, reader, answered)
            self._note_batches(log, tp, batches, answered, exchange.number)

    def close(self) -> None:
        """Infer once more the groups that were unknown when their members fetched."""
        for at, sample in self._samples.items():
            self._ledger.readers[at].group = self._inference.group_of(sample)[0] or ""

    def member_of(self, reader: Reader, tp: TopicPartition) -> str:
        """Return the member that fetched, for fetches from before the group was known; empty if unknown."""
        client_id = None if reader.client == reader.host else reader.client
        return self._inference.member_of(reader.group, client_id, reader.host, tp) if reader.group else ""

    # ------------------------------------------------------------ readers
    def _reader(self, exchange: Exchange, seen: ObservedFetch) -> int:
        request = exchange.request_body
        committed = number(request, "isolation_level", 0) == _READ_COMMITTED
        member = text(request, "member_id") if exchange.api_key == ApiKey.SHARE_FETCH else ""
        key = exchange.connection, exchange.client, seen.replica, committed, member
        at = self._readers.get(key)
        if at is None:
            at = self._readers[key] = len(self._ledger.readers)
            shares = exchange.api_key == ApiKey.SHARE_FETCH
            self._ledger.readers.append(
                Reader(
                    client_name(exchange),
                    exchange.client,
                    exchange.broker,
                    exchange.connection,
                    seen.replica,
                    committed,
                    shares,
                    text(request, "group_id") if shares else "",
                )
            )
        found = self._ledger.readers[at]
        if not found.group and found.replica < 0 and self._asked_at.get(at) != self._observed:
            self._asked_at[at] = self._observed
            found.group = self._inference.group_of(exchange)[0] or ""
            if found.group:
                self._samples.pop(at, None)
            elif at not in self._samples:
                self._samples[at] = replace(exchange, response=None)
        return at

    # ------------------------------------------------------------ deliveries
    def _deliver(
        self,
        exchange: Exchange,
        seen: ObservedFetch,
        tp: TopicPartition,
        row: Body,
        batches: list[Batch],
        at: int,
        answered: int,
    ) -> None:
        reader, texts = self._ledger.readers[at], self._ledger.texts
        deliveries = self._ledger.of(tp).deliveries
        if reader.shares:
            request = exchange.request_body
            member = texts(text(request, "member_id"))
            for each in rows(row, "acquired_records"):
                first, last = number(each, "first_offset"), number(each, "last_offset")
                times = number(each, "delivery_count", 0)
                if 0 <= first <= last:
                    deliveries.add(first, last, answered, exchange.time, exchange.number, at, member, times)
            return
        found = offsets_of(batches, seen.session.partitions.get(tp, -1))
        if found is not None:
            member = texts(self.member_of(reader, tp))
            deliveries.add(*found, answered, exchange.time, exchange.number, at, member, 0)

    def _note_batches(
        self, log: PartitionLog, tp: TopicPartition, batches: list[Batch], answered: int, number: int
    ) -> None:
        first, end = batches[0].base_offset, batches[-1].last_offset + 1
        if log.seen.has(first, end) and (not self._query.single or log.looked.has(first, end)):
            return  # already delivered to another group
        for batch in batches:
            first, end = batch.base_offset, batch.last_offset + 1
            if self._query.single and log.looked.add(first, end):
                self._finds.in_fetched(tp, batch)
            if not log.seen.add(first, end):
                continue
            if batch.control:
                _note_marker(log, batch, self._finds, answered, number)
            elif batch.count is not None:  # brokers rewrite compressed message sets
                log.batches.add(first, batch.crc, batch.size)


def _note_marker(log: PartitionLog, batch: Batch, finds: MatchCollector, answered: int, at: int) -> None:
    for record in finds.records(batch):
        try:
            marker = control_record(record.key, record.value)
        except DecodeError:
            continue
        if marker.type_id in (ControlType.ABORT, ControlType.COMMIT):
            committed, producer = (
                marker.type_id == ControlType.COMMIT,
                (batch.producer_id, batch.producer_epoch),
            )
            log.markers.add(record.offset, *producer, committed, answered, at)
