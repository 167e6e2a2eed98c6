"""Shares of the time of exchanges: the broker's work, designed waits, followers, quotas, the network, and the client.

The latency of an exchange is split, and the remainder is the broker's own work:

- designed waits, according to its messages (:mod:`captures.meaning.waits`): long polls, group barriers, quotas of
  brokers before 2.0;
- pauses of a connection by a quota (KIP-219);
- followers: a Produce with ``acks=all`` waits in purgatory until the in-sync replicas have fetched its records. It is
  known if the followers' Fetch requests were captured too: it lasts until the last of them requests the offset after
  these records (``DelayedProduce.scala``);
- the network between capture and broker (:mod:`captures.analysis.round_trips`).

Besides the latency there is the time after it: the throttle time that a response tells its client to wait, and the
client's own time until its next request on that connection, if it had no other in flight. The time in kproxy for rules
or users is not part of the latency, and has a share of its own.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from captures.analysis.percentiles import Percentiles, Times
from captures.analysis.round_trips import RoundTrips
from captures.analysis.throttling import Throttles
from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import Names
from captures.meaning.exchange import number, replica_of, rows, text
from captures.meaning.payload import headers
from captures.meaning.places import TopicPartition, rows_by_place, topic
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name

_ALL = -1

_MOST_FETCHES = 64
"""Most follower fetches that are kept per partition."""


@dataclass(frozen=True, slots=True)
class ShareRow:
    """Shares of the time of one API.

    :ivar latency: last byte of the request to first byte of the response, of all answered exchanges
    :ivar broker: the remainder of it; exchanges that only waited are left out
    :ivar waited: designed waits, of the exchanges that waited
    :ivar wait_reasons: reason -> ns in total
    :ivar followers: of Produce requests, waiting for followers
    :ivar paused: pauses by a quota, of the exchanges that waited for their end
    :ivar network: the round trip of the connection, if known
    :ivar throttled: throttle times that responses tell clients to wait
    :ivar client: from a response to the next request of the connection
    :ivar kproxy: time of requests and responses in kproxy for rules and holds, which is not part of the latency
    """

    JSON = "api wait_reasons latency broker waited followers paused network throttled client kproxy"

    api: str
    latency: Percentiles | None
    broker: Percentiles | None
    waited: Percentiles | None
    wait_reasons: dict[str, int]
    followers: Percentiles | None
    paused: Percentiles | None
    network: Percentiles | None
    throttled: Percentiles | None
    client: Percentiles | None
    kproxy: Percentiles | None


_MEASURED = ("connection", "latency", "wait", "paused", "followers")
"""Values kept of an exchange until the shares of followers and network are known: int64 each."""


class _Sums:
    """Values kept of one API."""

    __slots__ = ("client", "columns", "kproxy", "throttled", "wait_reasons")

    def __init__(self) -> None:
        self.columns = {name: array("q") for name in _MEASURED}
        self.wait_reasons: Counter[str] = Counter()
        self.throttled = Times()
        self.client = Times()
        self.kproxy = Times()

    def measure(self, *values: int) -> None:
        """Append the values of an exchange, in the order of :data:`_MEASURED`."""
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)

    def column(self, name: str) -> Int64s:
        """Return a copy of a column: an array with an exported buffer cannot grow."""
        return np.array(self.columns[name], np.int64)


@dataclass(slots=True)
class _Connection:
    """The client's activity on a connection.

    :ivar over: when the latest of its exchanges was answered, ns since the epoch
    :ivar api: API of that exchange
    """

    over: int = 0
    api: str = ""


@dataclass(slots=True)
class _ReplicatedProduce:
    """A Produce that waited for followers.

    :ivar place: its index in the columns of its API
    :ivar ends: partition -> offset after its records
    """

    place: int
    begin: int
    end: int
    ends: dict[TopicPartition, int]


class TimeShares:
    """Splits the latencies of exchanges, which must be added in the order of their numbers.

    :param capture: provides round trip times
    :param names: returns names of topic IDs
    """

    def __init__(self, capture: Capture, names: Names) -> None:
        self._round_trips = RoundTrips(capture)
        self._names = names
        self._sums: dict[str, _Sums] = {}
        self._throttles = Throttles()
        self._connections: dict[int, _Connection] = {}
        self._followers: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """Partition -> times and offsets of followers' fetches."""
        self._waiting: deque[_ReplicatedProduce] = deque()

    def add(self, exchange: Exchange) -> None:
        """Add one exchange."""
        self._settle(exchange.time)
        sums = self._sums.get(exchange.api)
        if sums is None:
            sums = self._sums[exchange.api] = _Sums()
        throttle = self._throttles.of(exchange)
        if throttle.reported and not throttle.held:
            sums.throttled.add(throttle.reported)
        if exchange.kproxy_time:
            sums.kproxy.add(exchange.kproxy_time)
        self._note_client(exchange)
        if exchange.latency is None:
            return
        latency = max(exchange.latency, 0)
        sums.measure(exchange.connection, latency, exchange.wait, throttle.paused, 0)
        if exchange.wait:
            sums.wait_reasons[exchange.wait_reason] += exchange.wait
        if exchange.api_key == ApiKey.FETCH:
            self._note_follower(exchange)
        elif exchange.api_key == ApiKey.PRODUCE:
            self._note_produced(exchange, len(sums.columns["latency"]) - 1, latency)

    def add_columns(self, columns: ExchangeColumns, reader: ExchangeReader, indexes: Int64s) -> None:
        """Add exchanges; only those that involve followers, quotas or kproxy are decoded.

        :param columns: exchanges in the order of their numbers
        :param indexes: index in the reader for each row of the columns
        """
        by_followers = columns.flat("replica_id") >= 0
        in_full = by_followers | (columns.flat("throttle_time_ms") > 0) | (columns.flat("intervened") > 0)
        if by_followers.any():
            in_full |= columns.flat("api_key") == ApiKey.PRODUCE
        decoded = reader.several(indexes[in_full].tolist())
        bare = reader.bares(indexes[~in_full].tolist())
        reasons = columns.texts("wait_reason")
        waits = (columns.flat(name).tolist() for name in ("wait", "wait_reason"))
        for full, wait, reason in zip(in_full.tolist(), *waits, strict=True):
            exchange = next(decoded if full else bare)
            if wait and not full:
                exchange.wait, exchange.wait_reason = wait, reasons[reason] or ""
            self.add(exchange)

    def result(self) -> list[ShareRow]:
        """Return the shares by API, the one with the highest total latency first."""
        self._settle(None)
        ids = [np.unique(sums.column("connection")) for sums in self._sums.values()]
        connections = np.unique(np.concatenate(ids)) if ids else np.empty(0, np.int64)
        self._round_trips.look_at_acknowledgments(connections.tolist())
        found = [self._row(api, sums) for api, sums in self._sums.items()]
        return sorted(found, key=lambda row: (-row.latency.total if row.latency else 0, row.api))

    def _row(self, api: str, sums: _Sums) -> ShareRow:
        latency, wait, paused, followers = (sums.column(name) for name in _MEASURED[1:])
        network = self._network(sums.column("connection"))
        known = network >= 0
        left = latency - wait - paused - followers - np.maximum(network, 0)
        only_waited = (wait > 0) & (wait >= latency)
        return ShareRow(
            api=api,
            latency=_distribution(latency),
            broker=_distribution(np.maximum(left[~only_waited], 0)),
            waited=_distribution(wait[wait > 0]),
            wait_reasons=dict(sums.wait_reasons.most_common()),
            followers=_distribution(followers[followers > 0]),
            paused=_distribution(paused[paused > 0]),
            network=_distribution(np.minimum(network, latency)[known]),
            throttled=sums.throttled.percentiles(),
            client=sums.client.percentiles(),
            kproxy=sums.kproxy.percentiles(),
        )

    def _network(self, connections: Int64s) -> Int64s:
        """Return the round trip time of each connection, -1 if unknown."""
        ids, places = np.unique(connections, return_inverse=True)
        times = [self._round_trips.of(connection) for connection in ids.tolist()]
        return np.array([-1 if time is None else time for time in times], np.int64)[places]

    # ------------------------------------------------------------ the client
    def _note_client(self, exchange: Exchange) -> None:
        known = self._connections.setdefault(exchange.connection, _Connection())
        if known.api and exchange.time >= known.over:
            self._sums[known.api].client.add(exchange.time - known.over)
        end = exchange.answered_at
        if end is None:
            known.api = ""  # an unanswered exchange has no end to measure from
            return
        if end >= known.over:
            known.over, known.api = end, exchange.api

    # ------------------------------------------------------------ followers
    def _note_follower(self, exchange: Exchange) -> None:
        request = exchange.request_body
        if replica_of(request) < 0:
            return
        ids: dict[str, str] | None = None
        for place, row in rows_by_place(request, "topics", self._names):
            asked = self._followers.get(place)
            if asked is None:
                # a topic's name may be revealed after brokers have begun to fetch it by ID
                holders = rows(request, "topics")
                ids = ids or {topic(each, self._names): text(each, "topic_id") for each in holders}
                before = self._followers.pop(place._replace(topic=ids.get(place.topic, "")), ())
                asked = self._followers[place] = deque(before, maxlen=_MOST_FETCHES)
            asked.append((exchange.time, number(row, "fetch_offset")))

    def _note_produced(self, exchange: Exchange, at: int, latency: int) -> None:
        request = exchange.request_body
        response = exchange.response_body
        if number(request, "acks", 0) != _ALL or not self._followers:
            return
        counts = {
            place: _records(row.get("records"))
            for place, row in rows_by_place(request, "topic_data", self._names, "partition_data")
        }
        ends = {}
        for place, row in rows_by_place(response, "responses", self._names, "partition_responses"):
            base = number(row, "base_offset")
            if base >= 0 and not row.get("error_code") and place in self._followers:
                ends[place] = base + counts.get(place, 0)
        if ends:
            self._waiting.append(_ReplicatedProduce(at, exchange.time, exchange.time + latency, ends))

    def _settle(self, now: int | None) -> None:
        """Compute how long Produce requests waited for followers, once everything up to their end is known."""
        while self._waiting and (now is None or self._waiting[0].end < now):
            produced = self._waiting.popleft()
            arrived = [
                time
                for place, end in produced.ends.items()
                for time, offset in self._followers[place]
                if offset >= end and produced.begin <= time <= produced.end
            ]
            if arrived:
                columns = self._sums[api_name(ApiKey.PRODUCE)].columns
                columns["followers"][produced.place] = max(arrived) - produced.begin


def _distribution(values: Int64s) -> Percentiles | None:
    times = Times()
    times.extend(values)
    return times.percentiles()


def _records(data: Any) -> int:
    if not isinstance(data, bytes):
        return 0
    batches = headers(data)
    return sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
