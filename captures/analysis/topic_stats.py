"""Statistics per topic and partition: produced and fetched data by client, and errors.

Data is counted as on the wire: a batch that was retransmitted by the client, or fetched by two consumers, counts twice.
Records are those announced by batch headers; nothing is decompressed. A Fetch begins at a batch, not at the requested
offset, so more records can be fetched than consumed. Compressed messages of magic 0 and 1 do not announce their records
and are counted separately. Snapshots (FetchSnapshot) are not topic traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from captures.analysis.client_identity import client_name
from captures.analysis.exchange_groups import RowGroups, client_names
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import Names
from captures.meaning.exchange import Body, replica_of
from captures.meaning.payload import payload
from captures.meaning.topic_partitions import CARRIERS, asked_for, carried, index, named
from dissectors.api_keys import ApiKey


class Flow(msgspec.Struct):
    """Record data in one direction.

    :ivar bytes: bytes of records fields, as on the wire
    :ivar batches: complete batches
    :ivar records: records in them, without control records
    :ivar uncounted: compressed messages of magic 0 and 1 among the batches, whose records are not counted
    :ivar markers: control records
    :ivar clients: bytes by client; 0 for a client that requested data and got none
    """

    bytes: int = 0
    batches: int = 0
    records: int = 0
    uncounted: int = 0
    markers: int = 0
    clients: dict[str, int] = {}

    def add(self, client: str, data: Any) -> None:
        """Count a records field: bytes, null, or batches prepared for display."""
        size = 0
        if isinstance(data, bytes):
            found = payload([data])
            size = found.size
            self.batches += found.batches
            self.records += found.records
            self.uncounted += found.uncounted
            self.markers += found.markers
        elif isinstance(data, list):
            size = sum(batch["size"] for batch in data)
            self._add_shown(data)
        self.bytes += size
        self.clients[client] = self.clients.get(client, 0) + size

    def _add_shown(self, batches: list[dict[str, Any]]) -> None:
        self.batches += len(batches)
        for batch in batches:
            if batch["count"] is None:
                self.uncounted += 1
            elif batch["control"]:
                self.markers += batch["count"]
            else:
                self.records += batch["count"]

    def include(self, other: Flow) -> None:
        """Add another flow to this one."""
        self.bytes += other.bytes
        self.batches += other.batches
        self.records += other.records
        self.uncounted += other.uncounted
        self.markers += other.markers
        for client, size in other.clients.items():
            self.clients[client] = self.clients.get(client, 0) + size

    def by_size(self) -> None:
        """Sort the clients, the one with the most bytes first."""
        self.clients = dict(sorted(self.clients.items(), key=lambda item: (-item[1], item[0])))


class PartitionRow(msgspec.Struct):
    """The traffic of one partition, or of all partitions of a topic.

    :ivar partition: None for a topic as a whole, and for errors that name no partition
    :ivar produced: Produce requests
    :ivar fetched: Fetch and ShareFetch responses to consumers
    :ivar replicated: Fetch responses to followers and KRaft replicas
    :ivar errors: number of errors by name, in responses of any API, without expected ones
    """

    partition: int | None
    produced: Flow = msgspec.field(default_factory=Flow)
    fetched: Flow = msgspec.field(default_factory=Flow)
    replicated: Flow = msgspec.field(default_factory=Flow)
    errors: dict[str, int] = {}

    @property
    def flows(self) -> tuple[Flow, Flow, Flow]:
        """Produced, fetched, replicated."""
        return self.produced, self.fetched, self.replicated

    @property
    def bytes(self) -> int:
        """Bytes of all three."""
        return sum(flow.bytes for flow in self.flows)

    def include(self, other: PartitionRow) -> None:
        """Add another row to this one."""
        for flow, other_flow in zip(self.flows, other.flows, strict=True):
            flow.include(other_flow)
        for name, count in other.errors.items():
            self.errors[name] = self.errors.get(name, 0) + count


@dataclass(slots=True)
class TopicRow:
    """The traffic of one topic.

    :ivar topic: its name, or its ID (base64url) if no message revealed the name
    :ivar total: sum of all partitions
    :ivar partitions: partitions by number
    :ivar cluster: its cluster (:mod:`captures.analysis.clusters`), if the capture shows several
    """

    JSON = (
        "topic cluster_id=cluster produced=total.produced fetched=total.fetched replicated=total.replicated "
        "errors=total.errors partitions"
    )

    topic: str
    total: PartitionRow
    partitions: list[PartitionRow]
    cluster: str | UnsetType = UNSET


class TopicStats:
    """Counts record data and errors by topic and partition.

    :param names: returns names of topic IDs; called for the result, so that a name revealed after the traffic is used
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._rows: dict[tuple[str, int | None], PartitionRow] = {}

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        key = exchange.api_key
        if key in CARRIERS:
            request = exchange.request_body
            response = exchange.response_body
            client, direction = client_name(exchange), _direction(key, replica_of(request))
            for name, partition in asked_for(key, request):
                if name is not None and partition is not None:
                    self._flow(name, partition, direction).add(client, None)
            for name, partition, data in carried(key, request, response):
                if name is not None and partition is not None:
                    self._flow(name, partition, direction).add(client, data)
        self.add_errors(exchange)

    def add_columns(self, columns: ExchangeColumns, indexes: Int64s) -> None:
        """Count the record data of exchanges; errors are added separately (:meth:`add_errors`).

        :param indexes: indexes in `columns` of the exchanges to count
        """
        counted = np.isin(columns.ragged("flow_topics").rows, indexes)
        rows, topics = (getattr(columns.ragged("flow_topics"), name)[counted] for name in ("rows", "values"))
        figures = [columns.ragged(f"flow_{name}").values[counted] for name in _FIGURES]
        partitions, clients = columns.ragged("flow_partitions").values[counted], client_names(columns)
        keys, replicas = columns.flat("api_key")[rows], columns.flat("replica_id")[rows]
        direction = np.where(keys == ApiKey.PRODUCE, 0, np.where(replicas >= 0, 2, 1))
        grouping = RowGroups(topics, partitions, direction, clients[0][rows])
        texts = columns.texts("flow_topics")
        sums = zip(grouping.first.tolist(), *(grouping.sums(values) for values in figures), strict=True)
        for first, *found in sums:
            flow = self._flow(texts[topics[first]] or "", int(partitions[first]), int(direction[first]))
            client = clients[1][clients[0][rows[first]]]
            size, batches, records, uncounted, markers = found
            flow.include(Flow(size, batches, records, uncounted, markers, {client: size}))

    def add_errors(self, exchange: Exchange) -> None:
        """Count the errors of one exchange."""
        for error in exchange.unexpected_errors:
            key, partition = place_of(error.holders)
            if key is not None:
                errors = self._row(key, partition).errors
                errors[error.name] = errors.get(error.name, 0) + 1

    def result(self) -> list[TopicRow]:
        """Return the topics, the one with the most bytes first."""
        named: dict[str, dict[int | None, PartitionRow]] = {}
        for (key, partition), row in self._rows.items():
            # the same topic may occur by name and by ID
            merged = named.setdefault(self._names(key) or key, {})
            merged.setdefault(partition, PartitionRow(partition)).include(row)
        topics = []
        for name, by_partition in named.items():
            total = PartitionRow(None)
            for row in by_partition.values():
                total.include(row)
            known = sorted(
                (row for row in by_partition.values() if row.partition is not None),
                key=lambda row: -1 if row.partition is None else row.partition,
            )
            for row in (total, *known):
                for flow in row.flows:
                    flow.by_size()
            topics.append(TopicRow(name, total, known))
        return sorted(
            topics, key=lambda topic: (-topic.total.bytes, -sum(topic.total.errors.values()), topic.topic)
        )

    def _row(self, key: str, partition: int | None) -> PartitionRow:
        row = self._rows.get((key, partition))
        if row is None:
            row = self._rows[key, partition] = PartitionRow(partition)
        return row

    def _flow(self, key: str, partition: int, direction: int) -> Flow:
        return self._row(key, partition).flows[direction]


_FIGURES = ("bytes", "batches", "records", "uncounted", "markers")


def _direction(key: int, replica: int) -> int:
    """Return the index in :attr:`PartitionRow.flows` for the records of an exchange."""
    if key == ApiKey.PRODUCE:
        return 0
    return 2 if replica >= 0 else 1


def place_of(holders: tuple[Body, ...]) -> tuple[str | None, int | None]:
    """Return topic (name or ID) and partition of an error, from the structs around it.

    A struct with only a ``name`` is a topic if it contains a partition; otherwise it may be anything with a name.
    """
    partition = None
    for holder in reversed(holders[1:]):
        if partition is None:
            partition = index(holder)
        topic = holder.get("topic") or holder.get("topic_name") or holder.get("topic_id")
        if topic or partition is not None or isinstance(holder.get("partitions"), list):
            key = named(holder)
            if key is not None:
                return key, partition
    return None, partition
