"""Groups in which some members have many more partitions than others."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.finding import EffectOf, Finding, Severity
from captures.analysis.findings.of_groups import AssignmentRule, assignments, seen_of
from captures.analysis.findings.rule import Threshold, Unit
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.subscriptions import subscriptions
from captures.analysis.groups.vocabulary import Kind
from captures.meaning import words

_LEAST_APART = 2
"""Partitions; a difference of one is unavoidable if they do not divide evenly."""
_SPREAD = "Use an assignor that spreads the partitions of all topics, such as"
_BY_KIND = {
    Kind.CLASSIC: f"{_SPREAD} CooperativeStickyAssignor.",
    Kind.CONSUMER: f"{_SPREAD} uniform (group.remote.assignor).",
    Kind.STREAMS: "Kafka Streams leaves tasks where their state is. Check whether instances differ in "
    "num.stream.threads, or have just started.",
}


class SkewedAssignment(AssignmentRule):
    """Compares the numbers of partitions of members."""

    name = "skewed_assignment"
    effect_of = EffectOf.MEMBERS
    title = "Unevenly assigned partitions"
    about = (
        "The range assignor assigns each topic separately, starting with the first member: with many topics of "
        "few partitions, the first members get most of them. Round robin, sticky and cooperative sticky spread "
        "them over all members, and so does the uniform assignor of KIP-848."
    )
    severity = Severity.LOW
    thresholds = (
        Threshold(
            "ratio", 200, Unit.PERCENT, "partitions of the busiest member, compared with an even distribution"
        ),
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield a finding if a member has much more than its share."""
        members = timeline.by_id()
        known = [
            given
            for given in assignments(timeline)
            if len(subscriptions(members[each] for each in given.rebalance.assigned if each in members)) < 2
        ]
        if not known or timeline.kind is Kind.SHARE:
            return
        rebalance = max(known, key=lambda given: given.lasted).rebalance
        counts = {member: len(partitions) for member, partitions in rebalance.assigned.items()}
        total, most, least = sum(counts.values()), max(counts.values()), min(counts.values())
        even = total / len(counts)
        if most - least < _LEAST_APART or most * 100 < even * self.limit("ratio"):
            return
        busiest = [member for member, count in counts.items() if count == most]
        yield self.finding_of(
            timeline,
            f"In group {words.line(timeline.group)} {labels.several(busiest)} has "
            f"{words.counted(most, 'partition')}, others {'none' if not least else f'as few as {least}'}; {total} "
            f"among {len(counts)} members would be {even:.1f} "
            f"each{f' (assignor {words.line(rebalance.protocol)})' if rebalance.protocol else ''}.",
            _BY_KIND[Kind.STREAMS if timeline.of_streams else timeline.kind],
            seen_of([rebalance]),
            rebalances=[rebalance],
        )
