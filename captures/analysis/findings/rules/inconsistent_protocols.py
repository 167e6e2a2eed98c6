"""Clients that cannot join a group because they have no assignor in common with its members."""

from __future__ import annotations

from captures.analysis.findings.refused_members import RefusedCalls, RefusedMembers, listed
from captures.analysis.findings.rule import times
from dissectors.error_codes import ErrorCode


class InconsistentProtocols(RefusedMembers):
    """Finds clients that have no assignor in common with their group."""

    name = "inconsistent_protocols"
    title = "Clients whose assignors do not match the group"
    about = (
        "All members of a classic group have to support one assignor in common, and one protocol type. The "
        "coordinator refuses others with INCONSISTENT_GROUP_PROTOCOL: the Java consumer then ends, librdkafka "
        "retries every few seconds. This happens if partition.assignment.strategy is changed in one step, if "
        "client libraries with different defaults share a group, or if Connect or a schema registry uses the "
        "group of a consumer."
    )
    codes = frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL})

    def sentence(self, group: str, code: int, refused: RefusedCalls) -> str:
        offered = f" with {listed(refused.offered)}" if refused.offered else ""
        return (
            f"{listed(refused.clients)} could not join group {group}{offered}: not all of its members support that "
            f"(refused {times(refused.seen.count)})."
        )

    def advice(self, code: int) -> str:
        return (
            "Give all members the same partition.assignment.strategy, or use another group.id. To change the strategy"
            " without downtime, first roll out both the old and the new one, then the new one alone (KIP-429)."
        )
