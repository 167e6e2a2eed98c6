"""Which member is in which lane of a picture.

A process that joins again is another member. Members of one name that were there one after another share a lane, so
that a client that crashes again and again is one line, and not a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import GroupMember, GroupTimeline, Span


@dataclass(slots=True)
class Lane:
    """One line of the picture.

    :ivar members: one after another
    """

    label: str
    members: list[GroupMember]

    @property
    def end(self) -> int:
        """When its latest member was over."""
        return _end(self.members[-1])

    def within(self, begin: int, end: int) -> bool:
        """Return whether one of them was there at some time between two moments."""
        return any(member.first <= end and _end(member) >= begin for member in self.members)

    def spans(self, begin: int, end: int) -> list[tuple[GroupMember, Span]]:
        """Return what they did between two moments."""
        return [
            (member, span)
            for member in self.members
            for span in member.spans
            if span.begin <= end and span.end >= begin
        ]


def lanes(timeline: GroupTimeline, labels: Labels) -> list[Lane]:
    """Return the lanes of a group, in the order of their first members."""
    found: list[Lane] = []
    by_name: dict[str, list[Lane]] = {}
    for member in sorted(timeline.members, key=lambda each: each.first):
        mine = by_name.setdefault(member.name, [])
        free = next((lane for lane in mine if lane.end <= member.first), None)
        if free is None:
            free = Lane("", [])
            mine.append(free)
            found.append(free)
        free.members.append(member)
    for lane in found:
        lane.label = _label(lane.members, labels)
    return found


def _label(members: Sequence[GroupMember], labels: Labels) -> str:
    first = labels.of(members[0].member, members[0].client)
    return first if len(members) == 1 else f"{first} +{len(members) - 1}"


def _end(member: GroupMember) -> int:
    ends = [span.end for span in member.spans]
    return max([member.last, *([] if member.left is None else [member.left]), *ends])
