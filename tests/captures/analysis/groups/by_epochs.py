"""Rebalances of consumer, share and streams groups from the coordinator's log (``GroupMetadataManager``, Kafka 4.x).

Every bump of the group epoch is one. A change of the group is logged before its bump. When a member of a share or
streams group leaves or is fenced, that is logged, but not the resulting bump. A bump without a change before it is
caused by topics: by their number of partitions or, for share groups, by partitions whose state was initialised.
"""

from __future__ import annotations

import re

from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.vocabulary import Trigger
from tests.captures.analysis.groups.truth import ExpectedRebalance, Truth, TruthEvent, is_slow, said, silenced

_JOINS = re.compile(
    r"Member (\S+) joins the (?:consumer|share) group|\[MemberId (\S+)\] Member joins the streams group"
)
_STATIC = re.compile(r"Static member (\S+) with instance id (\S+) joins the consumer group")
_RETURNS = re.compile(
    r"Static member with instance id (\S+) re-joins .* Created a new member (\S+) to replace .* (\S+)\.$"
)
_LEFT = re.compile(r"Member (\S+) left the (?:consumer|share|streams) group")
_OVERDUE = re.compile(
    r"Member (\S+) fenced from the group because it failed to transition from epoch \d+ within"
)
_FENCED = re.compile(r"[Mm]ember (\S+) fenced from the group because the member session expired")
_BUMPED = re.compile(r"Bumped (?:streams )?group epoch to (\d+) ")
_COMPUTED = re.compile(r"Computed a new target assignment for epoch (\d+) ")
_SHARES = re.compile(r"Member (\S+) new assignment state: epoch=(\d+), .*assignedPartitions=\[(.*)\]\.$")
_TASKS = re.compile(
    r"\[MemberId (\S+)\] Member's new assignment state: epoch=(\d+), .*?assignedTasks=\(active=\[(.*?)\]"
)
_SILENT = re.compile(
    r"updated its (subscribed topics|member metadata)|Computed new metadata hash|Scanned \d+ topics|"
    r"initialized the topology|Configuring the topology|Valid topic configuration|temporarily left the consumer group|"
    r"cannot join the group because the instance id is owned|Received retriable error in find coordinator|"
    r"Unloaded group metadata"
)


def rebalances(truth: Truth) -> list[ExpectedRebalance]:
    """Return the epochs that the coordinator logged."""
    reading = _EpochReader(truth)
    for time, line in truth.log:
        reading.line(time, line)
    reading.end()
    return reading.found


class _EpochReader:
    def __init__(self, truth: Truth) -> None:
        self.found: list[ExpectedRebalance] = []
        self._truth = truth
        self._members: dict[str, tuple[str, float]] = {}
        self._changed: tuple[float, TruthEvent] | None = None

    def line(self, time: float, line: str) -> None:
        """Process a line of the log."""
        if match := _STATIC.search(line):
            self._joins(match[1], self._truth.of_instance(match[2], time), time)
        elif match := _RETURNS.search(line):
            del self._members[match[3]]
            self._members[match[2]] = self._truth.of_instance(match[1], time), time
        elif match := _JOINS.search(line):
            self._joins(match[1] or match[2], self._latest(time), time)
        elif match := _LEFT.search(line):
            self._goes(match[1], Trigger.MEMBER_LEFT, time)
        elif match := _OVERDUE.search(line):
            self._goes(match[1], Trigger.REBALANCE_TIMEOUT, time)
        elif match := _FENCED.search(line):
            self._goes(match[1], Trigger.SESSION_TIMEOUT, time)
        elif match := _BUMPED.search(line):
            self._bumped(int(match[1]), time)
        elif match := _COMPUTED.search(line):
            if self._changed is not None:
                self._bumped(int(match[1]), time)
        elif match := _SHARES.search(line):
            # Kafka logs topic IDs here; there is one topic
            numbers = [place.rpartition("-")[2] for place in match[3].split(", ") if place]
            self._has(
                match[1],
                int(match[2]),
                {TopicPartition(self._truth.topic, int(number)) for number in numbers},
            )
        elif match := _TASKS.search(line):
            tasks = re.findall(r"(\d+)-(\d+)@", match[3])
            self._has(match[1], int(match[2]), {TopicPartition(each, int(number)) for each, number in tasks})
        else:
            assert _SILENT.search(line), f"unknown line: {line}"

    def end(self) -> None:
        """Add what the log does not contain: the ends of rebalances, and the events of listeners."""
        if self._changed is not None:
            self._bumped(self.found[-1].generation + 1, self._changed[0])  # type: ignore[operator]
        for told in said(self._truth):
            transitions = [each for each in self.found if each.latest <= told.time]
            if transitions:
                transitions[-1].assigned[told.who] = told.has

    def _latest(self, time: float) -> str:
        """Return the client that started last and has not joined: its member ID does not identify it."""
        joined = {name for name, _ in self._members.values()}
        starts: list[str] = [
            event["who"] for event in self._truth.events if event["what"] == "start" and event["t"] <= time
        ]
        return next(name for name in reversed(starts) if name not in joined)

    def _joins(self, member: str, name: str, time: float) -> None:
        self._members[member] = name, time
        self._changed = time, TruthEvent(trigger=Trigger.MEMBER_JOINED, who=frozenset({name}), member=member)

    def _goes(self, member: str, trigger: Trigger, time: float) -> None:
        if self._changed is not None:
            self._bumped(self.found[-1].generation + 1, self._changed[0])  # type: ignore[operator]
        name, since = self._members.pop(member)
        who = frozenset({name})
        why = silenced(self._truth, who, since, time) if trigger is Trigger.SESSION_TIMEOUT else None
        told = trigger is not Trigger.MEMBER_LEFT or not is_slow(self._truth, who, time)
        if not told:
            # a member that leaves only sends epoch -1, whatever its reason
            trigger = Trigger.MAX_POLL_EXCEEDED
        self._changed = time, TruthEvent(trigger=trigger, who=who, member=member, why=why, told=told)

    def _bumped(self, epoch: int, time: float) -> None:
        if self._changed is not None and self.found and epoch - 2 == self.found[-1].generation:
            # the change caused a bump of its own, which is not logged, before this one: Kafka 4.1 does that when it
            # finds initialised share partitions without a member
            self._bumped(epoch - 1, self._changed[0])
        began, cause = self._changed or (time, TruthEvent(trigger=Trigger.PARTITIONS_CHANGED))
        self._changed = None
        self.found.append(
            ExpectedRebalance(
                generation=epoch,
                causes=[cause],
                earliest=began,
                latest=began,
                size=len(self._members),
                emptied=not self._members,
            )
        )

    def _has(self, member: str, epoch: int, has: set[TopicPartition]) -> None:
        if self.found and self.found[-1].generation == epoch and member in self._members:
            self.found[-1].assigned[self._members[member][0]] = frozenset(has)
