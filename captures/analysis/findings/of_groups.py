"""What rules about groups have in common: they look at the groups' timelines, not at exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from captures.analysis.conditions import of_group
from captures.analysis.findings.common import one_of, some_of
from captures.analysis.findings.finding import Finding, Occurrences
from captures.analysis.findings.rule import Rule
from captures.analysis.groups.context import OF_TOPICS
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.meaning import words
from dissectors.apis import api_name

NO_GROUPS = "no member of a group was seen speaking with its coordinator"
_NO_ASSIGNMENTS = "no group was seen with the assignments of all its members"
_CERTAINTIES = list(Certainty)
_NAME_LENGTH = 60
_MOST_GROUPS = 3
_OF_TOPICS = [api_name(key) for key in sorted(OF_TOPICS)]


class GroupRule(Rule):
    """Finds something in each group's timeline."""

    of_groups: ClassVar[bool] = True

    def findings(self) -> Iterator[Finding]:
        """Yield what was found so far."""
        for timeline in self.scene.groups:
            for finding in self.of_group(self._judged(timeline), Labels(timeline)):
                yield replace(finding, group=timeline.group)

    def _judged(self, timeline: GroupTimeline) -> GroupTimeline:
        """Return a timeline without the rebalances that kproxy caused."""
        judged = [each for each in timeline.rebalances if each.trigger is not Trigger.KPROXY_INTERVENED]
        return timeline if len(judged) == len(timeline.rebalances) else replace(timeline, rebalances=judged)

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield what was found of one group.

        :param labels: what its members are called
        """
        raise NotImplementedError

    def blind(self) -> str:
        """Return why it could not judge, or which groups were not seen as a whole."""
        groups = [timeline for timeline in self.scene.groups if timeline.members]
        if not groups:
            return NO_GROUPS
        parts = [_not_seen(timeline) for timeline in groups if timeline.seen]
        more = f"; {len(parts) - _MOST_GROUPS} more groups" if len(parts) > _MOST_GROUPS else ""
        return "; ".join(parts[:_MOST_GROUPS]) + more


class AssignmentRule(GroupRule):
    """Finds something in how partitions are given to the members, which takes to have seen all of them."""

    def _judged(self, timeline: GroupTimeline) -> GroupTimeline:
        return timeline  # whatever led to an assignment, the group has it

    def blind(self) -> str:
        """Return why it could not judge."""
        groups = [timeline for timeline in self.scene.groups if timeline.rebalances]
        if not groups:
            return NO_GROUPS
        return "" if any(map(assignments, groups)) else _NO_ASSIGNMENTS


def _not_seen(timeline: GroupTimeline) -> str:
    return f"of group {words.clipped(words.line(timeline.group), _NAME_LENGTH)}, {', '.join(timeline.seen)}"


class AssignmentPeriod(NamedTuple):
    """How partitions were given to the members, for a while.

    :ivar rebalance: that led to it
    :ivar lasted: ns until the next one, or until the end of what is known of the group
    """

    rebalance: Rebalance
    lasted: int


def assignments(timeline: GroupTimeline) -> list[AssignmentPeriod]:
    """Return how partitions were given out over time, of the times when it is known of all members.

    Connectors and tasks are none: what a lost worker ran waits for it, and their number is not what limits a cluster.
    """
    if timeline.of_workers:
        return []
    found = []
    followed = [*(each.time for each in timeline.rebalances[1:]), timeline.last]
    for rebalance, until in zip(timeline.rebalances, followed, strict=False):
        if rebalance.end is None or not rebalance.assigned:
            continue
        whole = timeline.complete if rebalance.size is None else rebalance.size == len(rebalance.assigned)
        if whole:
            found.append(AssignmentPeriod(rebalance, max(until - rebalance.end, 0)))
    return found


def subject_of(timeline: GroupTimeline) -> str:
    """Return what findings of a whole group are about."""
    return f"group {timeline.group}"


def causes_of(timeline: GroupTimeline, trigger: Trigger) -> list[Cause]:
    """Return the causes with one trigger, in the order of the rebalances that they led to."""
    return [cause for each in timeline.rebalances for cause in each.causes if cause.trigger is trigger]


def named(names: Iterable[str]) -> str:
    """Return how several members are told, each by its instance or client ID: ``m3``, ``2 members (m1, m2)``."""
    every = sorted({words.clipped(words.line(name), _NAME_LENGTH) for name in names if name})
    if len(every) > 1:
        return f"{len(every)} members ({some_of(every)})"
    return every[0] if every else "a member"


def filter_of(timeline: GroupTimeline, rebalances: Iterable[Rebalance] = ()) -> str:
    """Return a filter for what is said about a group.

    :param rebalances: those of which the evidence is shown: what clients are told of topics does not name the group
    """
    wanted = of_group(timeline.group)
    if any(cause.trigger is Trigger.PARTITIONS_CHANGED for each in rebalances for cause in each.causes):
        return f"{wanted} or {one_of('api', _OF_TOPICS)}"
    return wanted


def seen_of(rebalances: Iterable[Rebalance]) -> Occurrences:
    """Return rebalances as occurrences: each counts once, and what opened it shows it."""
    seen = Occurrences()
    for rebalance in rebalances:
        numbers = rebalance.cause.evidence or tuple(rebalance.evidence)
        seen.note(numbers[0] if numbers else 0, rebalance.time)
        seen.last = max(seen.last, rebalance.end or rebalance.time)
    return seen


def seen_causes(causes: Iterable[Cause]) -> Occurrences:
    """Return causes as occurrences."""
    seen = Occurrences()
    for cause in causes:
        first, *more = cause.evidence or (0,)
        seen.note(first, cause.time)
        for number in more:
            seen.show(number)
    return seen


def least_sure(found: Sequence[Certainty]) -> Certainty:
    """Return the least sure of some."""
    return max(found, key=_CERTAINTIES.index)
