"""Members that were removed because they were silent for too long."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.finding import EffectOf, Finding
from captures.analysis.findings.of_groups import (
    GroupRule,
    causes_of,
    least_sure,
    named,
    seen_causes,
)
from captures.analysis.findings.rule import times
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, GroupTimeline
from captures.analysis.groups.vocabulary import Certainty, TimeoutCause, Trigger
from captures.meaning import words
from captures.time_format import span

_WHY = {
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
_ADVICE = {
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
                _sentence(timeline, way, causes),
                _advice(way, causes),
                seen_causes(causes),
                what=way,
                certainty=least_sure([*(cause.certainty for cause in causes), *ends]),
            )


def _advice(way: TimeoutCause, causes: list[Cause]) -> str:
    """Return what to do, and other possible causes."""
    others = dict.fromkeys(
        text for cause in causes if cause.session_end is not None for text in cause.session_end.alternatives
    )
    return _ADVICE[way] + "".join(f" Or else {text}." for text in others)


def _sentence(timeline: GroupTimeline, way: TimeoutCause, causes: list[Cause]) -> str:
    members = {cause.instance or cause.client for cause in causes}
    silences = [cause.silence for cause in causes if cause.silence is not None]
    up_to = "up to " if len(silences) > 1 else ""
    silence = f" after {up_to}{span(max(silences))} of silence" if silences else ""
    one, several, what = _WHY[way]
    unsure = any(cause.session_end and cause.session_end.certainty is Certainty.POSSIBLE for cause in causes)
    what = f"probably {what}" if unsure and way is not TimeoutCause.UNKNOWN else what
    verb, whose = ("were", several) if len(members) > 1 else ("was", one)
    how_often = "" if len(members) == len(causes) else f" {times(len(causes))}"
    group = words.line(timeline.group)
    return f"{named(members)} {verb} removed from group {group}{how_often}{silence}: {whose} {what}."
