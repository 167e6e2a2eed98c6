"""Tasks of sink connectors that Kafka Connect restarted: each is a consumer, in a group of its connector.

Such a consumer ends because its connector was changed, or because workers joined or left; neither is a deployment of
consumers. The group of the workers shows which of the two it was, if it was captured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.incidents.absences import Absence
from captures.analysis.incidents.effects import FOLLOWS, attribute, attribute_those_of
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_TASK = re.compile(r"connector-consumer-(.+)-\d+")
"""Client ID of the consumer of a task, unless the connector overrides it (Worker.java, ``baseConsumerConfigs``)."""

_HEARTBEAT = 4 * SECOND
"""ns by which the last sign of life of a task's consumer may precede that of its worker: it sends a heartbeat every 3 s
(heartbeat.interval.ms), and may be waiting for an answer to its last one."""

_DELAY = (10 + 300) * SECOND
"""ns for which the tasks of a worker that ended wait for its return: the defaults of session.timeout.ms and
scheduled.rebalance.max.delay.ms (KIP-415)."""


def is_task(away: Absence) -> bool:
    """Return whether an absent member is the consumer of a sink connector's task."""
    return _TASK.fullmatch(away.identity[0]) is not None


def connector_restarts(timeline: GroupTimeline, away: Iterable[Absence]) -> Iterator[Incident]:
    """Yield the restarts of a connector's tasks; those that began together are one."""
    together: list[Absence] = []
    for each in sorted(away, key=lambda each: each.begin):
        if together and each.begin - together[-1].begin > FOLLOWS:
            yield _restart(timeline, together)
            together = []
        together.append(each)
    if together:
        yield _restart(timeline, together)


def _restart(timeline: GroupTimeline, away: Sequence[Absence]) -> Incident:
    names = list(dict.fromkeys(each.identity[0] for each in away))
    match = _TASK.fullmatch(names[0])
    ends = [each.end for each in away if each.end is not None]
    back = len(ends) == len(away)
    longest = max((each.end - each.begin for each in away if each.end is not None), default=0)
    tasks = "it" if len(names) == 1 else "them"
    again = f" and restarted {tasks} after {'up to ' * (len(ends) > 1)}{span(longest)}" if ends else ""
    lost = "" if back else "; not all were seen again" if ends else ", not seen again"
    made = Incident(
        kind=IncidentKind.CONNECTOR_RESTART,
        begin=away[0].begin,
        end=max(ends) if back else None,
        who=tuple(names),
        sentence=f"Kafka Connect stopped {words.counted(len(names), 'task')} of connector "
        f"{words.line(match[1] if match else '')} ({words.several(names)}){again}{lost}.",
        evidence=tuple(sorted({number for each in away for number in each.evidence})),
    )
    given_up = max((each.given_up or 0 for each in away), default=0)
    members = tuple(dict.fromkeys(member for each in away for member in each.members))
    attribute_those_of(members, made, timeline, given_up)
    return made


def explained_by_workers(found: Sequence[Incident], timelines: Iterable[GroupTimeline]) -> list[Incident]:
    """Return incidents, with those of connectors merged into incidents of workers, or naming the workers' rebalance."""
    workers = [timeline for timeline in timelines if timeline.of_workers]
    groups = {timeline.group for timeline in workers}
    of_workers = [each for each in found if not groups.isdisjoint(each.groups)]
    kept = []
    for incident in found:
        if incident.kind is IncidentKind.CONNECTOR_RESTART:
            root = next((each for each in of_workers if _began_in(incident, each)), None)
            if root is not None:
                for rebalance in incident.rebalances:
                    attribute(root, rebalance)
                root.groups |= incident.groups
                continue
            _name_cause(incident, [each for timeline in workers for each in timeline.rebalances])
        kept.append(incident)
    return kept


def _began_in(incident: Incident, other: Incident) -> bool:
    end = other.begin + _DELAY if other.end is None else other.end
    return other.begin - _HEARTBEAT <= incident.begin <= end + FOLLOWS


def _name_cause(incident: Incident, rebalances: Iterable[Rebalance]) -> None:
    """Add the cause of the workers' nearest rebalance to a restart of tasks, if there was one at that time."""
    near = [each for each in rebalances if abs(each.time - incident.begin) <= FOLLOWS]
    if near:
        nearest = min(near, key=lambda each: abs(each.time - incident.begin))
        cause = nearest.cause
        incident.groups[nearest.group] = None
        incident.sentence = f"{incident.sentence.removesuffix('.')}: {cause.sentence}."
        incident.evidence = tuple(sorted({*incident.evidence, *cause.evidence}))
