"""Figures of topics and partitions: traffic, positions, and how many exchanges mention them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import COUNTED
from captures.analysis.position_columns import COLUMN_APIS, PositionColumns
from captures.analysis.position_columns import TAKEN as OF_POSITIONS
from captures.analysis.positions import LEARNED_FROM, Position, Positions
from captures.analysis.topic_mentions import TopicMentions
from captures.analysis.topic_stats import PartitionRow, TopicStats
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import Names
from dissectors.units import SECOND
from kproxy.session.access import Access

Key = tuple[str, int | None]
"""A topic and a partition, None for the whole topic."""


@dataclass(slots=True)
class Figures:
    """Figures of a topic, or of one partition.

    :ivar partition: None for a topic
    :ivar mentions: number of exchanges that mention it
    :ivar positions: by partition: all of the topic, or only this one
    """

    topic: str
    partition: int | None
    traffic: PartitionRow
    mentions: int = 0
    positions: dict[int, Position] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def position(self) -> Position | None:
        """Position of a partition; None for a topic, or if unknown."""
        return None if self.partition is None else self.positions.get(self.partition)


@dataclass(slots=True)
class TopicFigures:
    """A topic and its partitions.

    :ivar partitions: by number, ascending
    """

    total: Figures
    partitions: dict[int, Figures]

    def of(self, partition: int | None) -> Figures | None:
        """Return the figures of a partition, or of the topic if None."""
        return self.total if partition is None else self.partitions.get(partition)


class TopicsFold:
    """Counts exchanges by the topics and partitions they mention."""

    TAKEN = (*COUNTED, *OF_POSITIONS, "flow_topics", "topics")

    def __init__(self, names: Names) -> None:
        self.positions = Positions(names)
        self._stats = TopicStats(names)
        self._mentions = TopicMentions(names)
        self._begin: int | None = None
        self._end = 0
        self._result: dict[str, TopicFigures] | None = None

    def add(self, exchange: Exchange) -> None:
        self._result = None
        self._stats.add(exchange)
        self.positions.add(exchange)
        self._mentions.add(exchange)
        self._begin = exchange.time if self._begin is None else min(self._begin, exchange.time)
        self._end = max(self._end, exchange.end)

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        reader, rows = access.plain, DecisionColumns(columns)
        self._stats.add_columns(columns, np.arange(len(columns)))
        self._mentions.add_columns(columns)
        if len(columns):
            self._begin, self._end = int(columns.flat("time").min()), int(rows.ends.max())
        for exchange in reader.several(indexes[rows.failed].tolist()):
            self._stats.add_errors(exchange)
            yield exchange.number - reader.first
        found = PositionColumns(columns)
        by_columns = found.of_api(COLUMN_APIS) & ~found.intervened & ~found.reporting_begins()
        decoded = found.of_api(LEARNED_FROM) & ~by_columns
        told = np.flatnonzero(decoded | (by_columns & found.sure))
        exchanges = reader.several(indexes[decoded].tolist())
        positions = found.positions(told[~decoded[told]])
        for index, whole in zip(indexes[told].tolist(), decoded[told].tolist(), strict=True):
            updates = self.positions.updates(next(exchanges)) if whole else next(positions).updates
            for place, what, who, value in updates:
                self.positions.of(place).take(what, who, value)
            yield index

    @property
    def seconds(self) -> float:
        """Length of the time that the added exchanges span."""
        return 0.0 if self._begin is None else (self._end - self._begin) / SECOND

    def result(self) -> dict[str, TopicFigures]:
        """Return the topics that exchanges mention, by bytes, descending."""
        if self._result is None:
            self._result = self._put_together()
        return self._result

    def _put_together(self) -> dict[str, TopicFigures]:
        found: dict[str, TopicFigures] = {}
        for row in self._stats.result():
            found[row.topic] = _topic(row.topic, row.total)
            for partition in row.partitions:
                _partition(found[row.topic], partition.partition or 0).traffic = partition
        for (name, number), count in self._mentions.result().items():
            topic = found.get(name) or found.setdefault(name, _topic(name))
            (topic.total if number is None else _partition(topic, number)).mentions = count
        for (name, number), position in self.positions.result().items():
            topic = found.get(name) or found.setdefault(name, _topic(name))
            topic.total.positions[number] = _partition(topic, number).positions[number] = position
        for topic in found.values():
            topic.partitions = dict(sorted(topic.partitions.items()))
        return {name: topic for name, topic in found.items() if topic.total.mentions}


def _topic(name: str, total: PartitionRow | None = None) -> TopicFigures:
    return TopicFigures(Figures(name, None, total or PartitionRow(None)), {})


def _partition(topic: TopicFigures, number: int) -> Figures:
    known = topic.partitions.get(number)
    if known is None:
        known = topic.partitions[number] = Figures(topic.total.topic, number, PartitionRow(number))
    return known


class Progress(NamedTuple):
    """Progress of a group or a client.

    :ivar partitions: with a known offset
    :ivar offset: in the last of them
    :ivar lag: total of remaining offsets in partitions with a known end; None if no end is known
    """

    partitions: tuple[int, ...] = ()
    offset: int = 0
    lag: int | None = None


def standings(figures: Figures, *, groups: bool) -> dict[str, Progress]:
    """Return the progress of groups by their commits, or of clients by their fetches.

    :param groups: whether to return that of groups
    """
    out: dict[str, Progress] = {}
    for number, position in figures.positions.items():
        for who, offset in (position.committed if groups else position.fetched).items():
            before, lag = out.get(who, Progress()), position.lag(offset)
            total = before.lag if lag is None else (before.lag or 0) + lag
            out[who] = Progress((*before.partitions, number), offset, total)
    return out


def lag(figures: Figures) -> int | None:
    """Return the largest lag of a group, or of a client if no group has committed."""
    for groups in (True, False):
        known = list(_lags(figures, groups=groups))
        if known:
            return max(known)
    return None


def _lags(figures: Figures, *, groups: bool) -> Iterator[int]:
    return (each.lag for each in standings(figures, groups=groups).values() if each.lag is not None)
