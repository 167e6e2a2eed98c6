"""Shares of the time of exchanges: the broker's work, designed waits, followers, quotas, the network, and the client.

The latency of an exchange is split, and the remainder is the broker's own work:

- designed waits, according to its messages (:mod:`captures.meaning.waits`): long polls, group barriers, quotas of
  brokers before 2.0;
- pauses of a connection by a quota (KIP-219);
- followers: a Produce with ``acks=all`` waits in purgatory until the in-sync replicas have fetched its records. It is
  known if the followers' Fetch requests were captured too: it lasts until the last of them requests the offset after
  these records (``DelayedProduce.scala``);
- the network between capture and broker (:mod:`captures.analysis.round_trips`).

If a broker's request log has the exchange, too, the broker's own measurements split it: what the latency exceeds them
is the network's, with the time until a network thread has read the request, and a Produce waited for followers as long
as it was in purgatory. The time in the broker is shown by part.

Besides the latency there is the time after it: the throttle time that a response tells its client to wait, and the
client's own time until its next request on that connection, if it had no other in flight. The time in kproxy for rules
or users is not part of the latency, and has a share of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import Any

import msgspec
import numpy as np

from captures.analysis.exchange_groups import RowGroups, api_names
from captures.analysis.percentiles import Percentiles, Times
from captures.analysis.round_trips import RoundTrips
from captures.analysis.throttling import Throttle, throttles
from captures.arrays import Int64s, distinct_values
from captures.exchanges import Capture, Exchange, ExchangeReader, Flag
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from captures.exchanges.columns.arrays import GrowingArray
from captures.interventions import BrokerLog
from captures.meaning import Names
from captures.meaning.exchange import number, replica_of, rows, text
from captures.meaning.payload import headers
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition, topic
from dissectors.api_keys import ApiKey

_ALL = -1

_MOST_FETCHES = 64
"""Most follower fetches that are kept per partition."""


class ShareRow(msgspec.Struct, frozen=True):
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
    :ivar in_broker: what the brokers' request logs say of the time in the broker, by part (:attr:`BrokerLog.TIMES`)
    """

    JSON = "api wait_reasons latency broker waited followers paused network throttled client kproxy in_broker"

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
    in_broker: dict[str, Percentiles]


_MEASURED = ("api", "connection", "time", "end", "latency", "wait", "paused", "followers", "logged")
"""Values kept of an exchange: the code of its API; -1 as end and latency if it was not answered; as ``logged``, the
time in the broker that the latency includes, -1 if not both are known."""


class _Sums:
    """What is added up at once of one API."""

    __slots__ = ("kproxy", "throttled", "wait_reasons")

    def __init__(self) -> None:
        self.wait_reasons: Counter[str] = Counter()
        self.throttled = Times()
        self.kproxy = Times()

    def note(self, throttle: Throttle) -> None:
        if throttle.reported and not throttle.held:
            self.throttled.add(throttle.reported)


class _ReplicatedProduce(msgspec.Struct):
    """A Produce that waited for followers.

    :ivar place: its index in the columns
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
        self._table = capture.table
        self._round_trips = RoundTrips(capture)
        self._names = names
        self._sums: defaultdict[str, _Sums] = defaultdict(_Sums)
        self._columns = {name: GrowingArray(np.int64) for name in _MEASURED}
        self._in_broker = {name: GrowingArray(np.int64) for name in ("api", *BrokerLog.TIMES)}
        self._followers: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """Partition -> times and offsets of followers' fetches."""
        self._waiting: deque[_ReplicatedProduce] = deque()

    def add_columns(self, columns: ExchangeColumns, reader: ExchangeReader, indexes: Int64s) -> None:
        """Add exchanges; only those that involve followers or kproxy are decoded.

        :param columns: exchanges in the order of their numbers
        :param indexes: index in the reader for each row of the columns
        """
        by_followers = columns.flat("replica_id") >= 0
        in_full = by_followers | (columns.flat("intervened") > 0)
        if by_followers.any():
            in_full |= columns.flat("api_key") == ApiKey.PRODUCE
        api, apis = api_names(columns)
        sums = [self._sums[name] for name in apis]
        code_of = {name: code for code, name in enumerate(self._sums)}
        codes = np.array([code_of[name] for name in apis], np.int64)
        paused = np.zeros(len(columns), np.int64)
        for row, throttle in throttles(columns).items():
            sums[api[row]].note(throttle)
            paused[row] = throttle.paused
        time, wait, latency = (columns.flat(name) for name in ("time", "wait", "latency"))
        latency = np.where(latency == NO_VALUE, -1, np.maximum(latency, 0))
        end = np.where(latency < 0, -1, time + latency)
        followers, logged = self._note_logged(columns, codes[api], latency)
        first = self._append(
            codes[api], columns.flat("connection"), time, end, latency, wait, paused, followers, logged
        )
        waited, reason = np.flatnonzero((wait != 0) & (latency >= 0)), columns.flat("wait_reason")
        reasons, groups = columns.texts("wait_reason"), RowGroups(api[waited], reason[waited])
        for row, total in zip(waited[groups.first].tolist(), groups.sums(wait[waited]), strict=True):
            sums[api[row]].wait_reasons[reasons[reason[row]] or ""] += total
        decoded = reader.several(indexes[in_full].tolist())
        for index, exchange in zip((np.flatnonzero(in_full) + first).tolist(), decoded, strict=True):
            self._look_into(exchange, index)

    def _note_logged(self, columns: ExchangeColumns, api: Int64s, latency: Int64s) -> tuple[Int64s, Int64s]:
        """Note what request logs say; return how long exchanges waited for followers, and the time in the broker.

        :returns: ns; 0 and -1 where it is not known
        """
        table, rows = self._table, columns.rows
        followers, inside = np.zeros_like(latency), np.full_like(latency, -1)
        if not len(table.broker_logs):
            return followers, inside
        times = {name: table.broker_log_column(name, rows) for name in BrokerLog.TIMES}
        there = times["local"].present
        self._in_broker["api"].append(api[there])
        for name, column in times.items():
            self._in_broker[name].append(column.values[there])
        captured = table.broker_log_column("captured", rows).values > 0
        captured &= (columns.flat("flags") & int(Flag.REQUEST_LOGGED | Flag.RESPONSE_LOGGED)) == 0
        spent = sum(column.values for name, column in times.items() if name != "send")
        known = there & captured & (latency >= 0)
        inside[known] = np.minimum(spent, latency)[known]
        produced = there & (latency >= 0) & (columns.flat("api_key") == ApiKey.PRODUCE)
        followers[produced] = np.minimum(times["remote"].values, latency)[produced]
        return followers, inside

    def _append(self, *values: Any) -> int:
        """Append values of some exchanges, in the order of :data:`_MEASURED`; return the index of the first."""
        first = len(self._columns["api"])
        for column, more in zip(self._columns.values(), values, strict=True):
            column.append(more)
        return first

    def _look_into(self, exchange: Exchange, index: int) -> None:
        """Learn from an exchange, whose index in the columns is `index`, what only its content tells."""
        self._settle(exchange.time)
        if exchange.kproxy_time:
            self._sums[exchange.api].kproxy.add(exchange.kproxy_time)
        end = exchange.answered_at
        self._columns["end"].array[index] = -1 if end is None else end
        if exchange.latency is None:
            return
        if exchange.api_key == ApiKey.FETCH:
            self._note_follower(exchange)
        elif exchange.api_key == ApiKey.PRODUCE and exchange.broker_log is None:
            self._note_produced(exchange, index, max(exchange.latency, 0))

    def result(self) -> list[ShareRow]:
        """Return the shares by API, the one with the highest total latency first."""
        self._settle(None)
        columns = [self._columns[name].array for name in ("api", "connection", "latency")]
        logged = {name: column.array for name, column in self._in_broker.items()}
        answered = columns[2] >= 0
        self._round_trips.look_at_acknowledgments(distinct_values(columns[1][answered]).tolist())
        idle_after, idle = self._client_times()
        found = [
            self._row(
                api,
                sums,
                np.flatnonzero(answered & (columns[0] == code)),
                idle[idle_after == code],
                {name: column[logged["api"] == code] for name, column in logged.items() if name != "api"},
            )
            for code, (api, sums) in enumerate(self._sums.items())
        ]
        return sorted(found, key=lambda row: (-row.latency.total if row.latency else 0, row.api))

    def _row(
        self, api: str, sums: _Sums, indexes: Int64s, client: Int64s, in_broker: dict[str, Int64s]
    ) -> ShareRow:
        connection, latency, wait, paused, followers, logged = (
            self._columns[name].array[indexes]
            for name in ("connection", "latency", "wait", "paused", "followers", "logged")
        )
        network = np.where(logged >= 0, latency - logged, self._network(connection))
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
            client=_distribution(client),
            kproxy=sums.kproxy.percentiles(),
            in_broker={
                name: found
                for name, times in in_broker.items()
                if (found := _distribution(times)) is not None
            },
        )

    def _network(self, connections: Int64s) -> Int64s:
        """Return the round trip time of each connection, -1 if unknown."""
        ids, indexes = np.unique(connections, return_inverse=True)
        times = [self._round_trips.of(connection) for connection in ids.tolist()]
        return np.array([-1 if time is None else time for time in times], np.int64)[indexes]

    # ------------------------------------------------------------ the client
    def _client_times(self) -> tuple[Int64s, Int64s]:
        """Return the times from a response to the next request of the connection, and before them the codes of its API.

        The response is the last one of the connection so far. After an unanswered exchange there is none.
        """
        order = np.argsort(self._columns["connection"].array, kind="stable")
        api, connection, time, end = (self._columns[name].array[order] for name in _MEASURED[:4])
        indexes = np.arange(len(order))
        begins = np.maximum.accumulate(np.where(np.diff(connection, prepend=-1) != 0, indexes, 0))
        # ranks, because the ends themselves leave no room for the connection beside them
        keys = connection * len(order) + np.unique(end, return_inverse=True)[1]
        latest = (end >= 0) & (keys >= np.maximum.accumulate(keys))
        answered = np.maximum.accumulate(np.where(latest, indexes, -1))[:-1]
        unanswered = np.maximum.accumulate(np.where(end < 0, indexes, -1))[:-1]
        idle = time[1:] - end[answered]
        known = (answered >= begins[1:]) & (answered > unanswered) & (idle >= 0)
        return api[answered[known]], idle[known]

    # ------------------------------------------------------------ followers
    def _note_follower(self, exchange: Exchange) -> None:
        request = exchange.request_body
        if replica_of(request) < 0:
            return
        ids: dict[str, str] | None = None
        for tp, row in rows_by_partition(request, "topics", self._names):
            asked = self._followers.get(tp)
            if asked is None:
                # a topic's name may be revealed after brokers have begun to fetch it by ID
                holders = rows(request, "topics")
                ids = ids or {topic(each, self._names): text(each, "topic_id") for each in holders}
                before = self._followers.pop(tp._replace(topic=ids.get(tp.topic, "")), ())
                asked = self._followers[tp] = deque(before, maxlen=_MOST_FETCHES)
            asked.append((exchange.time, number(row, "fetch_offset")))

    def _note_produced(self, exchange: Exchange, at: int, latency: int) -> None:
        request = exchange.request_body
        response = exchange.response_body
        if number(request, "acks", 0) != _ALL or not self._followers:
            return
        counts = {
            tp: _records(row.get("records"))
            for tp, row in rows_by_partition(request, "topic_data", self._names, "partition_data")
        }
        ends = {}
        for tp, row in rows_by_partition(response, "responses", self._names, "partition_responses"):
            base = number(row, "base_offset")
            if base >= 0 and not row.get("error_code") and tp in self._followers:
                ends[tp] = base + counts.get(tp, 0)
        if ends:
            self._waiting.append(_ReplicatedProduce(at, exchange.time, exchange.time + latency, ends))

    def _settle(self, now: int | None) -> None:
        """Compute how long Produce requests waited for followers, once everything up to their end is known."""
        while self._waiting and (now is None or self._waiting[0].end < now):
            produced = self._waiting.popleft()
            arrived = [
                time
                for tp, end in produced.ends.items()
                for time, offset in self._followers[tp]
                if offset >= end and produced.begin <= time <= produced.end
            ]
            if arrived:
                self._columns["followers"].array[produced.place] = max(arrived) - produced.begin


def _distribution(values: Int64s) -> Percentiles | None:
    times = Times()
    times.extend(values)
    return times.percentiles()


def _records(data: Any) -> int:
    if not isinstance(data, bytes):
        return 0
    batches = headers(data)
    return sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
