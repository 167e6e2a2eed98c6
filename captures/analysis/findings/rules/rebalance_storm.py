"""Groups that rebalance again and again for one cause."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.finding import EffectOf, Finding, Severity
from captures.analysis.findings.of_groups import GroupRule, least_sure, seen_of
from captures.analysis.findings.rule import Threshold, Unit
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.groups.storms import LEAST, MOST_APART, storms
from captures.analysis.groups.vocabulary import Trait, Trigger
from captures.meaning import words
from captures.time_format import span
from dissectors.units import MS

_ADVICE = {
    Trigger.MEMBER_JOINED: "Find out why clients keep joining: one crashes and restarts, one creates a consumer for "
    "each task, or an autoscaler adds them.",
    Trigger.MEMBER_LEFT: "Find out why clients keep closing their consumers: they are short-lived, they are restarted, "
    "or an autoscaler removes them.",
    Trigger.SESSION_TIMEOUT: "Find out why heartbeats stop (finding session_timeouts), or raise session.timeout.ms.",
    Trigger.MAX_POLL_EXCEEDED: "Let each poll return less (max.poll.records), process faster or in another thread, "
    "or raise max.poll.interval.ms above the longest time that one batch takes.",
    Trigger.REBALANCE_TIMEOUT: "Let members poll more often, or raise max.poll.interval.ms, which is the time that "
    "they have to join.",
    Trigger.SUBSCRIPTION_CHANGED: "Let all members subscribe to the same topics, and only once instead of with each "
    "poll.",
    Trigger.PARTITIONS_CHANGED: "Find out who keeps adding partitions, or topics that match the subscription.",
    Trigger.INSTANCE_FENCED: "Give every process a group.instance.id of its own.",
}
_STATIC = " group.instance.id (KIP-345) avoids rebalances on restarts."
_OTHER_ADVICE = "Look at the rebalances one by one: kproxy groups shows what triggered each."


class RebalanceStorm(GroupRule):
    """Finds storms: many rebalances with one cause."""

    name = "rebalance_storm"
    effect_of = EffectOf.MEMBERS
    title = "Repeated rebalances for one cause"
    about = (
        "Each rebalance takes partitions away from members, and for a time no member consumes them; with the "
        "eager protocol all members stop (KIP-429). Several rebalances with one cause are one problem: a process "
        "that crashes and comes back, a poll loop that is too slow, a subscription that flaps."
    )
    severity = Severity.HIGH
    thresholds = (
        Threshold("count", LEAST, Unit.COUNT, "rebalances with one cause that make a storm"),
        Threshold("apart", MOST_APART / MS, Unit.MILLISECONDS, "longest time from one to the next"),
        Threshold(
            "often",
            120_000,
            Unit.MILLISECONDS,
            "mean time from one to the next, below which the severity is high instead of medium",
        ),
        Threshold(
            "busy",
            10,
            Unit.PERCENT,
            "share of the time spent in rebalances, above which the severity is high",
        ),
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield one finding for each cause of storms."""
        least, apart = max(int(self.limit("count")), 2), round(self.limit("apart") * MS)
        by_cause: dict[tuple[Trigger, str], list[list[Rebalance]]] = {}
        for storm in storms(timeline, least=least, most_apart=apart):
            by_cause.setdefault((storm[0].trigger, _who(storm)), []).append(storm)
        for (trigger, who), found in by_cause.items():
            yield self._found(timeline, trigger, who, found)

    def _found(
        self, timeline: GroupTimeline, trigger: Trigger, who: str, found: list[list[Rebalance]]
    ) -> Finding:
        group, every = words.line(timeline.group), [each for storm in found for each in storm]
        took = sum(_until(storm) - storm[0].time for storm in found)
        busy = min(sum(each.duration or 0 for each in every) / max(took, 1), 1.0)
        blame = f" (client {words.clipped(words.line(who), 60)})" if who else ""
        often = took / len(every) <= self.limit("often") * MS
        grave = often or 100 * busy >= self.limit("busy")
        return self.finding_of(
            timeline,
            f"Group {group} rebalanced {len(every)} times within {span(took)} for one cause: "
            f"{trigger.phrase}{blame}; {busy:.0%} of that time it was rebalancing.",
            _advice(timeline, trigger),
            seen_of(every),
            what=f"{trigger}{f' of {who}' if who else ''}",
            rebalances=every,
            severity=Severity.HIGH if grave and Trait.ON_PURPOSE not in trigger.traits else Severity.MEDIUM,
            certainty=least_sure([each.certainty for each in every]),
        )


def _advice(timeline: GroupTimeline, trigger: Trigger) -> str:
    restarts = trigger in (Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT) and timeline.may_be_static
    return _ADVICE.get(trigger, _OTHER_ADVICE) + (_STATIC if restarts else "")


def _who(storm: list[Rebalance]) -> str:
    """Return the member that all rebalances concern; empty if they concern several."""
    names = {each.cause.instance or each.cause.client for each in storm}
    return names.pop() if len(names) == 1 else ""


def _until(storm: list[Rebalance]) -> int:
    return storm[-1].end or storm[-1].time
