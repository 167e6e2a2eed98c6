"""Groups whose members subscribe to different topics."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.common import some_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences
from captures.analysis.findings.of_groups import GroupRule
from captures.analysis.findings.rule import Threshold, Unit
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.subscriptions import differing
from captures.meaning import words
from captures.time_format import span
from dissectors.units import MS


class DifferingSubscriptions(GroupRule):
    """Compares the subscriptions of a group's members."""

    name = "differing_subscriptions"
    effect_of = EffectOf.MEMBERS
    title = "Members of one group with different subscriptions"
    about = (
        "Members of a group may subscribe to different topics; the partitions of a topic then go to its "
        "subscribers. More often it is a mistake: two applications with one group.id, or a rollout that stopped "
        "half way. Every change in one of them then rebalances the other."
    )
    thresholds = (
        Threshold(
            "together",
            10_000,
            Unit.MILLISECONDS,
            "how long members have to differ, unless they do at the end of the capture",
        ),
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield a finding if they differ."""
        differ = differing(timeline, self.limit("together") * MS)
        if differ is None:
            return
        found = differ.parties
        seen = Occurrences()
        for members in found.values():
            first = members[0]
            seen.note(first.spans[0].number if first.spans else 0, first.first)
        seen.first, seen.last = differ.begin, differ.end
        parts = [
            f"{labels.several([member.member for member in members])}: {some_of(map(words.line, topics))}"
            for topics, members in list(found.items())[: words.SHOWN]
        ]
        more = f" and {len(found) - words.SHOWN} more" if len(found) > words.SHOWN else ""
        yield self.finding_of(
            timeline,
            f"Members of group {words.line(timeline.group)} "
            f"{'subscribe' if differ.lasting else 'subscribed'} to {len(found)} different sets of topics"
            f"{'' if differ.lasting else f' for {span(differ.lasted)}'} ({'; '.join(parts)}{more}).",
            "Give each application a group.id of its own, or finish the rollout that changes the subscription.",
            seen,
        )
