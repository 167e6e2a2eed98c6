"""Clients that a full group rejects."""

from __future__ import annotations

from captures.analysis.findings.refused_members import RefusedCalls, RefusedMembers, listed
from captures.analysis.findings.rule import times
from dissectors.error_codes import ErrorCode


class GroupFull(RefusedMembers):
    """Finds clients that a full group rejects."""

    name = "group_full"
    title = "Groups that accept no more members"
    about = (
        "A broker accepts group.max.size members in a classic group (KIP-389) and group.consumer.max.size in a "
        "KIP-848 group. It refuses more with GROUP_MAX_SIZE_REACHED."
    )
    codes = frozenset({ErrorCode.GROUP_MAX_SIZE_REACHED})

    def sentence(self, group: str, code: int, refused: RefusedCalls) -> str:
        return f"Group {group} is full: {listed(refused.clients)} could not join (refused {times(refused.seen.count)})."

    def advice(self, code: int) -> str:
        return (
            "Check whether so many members are intended, or come from a consumer leak or an autoscaler. If they are "
            "intended, raise group.max.size or group.consumer.max.size of the brokers."
        )
