"""Quotas in effect: throttled clients, by API and duration.

Brokers before 2.0 hold the response back for the throttle time in it; later ones answer at once and read nothing from
the connection until the time is over (KIP-219). The latency shows which of the two happened. A request sent during such
a pause waits for its end: that is not work of the broker, and none of its own messages mentions it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.client_identity import ConnectionKey, client_name, connection_key
from captures.analysis.exchange_groups import api_grouping, apis_of, client_names
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from captures.json_objects import Time
from dissectors.units import MS


class ThrottleRow(msgspec.Struct):
    """The throttling of one client on one API.

    :ivar client: ID, or address without one
    :ivar responses: responses to this client on this API, throttled or not
    :ivar throttled: responses with a throttle time
    :ivar held: throttled responses that the broker held back; after the others it paused the connection
    :ivar paused: exchanges that waited for the end of a pause, throttled themselves or not
    :ivar paused_total: ns for which they waited
    :ivar total_ms: sum of all throttle times in responses
    :ivar max_ms: longest throttle time
    :ivar first: request time of the first throttled exchange, ns since the epoch; None if it was only paused
    :ivar last: request time of the last throttled exchange, ns since the epoch
    :ivar first_number: number of the first throttled exchange
    """

    JSON = (
        "client api responses throttled held paused total_ms max_ms first last first_number brokers "
        "paused_total_ns=paused_total"
    )

    client: str
    api: str
    responses: int = 0
    throttled: int = 0
    held: int = 0
    paused: int = 0
    paused_total: int = 0
    total_ms: int = 0
    max_ms: int = 0
    first: Time | None = None
    last: Time | None = None
    first_number: int | None = None
    brokers: list[str] = []


class Throttle(NamedTuple):
    """The effect of quotas on one exchange.

    :ivar reported: ns of throttle time in the response
    :ivar held: whether the response was held back for it
    :ivar paused: ns of the latency in which the connection was paused because of an earlier response
    """

    reported: int = 0
    held: bool = False
    paused: int = 0


class Throttles:
    """Follows the pauses of connections; exchanges must be in the order of their numbers."""

    def __init__(self) -> None:
        self._until: dict[ConnectionKey, int] = {}

    def of(self, exchange: Exchange) -> Throttle:
        """Return the effect of quotas on the next exchange."""
        response = exchange.response
        throttle_ms = (response.value or {}).get("throttle_time_ms") or 0 if response is not None else 0
        if exchange.latency is None or (not throttle_ms and not self._until):
            return Throttle(max(throttle_ms * MS, 0))
        return self.next(connection_key(exchange), exchange.time, exchange.latency, throttle_ms)

    def next(self, key: ConnectionKey, time: int, latency: int, told_ms: int) -> Throttle:
        """Return the effect of quotas on the next answered exchange of a connection.

        :param told_ms: throttle time in the response
        """
        throttled = told_ms * MS
        until = self._until.get(key, 0)
        paused = min(max(until - time, 0), latency)
        if throttled <= 0:
            return Throttle(0, False, paused)
        held = latency - paused >= throttled
        if not held:
            self._until[key] = max(until, time + latency + throttled)
        return Throttle(throttled, held, paused)


def throttles(columns: ExchangeColumns) -> dict[int, Throttle]:
    """Return the effects of quotas on exchanges, by row; unaffected exchanges are left out.

    :param columns: exchanges in the order of their numbers
    """
    throttle_ms, latency = columns.flat("throttle_time_ms"), columns.flat("latency")
    connection, time = columns.flat("connection"), columns.flat("time")
    # only a throttled connection is paused
    rows = np.flatnonzero(np.isin(connection, connection[throttle_ms > 0]))
    clients, brokers = columns.texts("client"), columns.texts("broker")
    following, found = Throttles(), {}
    for row in rows.tolist():
        number, told_ms = int(connection[row]), max(int(throttle_ms[row]), 0)
        if latency[row] == NO_VALUE:
            done = Throttle(told_ms * MS)
        else:
            key = ConnectionKey(number, clients[number] or "", brokers[number] or "")
            done = following.next(key, int(time[row]), int(latency[row]), told_ms)
        if done.reported or done.paused:
            found[row] = done
    return found


def paused(columns: ExchangeColumns) -> Int64s:
    """Return for each exchange the ns of its latency in which its connection was paused because of a quota."""
    found = np.zeros(len(columns), np.int64)
    for row, throttle in throttles(columns).items():
        found[row] = throttle.paused
    return found


class ThrottleStats:
    """Collects throttle times by client and API."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], ThrottleRow] = {}
        self._throttles = Throttles()

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        response = exchange.response
        if response is None or not response.value:
            return
        row = self._of(client_name(exchange), exchange.api)
        row.responses += 1
        self._count(row, exchange.number, exchange.time, exchange.broker, self._throttles.of(exchange))

    def add_columns(self, columns: ExchangeColumns, numbers: Int64s) -> None:
        """Count exchanges.

        :param columns: exchanges in the order of their numbers
        :param numbers: their numbers
        """
        done = throttles(columns)
        if not done:
            return
        codes, names = client_names(columns)
        has_throttle_time, times, brokers = (
            columns.flat("response_told") > 0,
            columns.flat("time"),
            columns.texts("broker"),
        )
        grouping, connection = api_grouping(columns, codes), columns.flat("connection")
        for rows, (api, *_) in zip(grouping, apis_of(columns, grouping.first), strict=True):
            answered = rows[has_throttle_time[rows]]
            row = self._of(names[codes[rows[0]]], api)
            row.responses += len(answered)
            for each in (each for each in answered.tolist() if each in done):
                broker = brokers[int(connection[each])] or ""
                self._count(row, int(numbers[each]), int(times[each]), broker, done[each])

    def _of(self, client: str, api: str) -> ThrottleRow:
        row = self._rows.get((client, api))
        if row is None:
            row = self._rows[client, api] = ThrottleRow(client, api)
        return row

    def _count(self, row: ThrottleRow, number: int, time: int, broker: str, throttle: Throttle) -> None:
        """Count the effect of quotas on an exchange."""
        if throttle.paused:
            row.paused += 1
            row.paused_total += throttle.paused
        if not throttle.reported:
            return
        if not row.throttled:
            row.first, row.first_number = time, number
        milliseconds = throttle.reported // MS
        row.throttled += 1
        row.held += throttle.held
        row.total_ms += milliseconds
        row.max_ms = max(row.max_ms, milliseconds)
        row.last = max(row.last or 0, time)
        if broker not in row.brokers:
            row.brokers.append(broker)

    def result(self) -> list[ThrottleRow]:
        """Return the throttled or paused clients by API, the longest total first."""
        rows = [row for row in self._rows.values() if row.throttled or row.paused]
        return sorted(rows, key=lambda row: (-row.total_ms, row.client, row.api))
