"""What the colours of a picture mean."""

from __future__ import annotations

from captures.analysis.groups.model import GroupTimeline, Kind, Phase, Span
from captures.export.group_html.markup import Markup, tag, together
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
    ("revoking", "giving partitions up"),
    ("refusing", "knows of the rebalance, and does not join"),
    ("silent", "silent"),
)


def class_of(each: Span) -> str:
    """Return the class that the box of a span has in the style sheet."""
    if each.phase is Phase.STABLE and each.assigned is not None and not each.assigned:
        return "idle"
    return _CLASSES[each.phase]


def lone_topic(timeline: GroupTimeline) -> str:
    """Return the topic of which the members of a group have partitions; empty if there are several, or tasks."""
    found = {
        place.topic for member in timeline.members for each in member.spans for place in each.assigned or ()
    }
    alone = found.pop() if len(found) == 1 else ""
    return "" if timeline.kind is Kind.STREAMS else alone


def legend(timeline: GroupTimeline) -> Markup:
    """Return what the colours of a picture mean, of those that it has."""
    used = {class_of(each) for member in timeline.members for each in member.spans}
    items = [
        together(tag("span", class_=f"swatch {name}"), " ", text) for name, text in _LEGEND if name in used
    ]
    items.append(together(tag("span", class_="swatch band"), " a rebalance; its number leads to its story"))
    items.append(together(tag("span", "◆", class_="cause"), " what triggered one"))
    if any(told.commit_failures for told in timeline.rebalances):
        items.append(together(tag("span", "×", class_="fail"), " a commit failed"))
    if alone := lone_topic(timeline):
        items.append(together("numbers in boxes: partitions of ", words.line(alone)))
    return tag("p", *[tag("span", item, class_="key") for item in items], class_="legend")
