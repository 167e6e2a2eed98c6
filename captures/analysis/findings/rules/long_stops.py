"""Partitions that no member consumed for long because of rebalances."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import GroupRule
from captures.analysis.findings.rule import Threshold, Unit
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import GroupTimeline, Rebalance, Stop
from captures.analysis.groups.vocabulary import Kind
from captures.meaning import words
from captures.time_format import span
from dissectors.units import MS

_LEAVE = "Find out what triggered these rebalances (kproxy groups). Let members leave the group when they end"
_BY_KIND = {
    Kind.CLASSIC: f"{_LEAVE}, and use group.instance.id for restarts. With the cooperative sticky assignor or "
    "group.protocol=consumer, only the partitions that move stop.",
    Kind.CONSUMER: f"{_LEAVE}, and use group.instance.id for restarts.",
    Kind.SHARE: f"{_LEAVE}: the partitions of one that dies wait for group.share.session.timeout.ms, unless other "
    "members have them too. With more members than partitions, several have each.",
    Kind.STREAMS: f"{_LEAVE}. With standby replicas, tasks restore less of their state after they move.",
}
_FOR_WORKERS = (
    "Find out why the worker was gone (kproxy groups). What it ran waits for scheduled.rebalance.max.delay.ms, also "
    "after the worker is back: lower that if restarts are faster."
)


class LongStops(GroupRule):
    """Finds rebalances after which partitions waited long for a consumer."""

    name = "long_stops"
    effect_of = EffectOf.MEMBERS
    title = "Partitions that no member consumed for a long time"
    about = (
        "From the last Fetch of a partition's old owner to the first Fetch of its new owner, no member consumes "
        "it. With the eager protocol every rebalance stops all partitions of the group; with the cooperative one "
        "(KIP-429) and KIP-848 only those that move."
    )
    thresholds = (
        Threshold("longest", 10_000, Unit.MILLISECONDS, "how long a partition may go unconsumed"),
        Threshold(
            "grave", 60_000, Unit.MILLISECONDS, "time from which the severity is high instead of medium"
        ),
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield a finding if partitions waited too long."""
        bound = self.limit("longest") * MS
        found = [
            (rebalance, stop)
            for rebalance in timeline.rebalances
            for stop in rebalance.stopped
            if stop.duration >= bound
        ]
        if found:
            yield self._found(timeline, found)

    def _found(self, timeline: GroupTimeline, found: list[tuple[Rebalance, Stop]]) -> Finding:
        seen = Occurrences()
        rebalances = {id(rebalance): rebalance for rebalance, _ in found}
        for rebalance in rebalances.values():
            seen.note(next(iter(rebalance.cause.evidence or rebalance.evidence), 0), rebalance.time)
        seen.first = min(stop.begin or rebalance.time for rebalance, stop in found)
        seen.last = max(
            max(stop.end, rebalance.time) if stop.begin else rebalance.time for rebalance, stop in found
        )
        worst, longest = max(found, key=lambda each: each[1].duration)
        open_ = any(not stop.ended for _, stop in found)
        places = partitions({stop.tp for _, stop in found})
        who, did, done = (
            ("worker", "ran", "run") if timeline.of_workers else ("member", "consumed", "consumed")
        )
        return self.finding_of(
            timeline,
            f"No {who} of group {words.line(timeline.group)} {did} {places} for up to {span(longest.duration)} "
            f"because of {_rebalances(len(rebalances), worst)}"
            f"{f', and some are still not {done}' if open_ else ''}.",
            _advice(timeline),
            seen,
            rebalances=rebalances.values(),
            severity=Severity.HIGH if longest.duration >= self.limit("grave") * MS else Severity.MEDIUM,
            certainty=worst.certainty,
        )


def _advice(timeline: GroupTimeline) -> str:
    if timeline.of_workers:
        return _FOR_WORKERS
    return _BY_KIND[Kind.STREAMS if timeline.of_streams else timeline.kind]


def _rebalances(count: int, worst: Rebalance) -> str:
    alike = [cause for cause in worst.causes if cause.trigger is worst.trigger]
    phrase = worst.trigger.phrase_of_one if len(alike) == 1 else worst.trigger.phrase
    return f"a rebalance ({phrase})" if count == 1 else f"{count:,} rebalances (the longest time: {phrase})"
