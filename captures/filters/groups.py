"""Inference of the group that a Fetch or a Produce belongs to, which neither message names.

A client's group is known from the messages that name it. A Fetch is linked to such a message by, strongest first:

1. the same connection;
2. the same client ID at the same address;
3. if that leaves several groups: it asks only for partitions that exactly one of them has assigned to members
   of that client. A connection whose group was determined once keeps it.

If more than one group remains, none is returned. All of this is inference and marked as such: a program may use
one client ID for a consumer and for an unrelated producer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from captures.arrays import Bools, Int32s, Int64s, distinct_values
from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.projected_reader import BLOCK_ROWS, ProjectedExchanges
from captures.filters import table_columns
from captures.filters.table_columns import TableColumns
from captures.filters.values import split_endpoint
from captures.meaning import Names, groups_in, topics_in
from captures.meaning.assignments import assigned_partitions, subtopologies, synced, tasks_of
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import GROUP_HEARTBEATS, MEMBER_APIS, ApiKey

_LEAVES = -1
"""Member epoch of the heartbeat with which a member leaves; a static one that will return sends -2 (KIP-848)."""
INFERRED = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""APIs whose group is inferred."""
INFERRING = "inferring its group"
"""Name of the activity in reports of internal errors."""
_NEEDS = frozenset(
    {"groups", "response.assignment", "response.active_tasks", "request.topology.subtopologies"}
)
_ASSIGNING = GROUP_HEARTBEATS | {ApiKey.SYNC_GROUP}
"""APIs whose responses assign partitions."""
_FETCH_NEEDS = frozenset({"request.topics"})
MOST_MEMBERS = 64
"""Members remembered per client and group: a client that keeps crashing becomes a new member each time."""

ClientOfHost = tuple[str | None, str]
"""Client ID and host."""


class Candidates(NamedTuple):
    """Groups to which rows may belong: those of a row are ``values[codes[row]]``."""

    codes: Int32s
    values: list[set[str]]


class GroupInference:
    """Remembers which clients named which groups; observes exchanges in any order, each once."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._by_connection: dict[int, set[str]] = {}
        self._by_client: dict[ClientOfHost, set[str]] = {}
        self._assigned: dict[tuple[ClientOfHost, str], set[TopicPartition]] = {}
        self._group_by_connection: dict[int, str | None] = {}
        self._members: dict[tuple[ClientOfHost, str], dict[str, frozenset[TopicPartition] | None]] = {}
        self._topologies: dict[str, dict[str, list[str]]] = {}

    @classmethod
    def learn(cls, reader: ExchangeReader) -> GroupInference:
        """Return the inference for a whole capture; only potentially relevant exchanges are decoded."""
        made = cls(reader.knowledge.topic_name)
        deque(made.learning(reader, ExchangeColumns(reader.capture, reader.rows)), maxlen=0)
        return made

    def learning(self, reader: ExchangeReader, messages: ExchangeColumns | None = None) -> Iterator[None]:
        """Learn from a whole capture, step by step: each takes some milliseconds.

        :param messages: columns of the messages of all exchanges, if they are kept; they are filled where needed
        """
        reader.learn(len(reader))
        keys = reader.capture.table.column("api_key")[reader.rows]
        projected = ProjectedExchanges(reader, lambda key: _FETCH_NEEDS if key == ApiKey.FETCH else _NEEDS)
        observe = reader.capture.faults.guarded(self.observe, INFERRING)

        def observing(
            read: Callable[[Int64s], Iterator[tuple[int, Exchange]]], chosen: Bools
        ) -> Iterator[None]:
            for indexes in _blocks(reader, chosen):
                for _, exchange in read(indexes):
                    observe(exchange)
                yield

        if messages is not None:
            for _ in messages.preparing(["groups"]):
                yield
            self._observe_named(reader.capture, messages)
        else:
            for indexes in _blocks(reader, np.isin(keys, list(MEMBER_APIS))):
                self._observe_named(reader.capture, ExchangeColumns(reader.capture, reader.rows[indexes]))
                yield
        # tasks depend on the topology sent before them; the order of all other exchanges does not matter
        ordered = keys == ApiKey.STREAMS_GROUP_HEARTBEAT
        yield from observing(projected.read, ordered)
        yield from observing(projected.distinct, np.isin(keys, list(_ASSIGNING)) & ~ordered)
        if self.contested:
            # the partitions of a Fetch matter only if clients share a client ID
            yield from observing(projected.distinct, keys == ApiKey.FETCH)

    @property
    def contested(self) -> bool:
        """Whether some client speaks for more than one group, so that assignments have to distinguish them."""
        return any(len(groups) > 1 for groups in self._by_client.values())

    def _observe_named(self, capture: Capture, messages: ExchangeColumns) -> None:
        """Learn which connections and clients name which groups, from the messages of members among `messages`."""
        table = TableColumns(capture.table, capture.endpoints, rows=messages.rows)
        of_member = np.isin(capture.table.column("api_key")[messages.rows], list(MEMBER_APIS))
        connections, hosts, _ = table.texts(table_columns.host(table_columns.client))
        clients, client_ids, _ = table.texts(table_columns.client_id)
        named, groups = messages.ragged("groups"), messages.texts("groups")
        chosen = of_member[named.rows]
        rows, codes = named.rows[chosen], named.values[chosen]
        pairs = (connections[rows].astype(np.int64) << 32) + clients[rows]
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        distinct = distinct_values(inverse * np.int64(len(groups)) + codes)
        for of_pair, code in zip(
            *(each.tolist() for each in np.divmod(distinct, len(groups) or 1)), strict=True
        ):
            row, group = rows[first[of_pair]], groups[code]
            client = client_ids[clients[row]], hosts[connections[row]] or ""
            assert group is not None
            self._by_connection.setdefault(int(connections[row]), set()).add(group)
            self._by_client.setdefault(client, set()).add(group)

    def observe(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        if exchange.api_key == ApiKey.FETCH:
            self._observe_fetch(exchange)
        if exchange.api_key not in MEMBER_APIS:
            return
        client = _client(exchange)
        for group in named_groups(exchange):
            self._by_connection.setdefault(exchange.connection, set()).add(group)
            self._by_client.setdefault(client, set()).add(group)
            assigned = self._assignment(exchange, group)
            if assigned:
                self._assigned.setdefault((client, group), set()).update(assigned)
            self._know_member(exchange, ((client[0] or None, client[1]), group), assigned)

    def group_of(self, exchange: Exchange) -> tuple[str | None, bool]:
        """Return the group of an exchange, None if it has none or is ambiguous, and whether it is inferred."""
        named = named_groups(exchange)
        if named:
            return (named[0] if len(named) == 1 else None), False
        if exchange.api_key not in INFERRED or _is_replica(exchange):
            return None, False
        group = self.infer(exchange.connection, _client(exchange), lambda: self._wanted(exchange))
        return group, group is not None

    def infer(
        self, connection: int, client: ClientOfHost, wanted: Callable[[], set[TopicPartition]]
    ) -> str | None:
        """Return the group of a Fetch or Produce according to what is known so far; None if that is ambiguous.

        :param wanted: returns the partitions that a Fetch asks for; called only if more than one group remains
        """
        candidates = self._by_connection.get(connection) or self._by_client.get(client)
        if not candidates:
            return None
        if len(candidates) == 1:
            return next(iter(candidates))
        group = self._by_assignment(client, candidates, wanted())
        return group if group is not None else self._group_by_connection.get(connection)

    def member_of(self, group: str, client_id: str | None, host: str, tp: TopicPartition) -> str:
        """Return the member ID of the client that fetches a partition for a group; empty if unknown.

        If a client has been several members, it is the latest one to which the partition was assigned.
        """
        known = self._members.get(((client_id, host), group), {})
        if len(known) == 1:
            return next(iter(known))
        return next((each for each in reversed(known) if tp in (known[each] or ())), "")

    def _know_member(
        self, exchange: Exchange, of: tuple[ClientOfHost, str], assigned: frozenset[TopicPartition] | None
    ) -> None:
        request = exchange.request_body
        response = exchange.response_body
        member = response.get("member_id") or request.get("member_id")
        if not isinstance(member, str) or not member:
            return
        known = self._members.setdefault(of, {})
        before = known.pop(member, None)
        if exchange.api_key == ApiKey.LEAVE_GROUP or request.get("member_epoch") == _LEAVES:
            return
        known[member] = before if assigned is None else assigned  # the latest is last
        if len(known) > MOST_MEMBERS:
            del known[next(iter(known))]

    def candidates_of(self, columns: TableColumns, rows: Int64s) -> Candidates:
        """Return the groups to which rows of a table may belong, by connection and client."""
        connections, hosts, _ = columns.texts(table_columns.host(table_columns.client))
        clients, client_ids, _ = columns.texts(table_columns.client_id)
        connections, clients = connections[rows], clients[rows]
        values: list[set[str]] = [set()]
        of_connection = np.zeros(len(hosts), np.int32)
        for connection in self._by_connection.keys() & set(range(len(hosts))):
            of_connection[connection] = len(values)
            values.append(self._by_connection[connection])
        client_numbers = _numbered(client_id for client_id, _ in self._by_client)
        host_numbers = _numbered(host for _, host in self._by_client)
        of_client = np.zeros((len(client_numbers) + 1, len(host_numbers) + 1), np.int32)
        for (client_id, host), groups in self._by_client.items():
            of_client[client_numbers[client_id], host_numbers[host]] = len(values)
            values.append(groups)
        # one without a name has number 0, and no groups
        client_of = np.array([client_numbers.get(each, 0) for each in client_ids], np.int32)
        host_of = np.array([host_numbers.get(each, 0) for each in hosts], np.int32)
        codes = of_connection[connections]
        without = np.flatnonzero(codes == 0)
        codes[without] = of_client[client_of[clients[without]], host_of[connections[without]]]
        return Candidates(codes, values)

    def _by_assignment(
        self, client: ClientOfHost, candidates: Iterable[str], wanted: set[TopicPartition]
    ) -> str | None:
        if not wanted:
            return None
        fitting = [group for group in candidates if wanted <= self._assigned.get((client, group), set())]
        return fitting[0] if len(fitting) == 1 else None

    def _wanted(self, exchange: Exchange) -> set[TopicPartition]:
        request = exchange.request
        if exchange.api_key != ApiKey.FETCH or request is None or request.version is None:
            return set()
        body = dict(request.value or {})
        # forgotten partitions are no longer fetched
        body.pop("forgotten_topics_data", None)
        found = topics_in(ApiKey.FETCH, request.version, body, self._names)
        return {TopicPartition(topic, index) for topic, indexes in found.items() for index in indexes}

    def _observe_fetch(self, exchange: Exchange) -> None:
        """Record what a Fetch's partitions reveal about its connection; later ones may name none (KIP-227)."""
        client = _client(exchange)
        candidates = self._by_connection.get(exchange.connection) or self._by_client.get(client) or ()
        group = self._by_assignment(client, candidates, self._wanted(exchange))
        if group is None:
            return
        known = self._group_by_connection.setdefault(exchange.connection, group)
        if known != group:
            self._group_by_connection[exchange.connection] = None

    def _assignment(self, exchange: Exchange, group: str) -> frozenset[TopicPartition] | None:
        """Return the partitions assigned to a member; None if no message contains them."""
        request = exchange.request_body
        response = exchange.response_body
        if exchange.api_key == ApiKey.STREAMS_GROUP_HEARTBEAT and request:
            self._topologies.setdefault(group, {}).update(subtopologies(request))
        if not response:
            return None
        if exchange.api_key == ApiKey.SYNC_GROUP:
            return synced(response.get("assignment"))
        if exchange.api_key == ApiKey.STREAMS_GROUP_HEARTBEAT:
            read = self._topologies.get(group, {})
            tasks = tasks_of(response, "active_tasks")
            return tasks and frozenset(
                TopicPartition(topic, at) for part, at in tasks for topic in read.get(part, ())
            )
        return assigned_partitions(response, self._names) if exchange.api_key in GROUP_HEARTBEATS else None


def _blocks(reader: ExchangeReader, chosen: Bools) -> Iterator[Int64s]:
    """Yield the indexes of a mask in blocks, without those of exchanges that were dropped since the first block."""
    numbers = np.flatnonzero(chosen) + reader.first
    for begin in range(0, len(numbers), BLOCK_ROWS):
        indexes = numbers[begin : begin + BLOCK_ROWS] - reader.first
        yield indexes[indexes >= 0]


def _numbered(texts: Iterable[str | None]) -> dict[str | None, int]:
    return {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}


def _client(exchange: Exchange) -> ClientOfHost:
    return exchange.client_id, split_endpoint(exchange.client)[0]


def _is_replica(exchange: Exchange) -> bool:
    """Return whether a broker fetches: its replica ID is not negative."""
    value = exchange.request_body
    if exchange.api_key != ApiKey.FETCH or not value:
        return False
    state = value.get("replica_state") or value
    replica = state.get("replica_id")
    return isinstance(replica, int) and replica >= 0


def named_groups(exchange: Exchange) -> list[str]:
    """Return the groups named in the messages of an exchange, each once, the request's first."""
    key, found = exchange.api_key, dict[str, None]()
    if key is None:
        return []
    request, response = exchange.request, exchange.response
    if request is not None and request.version is not None:
        found.update(dict.fromkeys(groups_in(key, request.version, request.value)))
    if response is not None and response.version is not None:
        found.update(dict.fromkeys(groups_in(key, response.version, response.value, "response")))
    return list(found)
