"""Members of a group that may belong to the same process: they share client ID and host."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from captures.analysis.groups.model import GroupMember


class Namesakes:
    """Members by client ID and host, each group in the order of first signs of life."""

    def __init__(self, members: Iterable[GroupMember]) -> None:
        self._members: dict[tuple[str, str], list[GroupMember]] = {}
        for member in sorted(members, key=_first):
            self._members.setdefault((member.client, member.host), []).append(member)
        self._gone: dict[tuple[str, str], list[int]] = {
            name: sorted(max(member.first, member.gone) for member in same)
            for name, same in self._members.items()
        }

    def after(self, member: GroupMember, time: int) -> GroupMember | None:
        """Return the first namesake that appeared later than both `member` and `time`; None if there is none."""
        same = self._members.get((member.client, member.host), [])
        index = bisect_right(same, max(member.first, time), key=_first)
        return same[index] if index < len(same) else None

    def before(self, member: GroupMember, time: int) -> bool:
        """Return whether the process of `member` had been a member before `time`."""
        same = self._members.get((member.client, member.host), [])
        return any(other.first < time for other in same[:1])

    def beside(self, member: GroupMember, time: int) -> bool:
        """Return whether another namesake was a member at `time`."""
        name = member.client, member.host
        came = bisect_right(self._members.get(name, []), time, key=_first)
        went = bisect_left(self._gone.get(name, []), time)
        return came - went > (member.first <= time <= member.gone)


def _first(member: GroupMember) -> int:
    return member.first
