"""Rebalances and assignments of groups: storms, silent or slow members, idle partitions, uneven shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from captures.analysis.findings.common import one_of, some_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import (
    AssignmentRule,
    GroupRule,
    assignments,
    causes_of,
    least_sure,
    named,
    seen_causes,
    seen_of,
)
from captures.analysis.findings.rule import Threshold, Unit, times
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import AwaitedMember, Cause, GroupTimeline, Rebalance, Span
from captures.analysis.groups.storms import LEAST, MOST_APART, storms
from captures.analysis.groups.subscriptions import differing, subscriptions
from captures.analysis.groups.vocabulary import Certainty, Kind, Phase, TimeoutCause, Trait, Trigger
from captures.meaning import words
from captures.time_format import span
from dissectors.units import MS

# ---------------------------------------------------------------- rebalance_storm

_STORM_ADVICE = {
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
_OTHER_STORM_ADVICE = "Look at the rebalances one by one: kproxy groups shows what triggered each."


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
        Threshold("apart", MOST_APART / MS, Unit.MS, "longest time from one to the next"),
        Threshold(
            "often",
            120_000,
            Unit.MS,
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
            by_cause.setdefault((storm[0].trigger, _storm_member(storm)), []).append(storm)
        for (trigger, who), found in by_cause.items():
            yield self._found(timeline, trigger, who, found)

    def _found(
        self, timeline: GroupTimeline, trigger: Trigger, who: str, found: list[list[Rebalance]]
    ) -> Finding:
        group, every = words.line(timeline.group), [each for storm in found for each in storm]
        took = sum(_storm_end(storm) - storm[0].time for storm in found)
        busy = min(sum(each.duration or 0 for each in every) / max(took, 1), 1.0)
        blame = f" (client {words.clipped(words.line(who), 60)})" if who else ""
        often = took / len(every) <= self.limit("often") * MS
        grave = often or 100 * busy >= self.limit("busy")
        return self.finding_of(
            timeline,
            f"Group {group} rebalanced {len(every)} times within {span(took)} for one cause: "
            f"{trigger.phrase}{blame}; {busy:.0%} of that time it was rebalancing.",
            _storm_advice(timeline, trigger),
            seen_of(every),
            what=f"{trigger}{f' of {who}' if who else ''}",
            rebalances=every,
            severity=Severity.HIGH if grave and Trait.ON_PURPOSE not in trigger.traits else Severity.MEDIUM,
            certainty=least_sure([each.certainty for each in every]),
        )


def _storm_advice(timeline: GroupTimeline, trigger: Trigger) -> str:
    restarts = trigger in (Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT) and timeline.may_be_static
    return _STORM_ADVICE.get(trigger, _OTHER_STORM_ADVICE) + (_STATIC if restarts else "")


def _storm_member(storm: list[Rebalance]) -> str:
    """Return the member that all rebalances concern; empty if they concern several."""
    names = {each.cause.instance or each.cause.client for each in storm}
    return names.pop() if len(names) == 1 else ""


def _storm_end(storm: list[Rebalance]) -> int:
    return storm[-1].end or storm[-1].time


# ---------------------------------------------------------------- blocked_rebalance


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
    thresholds = (Threshold("longest", 10_000, Unit.MS, "how long a rebalance may run"),)

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield the running rebalance, if it takes long."""
        running = timeline.rebalances[-1] if timeline.rebalances else None
        runs = 0 if running is None else timeline.last - running.time
        if running is None or not running.running or runs < self.limit("longest") * MS:
            return
        awaited = running.awaited
        seen = Occurrences()
        seen.note_shown(running.evidence, running.time)
        seen.last = max(timeline.last, running.time)
        names = labels.several([each.member for each in awaited])
        waits = (
            f" It waits for {names}{_beating(timeline.kind, awaited)}{_deadline(awaited, timeline.last)}."
            if awaited
            else ""
        )
        advice = (
            f"Take a thread dump of {names} to see what it does instead of polling, or end that process: the others "
            f"continue as soon as it leaves or its session times out."
            if awaited
            else "Find the member that does not take part: kproxy groups shows those that do."
        )
        yield self.finding_of(
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


def _deadline(awaited: list[AwaitedMember], now: int) -> str:
    deadlines = [each.deadline for each in awaited if each.deadline is not None]
    if not deadlines or max(deadlines) <= now:
        return ""
    return f"; in {span(max(deadlines) - now)} the coordinator continues without"


# ---------------------------------------------------------------- session_timeouts

_TIMEOUT_CAUSES = {
    TimeoutCause.CLOSED_IN_ORDER: (
        "its process",
        "their processes",
        "shut down cleanly and stayed away longer than the session",
    ),
    TimeoutCause.BROKER_GONE: ("the broker", "the broker", "had closed the connections first: it was down"),
    TimeoutCause.PROCESS_LIVED: ("its process", "their processes", "continued, but not as that member"),
    TimeoutCause.PROCESS_DIED: ("its process", "their processes", "ended without leaving the group"),
    TimeoutCause.PROCESS_PAUSED: (
        "its process",
        "their processes",
        "hung while its host kept answering",
    ),
    TimeoutCause.UNREACHABLE: ("it", "they", "became unreachable"),
    TimeoutCause.HOST_SUSPENDED: ("its host", "their hosts", "had been suspended"),
    TimeoutCause.UNKNOWN: ("the capture", "the capture", "does not show why"),
}
_TIMEOUT_ADVICE = {
    TimeoutCause.CLOSED_IN_ORDER: "Set session.timeout.ms longer than a restart takes, or restart faster: a static "
    "member that is back within its session gets its partitions without a rebalance. If"
    " members are to stay away, remove them with an admin client "
    "(removeMembersFromConsumerGroup).",
    TimeoutCause.BROKER_GONE: "Look at the broker, not at the members: why did it stop, and how long was it away? A "
    "session.timeout.ms longer than a broker's restart keeps members in their group.",
    TimeoutCause.PROCESS_LIVED: "Check the log of that client: it may have left its poll loop, lost its heartbeat "
    "thread, or made a new consumer without closing the former one. Consumers before "
    "0.10.1 send heartbeats only as they poll (KIP-62).",
    TimeoutCause.PROCESS_DIED: "Find out why the process ended (its log, the kernel's OOM killer, the orchestrator). "
    "Let it call close() on SIGTERM, so that its partitions move at once instead of after "
    "session.timeout.ms.",
    TimeoutCause.PROCESS_PAUSED: "Look for long garbage collections, CPU limits, swapping or a debugger on that host."
    " A longer session.timeout.ms bridges pauses, but then crashes are noticed later.",
    TimeoutCause.UNREACHABLE: "Look at the network between that client and the broker (links, firewalls, NAT), and at "
    "the client's host.",
    TimeoutCause.HOST_SUSPENDED: "Find out why the host was suspended: a snapshot or migration of its virtual machine, "
    "an overcommitted hypervisor, or power saving.",
    TimeoutCause.UNKNOWN: "Check the log and the host of that client at that time. A capture on the client's or the "
    "broker's host shows whether the process ended, hung, or was unreachable. Consumers before "
    "0.10.1 send heartbeats only as they poll (KIP-62), so slow processing is enough.",
}


class SessionTimeouts(GroupRule):
    """Finds silent members that the coordinator removed."""

    name = "session_timeouts"
    effect_of = EffectOf.MEMBERS
    title = "Members removed after their session timed out"
    about = (
        "A coordinator removes a member that was silent for session.timeout.ms (group.consumer.session.timeout.ms"
        " with KIP-848). Until then no member consumes its partitions. Inferred from a generation with one member"
        " less and no LeaveGroup. The member's TCP connections show why: its process died, was shut down or was "
        "paused, the network broke, or the broker went away."
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield one finding for each cause of a silence."""
        by_way: dict[TimeoutCause, list[Cause]] = {}
        for cause in causes_of(timeline, Trigger.SESSION_TIMEOUT):
            by_way.setdefault(cause.timeout_cause or TimeoutCause.UNKNOWN, []).append(cause)
        for way, causes in by_way.items():
            ends = [cause.session_end.certainty for cause in causes if cause.session_end is not None]
            yield self.finding_of(
                timeline,
                _timeout_sentence(timeline, way, causes),
                _timeout_advice(way, causes),
                seen_causes(causes),
                what=way,
                certainty=least_sure([*(cause.certainty for cause in causes), *ends]),
            )


def _timeout_advice(way: TimeoutCause, causes: list[Cause]) -> str:
    """Return what to do, and other possible causes."""
    others = dict.fromkeys(
        text for cause in causes if cause.session_end is not None for text in cause.session_end.alternatives
    )
    return _TIMEOUT_ADVICE[way] + "".join(f" Or else {text}." for text in others)


def _timeout_sentence(timeline: GroupTimeline, way: TimeoutCause, causes: list[Cause]) -> str:
    members = {cause.instance or cause.client for cause in causes}
    silences = [cause.silence for cause in causes if cause.silence is not None]
    up_to = "up to " if len(silences) > 1 else ""
    silence = f" after {up_to}{span(max(silences))} of silence" if silences else ""
    one, several, what = _TIMEOUT_CAUSES[way]
    unsure = any(cause.session_end and cause.session_end.certainty is Certainty.POSSIBLE for cause in causes)
    what = f"probably {what}" if unsure and way is not TimeoutCause.UNKNOWN else what
    verb, whose = ("were", several) if len(members) > 1 else ("was", one)
    how_often = "" if len(members) == len(causes) else f" {times(len(causes))}"
    group = words.line(timeline.group)
    return f"{named(members)} {verb} removed from group {group}{how_often}{silence}: {whose} {what}."


# ---------------------------------------------------------------- slow_polls

_POLL_ADVICE = (
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
        _POLL_ADVICE,
    ),
    Phase.REVOKING: _MissingSteps(
        "did not give up",
        "Group {group} waited up to {time} for {names} to give up partitions: {they} sent heartbeats, but the "
        "application did not poll, or could not commit.",
        f"First check whether commits succeed (commit_failures): partitions are given up after them. {_POLL_ADVICE}",
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
            Unit.MS,
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
            _POLL_ADVICE,
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


# ---------------------------------------------------------------- long_stops

_LEAVE = "Find out what triggered these rebalances (kproxy groups). Let members leave the group when they end"
_STOP_ADVICE = {
    Kind.CLASSIC: f"{_LEAVE}, and use group.instance.id for restarts. With the cooperative sticky assignor or "
    "group.protocol=consumer, only the partitions that move stop.",
    Kind.CONSUMER: f"{_LEAVE}, and use group.instance.id for restarts.",
    Kind.SHARE: f"{_LEAVE}: the partitions of one that dies wait for group.share.session.timeout.ms, unless other "
    "members have them too. With more members than partitions, several have each.",
    Kind.STREAMS: f"{_LEAVE}. With standby replicas, tasks restore less of their state after they move.",
}
_STOPPED_WORKER_ADVICE = (
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
        Threshold("longest", 10_000, Unit.MS, "how long a partition may go unconsumed"),
        Threshold("grave", 60_000, Unit.MS, "time from which the severity is high instead of medium"),
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
        if not found:
            return
        rebalances = {id(rebalance): rebalance for rebalance, _ in found}
        seen = seen_of(rebalances.values())
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
        yield self.finding_of(
            timeline,
            f"No {who} of group {words.line(timeline.group)} {did} {places} for up to {span(longest.duration)} "
            f"because of {_rebalances(len(rebalances), worst)}"
            f"{f', and some are still not {done}' if open_ else ''}.",
            _stop_advice(timeline),
            seen,
            rebalances=rebalances.values(),
            severity=Severity.HIGH if longest.duration >= self.limit("grave") * MS else Severity.MEDIUM,
            certainty=worst.certainty,
        )


def _stop_advice(timeline: GroupTimeline) -> str:
    if timeline.of_workers:
        return _STOPPED_WORKER_ADVICE
    return _STOP_ADVICE[Kind.STREAMS if timeline.of_streams else timeline.kind]


def _rebalances(count: int, worst: Rebalance) -> str:
    alike = [cause for cause in worst.causes if cause.trigger is worst.trigger]
    phrase = worst.trigger.phrase_of_one if len(alike) == 1 else worst.trigger.phrase
    return f"a rebalance ({phrase})" if count == 1 else f"{count:,} rebalances (the longest time: {phrase})"


# ---------------------------------------------------------------- records_doubled

_MANY_TIMES = 100


class RecordsDoubled(GroupRule):
    """Adds up records that are fetched twice because they were not committed when partitions changed hands."""

    name = "records_doubled"
    effect_of = EffectOf.MEMBERS
    title = "Records processed twice after rebalances"
    about = (
        "The next owner of a partition starts at the committed offset. Records that the previous owner had "
        "fetched beyond it are fetched again, and processed twice unless the application prevents that "
        "(at-least-once delivery). How many of them had really been processed is not on the wire."
    )
    thresholds = (
        Threshold(
            "many", 1_000, Unit.COUNT, "offsets of a group; fewer are low, a hundred times as many are high"
        ),
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield a finding if there are any."""
        found = [
            (rebalance, refetched) for rebalance in timeline.rebalances for refetched in rebalance.refetched
        ]
        total = sum(refetched.count for _, refetched in found)
        if not total:
            return
        causes = sorted({rebalance.trigger.phrase for rebalance, _ in found})
        topics = sorted({refetched.tp.topic for _, refetched in found})
        yield self.finding_of(
            timeline,
            f"Group {words.line(timeline.group)} fetched {words.counted(total, 'offset')} of "
            f"{partitions({refetched.tp for _, refetched in found})} again after rebalances "
            f"({words.listed(causes)}): records that were processed but not committed are processed twice.",
            "Commit processed records before partitions are revoked (in onPartitionsRevoked; close() does so), and "
            "commit more often. Make processing idempotent, or use transactions.",
            Occurrences.of((refetched.number, rebalance.time) for rebalance, refetched in found),
            filter_text=f"api in {{Fetch, ShareFetch}} and {one_of('topic', topics)}",
            severity=self._how_grave(total),
            certainty=least_sure([Certainty.INFERRED, *(rebalance.certainty for rebalance, _ in found)]),
        )

    def _how_grave(self, total: int) -> Severity:
        many = self.limit("many")
        if total < many:
            return Severity.LOW
        return Severity.HIGH if total >= _MANY_TIMES * many else Severity.MEDIUM


# ---------------------------------------------------------------- differing_subscriptions


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
            Unit.MS,
            "how long members have to differ, unless they do at the end of the capture",
        ),
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield a finding if they differ."""
        differ = differing(timeline, self.limit("together") * MS)
        if differ is None:
            return
        found = differ.parties
        firsts = (members[0] for members in found.values())
        seen = Occurrences.of((each.spans[0].number if each.spans else 0, each.first) for each in firsts)
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


# ---------------------------------------------------------------- members_without_partitions

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
    thresholds = (Threshold("rest", 5_000, Unit.MS, "how long the group has to be stable"),)

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield the members without partitions."""
        if timeline.kind in _SHARED:
            return
        for rebalance, rest in reversed(assignments(timeline)):
            idle = [member for member, partitions in rebalance.assigned.items() if not partitions]
            if idle and any(rebalance.assigned.values()) and rest >= self.limit("rest") * MS:
                shares = sum(map(len, rebalance.assigned.values()))
                yield self.finding_of(
                    timeline,
                    f"{len(idle)} of {words.counted(len(rebalance.assigned), 'member')} of group "
                    f"{words.line(timeline.group)} {'has' if len(idle) == 1 else 'have'} had no partition for "
                    f"{span(rest)} ({labels.several(idle)}): the group has {words.counted(shares, 'partition')}.",
                    "Run as many members as there are partitions, or add partitions if more consumers are needed.",
                    seen_of([rebalance]),
                    rebalances=[rebalance],
                )
                return  # the latest one is enough


# ---------------------------------------------------------------- skewed_assignment

_LEAST_APART = 2
"""Partitions; a difference of one is unavoidable if they do not divide evenly."""
_SPREAD = "Use an assignor that spreads the partitions of all topics, such as"
_SPREAD_ADVICE = {
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
            _SPREAD_ADVICE[Kind.STREAMS if timeline.of_streams else timeline.kind],
            seen_of([rebalance]),
            rebalances=[rebalance],
        )
