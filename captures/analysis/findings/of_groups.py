"""Helpers of rules about groups: these examine the groups' timelines, not exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

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
    """Examines each group's timeline."""

    of_groups = True

    def findings(self) -> Iterator[Finding]:
        for timeline in self.context.groups:
            yield from self.of_group(self._judged(timeline), Labels(timeline))

    def finding_of(
        self,
        timeline: GroupTimeline,
        sentence: str,
        advice: str,
        seen: Occurrences,
        *,
        what: str = "",
        rebalances: Iterable[Rebalance] = (),
        **more: Any,
    ) -> Finding:
        """Make a finding about a group.

        :param what: its subject beside the group
        :param rebalances: rebalances whose evidence its filter shows
        """
        subject = words.listed([f"group {timeline.group}", what])
        more = {"filter_text": _filter(timeline, rebalances), "group": timeline.group} | more
        return self.finding(subject, sentence, advice, seen, **more)

    def _judged(self, timeline: GroupTimeline) -> GroupTimeline:
        """Return a timeline without the rebalances that kproxy caused."""
        judged = [each for each in timeline.rebalances if each.trigger is not Trigger.KPROXY_INTERVENED]
        return timeline if len(judged) == len(timeline.rebalances) else replace(timeline, rebalances=judged)

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield the findings about one group.

        :param labels: labels of its members
        """
        raise NotImplementedError

    def blind(self) -> str:
        """Return why it could not judge, or which groups were not completely seen."""
        groups = [timeline for timeline in self.context.groups if timeline.members]
        if not groups:
            return NO_GROUPS
        parts = [_not_seen(timeline) for timeline in groups if timeline.seen]
        more = f"; {len(parts) - _MOST_GROUPS} more groups" if len(parts) > _MOST_GROUPS else ""
        return "; ".join(parts[:_MOST_GROUPS]) + more


class AssignmentRule(GroupRule):
    """Examines how partitions are assigned to members, if all members were seen."""

    def _judged(self, timeline: GroupTimeline) -> GroupTimeline:
        return timeline  # whatever caused an assignment, the group has it

    def blind(self) -> str:
        groups = [timeline for timeline in self.context.groups if timeline.rebalances]
        if not groups:
            return NO_GROUPS
        return "" if any(map(assignments, groups)) else _NO_ASSIGNMENTS


def _not_seen(timeline: GroupTimeline) -> str:
    return f"of group {words.clipped(words.line(timeline.group), _NAME_LENGTH)}, {', '.join(timeline.seen)}"


class AssignmentPeriod(NamedTuple):
    """An assignment of partitions to members.

    :ivar rebalance: the rebalance that led to it
    :ivar lasted: ns until the next one, or until the end of the timeline
    """

    rebalance: Rebalance
    lasted: int


def assignments(timeline: GroupTimeline) -> list[AssignmentPeriod]:
    """Return the assignments over time that are known for all members.

    Empty for connectors and tasks: those of a lost worker wait for it, and their number does not limit a cluster.
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


def causes_of(timeline: GroupTimeline, trigger: Trigger) -> list[Cause]:
    """Return the causes with one trigger, in the order of their rebalances."""
    return [cause for each in timeline.rebalances for cause in each.causes if cause.trigger is trigger]


def named(names: Iterable[str]) -> str:
    """Return members in words, each by its instance or client ID: ``m3``, ``2 members (m1, m2)``."""
    every = sorted({words.clipped(words.line(name), _NAME_LENGTH) for name in names if name})
    if len(every) > 1:
        return f"{len(every)} members ({some_of(every)})"
    return every[0] if every else "a member"


def _filter(timeline: GroupTimeline, rebalances: Iterable[Rebalance]) -> str:
    """Return a filter for the evidence about a group, and for rebalances: responses about topics do not name it."""
    wanted = of_group(timeline.group)
    if any(cause.trigger is Trigger.PARTITIONS_CHANGED for each in rebalances for cause in each.causes):
        return f"{wanted} or {one_of('api', _OF_TOPICS)}"
    return wanted


def seen_of(rebalances: Iterable[Rebalance]) -> Occurrences:
    """Return rebalances as occurrences: each counts once, with the evidence of its opening."""
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
        seen.note_shown(cause.evidence, cause.time)
    return seen


def least_sure(found: Sequence[Certainty]) -> Certainty:
    """Return the lowest certainty."""
    return max(found, key=_CERTAINTIES.index)
