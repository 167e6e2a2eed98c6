"""Members without partitions."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.finding import EffectOf, Finding, Severity
from captures.analysis.findings.of_groups import AssignmentRule, assignments, seen_of
from captures.analysis.findings.rule import Threshold, Unit
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Kind
from captures.meaning import words
from captures.time_format import span
from dissectors.units import MS

_SHARED = frozenset({Kind.SHARE, Kind.STREAMS})
"""Kinds in which members may share partitions, or be standbys."""


class MembersWithoutPartitions(AssignmentRule):
    """Finds members without partitions in stable groups."""

    name = "members_without_partitions"
    effect_of = EffectOf.MEMBERS
    title = "Members without partitions"
    about = (
        "Only one member of a group consumes a partition at a time, so members beyond the number of partitions "
        "are idle. They may be a reserve, but they do not make the group faster."
    )
    severity = Severity.LOW
    thresholds = (Threshold("rest", 5_000, Unit.MILLISECONDS, "how long the group has to be stable"),)

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield the members without partitions."""
        if timeline.kind in _SHARED:
            return
        for rebalance, rest in reversed(assignments(timeline)):
            idle = [member for member, partitions in rebalance.assigned.items() if not partitions]
            if idle and any(rebalance.assigned.values()) and rest >= self.limit("rest") * MS:
                yield self._found(timeline, rebalance, rest, labels.several(idle), len(idle))
                return  # the latest one is enough

    def _found(
        self, timeline: GroupTimeline, rebalance: Rebalance, rest: int, names: str, idle: int
    ) -> Finding:
        partitions = sum(map(len, rebalance.assigned.values()))
        many = len(rebalance.assigned)
        return self.finding_of(
            timeline,
            f"{idle} of {words.counted(many, 'member')} of group {words.line(timeline.group)} "
            f"{'has' if idle == 1 else 'have'} had no partition for {span(rest)} ({names}): "
            f"the group has {words.counted(partitions, 'partition')}.",
            "Run as many members as there are partitions, or add partitions if more consumers are needed.",
            seen_of([rebalance]),
            rebalances=[rebalance],
        )
