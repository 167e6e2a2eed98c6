"""Members whose application does not poll often enough: they leave, or keep the whole group waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from captures.analysis.findings.finding import Finding, Occurrences
from captures.analysis.findings.of_groups import (
    GroupRule,
    causes_of,
    least_sure,
    named,
    seen_causes,
)
from captures.analysis.findings.rule import Threshold, Unit, times
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, GroupTimeline, Span
from captures.analysis.groups.vocabulary import Certainty, Phase, Trigger
from captures.meaning import words
from captures.time_format import span
from dissectors.units import MS

_ADVICE = (
    "Let each poll return less (max.poll.records), process faster or outside the polling thread, or raise "
    "max.poll.interval.ms above the longest time that the records of one poll take."
)
_EXCEEDED = {
    Trigger.MAX_POLL_EXCEEDED: (
        "max.poll.interval.ms",
        "{names} left group {group} {times} after not polling for max.poll.interval.ms{limit}.",
    ),
    Trigger.REBALANCE_TIMEOUT: (
        "left out",
        "Group {group} continued without {names} {times}: {they} knew of the rebalance but did not join in {limit}.",
    ),
}
"""Subjects of findings beside the group, and their sentences."""


class _MissingSteps(NamedTuple):
    """What living members fail to do in a rebalance.

    :ivar subject: subject of findings, beside the group
    :ivar sentence: with placeholders for the group, the names, and the time
    """

    subject: str
    sentence: str
    advice: str


_UNDONE = {
    Phase.NOT_JOINING: _MissingSteps(
        "did not join",
        "Group {group} waited up to {time} for {names}: {they} knew of the rebalance and sent heartbeats, but did not "
        "join because the application did not poll.",
        _ADVICE,
    ),
    Phase.REVOKING: _MissingSteps(
        "did not give up",
        "Group {group} waited up to {time} for {names} to give up partitions: {they} sent heartbeats, but the "
        "application did not poll, or could not commit.",
        f"First check whether commits succeed (commit_failures): partitions are given up after them. {_ADVICE}",
    ),
}


class _HeldUp(NamedTuple):
    """How long others waited for a member.

    :ivar waited: ns
    """

    name: str
    span: Span
    waited: int


class SlowPolls(GroupRule):
    """Finds members that exceeded max.poll.interval.ms, and those that others waited for in a rebalance."""

    name = "slow_polls"
    title = "Applications that poll too rarely"
    about = (
        "A consumer sends heartbeats from a separate thread, but joins a rebalance, and stays in the group, only "
        "by polling (KIP-62). If it does not poll for max.poll.interval.ms, it leaves the group, with the reason "
        "'consumer poll timeout has expired' (KIP-800) if its version gives one. If it knows of a rebalance and "
        "keeps sending heartbeats without joining, all others wait; so they do for a KIP-848 member that does not"
        " give up partitions assigned to another."
    )
    thresholds = (
        Threshold(
            "held_up",
            6_000,
            Unit.MILLISECONDS,
            "how long a member that knows of a rebalance may take to join, or to give partitions up",
        ),
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield one finding for members that exceeded the interval, and for each reason for which others waited."""
        for trigger in _EXCEEDED:
            causes = causes_of(timeline, trigger)
            if causes:
                yield self._exceeded(timeline, trigger, causes)
        bound = self.limit("held_up") * MS
        for phase, undone in _UNDONE.items():
            found = [
                _HeldUp(member.name, span, waited)
                for member in timeline.members
                for span in member.spans
                if span.phase is phase and (waited := _waited(timeline, span)) >= bound
            ]
            if found:
                yield self._held_up(timeline, undone, found)

    def _exceeded(self, timeline: GroupTimeline, trigger: Trigger, causes: list[Cause]) -> Finding:
        subject, what = _EXCEEDED[trigger]
        members = timeline.by_id()
        known = (members.get(cause.member) for cause in causes)
        limit = max((member.rebalance_timeout or 0 for member in known if member is not None), default=0)
        # this reason comes from Java, whose request has max.poll.interval.ms; that of aiokafka has another setting
        is_limit = trigger is Trigger.REBALANCE_TIMEOUT or all(
            cause.certainty is Certainty.OBSERVED for cause in causes
        )
        limit_text = f" ({'' if is_limit else 'its rebalance timeout is '}{span(limit)})" if limit else ""
        if trigger is Trigger.REBALANCE_TIMEOUT:
            limit_text = f"the rebalance timeout{limit_text}"
        sentence = what.format(
            names=named(cause.instance or cause.client for cause in causes),
            group=words.line(timeline.group),
            times=times(len(causes)),
            limit=limit_text,
            they="they" if len({cause.member for cause in causes}) > 1 else "it",
        )
        return self.finding_of(
            timeline,
            sentence,
            _ADVICE,
            seen_causes(causes),
            what=subject,
            certainty=least_sure([cause.certainty for cause in causes]),
        )

    def _held_up(self, timeline: GroupTimeline, undone: _MissingSteps, found: list[_HeldUp]) -> Finding:
        seen = Occurrences()
        for each in found:
            seen.note(each.span.number, each.span.begin)
            seen.last = max(seen.last, each.span.begin + each.waited)
        return self.finding_of(
            timeline,
            undone.sentence.format(
                group=words.line(timeline.group),
                names=named(each.name for each in found),
                they="they" if len({each.name for each in found}) > 1 else "it",
                time=span(max(each.waited for each in found)),
            ),
            undone.advice,
            seen,
            what=undone.subject,
        )


def _waited(timeline: GroupTimeline, span: Span) -> int:
    """Return the ns that others waited: until the member did its part, or the rebalance continued without it."""
    ends = [
        each.end
        for each in timeline.rebalances
        if each.end is not None and each.time <= span.begin < each.end
    ]
    return min([span.end, *ends]) - span.begin
