"""All incidents of a capture, in the order of time, with their consequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from captures.analysis.groups.calls import GroupCalls
from captures.analysis.groups.context import PartitionCounts
from captures.analysis.groups.labels import Labels, partitions, step
from captures.analysis.groups.model import GroupTimeline, IncidentReference, Rebalance, Stop, TopicPartition
from captures.analysis.groups.vocabulary import Trigger
from captures.analysis.incidents.controllers import Controllers
from captures.analysis.incidents.model import Consequence, Incident, IncidentKind
from captures.analysis.incidents.of_brokers import broker_outages, broker_pauses
from captures.analysis.incidents.of_groups import explained_by_workers, of_group
from captures.analysis.incidents.periods import Period, Periods
from captures.analysis.incidents.topic_changes import topic_changes
from captures.analysis.slow_answers import SlowAnswer
from captures.exchanges import Capture
from captures.meaning import words
from captures.names.names import split
from captures.time_format import span
from dissectors.units import SECOND

_BEGIN = attrgetter("begin")
_LASTS = 60 * SECOND
"""Longest time in ns that others wait for a broker that is down: by then leaders have moved and ISRs shrunk."""


def find_incidents(
    capture: Capture | None,
    timelines: Sequence[GroupTimeline],
    calls: Mapping[str, GroupCalls],
    controllers: Controllers,
    slow: Sequence[SlowAnswer],
    counts: PartitionCounts,
    has_broker: Callable[[str], bool] | None = None,
) -> list[Incident]:
    """Return the incidents of a capture, and mark the rebalances that follow from each (``because_of``).

    :param capture: its connections are examined; without it, no outages of brokers are found
    :param slow: slow answers
    :param counts: partition counts of topics
    :param has_broker: returns whether the cluster to examine has the broker at an address; by default there is only one
    """
    for timeline in timelines:
        for rebalance in timeline.rebalances:
            rebalance.because_of = None
    outages: list[Incident] = []
    found: list[Incident] = []
    nodes: Mapping[str, frozenset[int]] = {}
    if capture is not None:
        nodes = controllers.nodes.of(capture)
        outages = broker_outages(capture, nodes)
        outages += controllers.registrations.restarts(capture, outages, nodes)
        outages = sorted(_of_brokers(outages, has_broker), key=_BEGIN)
        found = [*outages, *_of_brokers(broker_pauses(capture, slow, outages, nodes), has_broker)]
        found = sorted([*found, *controllers.registrations.pauses(capture, found, nodes)], key=_BEGIN)
    found += controllers.incidents(found, nodes)
    by_broker: dict[str, list[Incident]] = {}
    for outage in outages:
        for broker in outage.brokers:
            by_broker.setdefault(broker, []).append(outage)
    for timeline in timelines:
        found += of_group(timeline, calls.get(timeline.group), by_broker)
    found += topic_changes(counts, timelines)
    found = _without_twins(capture, explained_by_workers(found, timelines))
    _give_pauses(found, timelines)
    found = in_order(found)
    waited = _waited(found, slow)
    labels = {
        timeline.group: Labels(timeline) for timeline in timelines if timeline.rebalances or timeline.pauses
    }
    for incident in found:
        incident.consequences = sorted(
            _consequences(incident, labels, waited.get(incident.id, ())), key=lambda each: each.time
        )
    return found


def in_order(found: Iterable[Incident]) -> list[Incident]:
    """Return incidents in the order of time, with their IDs, which are given to their rebalances, too."""
    ordered = sorted(found, key=lambda each: (each.begin, each.kind, each.who))
    counted = Counter[IncidentKind]()
    for incident in ordered:
        counted[incident.kind] += 1
        incident.id = f"{incident.kind}-{counted[incident.kind]}"
        for rebalance in incident.rebalances:
            rebalance.because_of = IncidentReference(incident.id, incident.sentence)
    return ordered


def _of_brokers(found: Iterable[Incident], has_broker: Callable[[str], bool] | None) -> Iterable[Incident]:
    """Return the incidents without those of brokers of other clusters."""
    if has_broker is None:
        return found
    return [each for each in found if not each.brokers or any(map(has_broker, each.brokers))]


# ---------------------------------------------------------------- consequences
def _consequences(
    incident: Incident, labels: Mapping[str, Labels], slow: Sequence[SlowAnswer]
) -> Iterator[Consequence]:
    yield from incident.moves
    if slow:
        yield _slow_answers(slow)
    for begin, end, who, places in incident.stopped_partitions:
        group = words.line(next(iter(incident.groups), ""))
        yield Consequence(
            "stop", group, begin, f"{places} had no consumer for {span(end - begin)} while {who} was away."
        )
    by_group: dict[str, list[Rebalance]] = {group: [] for group in incident.pauses}
    for rebalance in incident.rebalances:
        by_group.setdefault(rebalance.group, []).append(rebalance)
    for name, rebalances in by_group.items():
        yield from _of_group(name, rebalances, labels[name], incident.pauses.get(name, ()))


def _give_pauses(found: Sequence[Incident], timelines: Iterable[GroupTimeline]) -> None:
    """Add pauses of consumption that no rebalance explains to the incidents of brokers in which they began."""
    away = Periods(Period(each.begin - SECOND, _over(each), each) for each in found if each.brokers)
    for timeline in timelines:
        for pause in timeline.pauses:
            root = away.first(pause.begin, pause.begin)
            if root is not None:
                root.groups[timeline.group] = None
                root.pauses.setdefault(timeline.group, []).append(pause)


def _without_twins(capture: Capture | None, found: Sequence[Incident]) -> list[Incident]:
    """Return the incidents without those that are part of an outage of the network.

    Such an outage cuts all connections of its two hosts.
    """
    if capture is None or not any(each.kind is IncidentKind.NETWORK_OUTAGE for each in found):
        return list(found)
    hosts = [
        (split(client)[0], broker)
        for client, broker in map(capture.endpoints, range(len(capture.connections)))
    ]
    outages = [each for each in found if each.kind is IncidentKind.NETWORK_OUTAGE]
    # one that caused rebalances stays
    outages.sort(key=lambda each: (not each.groups, -each.lasts(capture.latest)))
    for outage in outages:
        both = {hosts[connection] for connection in outage.cut}
        outage.cut = tuple(connection for connection, pair in enumerate(hosts) if pair in both)
    away = Periods(Period(each.begin - SECOND, _over(each) + SECOND, each) for each in outages)
    kept = []
    for each in found:
        root = away.first(each.begin, _over(each)) if each.brokers and each.cut else None
        wider = [] if root is None else [root]
        if each.kind is IncidentKind.NETWORK_OUTAGE:
            earlier = outages[: outages.index(each)]
            wider = [other for other in earlier if other.overlaps(each.begin, _over(each))]
        if not any(set(each.cut) <= set(other.cut) for other in wider):
            kept.append(each)
    return kept


def _waited(found: Sequence[Incident], slow: Sequence[SlowAnswer]) -> dict[str, list[SlowAnswer]]:
    """Return the slow answers during an incident of a broker or a network, by the ID of that incident."""
    of_places: dict[str | int, list[Period[Incident]]] = {}
    for each in found:
        for place in (*dict.fromkeys(("", *each.brokers)),) if each.brokers else each.cut:
            of_places.setdefault(place, []).append(Period(each.begin, _over(each), each))
    away = {place: Periods(periods) for place, periods in of_places.items()}
    waited: dict[str, list[SlowAnswer]] = {}
    for answer in sorted(slow):
        # the broker itself was down, its connection was cut, or else another broker that it had to wait for was down
        places = (answer.broker, answer.connection, "")
        of = (away[place].first(answer.end, answer.time) for place in places if place in away)
        root = next((each for each in of if each is not None), None)
        if root is not None:
            waited.setdefault(root.id, []).append(answer)
    return waited


def _over(incident: Incident) -> int:
    """Return when an incident of a broker ends for requests that can do without the broker."""
    latest = incident.begin + _LASTS
    return latest if incident.end is None else min(incident.end, latest)


def _slow_answers(slow: Sequence[SlowAnswer]) -> Consequence:
    counted = Counter((each.api, each.broker) for each in slow).most_common()
    listed = words.several((f"{count:,} {api} from {broker}" for (api, broker), count in counted), 3)
    answers = "1 response was" if len(slow) == 1 else f"{len(slow):,} responses were"
    return Consequence(
        "slow_answers",
        words.several(each.broker for each in slow),
        slow[0].time,
        f"{answers} up to {span(max(each.excess for each in slow))} late: {listed}.",
        tuple(each.number for each in slow[:10]),
    )


def _of_group(
    name: str, rebalances: Sequence[Rebalance], labels: Labels, pauses: Sequence[Stop]
) -> Iterator[Consequence]:
    group = words.line(name)
    for each in rebalances:
        took = f" for {span(each.duration)}" if each.duration else ""
        sentence = f"Group {group} rebalanced{took} ({step(each)}): {_triggers(each, labels)}."
        yield Consequence("rebalance", group, each.time, sentence, tuple(each.evidence[:10]))
    stops = [*(stop for each in rebalances for stop in each.stopped), *pauses]
    if stops:
        begin = min([stop.begin for stop in stops if stop.begin] or [rebalances[0].time])
        yield _stopped(group, stops, begin, of_workers=bool(rebalances) and rebalances[0].of_workers)
    behind: dict[TopicPartition, int] = {}
    for stop in stops:
        behind[stop.tp] = max(stop.behind, behind.get(stop.tp, 0))
    if any(behind.values()):
        yield _lagged(group, {tp: count for tp, count in behind.items() if count}, stops)
    refetched = [each for rebalance in rebalances for each in rebalance.refetched]
    if refetched:
        count, places = sum(each.count for each in refetched), partitions({each.tp for each in refetched})
        yield Consequence(
            "duplicates",
            group,
            min(rebalance.time for rebalance in rebalances if rebalance.refetched),
            f"Group {group} fetched {words.counted(count, 'record')} of {places} again.",
            tuple(each.number for each in refetched[:10]),
        )
    failures = [each for rebalance in rebalances for each in rebalance.commit_failures]
    if failures:
        names = ", ".join(dict.fromkeys(each.name for each in failures))
        yield Consequence(
            "commit_failures",
            group,
            min(each.time for each in failures),
            f"{words.counted(len(failures), 'commit')} of group {group} failed ({names}).",
            tuple(each.number for each in failures[:10]),
        )


def _triggers(rebalance: Rebalance, labels: Labels) -> str:
    """Return the triggers of a rebalance in words, without the reasons, which are those of the incident."""
    members: dict[Trigger, list[str]] = {}
    for cause in rebalance.causes:
        members.setdefault(cause.trigger, []).append(labels.of(cause.member, cause.client))
    clauses = []
    for trigger, labelled in members.items():
        names = [name for name in labelled if name]
        phrase = trigger.phrase_of_one if len(labelled) == 1 else trigger.phrase
        clauses.append(f"{phrase} ({words.several(names)})" if names else phrase)
    return "; ".join(clauses)


def _lagged(group: str, behind: Mapping[TopicPartition, int], stops: Sequence[Stop]) -> Consequence:
    count = sum(behind.values())
    last = max((stop for stop in stops if behind.get(stop.tp) == stop.behind), key=lambda stop: stop.end)
    verb = "was" if count == 1 else "were"
    return Consequence(
        "lag",
        group,
        last.end,
        f"{words.counted(count, 'record')} of {partitions(behind)} {verb} waiting when group {group} continued.",
        tuple(last.evidence),
    )


def _stopped(group: str, stops: Sequence[Stop], begin: int, *, of_workers: bool) -> Consequence:
    longest = max(stops, key=lambda stop: stop.duration)
    done = "run" if of_workers else "consumed"
    still = f", and some are still not {done}" if any(not stop.ended for stop in stops) else ""
    who, did = ("worker", "ran") if of_workers else ("member", "consumed")
    return Consequence(
        "stop",
        group,
        begin,
        f"No {who} of group {group} {did} {partitions({stop.tp for stop in stops})} for up to "
        f"{span(longest.duration)}{still}.",
        tuple(longest.evidence),
    )
