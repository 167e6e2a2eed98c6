"""Members that were removed because nothing was heard of them for too long."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.common import lasted
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.of_groups import (
    GroupRule,
    causes_of,
    filter_of,
    least_sure,
    named,
    seen_causes,
    subject_of,
)
from captures.analysis.findings.rule import times
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, GroupTimeline, TimeoutCause, Trigger
from captures.meaning import words

_WHY = {
    TimeoutCause.PROCESS_DIED: ("its process", "their processes", "ended without leaving the group"),
    TimeoutCause.PROCESS_PAUSED: (
        "its process",
        "their processes",
        "stood still while the host went on answering",
    ),
    TimeoutCause.UNREACHABLE: ("it", "they", "could not be reached any more"),
    TimeoutCause.UNKNOWN: ("the capture", "the capture", "does not show why"),
}
_ADVICE = {
    TimeoutCause.PROCESS_DIED: "Find out why the process ended (its log, the kernel's OOM killer, the "
    "orchestrator). Let it call close() on SIGTERM, so that its partitions move at once instead of after "
    "session.timeout.ms.",
    TimeoutCause.PROCESS_PAUSED: "Look for long garbage collections, CPU limits that throttle it, swapping, or a "
    "debugger on that host. A longer session.timeout.ms bridges pauses, at the price of noticing deaths later.",
    TimeoutCause.UNREACHABLE: "Look at the network between that client and the broker (links, firewalls, NAT), and at "
    "the client's host.",
    TimeoutCause.UNKNOWN: "Look at the log and the host of that client at that time. A capture on the client's or the "
    "broker's host shows whether the process ended, stood still, or could not be reached. Consumers before 0.10.1 send "
    "heartbeats only as they poll (KIP-62): with these, slow processing is enough.",
}


class SessionTimeouts(GroupRule):
    """Finds members that the coordinator removed."""

    name = "session_timeouts"
    title = "Members removed after their session timed out"
    about = (
        "A coordinator removes a member of which it has heard nothing for session.timeout.ms "
        "(group.consumer.session.timeout.ms with KIP-848), and its partitions are consumed by nobody meanwhile. It is "
        "told from a generation with a member less and no LeaveGroup. What the TCP connections of the member did then "
        "tells a dead process from a paused one and from a broken network."
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield one finding for each way in which members fell silent."""
        by_way: dict[TimeoutCause, list[Cause]] = {}
        for cause in causes_of(timeline, Trigger.SESSION_TIMEOUT):
            by_way.setdefault(cause.timeout_cause or TimeoutCause.UNKNOWN, []).append(cause)
        for way, causes in by_way.items():
            yield self.finding(
                f"{subject_of(timeline)}, {way}",
                _sentence(timeline, way, causes),
                _ADVICE[way],
                seen_causes(causes),
                filter_text=filter_of(timeline),
                severity=Severity.MEDIUM,
                certainty=least_sure([cause.certainty for cause in causes]),
            )


def _sentence(timeline: GroupTimeline, way: TimeoutCause, causes: list[Cause]) -> str:
    members = {cause.instance or cause.client for cause in causes}
    silences = [cause.silence for cause in causes if cause.silence is not None]
    up_to = "up to " if len(silences) > 1 else ""
    silence = f" after {up_to}{lasted(max(silences))} of silence" if silences else ""
    one, several, what = _WHY[way]
    verb, whose = ("were", several) if len(members) > 1 else ("was", one)
    how_often = "" if len(members) == len(causes) > 1 else f" {times(len(causes))}"
    group = words.line(timeline.group)
    return f"{named(members)} {verb} removed from group {group}{how_often}{silence}: {whose} {what}."
