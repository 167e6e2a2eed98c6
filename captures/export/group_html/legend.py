"""What the colours of a picture mean."""

from __future__ import annotations

from dataclasses import dataclass

from captures.analysis.groups.model import GroupTimeline, Kind, Phase, Span
from captures.meaning import words

_CLASSES = {
    Phase.JOINING: "joining",
    Phase.SYNCING: "syncing",
    Phase.STABLE: "stable",
    Phase.REVOKING: "revoking",
    Phase.NOT_JOINING: "refusing",
    Phase.SILENT: "silent",
}
_LEGEND = (
    ("joining", "joining"),
    ("syncing", "waiting for its assignment"),
    ("stable", "has partitions"),
    ("idle", "has none"),
    ("unseen", "is a member; its partitions were not captured"),
    ("revoking", "giving partitions up"),
    ("refusing", "knows of the rebalance, and does not join"),
    ("silent", "silent"),
)


def class_of(each: Span) -> str:
    """Return the class that the box of a span has in the style sheet."""
    if each.phase is Phase.STABLE and not each.assigned:
        return "unseen" if each.assigned is None else "idle"
    return _CLASSES[each.phase]


def lone_topic(timeline: GroupTimeline) -> str:
    """Return the topic of which the members of a group have partitions; empty if there are several, or tasks."""
    found = {
        place.topic for member in timeline.members for each in member.spans for place in each.assigned or ()
    }
    alone = found.pop() if len(found) == 1 else ""
    return "" if timeline.kind is Kind.STREAMS else alone


@dataclass(frozen=True, slots=True)
class Legend:
    """What the colours of a picture mean, of those that it has.

    :ivar colours: class of each, and what it means
    :ivar failures: whether commits failed
    :ivar topic: of the partitions whose numbers stand in boxes; empty if they are of several
    """

    colours: list[tuple[str, str]]
    failures: bool
    topic: str

    @classmethod
    def of(cls, timeline: GroupTimeline) -> Legend:
        """Return the legend of the picture of a group."""
        used = {class_of(each) for member in timeline.members for each in member.spans}
        return cls(
            [(name, text) for name, text in _LEGEND if name in used],
            any(told.commit_failures for told in timeline.rebalances),
            words.line(lone_topic(timeline)),
        )
