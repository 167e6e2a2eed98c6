"""Figures of topics and partitions: traffic, positions, and how many exchanges mention them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from captures.analysis.positions import Position, Positions
from captures.analysis.topic_mentions import TopicMentions
from captures.analysis.topic_stats import PartitionRow, TopicStats
from captures.exchanges import Exchange
from captures.meaning import Names
from dissectors.units import SECOND

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
