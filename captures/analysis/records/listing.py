"""The records of exchanges, one by one, within the budget of each message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from captures.analysis.journey.found_records import BatchPosition
from captures.analysis.journey.log_facts import LogFacts
from captures.analysis.records.model import CapturedRecord, Origin, RecordSelection
from captures.exchanges import Exchange
from captures.filters import Filter
from captures.filters.records import RecordFilter
from captures.meaning import Names
from captures.meaning.exchange import Body, number, replica_of, rows
from captures.meaning.topic_partitions import TopicPartition, index, rows_by_partition, topic
from captures.tables.batch_rows import DecompressedBatch, read_batches
from captures.tables.partition_rows import (
    ERROR_CODE,
    FIRST_OFFSET,
    PARTITION,
    TOPIC,
    FieldBatches,
    PartitionRows,
)
from dissectors import embedded
from dissectors.api_keys import ApiKey
from dissectors.budget import Budget, LimitReached, message_budget
from dissectors.error_codes import error_name
from dissectors.errors import DecodeError
from dissectors.records import Batch, ControlType, Record, control_record
from dissectors.sides import Side

CARRIERS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.FETCH_SNAPSHOT})
"""APIs whose messages carry records."""

_FIELDS = (
    ("topic_data", "partition_data", "records"),
    ("responses", "partitions", "records"),
    ("topics", "partitions", "unaligned_records"),
)
"""Places of records in messages: array of topics, array of partitions, and the field."""
_READ_COMMITTED = 1

Facts = Callable[[], LogFacts]


class Listing:
    """Selects records, and counts batches that were not read completely.

    :param selection: which records
    :param wanted: filter: records that cannot match it are left out
    :param show_secrets: leave credentials in records of internal topics readable
    :ivar beyond: number of batches that were not read completely, by the name of the limit
    :ivar damaged: number of batches that could not be read completely
    """

    def __init__(
        self, selection: RecordSelection, *, wanted: Filter | None = None, show_secrets: bool = False
    ) -> None:
        self._selection = selection
        self._filter = None if wanted is None else RecordFilter(wanted)
        self._show_secrets = show_secrets
        self.beyond: Counter[str] = Counter()
        self.damaged = 0

    def _count(self, problems: Iterable[DecodeError]) -> None:
        limits = [problem.limit if isinstance(problem, LimitReached) else None for problem in problems]
        self.damaged += None in limits
        self.beyond.update({limit for limit in limits if limit is not None})

    def _fits(self, tp: TopicPartition, record: Record, offset: int | None) -> bool:
        return self._selection.fits(record, offset) and (
            self._filter is None or self._filter.may_fit(tp, record)
        )

    def _meaning(
        self, topic: str, batch: Batch, record: Record
    ) -> tuple[str | None, dict[str, Any] | None, bool]:
        """Return a control record's type, the fields of an internal record, and whether the value is masked."""
        if batch.control:
            try:
                control = control_record(record.key, record.value)
            except DecodeError:
                return "UNKNOWN", None, False
            inner = embedded.control_value(control.type_name, control.value)
            decoded = {} if inner is None else dict(inner.value)
            if control.coordinator_epoch is not None:
                decoded["coordinator_epoch"] = control.coordinator_epoch
            return control.type_name, decoded, False
        found = embedded.internal_topic_record(
            topic, record.key, record.value, show_secrets=self._show_secrets
        )
        return (None, None, False) if found is None else (None, found.value, bool(found.masked))


class RecordListing(Listing):
    """Yields the records of exchanges, which match the filter.

    :param names: returns names of topic IDs
    :param facts: returns the whole capture's facts about its records, when first needed; None if each exchange can only
        be judged alone, as in a growing capture
    """

    def __init__(
        self,
        selection: RecordSelection,
        names: Names,
        facts: Facts | None = None,
        *,
        wanted: Filter | None = None,
        show_secrets: bool = False,
    ) -> None:
        super().__init__(selection, wanted=wanted, show_secrets=show_secrets)
        self._partitions = PartitionRows(names)
        self._names = names
        self._make_facts = facts
        self._facts: LogFacts | None = None

    def of(self, exchange: Exchange) -> Iterator[CapturedRecord]:
        """Yield the wanted records of one exchange.

        :param exchange: decoded with ``annotate=False``
        """
        key = exchange.api_key
        if key not in CARRIERS:
            return
        assert key is not None, "None carries nothing"
        content = self._partitions.of(exchange)
        budget = message_budget()
        carrier: _Carrier | None = None
        for sent in content.sent:
            tp = TopicPartition(str(sent.row[TOPIC]), int(sent.row[PARTITION]))
            if self._selection.has_partition(tp):
                carrier = carrier or _Carrier.of(exchange, key, self._names)
                yield from self._of_field(carrier, tp, sent, budget)

    def at(self, exchange: Exchange, path: str) -> CapturedRecord | None:
        """Return the record of an exchange that contains a field; None if the field is in no record.

        :param path: path of the field: ``request.topic_data[0].partition_data[2].records[0].records[5].value``
        """
        return next(
            (each for each in self.of(exchange) if path == each.path or path.startswith(f"{each.path}.")),
            None,
        )

    def announced(self, exchange: Exchange) -> int:
        """Return the number of records in an exchange, by the headers of its batches: nothing is decompressed."""
        totals = self._partitions.of(exchange).totals if exchange.api_key in CARRIERS else None
        return 0 if totals is None else totals.records

    def _of_field(
        self, carrier: _Carrier, tp: TopicPartition, sent: FieldBatches, budget: Budget
    ) -> Iterator[CapturedRecord]:
        """Yield the wanted records of a records field."""
        aborting = carrier.aborting(tp)
        error = self._error(carrier, sent)
        sent = self._located(carrier, tp, sent)
        seen = 0
        for read in self._batches(sent, carrier.key, budget, aborting):
            offset = read.offsets[0] if read.offsets else None
            committed = self._committed(carrier, tp, read.batch, offset, aborting)
            yield from self._of_batch(carrier, tp, read, seen if carrier.produces else 0, committed, error)
            seen += len(read.records)

    def _batches(
        self, sent: FieldBatches, key: int, budget: Budget, aborting: _AbortedBatches | None
    ) -> Iterator[DecompressedBatch]:
        for each in read_batches(sent, key, budget):
            self._count(each.problems)
            yield each
            if aborting is not None:
                aborting.pass_over(each)

    def _of_batch(
        self,
        carrier: _Carrier,
        tp: TopicPartition,
        read: DecompressedBatch,
        before: int,
        committed: bool | None,
        error: str,
    ) -> Iterator[CapturedRecord]:
        batch, exchange = read.batch, carrier.exchange
        for at, (record, offset) in enumerate(zip(read.records, read.offsets, strict=True)):
            if not self._fits(tp, record, offset):
                continue
            control, decoded, masked = self._meaning(tp.topic, batch, record)
            yield CapturedRecord(
                tp=tp,
                offset=offset,
                record=record._replace(value=None) if masked else record,
                timestamp_type=batch.timestamp_type,
                batch=BatchPosition.of(batch, before + at),
                number=exchange.number,
                time=exchange.time,
                origin=carrier.origin,
                connection=exchange.connection,
                client=exchange.client,
                broker=exchange.broker,
                client_id=exchange.client_id,
                control=control,
                committed=committed,
                error=error,
                decoded=decoded,
                masked=masked,
                path=f"{carrier.paths.get(tp, '')}[{read.number}].records[{at}]",
            )

    # ------------------------------------------------------------ facts beyond the bytes
    @staticmethod
    def _error(carrier: _Carrier, sent: FieldBatches) -> str:
        code = sent.row[ERROR_CODE] if carrier.produces else 0
        return error_name(code) if code else ""

    def _located(self, carrier: _Carrier, tp: TopicPartition, sent: FieldBatches) -> FieldBatches:
        """Return the produced batches with their base offset, if it is known although no response contains it."""
        if not carrier.produces or sent.row[ERROR_CODE] is not None:
            return sent
        facts = self._known()
        base = None if facts is None else facts.base_offset(tp, carrier.exchange.number)
        if base is None:
            return sent
        row = list(sent.row)
        row[FIRST_OFFSET] = base
        return sent._replace(row=row)

    def _committed(
        self,
        carrier: _Carrier,
        tp: TopicPartition,
        batch: Batch,
        offset: int | None,
        aborting: _AbortedBatches | None,
    ) -> bool | None:
        if not batch.transactional or batch.control:
            return None
        if aborting is not None:
            return not aborting.aborts(batch)
        facts = self._known()
        if facts is None:
            return None
        answered = -1 if carrier.exchange.answered_at is None else carrier.exchange.answered_at
        since = carrier.exchange.time if carrier.produces else -1
        ending = facts.ending(
            tp,
            batch.producer_id,
            batch.producer_epoch,
            -1 if offset is None else offset,
            since,
            answered,
        )
        return ending.committed

    def _known(self) -> LogFacts | None:
        if self._facts is None and self._make_facts is not None:
            self._facts = self._make_facts()
        return self._facts


class _AbortedBatches:
    """Recognises batches of aborted transactions in a Fetch response, as a consumer does.

    Only with read_committed: then all transactions in the response are decided, and those not aborted are committed
    (``CompletedFetch.java``).

    :param aborted: first offset and producer ID of the aborted transactions in the response
    """

    def __init__(self, aborted: list[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, reverse=True)
        self._now: set[int] = set()

    def aborts(self, batch: Batch) -> bool:
        """Return whether the transaction of a batch was aborted; batches must be in log order."""
        while self._waiting and self._waiting[-1][0] <= batch.last_offset:
            self._now.add(self._waiting.pop()[1])
        return batch.producer_id in self._now

    def pass_over(self, read: DecompressedBatch) -> None:
        """Process a marker."""
        if read.batch.control and read.records:
            try:
                marker = control_record(read.records[0].key, read.records[0].value)
            except DecodeError:
                return
            if marker.type_id == ControlType.ABORT:
                self._now.discard(read.batch.producer_id)


class _Carrier(NamedTuple):
    """An exchange that carries records.

    :ivar paths: path of the records field of each partition
    :ivar aborted: for a Fetch with read_committed: first offset and producer ID of aborted transactions, by partition;
        None otherwise
    """

    exchange: Exchange
    key: int
    origin: Origin
    paths: dict[TopicPartition, str]
    aborted: dict[TopicPartition, list[tuple[int, int]]] | None

    @property
    def produces(self) -> bool:
        """Whether it writes the records."""
        return self.origin is Origin.PRODUCED

    @classmethod
    def of(cls, exchange: Exchange, key: int, names: Names) -> _Carrier:
        """Return the carrier for an exchange."""
        request = exchange.request_body
        response = exchange.response_body
        produces = key == ApiKey.PRODUCE
        paths = _paths(request if produces else response, "request" if produces else "response", names)
        if produces:
            return cls(exchange, key, Origin.PRODUCED, paths, None)
        if key == ApiKey.FETCH_SNAPSHOT:
            return cls(exchange, key, Origin.SNAPSHOT, paths, None)
        if key == ApiKey.FETCH and replica_of(request) >= 0:
            return cls(exchange, key, Origin.REPLICATED, paths, None)
        aborted = None
        if key == ApiKey.FETCH and number(request, "isolation_level", 0) == _READ_COMMITTED:
            aborted = _aborted(response, names)
        return cls(exchange, key, Origin.FETCHED, paths, aborted)

    def aborting(self, tp: TopicPartition) -> _AbortedBatches | None:
        """Return the recogniser of aborted batches; None if the exchange does not show them."""
        return None if self.aborted is None else _AbortedBatches(self.aborted.get(tp, []))


def _paths(body: Body, side: Side, names: Names) -> dict[TopicPartition, str]:
    """Return the paths of the records fields of a message."""
    found: dict[TopicPartition, str] = {}
    for holders, partitions, field in _FIELDS:
        for at, holder in enumerate(body.get(holders) or ()):
            if not isinstance(holder, dict):
                continue
            name = topic(holder, lambda uuid: names(uuid) or uuid)
            for position, row in enumerate(holder.get(partitions) or ()):
                partition = index(row) if isinstance(row, dict) and row.get(field) else None
                if partition is not None:
                    path = f"{side}.{holders}[{at}].{partitions}[{position}].{field}"
                    found[TopicPartition(name, partition)] = path
    return found


def _aborted(response: Body, names: Names) -> dict[TopicPartition, list[tuple[int, int]]]:
    return {
        tp: [(number(each, "first_offset"), number(each, "producer_id")) for each in transactions]
        for tp, row in rows_by_partition(response, "responses", names)
        if (transactions := rows(row, "aborted_transactions"))
    }
