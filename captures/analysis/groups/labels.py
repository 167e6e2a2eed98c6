"""Short, unambiguous labels of members and partitions for display.

A member is labelled with its instance ID, or else its client ID; if several members share that, the end of the member
ID is added (``app m-2f9c``). All texts come from the wire, and are made fit for one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

import msgspec

from captures.analysis.groups.model import GroupTimeline, Move, Rebalance, TopicPartition
from captures.analysis.groups.vocabulary import Kind
from captures.meaning import topic_partitions, words

_LENGTH = 40
_NOBODY, _UNKNOWN = "nobody", "?"


class Labels:
    """The labels of one group's members."""

    def __init__(self, timeline: GroupTimeline) -> None:
        self._timeline = timeline

    @cached_property
    def _labels(self) -> dict[str, str]:
        """Labels by member ID. Made lazily, because most groups of a capture need none."""
        shared = Counter(member.name for member in self._timeline.members)
        labels: dict[str, str] = {}
        for member in self._timeline.members:
            name = words.clipped(words.line(member.name), _LENGTH)
            alone = shared[member.name] == 1
            for member_id in (*member.former, member.member):
                labels[member_id] = name if alone else _distinct_label(name, member_id)
        return labels

    def of(self, member_id: str, client: str = "") -> str:
        """Return the label of a member.

        :param client: client ID, for a member that is not in the timeline
        """
        known = self._labels.get(member_id)
        if known is not None:
            return known
        return _distinct_label(words.clipped(words.line(client), _LENGTH), member_id)

    def several(self, member_ids: Iterable[str], shown: int = words.SHOWN) -> str:
        """Return the labels of the first `shown` members, with a count of the others."""
        return words.some([self.of(member_id) for member_id in member_ids], shown, ", ")


def _distinct_label(name: str, member_id: str) -> str:
    return f"{name} {words.line(words.member(member_id))}".strip()


def counter_of(kind: Kind) -> str:
    """Return the name of the counter of rebalances: classic groups have generations, newer ones epochs."""
    return "generation" if kind is Kind.CLASSIC else "epoch"


def step(first: Rebalance, last: Rebalance | None = None) -> str:
    """Return the change of the counter in a rebalance: ``generation 3 → 4``, ``epoch ? → 7``.

    :param last: last one of consecutive rebalances
    """
    before, after = first.previous_generation, (last or first).generation
    return f"{counter_of(first.kind)} {before if before >= 0 else '?'} → {after if after >= 0 else '?'}"


def partitions(found: Iterable[TopicPartition], shown: int = words.SHOWN) -> str:
    """Return partitions by topic: ``orders 0-2,5, logs-1``; topics after the first `shown` are counted.

    Tasks of Streams are written as Streams does, ``tasks 0_1, 1_1``, and several of a subtopology as ``tasks 0_0-3``; a
    topic whose name is a number looks the same. Connectors of Kafka Connect precede their tasks: ``connector sink, sink
    0-2``.
    """
    by_topic: dict[str, list[int]] = {}
    connectors: list[str] = []
    tasks: list[TopicPartition] = []
    for tp in sorted(found):
        if tp.partition < 0:
            connectors.append(words.line(tp.topic))
        elif tp.topic.isdigit():
            tasks.append(tp)
        else:
            by_topic.setdefault(words.line(tp.topic), []).append(tp.partition)
    first = []
    if connectors:
        first.append(f"connector{'s' * (len(connectors) > 1)} {words.some(connectors, shown, ', ')}")
    if tasks:
        first.append(f"task{'s' * (len(tasks) > 1)} {task_names(tasks)}")
    return words.some(
        [*first, *(topic_partitions.one(topic, numbers) for topic, numbers in by_topic.items())], shown, ", "
    )


def task_names(found: Iterable[TopicPartition]) -> str:
    """Return tasks of Streams as Streams writes them: ``0_1``, and several of a subtopology as ``0_0-3``."""
    by_subtopology: dict[str, list[int]] = {}
    for tp in sorted(found):
        by_subtopology.setdefault(words.line(tp.topic), []).append(tp.partition)
    return ", ".join(f"{name}_{words.ranges(numbers)}" for name, numbers in by_subtopology.items())


class Transfer(msgspec.Struct, frozen=True):
    """The partitions that moved from one member to another.

    :ivar before: label of the former owner; ``nobody`` if there was none, ``?`` if unknown
    :ivar after: label of the new owner; ``nobody`` if there is none, ``?`` if unknown
    """

    before: str
    after: str
    places: tuple[TopicPartition, ...]


def transfers(moved: Iterable[Move], labels: Labels) -> list[Transfer]:
    """Return moves grouped by former and new owner, in the order of the moves."""
    found: dict[tuple[str, str], list[TopicPartition]] = {}
    for move in moved:
        found.setdefault((_end(move.before, labels), _end(move.after, labels)), []).append(move.tp)
    return [Transfer(before, after, tuple(sorted(every))) for (before, after), every in found.items()]


def _end(member: str | None, labels: Labels) -> str:
    if member is None:
        return _UNKNOWN
    return labels.of(member) if member else _NOBODY
