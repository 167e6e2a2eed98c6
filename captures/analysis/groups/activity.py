"""Requests, responses and closings on the connections of a capture, indexed by client and by broker."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from captures.analysis.attempts import ended_by_brokers
from captures.analysis.groups.calls import OF_MEMBERS
from captures.arrays import Bools, Int64s, distinct_values
from captures.exchanges import Capture
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND

_OF_CONSUMERS = sorted(
    {ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR} | OF_MEMBERS
)
"""APIs that producers and admin clients with the same client ID do not send."""
NEVER = int(np.iinfo(np.int64).max)
"""A time that never comes."""
_LOOKED_AT = 4096
"""Events that are tested at once."""


class Events(msgspec.Struct, frozen=True):
    """Events on connections, one row each, in the order of time.

    :ivar times: ns since the epoch
    :ivar connections: connection IDs
    """

    times: Int64s
    connections: Int64s

    @classmethod
    def of(cls, times: Int64s, connections: Int64s) -> Events:
        """Return events from unsorted arrays."""
        order = np.argsort(times, kind="stable")
        return cls(times[order], connections[order])

    def within(self, begin: int, end: int) -> Int64s:
        """Return the connections of the events from `begin` to `end`, both included."""
        return self.connections[
            np.searchsorted(self.times, begin) : np.searchsorted(self.times, end, "right")
        ]

    def any_within(self, begin: int, end: int, wanted: Bools, but: Int64s) -> bool:
        """Return whether there was an event from `begin` to `end`, both included.

        :param wanted: mask of connections, those that count
        :param but: connections that do not count
        """
        connections = self.within(begin, end)
        return any(
            bool(np.any(wanted[some] & ~np.isin(some, but)))
            for at in range(0, len(connections), _LOOKED_AT)
            for some in (connections[at : at + _LOOKED_AT],)
        )


class Requests(msgspec.Struct, frozen=True):
    """Requests of a client on one connection, one row each: time of sending, API key, number."""

    sent: Int64s
    keys: Int64s
    numbers: Int64s

    def until(self, time: int) -> Requests:
        """Return the requests sent up to `time`."""
        chosen = self.sent <= time
        return Requests(self.sent[chosen], self.keys[chosen], self.numbers[chosen])

    def last_of_consumer(self, after: int) -> int | None:
        """Return the number of the last request after `after` that only consumers send; None if there is none."""
        found = self.numbers[(self.sent > after) & np.isin(self.keys, _OF_CONSUMERS)]
        return int(found.max()) if len(found) else None

    def queued(self, since: int) -> bool:
        """Return whether the first requests after `since` had waited in the kernel: two of one API in one segment.

        A process that stood still has sent none meanwhile, and sends its next ones one after another.
        """
        chosen = self.sent > since
        if not chosen.any():
            return False
        chosen &= self.sent < self.sent[chosen].min() + SECOND
        _, counts = np.unique(np.stack((self.sent, self.keys))[:, chosen], axis=1, return_counts=True)
        return bool(np.any(counts > 1))


class _RowsByNumber:
    """Rows by a number that they have.

    :param numbers: number of each row, from 0 up to `count`
    """

    def __init__(self, numbers: NDArray[np.integer], count: int) -> None:
        self._order = np.argsort(numbers, kind="stable")
        self._begins = np.searchsorted(numbers[self._order], np.arange(count + 1))

    def of(self, number: int) -> Int64s:
        """Return the rows with a number, increasing."""
        return self._order[self._begins[number] : self._begins[number + 1]]


class ConnectionActivity:
    """Requests and responses on the connections of a capture, and how the connections ended."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        streams = capture.connections.streams
        times = np.stack((streams.fin_time, streams.reset_time))
        self.closed: Int64s = np.min(np.where(times >= 0, times, NEVER), axis=0)
        """By stream, when its sender sent a FIN or RST; a time that never comes if it did not."""
        self._of_clients: dict[str, dict[str, Int64s]] = {}
        self._requests: dict[tuple[int, str], Requests] = {}

    def connections_of(self, client: str, host: str) -> Int64s:
        """Return the connections on which a host sent requests with a client ID.

        :param client: client ID; anything that is none is an address, and stands for a missing client ID
        """
        by_host = self._of_clients.get(client)
        if by_host is None:
            found: dict[str, list[int]] = {}
            for connection in distinct_values(self._connections[self._rows_of(client)]).tolist():
                found.setdefault(self.host(connection), []).append(connection)
            by_host = self._of_clients[client] = {
                each: np.array(connections, np.int64) for each, connections in found.items()
            }
        return by_host.get(host, np.zeros(0, np.int64))

    def host(self, connection: int) -> str:
        """Return the host of a connection's client."""
        return self._capture.endpoints(connection)[0].rpartition(":")[0]

    def requests(self, connection: int, client: str) -> Requests:
        """Return the requests with a client ID on a connection."""
        found = self._requests.get((connection, client))
        if found is None:
            found = self._requests[connection, client] = self._read(connection, client)
        return found

    def _read(self, connection: int, client: str) -> Requests:
        table, rows = self._capture.table, self._by_connection.of(connection)
        numbers = self._client_numbers(client)
        rows = rows[
            np.isin(table.column("client_id")[rows], numbers) & (table.column("request_size")[rows] > 0)
        ]
        return Requests(
            table.column("request_last")[rows],
            table.column("api_key")[rows].astype(np.int64),
            self._numbers[rows],
        )

    def answered(self, connection: int) -> Int64s:
        """Return the arrival times of the responses on a connection."""
        table, rows = self._capture.table, self._by_connection.of(connection)
        return table.column("response_last")[rows[table.column("response_size")[rows] > 0]]

    def answered_by(self, broker: str) -> Events:
        """Return the responses of `broker`."""
        return self._answered_by.get(broker, _NO_EVENTS)

    def closed_by(self, broker: str) -> Events:
        """Return the connections that `broker` closed or reset before the client did."""
        return self._closed_by.get(broker, _NO_EVENTS)

    # ---------------------------------------------------------------- indexes, made once
    @cached_property
    def _numbers(self) -> Int64s:
        return self._capture.table.numbers()

    @cached_property
    def _connections(self) -> Int64s:
        return self._capture.table.column("connection").astype(np.int64)

    @cached_property
    def _by_connection(self) -> _RowsByNumber:
        return _RowsByNumber(self._connections, len(self._capture.connections))

    @cached_property
    def _by_client(self) -> _RowsByNumber:
        table = self._capture.table
        return _RowsByNumber(table.column("client_id"), len(table.client_ids))

    @cached_property
    def _numbers_of_clients(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for number, text in enumerate(self._capture.table.client_ids):
            numbers.setdefault(text or "", []).append(number)
        return numbers

    def _client_numbers(self, client: str) -> list[int]:
        return self._numbers_of_clients.get(client) or self._numbers_of_clients.get("", [])

    def _rows_of(self, client: str) -> Int64s:
        rows = [self._by_client.of(number) for number in self._client_numbers(client)]
        found: Int64s = np.concatenate([np.zeros(0, np.int64), *rows])
        return found[self._capture.table.column("request_size")[found] > 0]

    @cached_property
    def _brokers(self) -> tuple[list[str], Int64s]:
        """The brokers, and the index of each connection's broker."""
        numbers: dict[str, int] = {}
        which = [
            numbers.setdefault(self._capture.endpoints(connection)[1], len(numbers))
            for connection in range(len(self._capture.connections))
        ]
        return list(numbers), np.array(which, np.int64)

    @cached_property
    def _answered_by(self) -> dict[str, Events]:
        table = self._capture.table
        rows = np.flatnonzero(table.column("response_size") > 0)
        return self._split(table.column("response_last")[rows], self._connections[rows])

    @cached_property
    def _closed_by(self) -> dict[str, Events]:
        connections, times = np.array(list(ended_by_brokers(self._capture)), np.int64).reshape(-1, 2).T
        return self._split(times, connections)

    def _split(self, times: Int64s, connections: Int64s) -> dict[str, Events]:
        """Return the events grouped by broker."""
        names, which = self._brokers
        rows = _RowsByNumber(which[connections], len(names))
        parts = ((name, rows.of(number)) for number, name in enumerate(names))
        return {name: Events.of(times[part], connections[part]) for name, part in parts}


_NO_EVENTS = Events(np.zeros(0, np.int64), np.zeros(0, np.int64))
