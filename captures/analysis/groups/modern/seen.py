"""How much of a group of a newer kind a capture shows: who was not captured has the partitions that nobody has.

A coordinator leaves no partition without a member for longer than a heartbeat takes. So where those who were seen have
all partitions, they are the whole group, and where some are with nobody, somebody was not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from captures.analysis.groups.labels import partitions
from captures.analysis.groups.model import GroupTimeline, Kind, Place, Trigger
from captures.analysis.groups.modern.counting import Bump
from captures.analysis.groups.modern.epochs import Epochs
from captures.analysis.groups.modern.lanes import Lane
from captures.analysis.groups.surroundings import Surroundings
from captures.meaning import words

HANDED_ON = 2
"""Heartbeats within which a partition that was given up has its new owner."""


@dataclass(slots=True)
class Seen:
    """What is known of members that were not captured, as the group goes through its epochs.

    :ivar strangers: whether there are any; None if that is not known
    :ivar missing: partitions that they have
    """

    epochs: Epochs
    scene: Surroundings
    strangers: bool | None = None
    missing: frozenset[Place] = frozenset()
    _had: set[Place] = field(default_factory=set)

    def look(
        self,
        bump: Bump,
        members: Iterable[Lane],
        held: Iterable[frozenset[Place]],
        time: int,
        *,
        settled: bool,
    ) -> None:
        """Look at the group as it is before the next bump, or at the end.

        :param members: those who are known
        :param held: what they have
        :param time: when that is
        :param settled: whether all of them came to the epoch that the bump led to
        """
        everybody = list(members)
        has = frozenset[Place]().union(*held)
        self._had |= has
        if any(reason.trigger is Trigger.UNKNOWN for reason in bump.reasons):
            self.strangers = True
        since = max([bump.time, *(lane.changed_before(time) for lane in everybody)])
        if not settled or not everybody or time - since <= HANDED_ON * max(lane.pace for lane in everybody):
            return  # what was given up may be on its way to its new owner
        # what topics have become since then changes nothing before the next bump
        self.missing = self._expected(everybody, since) - has
        if has or self.missing:
            self.strangers = bool(self.missing)

    @property
    def whole(self) -> bool:
        """Whether those who were seen are the whole group."""
        return self.strangers is False or (self.strangers is None and self.epochs.counter.from_the_first)

    def tell(self, timeline: GroupTimeline) -> None:
        """Put into words how much was seen."""
        epochs = self.epochs
        timeline.complete = self.whole
        if epochs.counter.began_before and epochs.counter.first >= 0:
            timeline.seen.append(f"the capture begins in epoch {epochs.counter.first}")
        if self.strangers and self.missing:
            told = partitions(self.missing)
            timeline.seen.append(f"{told} are with members that were not seen speaking")
        elif not timeline.complete:
            count = sum(lane.alive for lane in epochs.lanes)
            told = f"{words.counted(count, 'member')} seen speaking at the end; " if count else ""
            timeline.seen.append(f"{told}whether there are more was not captured")

    def _expected(self, members: list[Lane], time: int) -> frozenset[Place]:
        """Return the partitions that somebody must have."""
        if self.epochs.kind is Kind.STREAMS:
            return frozenset(self._had)
        wanted = {topic for lane in members for topic in lane.topics or ()}
        open_ended = any(lane.pattern or lane.topics is None for lane in members)
        expected: set[Place] = set()
        for topic in {place.topic for place in self._had}:
            if topic not in wanted and not open_ended:
                continue
            count = self.scene.partitions.at(topic, time)
            if count is None:
                expected |= {place for place in self._had if place.topic == topic}
            else:
                expected |= {Place(topic, index) for index in range(count)}
        return frozenset(expected)
