"""Topics that were deleted, created again, or got more partitions, by requests of admin clients and by Metadata.

Groups also rebalance because of topics that are new to them, or missing in Metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from captures.analysis.groups.context import PartitionCountChange, PartitionCounts
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.analysis.incidents.of_groups import FOLLOWS, attribute
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_AGAIN = 60 * SECOND
"""Longest time in ns from the deletion of a topic to its creation for both to be one change."""


def topic_changes(counts: PartitionCounts, timelines: Iterable[GroupTimeline]) -> list[Incident]:
    """Return the changes of topics that clients used, and those that groups saw, with the rebalances that follow."""
    found: list[Incident] = []
    shown: dict[int, Incident] = {}
    for topic in counts.topics():
        for incident, numbers in _changes(topic, counts.changes(topic)):
            found.append(incident)
            for each in numbers:
                shown.setdefault(each, incident)
    for timeline in timelines:
        found += _of_group(timeline, shown)
    return found


def _changes(topic: str, seen: Iterable[PartitionCountChange]) -> list[tuple[Incident, list[int]]]:
    """Return the changes of one topic, each with the numbers of all exchanges that show it."""
    found: list[tuple[Incident, list[int]]] = []
    users: set[str] = set()
    most, gone = 0, False
    deletion: Incident | None = None
    name = words.line(topic)
    for each in seen:
        count, text = words.counted(each.partitions, "partition"), ""
        if each.asked and not each.partitions:
            if not gone and most and users - {each.client}:
                text = f"Topic {name} was deleted."
            most, gone = 0, True
        elif gone and each.asked:
            most, gone = each.partitions, False
            if deletion is not None and each.time - deletion.begin <= _AGAIN:
                after = span(each.time - deletion.begin)
                deletion.sentence = f"Topic {name} was deleted, and created again after {after} with {count}."
                deletion.end, deletion.evidence = each.time, (*deletion.evidence, each.number)
                found[-1][1].append(each.number)
            elif deletion is not None:
                text = f"Topic {name} was created again, with {count}."
            deletion = None
        elif not gone and each.partitions > most:
            if users and most:
                text = f"Topic {name} got more partitions: {each.partitions:,} instead of {most:,}."
            most = each.partitions
        elif found and each.partitions == most and not each.asked:
            found[-1][1].append(each.number)
        if text:
            incident = _incident(name, text, each.time, (each.number,))
            found.append((incident, [each.number]))
            deletion = incident if gone else None
        if each.partitions and not each.asked:
            users.add(each.client)
    return found


def _of_group(timeline: GroupTimeline, shown: Mapping[int, Incident]) -> Iterator[Incident]:
    """Attribute rebalances to changes by the exchanges that show both; yield the changes that only the group saw."""
    group = words.line(timeline.group)
    latest: Incident | None = None
    for rebalance in timeline.rebalances:
        cause = next((each for each in rebalance.causes if each.trigger is Trigger.PARTITIONS_CHANGED), None)
        # without a message that shows it, it is usually the state of a share or streams group
        if cause is None or cause.certainty is not Certainty.OBSERVED or rebalance.because_of is not None:
            continue
        root = next((shown[number] for number in cause.evidence if number in shown), None)
        if root is None:
            if latest is None or cause.time - latest.begin > FOLLOWS:
                text = f"Group {group} reassigned its partitions because {cause.sentence}."
                latest = _incident(group, text, cause.time, cause.evidence)
                yield latest
            root = latest
        attribute(root, rebalance)
        root.groups[timeline.group] = None


def _incident(who: str, sentence: str, time: int, evidence: tuple[int, ...]) -> Incident:
    return Incident(
        kind=IncidentKind.TOPIC_CHANGE,
        begin=time,
        end=time,
        who=(who,),
        sentence=sentence,
        certainty=Certainty.OBSERVED,
        evidence=evidence,
    )
