"""What is known of topics and partitions, put together: traffic, positions, and how many exchanges name them."""

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
"""A topic and one of its partitions, None for all of them."""


@dataclass(slots=True)
class Figures:
    """Of a topic, or of one partition.

    :ivar partition: None for a topic
    :ivar mentions: exchanges that name it
    :ivar positions: of the partitions of the topic, or of this one alone
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
        """Of a partition; None for a topic, and where nothing was told."""
        return None if self.partition is None else self.positions.get(self.partition)


@dataclass(slots=True)
class TopicFigures:
    """A topic and its partitions.

    :ivar partitions: by number, ascending
    """

    total: Figures
    partitions: dict[int, Figures]

    def of(self, partition: int | None) -> Figures | None:
        """Return the figures of a partition, or of the topic."""
        return self.total if partition is None else self.partitions.get(partition)


class TopicsFold:
    """Counts exchanges for the topics and partitions that they are about."""

    def __init__(self, names: Names) -> None:
        self.positions = Positions(names)
        self._stats = TopicStats(names)
        self._mentions = TopicMentions(names)
        self._begin: int | None = None
        self._end = 0
        self._result: dict[str, TopicFigures] | None = None

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        self._result = None
        self._stats.add(exchange)
        self.positions.add(exchange)
        self._mentions.add(exchange)
        self._begin = exchange.time if self._begin is None else min(self._begin, exchange.time)
        self._end = max(self._end, exchange.end)

    @property
    def seconds(self) -> float:
        """The time over which exchanges were added."""
        return 0.0 if self._begin is None else (self._end - self._begin) / SECOND

    def result(self) -> dict[str, TopicFigures]:
        """Return the topics that some exchange names, those with the most bytes first."""
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
    """How far a group or a client has come.

    :ivar partitions: in which it has
    :ivar offset: in the last of them
    :ivar lag: offsets that are left to read in those whose end is known; None if none is
    """

    partitions: tuple[int, ...] = ()
    offset: int = 0
    lag: int | None = None


def standings(figures: Figures, *, groups: bool) -> dict[str, Progress]:
    """Return how far groups have committed, or clients fetch.

    :param groups: which of the two
    """
    out: dict[str, Progress] = {}
    for number, position in figures.positions.items():
        for who, offset in (position.committed if groups else position.fetched).items():
            before, lag = out.get(who, Progress()), position.lag(offset)
            total = before.lag if lag is None else (before.lag or 0) + lag
            out[who] = Progress((*before.partitions, number), offset, total)
    return out


def lag(figures: Figures) -> int | None:
    """Return the lag of the group that is most behind; of the client, where no group has committed."""
    for groups in (True, False):
        known = list(_lags(figures, groups=groups))
        if known:
            return max(known)
    return None


def _lags(figures: Figures, *, groups: bool) -> Iterator[int]:
    return (each.lag for each in standings(figures, groups=groups).values() if each.lag is not None)
