"""Which group a Fetch or a Produce belongs to, though neither says so.

A client's group is known from the messages that name it. What may link a Fetch to such a message, strongest first:

1. it came over the same connection;
2. it came from the same client ID at the same address;
3. if that leaves several groups: it asks for nothing but partitions that exactly one of them has assigned to members
   of that client. A connection that was told apart once stays told apart.

Where more than one group remains, none is given. All of it is inference, and marked as such: a program may well use
one client ID for a consumer and for a producer that has nothing to do with the group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from captures.exchanges import Exchange, ExchangeReader
from captures.exchanges.projected import ProjectedExchanges
from captures.filters.values import split_endpoint
from captures.meaning import Names, groups_in, topics_in
from dissectors import embedded

if TYPE_CHECKING:
    from captures.filters.table_columns import Columns

PRODUCE, FETCH, SYNC_GROUP = 0, 1, 14
MEMBERSHIP = frozenset({8, 9, 11, 12, 13, 14, 28, 68, 76, 78, 79, 88})
"""APIs by which a member itself speaks: commits, joins, heartbeats, share fetches. Administration is not among them."""
_HEARTBEATS = frozenset({68, 76})
INFERRED = frozenset({PRODUCE, FETCH})
"""APIs whose group is inferred."""
INFERRING = "inferring its group"
"""What is being done, for faults."""
_NEEDS = frozenset({"groups", "topics", "response.assignment"})

_Client = tuple[str | None, str]
"""Client ID and host."""
_Place = tuple[str, int]


class Candidates(NamedTuple):
    """Groups to which rows may belong: those of a row are ``values[codes[row]]``."""

    codes: NDArray[np.int32]
    values: list[set[str]]


class GroupInference:
    """Remembers who named which group; shown exchanges in any order, each once."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._by_connection: dict[int, set[str]] = {}
        self._by_client: dict[_Client, set[str]] = {}
        self._assigned: dict[tuple[_Client, str], set[_Place]] = {}
        self._told_apart: dict[int, str | None] = {}

    @classmethod
    def learn(cls, reader: ExchangeReader) -> GroupInference:
        """Return what a whole capture tells; of the exchanges only that is decoded which may tell something."""
        made = cls(reader.knowledge.topic_name)
        deque(made.learning(reader), maxlen=0)
        return made

    def learning(self, reader: ExchangeReader) -> Iterator[None]:
        """Learn what a whole capture tells; yields after each exchange that may tell something."""
        reader.learn(len(reader))
        keys = reader.capture.table.column("api_key")[reader.rows]
        projected = ProjectedExchanges(reader, _NEEDS)
        observe = reader.capture.faults.guarded(self.observe, INFERRING)
        for _, exchange in projected.read(np.flatnonzero(np.isin(keys, list(MEMBERSHIP)))):
            observe(exchange)
            yield
        if self.contested:
            # only where clients share a client ID do the partitions of a Fetch matter
            for _, exchange in projected.read(np.flatnonzero(keys == FETCH)):
                observe(exchange)
                yield

    @property
    def contested(self) -> bool:
        """Whether some client speaks for more than one group, so that assignments have to tell them apart."""
        return any(len(groups) > 1 for groups in self._by_client.values())

    def observe(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        if exchange.api_key == FETCH:
            self._observe_fetch(exchange)
        if exchange.api_key not in MEMBERSHIP:
            return
        client = _client(exchange)
        for group in named_groups(exchange):
            self._by_connection.setdefault(exchange.connection, set()).add(group)
            self._by_client.setdefault(client, set()).add(group)
            assigned = self._assignment(exchange)
            if assigned:
                self._assigned.setdefault((client, group), set()).update(assigned)

    def group_of(self, exchange: Exchange) -> tuple[str | None, bool]:
        """Return the group of an exchange, None where it has none or is ambiguous, and whether it is inferred."""
        named = named_groups(exchange)
        if named:
            return (named[0] if len(named) == 1 else None), False
        if exchange.api_key not in INFERRED or _is_replica(exchange):
            return None, False
        group = self._infer(exchange)
        return group, group is not None

    def _infer(self, exchange: Exchange) -> str | None:
        candidates = self._candidates(exchange)
        if len(candidates) == 1:
            return next(iter(candidates))
        if not candidates:
            return None
        group = self._by_assignment(exchange, candidates)
        return group if group is not None else self._told_apart.get(exchange.connection)

    def _candidates(self, exchange: Exchange) -> set[str]:
        on_connection = self._by_connection.get(exchange.connection)
        return on_connection or self._by_client.get(_client(exchange)) or set()

    def candidates_of(self, columns: Columns, rows: NDArray[np.int64]) -> Candidates:
        """Return the groups to which some rows of a table may belong, as far as connection and client tell."""
        connections, hosts, _ = columns.texts("client.host")
        clients, client_ids, _ = columns.texts("client_id")
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
        # what nobody named has number 0, and no groups
        client_of = np.array([client_numbers.get(each, 0) for each in client_ids], np.int32)
        host_of = np.array([host_numbers.get(each, 0) for each in hosts], np.int32)
        codes = of_connection[connections]
        without = np.flatnonzero(codes == 0)
        codes[without] = of_client[client_of[clients[without]], host_of[connections[without]]]
        return Candidates(codes, values)

    def _by_assignment(self, exchange: Exchange, candidates: Iterable[str]) -> str | None:
        if exchange.api_key != FETCH:
            return None
        wanted = {(topic, index) for topic, indexes in self._fetched(exchange).items() for index in indexes}
        if not wanted:
            return None
        client = _client(exchange)
        fitting = [group for group in candidates if wanted <= self._assigned.get((client, group), set())]
        return fitting[0] if len(fitting) == 1 else None

    def _fetched(self, exchange: Exchange) -> dict[str, list[int]]:
        request = exchange.request
        if request is None or request.version is None:
            return {}
        body = dict(request.value or {})
        # partitions to forget are fetched no more
        body.pop("forgotten_topics_data", None)
        return topics_in(FETCH, request.version, body, self._names)

    def _observe_fetch(self, exchange: Exchange) -> None:
        """Note what the partitions of a Fetch say about its connection; later ones may name none (KIP-227)."""
        group = self._by_assignment(exchange, self._candidates(exchange))
        if group is None:
            return
        known = self._told_apart.setdefault(exchange.connection, group)
        if known != group:
            self._told_apart[exchange.connection] = None

    # ------------------------------------------------------------ assignments
    def _assignment(self, exchange: Exchange) -> set[_Place]:
        value = exchange.response.value if exchange.response else None
        if not value:
            return set()
        if exchange.api_key == SYNC_GROUP:
            return self._places(_consumer_assignment(exchange, value).get("assigned_partitions"))
        if exchange.api_key in _HEARTBEATS:
            assignment = value.get("assignment")
            return self._places(assignment.get("topic_partitions") if isinstance(assignment, dict) else None)
        return set()

    def _places(self, topics: Any) -> set[_Place]:
        found: set[_Place] = set()
        for topic in topics if isinstance(topics, list | tuple) else ():
            if not isinstance(topic, Mapping):
                continue
            name = topic.get("topic")
            topic_id = topic.get("topic_id")
            if name is None and isinstance(topic_id, str):
                name = self._names(topic_id) or topic_id
            if isinstance(name, str):
                found.update((name, index) for index in topic.get("partitions") or ())
        return found


def _numbered(texts: Iterable[str | None]) -> dict[str | None, int]:
    """Give texts numbers from 1 on."""
    return {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}


def _consumer_assignment(exchange: Exchange, response: Mapping[str, Any]) -> Mapping[str, Any]:
    found = exchange.annotations.decoded.get("response.assignment")
    data = response.get("assignment")
    if found is None and isinstance(data, bytes):
        found = embedded.decode("group_assignment", data, embedded.Hints(protocol_type="consumer")).value
    return found if isinstance(found, Mapping) else {}


def _client(exchange: Exchange) -> _Client:
    return exchange.client_id, split_endpoint(exchange.client)[0]


def _is_replica(exchange: Exchange) -> bool:
    """Tell whether a broker fetches: its replica ID is not negative."""
    value = exchange.request.value if exchange.request else None
    if exchange.api_key != FETCH or not value:
        return False
    state = value.get("replica_state") or value
    replica = state.get("replica_id")
    return isinstance(replica, int) and replica >= 0


def named_groups(exchange: Exchange) -> list[str]:
    """Return the groups that the messages of an exchange name, each once, the request's first."""
    key, found = exchange.api_key, dict[str, None]()
    if key is None:
        return []
    request, response = exchange.request, exchange.response
    if request is not None and request.version is not None:
        found.update(dict.fromkeys(groups_in(key, request.version, request.value)))
    if response is not None and response.version is not None:
        found.update(dict.fromkeys(groups_in(key, response.version, response.value, "response")))
    return list(found)
