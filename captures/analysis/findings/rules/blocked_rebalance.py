"""Rebalances that do not end."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import GroupRule
from captures.analysis.findings.rule import Threshold, Unit
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import AwaitedMember, GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Kind
from captures.meaning import words
from captures.time_format import span
from dissectors.units import MS


class BlockedRebalance(GroupRule):
    """Finds a long rebalance that is running at the end of the capture, or now."""

    name = "blocked_rebalance"
    effect_of = EffectOf.MEMBERS
    title = "A rebalance that does not end"
    about = (
        "In a rebalance of a classic group, the coordinator answers no JoinGroup until all members have sent "
        "theirs, or the rebalance timeout is over (max.poll.interval.ms of the slowest). One member that does not"
        " poll stops all of them. In groups of the newer protocols, a partition that moves waits until its owner "
        "has given it up."
    )
    severity = Severity.HIGH
    thresholds = (Threshold("longest", 10_000, Unit.MILLISECONDS, "how long a rebalance may run"),)

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield the running rebalance, if it takes long."""
        last = timeline.rebalances[-1] if timeline.rebalances else None
        if last is None or not last.running:
            return
        runs = timeline.last - last.time
        if runs >= self.limit("longest") * MS:
            yield self._found(timeline, last, runs, labels)

    def _found(self, timeline: GroupTimeline, running: Rebalance, runs: int, labels: Labels) -> Finding:
        awaited = running.awaited
        seen = Occurrences()
        seen.note(running.evidence[0] if running.evidence else 0, running.time)
        for number in running.evidence[1:]:
            seen.show(number)
        seen.last = max(timeline.last, running.time)
        names = labels.several([each.member for each in awaited])
        waits = (
            f" It waits for {names}{_beating(timeline.kind, awaited)}{_until(awaited, timeline.last)}."
            if awaited
            else ""
        )
        advice = (
            f"Take a thread dump of {names} to see what it does instead of polling, or end that process: the others "
            f"continue as soon as it leaves or its session times out."
            if awaited
            else "Find the member that does not take part: kproxy groups shows those that do."
        )
        return self.finding_of(
            timeline,
            f"A rebalance of group {words.line(timeline.group)} has been running for {span(runs)}, and no member "
            f"consumes the partitions that it took away.{waits}",
            advice,
            seen,
            rebalances=[running],
        )


def _beating(kind: Kind, awaited: list[AwaitedMember]) -> str:
    beats = sum(each.beats for each in awaited)
    left_undone = "join" if kind is Kind.CLASSIC else "give up partitions for others"
    return (
        f", which sent {words.counted(beats, 'heartbeat')} meanwhile and did not {left_undone}"
        if beats
        else ""
    )


def _until(awaited: list[AwaitedMember], now: int) -> str:
    deadlines = [each.deadline for each in awaited if each.deadline is not None]
    if not deadlines or max(deadlines) <= now:
        return ""
    return f"; in {span(max(deadlines) - now)} the coordinator continues without"
