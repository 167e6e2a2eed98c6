"""Positions in Produce, Fetch and OffsetCommit, from columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from captures.analysis.exchange_groups import RowGroups, client_names
from captures.analysis.fetch_sessions import FetchStep
from captures.analysis.positions import ALL, COMMITTED, END, EXISTS, FETCHED, REACHED, PositionUpdate
from captures.arrays import Bools, Int64s
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from captures.filters.groups import ClientOfHost
from captures.filters.values import split_endpoint
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import ApiKey

TAKEN = ("groups", "acks", "replica_id", "asked_offsets")
"""The message columns that :class:`PositionColumns` uses."""
COLUMN_APIS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT})
"""APIs whose ends and positions are completely in columns."""

_BLOCK = 4096
"""Rows that are prepared together: Python values take several times the memory of columns."""
_PARTITIONS = 1 << 32
_ANSWERED = (0, NO_VALUE)
"""Error codes of partitions whose values count: no error, or one that was cut off."""


class ExchangePositions(NamedTuple):
    """The positions in an exchange.

    :ivar end: as :attr:`Exchange.end <captures.exchanges.Exchange.end>`
    :ivar client: name of the client
    :ivar named: client ID and host
    :ivar replica: node ID of the fetching replica, negative for a consumer
    :ivar step: its session fields; None if it is no Fetch, or its request is unknown
    :ivar answers: partition, offset, error and end of its records for each partition in the response, as in the columns
        ``answered_offsets``, ``answered_errors``, ``answered_reached``
    :ivar updates: updates for :meth:`Position.take`, except starts of partitions
    """

    key: int
    time: int
    end: int
    connection: int
    client: str
    named: ClientOfHost
    answered: bool
    replica: int
    step: FetchStep | None
    answers: list[tuple[TopicPartition, int, int, int]]
    updates: list[PositionUpdate]


class PositionColumns:
    """Selects exchanges with positions, and returns them.

    :param columns: :data:`TAKEN` columns of exchanges, in the order of their numbers
    """

    def __init__(self, columns: ExchangeColumns) -> None:
        self._columns = columns
        self._key = columns.flat("api_key")
        self._places: dict[int, TopicPartition] = {}
        self.intervened: Bools = columns.flat("intervened") > 0

    @property
    def sure(self) -> Bools:
        """Mask of all exchanges but Produce requests whose records may yet be lost."""
        found: Bools = (self._key != ApiKey.PRODUCE) | (self._columns.flat("acks") == ALL)
        return found

    def reporting_begins(self) -> Bools:
        """Return a mask of the last Fetch of each partition without an error: starts are not in columns."""
        topics, partitions, errors = (
            self._columns.ragged(f"answered_{name}") for name in ("topics", "partitions", "errors")
        )
        told = np.flatnonzero((self._key == ApiKey.FETCH)[topics.rows] & (errors.values == 0))[::-1]
        found = np.zeros(len(self._key), np.bool_)
        found[topics.rows[told[RowGroups(topics.values[told], partitions.values[told]).first]]] = True
        return found

    def of_api(self, keys: Collection[int]) -> Bools:
        """Return a mask of the exchanges of some APIs."""
        return np.isin(self._key, list(keys))

    def naming(self, keys: Collection[int]) -> Bools:
        """Return a mask of the exchanges of some APIs that are the first with their group, connection and client ID."""
        groups = self._columns.ragged("groups")
        several = groups.counts > 1
        rows = np.flatnonzero(self.of_api(keys) & groups.filled & ~several)
        kinds = [self._columns.flat(name)[rows] for name in ("connection", "client_id")]
        kinds.append(groups.values[groups.offsets[rows]])
        found: Bools = self.of_api(keys) & several
        found[rows[RowGroups(*kinds).first]] = True
        return found

    def positions(self, rows: Int64s) -> Iterator[ExchangePositions]:
        """Yield the positions of exchanges of :data:`COLUMN_APIS`, in order."""
        columns = self._columns
        codes, names = client_names(columns)
        client_ids = columns.texts("client_id")
        hosts = [split_endpoint(end or "")[0] for end in columns.texts("client")]
        groups, group_names = columns.ragged("groups"), columns.texts("groups")
        latency = np.maximum(columns.flat("latency"), 0)  # without a latency, the end is the start
        time, session = columns.flat("time"), ("session_epoch", "session_id", "session_given")
        flat = [
            self._key, time, time + latency, columns.flat("connection"), codes, columns.flat("client_id"),
            columns.flat("response_size") > 0, columns.flat("replica_id"),
            *(np.where(columns.flat(name) == NO_VALUE, blank, columns.flat(name))
              for name, blank in zip(session, (-1, 0, 0), strict=True)),
            np.where(groups.filled, groups.values[np.minimum(groups.offsets[:-1], len(groups.values) - 1)], -1)
            if len(groups.values) else np.full(len(time), -1),
        ]  # fmt: skip
        for begin in range(0, len(rows), _BLOCK):
            block = rows[begin : begin + _BLOCK]
            tables = (
                self._table(block, "asked", "offsets"),
                self._table(block, "answered", "offsets", "errors", "reached"),
                self._table(block, "forgotten"),
            )
            each = zip(*(column[block].tolist() for column in flat), *tables, strict=True)
            for (
                key,
                at,
                end,
                connection,
                code,
                client_id,
                answered,
                replica,
                *steps,
                group,
                asked,
                answers,
                left,
            ) in each:
                step, updates = None, []
                if key == ApiKey.FETCH:
                    step = FetchStep(asked, [tp for (tp,) in left], *steps) if replica != NO_VALUE else None
                    updates = _fetched(asked if replica < 0 else (), answers, names[code])
                elif key == ApiKey.PRODUCE:
                    updates = _produced(asked, answers)
                else:
                    updates = _committed(asked, answers, (group_names[group] if group >= 0 else None) or "")
                named = client_ids[client_id] if client_id >= 0 else None, hosts[connection]
                yield ExchangePositions(
                    key, at, end, connection, names[code], named, answered, replica, step, answers, updates
                )

    def _table(self, rows: Int64s, name: str, *numbers: str) -> list[list[Any]]:
        """Return the partitions in a table for each row, each with some numbers."""
        topics = self._columns.ragged(f"{name}_topics").take(rows)
        if not len(topics.values):
            return [[] for _ in rows]
        partitions = self._columns.ragged(f"{name}_partitions").take(rows).values
        texts = self._columns.texts(f"{name}_topics")
        codes = topics.values.astype(np.int64) * _PARTITIONS + partitions
        places = []
        for code, topic, partition in zip(
            codes.tolist(), topics.values.tolist(), partitions.tolist(), strict=True
        ):
            tp = self._places.get(code)
            if tp is None:
                tp = self._places[code] = TopicPartition(str(texts[topic]), partition)
            places.append(tp)
        values = [self._columns.ragged(f"{name}_{number}").take(rows).values.tolist() for number in numbers]
        made = list(zip(places, *values, strict=True))
        bounds = topics.offsets.tolist()
        return [made[begin:end] for begin, end in pairwise(bounds)]


def _produced(asked: list[Any], answers: list[Any]) -> list[PositionUpdate]:
    behind = dict(asked)
    return [
        PositionUpdate(tp, REACHED, "", base + behind[tp])
        for tp, base, error, _ in answers
        if error == 0 and base >= 0 and behind.get(tp, -1) >= 0
    ]


def _fetched(asked: Collection[Any], answers: list[Any], client: str) -> list[PositionUpdate]:
    updates = [PositionUpdate(tp, FETCHED, client, offset) for tp, offset in asked if offset >= 0]
    for tp, end, error, _ in answers:
        if error in _ANSWERED:
            updates.append(PositionUpdate(tp, END, "", end) if end >= 0 else PositionUpdate(tp, EXISTS))
    return updates


def _committed(asked: list[Any], answers: list[Any], group: str) -> list[PositionUpdate]:
    errors = {tp: error for tp, _, error, _ in answers}
    return [
        PositionUpdate(tp, COMMITTED, group, offset)
        for tp, offset in asked
        if offset >= 0 and errors.get(tp) == 0
    ]
