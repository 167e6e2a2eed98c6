"""Processes that compete for one group.instance.id."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.refused_members import RefusedCalls, RefusedMembers, listed
from captures.analysis.findings.rule import Threshold, Unit, times
from captures.meaning import words
from dissectors.error_codes import ErrorCode

_UNRELEASED = ErrorCode.UNRELEASED_INSTANCE_ID


class InstanceConflicts(RefusedMembers):
    """Finds two processes with one group.instance.id."""

    name = "instance_conflicts"
    title = "Processes that share a group.instance.id"
    about = (
        "A static member (KIP-345) is known by its group.instance.id. If a second process uses the same one, a "
        "classic coordinator accepts it and refuses the first from then on (FENCED_INSTANCE_ID). A KIP-848 "
        "coordinator refuses the second until the session of the first ends (UNRELEASED_INSTANCE_ID), even if the"
        " first has crashed and this is its successor."
    )
    codes = frozenset({ErrorCode.FENCED_INSTANCE_ID, _UNRELEASED})
    of_groups = True

    thresholds = (
        Threshold(
            "shut_out",
            2,
            Unit.COUNT,
            "members shut out of a group, from which the severity is high; fewer are medium",
        ),
    )

    def how_grave(self, code: int, refused: RefusedCalls) -> Severity:
        """Return the severity: a process that is fenced once may have been about to end anyway."""
        fight = code == _UNRELEASED or len(refused.members) >= self.limit("shut_out")
        return Severity.HIGH if fight else Severity.MEDIUM

    def sentence(self, group: str, code: int, refused: RefusedCalls) -> str:
        instances = f" {listed(refused.instances)}" if refused.instances else ""
        who = listed(refused.clients)
        if code == _UNRELEASED:
            owned = (
                f"their group.instance.ids{instances} belong to members whose sessions have not ended"
                if len(refused.instances) > 1
                else f"its group.instance.id{instances} belongs to a member whose session has not ended"
            )
            holders = self._holders(group, code)
            owned += f" ({holders})" if holders else ""
            return f"{who} could not join group {group}: {owned} (refused {times(refused.seen.count)})."
        were = "were" if len(refused.clients) > 1 else "was"
        return (
            f"{who} {were} shut out of group {group} {times(refused.seen.count)}: "
            f"{self._holders(group, code) or 'another process'} joined with its group.instance.id{instances}."
        )

    def _holders(self, group: str, code: int) -> str:
        """Return the clients that have the instance IDs; empty if unknown, or if they share a client ID."""
        refused = [
            each
            for timeline in self.context.groups
            if words.line(timeline.group) == group
            for each in timeline.refused
            if each.error == code
        ]
        named = {each.holder for each in refused if each.holder} - {each.client for each in refused}
        return listed(named) if named else ""

    def advice(self, code: int) -> str:
        if code == _UNRELEASED:
            return (
                "Give every process a group.instance.id of its own. If it replaces one that crashed, let it retry "
                "until group.consumer.session.timeout.ms is over, or shorten that."
            )
        return (
            "Give every process a group.instance.id of its own, such as the name of its pod, and let the old process "
            "end before the new one starts."
        )
