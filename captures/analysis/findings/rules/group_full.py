"""Clients for which a group has no room."""

from __future__ import annotations

from captures.analysis.findings.refused_members import Refused, RefusedMembers, listed
from captures.analysis.findings.rule import times
from dissectors.error_codes import BY_NAME


class GroupFull(RefusedMembers):
    """Finds clients for which a group has no room."""

    name = "group_full"
    title = "Groups that take no more members"
    about = (
        "A broker takes group.max.size members into a classic group (KIP-389), group.consumer.max.size into one of "
        "KIP-848, and answers others with GROUP_MAX_SIZE_REACHED."
    )
    codes = frozenset({BY_NAME["GROUP_MAX_SIZE_REACHED"].code})

    def sentence(self, group: str, code: int, refused: Refused) -> str:
        """Return what was found of a group, in words."""
        return f"Group {group} is full: {listed(refused.clients)} could not join (refused {times(refused.seen.count)})."

    def advice(self, code: int) -> str:
        """Return what to do about it."""
        return (
            "Find out whether so many members are meant (a leak of consumers, an autoscaler); raise group.max.size or "
            "group.consumer.max.size of the brokers if they are."
        )
