"""Topics that were deleted, created again, or got more partitions, by requests of admin clients and by Metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from captures.analysis.groups.context import CountSeen, PartitionCounts
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_AGAIN = 60 * SECOND
"""Longest time in ns from the deletion of a topic to its creation for both to be one change."""


def topic_changes(counts: PartitionCounts) -> tuple[list[Incident], dict[int, Incident]]:
    """Return the changes of topics that clients used, and the change by the numbers of the exchanges that show it."""
    found: list[Incident] = []
    shown: dict[int, Incident] = {}
    for topic in counts.topics():
        for incident, numbers in _changes(topic, counts.changes(topic)):
            found.append(incident)
            for each in numbers:
                shown.setdefault(each, incident)
    return found, shown


def _changes(topic: str, seen: Sequence[CountSeen]) -> Iterator[tuple[Incident, list[int]]]:
    """Yield the changes of one topic, each with the numbers of all exchanges that show it."""
    users: set[str] = set()
    most, gone, deleted = 0, False, 0
    latest: tuple[Incident, list[int]] | None = None
    name = words.line(topic)
    for each in seen:
        count, text = words.counted(each.partitions, "partition"), ""
        if each.asked and not each.partitions:
            used = not gone and bool(most and users - {each.client})
            text, deleted = (f"Topic {name} was deleted.", each.time) if used else ("", deleted)
            most, gone = 0, True
        elif gone and each.asked:
            most, gone = each.partitions, False
            if latest is not None and deleted and each.time - deleted <= _AGAIN:
                incident, numbers = latest
                after = span(each.time - deleted)
                incident.sentence = f"Topic {name} was deleted, and created again after {after} with {count}."
                incident.end, incident.evidence = each.time, (*incident.evidence, each.number)
                numbers.append(each.number)
            elif deleted:
                text = f"Topic {name} was created again, with {count}."
            deleted = 0
        elif not gone and each.partitions > most:
            if users and most:
                text = f"Topic {name} got more partitions: {each.partitions:,} instead of {most:,}."
            most = each.partitions
        if text:
            if latest is not None:
                yield latest
            latest = _incident(name, text, each), [each.number]
        elif latest is not None and each.partitions == most and not each.asked:
            latest[1].append(each.number)
        if each.partitions and not each.asked:
            users.add(each.client)
    if latest is not None:
        yield latest


def _incident(name: str, text: str, seen: CountSeen) -> Incident:
    return Incident(
        kind=IncidentKind.TOPIC_CHANGE,
        begin=seen.time,
        end=seen.time,
        who=(name,),
        sentence=text,
        certainty=Certainty.OBSERVED,
        evidence=(seen.number,),
    )
