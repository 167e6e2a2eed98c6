"""Incidents of one group: restarts, crashes, pauses, network outages, shared group IDs, moves."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

import msgspec

from captures.analysis.groups.calls import GroupCalls
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import (
    Cause,
    GroupMember,
    GroupTimeline,
    IncidentReference,
    ObservedCoordinator,
    Rebalance,
)
from captures.analysis.groups.namesakes import Namesakes
from captures.analysis.groups.vocabulary import Certainty, TimeoutCause, Trigger
from captures.analysis.incidents.absences import Absence, absences
from captures.analysis.incidents.model import Consequence, Incident, IncidentKind
from captures.analysis.incidents.periods import Period, Periods
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

# ---------------------------------------------------------------- consequences

FOLLOWS = 5 * SECOND
"""ns after an incident within which a rebalance of one of its members, or a second round, follows from it."""


def attribute(incident: Incident, rebalance: Rebalance) -> None:
    """Make a rebalance a consequence of an incident."""
    rebalance.because_of = IncidentReference(incident.id, incident.sentence)
    incident.rebalances.append(rebalance)


def attribute_those_of(
    members: Sequence[str], incident: Incident, timeline: GroupTimeline, given_up: int | None = None
) -> None:
    """Make the rebalances that members caused, and second rounds right after them, consequences of an incident.

    :param given_up: when the coordinator removed the last of the members, which may be after the end
    """
    end = max(timeline.last if incident.end is None else incident.end, given_up or 0) + SECOND
    rebalances = timeline.rebalances
    for first in timeline.caused_by(members):
        for index in range(first, len(rebalances)):
            rebalance = rebalances[index]
            # a member joins before its last sign of life, but not because it ended
            joined = rebalance.trigger is Trigger.MEMBER_JOINED
            if (
                (index > first and rebalance.trigger is not Trigger.COOPERATIVE_FOLLOW_UP)
                or rebalance.because_of is not None
                or not incident.begin - (0 if joined else SECOND) <= rebalance.time <= end
            ):
                break
            attribute(incident, rebalance)


# ---------------------------------------------------------------- connectors

# Such a consumer ends because its connector was changed, or because workers joined or left; neither is a deployment of
# consumers. The group of the workers shows which of the two it was, if it was captured.

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
            yield _connector_restart(timeline, together)
            together = []
        together.append(each)
    if together:
        yield _connector_restart(timeline, together)


def _connector_restart(timeline: GroupTimeline, away: Sequence[Absence]) -> Incident:
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
        evidence=_numbers(away),
    )
    attribute_those_of(_ids(away), made, timeline, max(each.given_up or 0 for each in away))
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


# ---------------------------------------------------------------- shared group id

_TOGETHER = SECOND
"""Shortest time in ns that members are in a group together to count as two applications."""


def shared_group_id(timeline: GroupTimeline) -> Incident | None:
    """Return the incident of several applications using a group at the same time; None if there is none."""
    if timeline.protocol_type not in ("", "consumer"):
        return None
    members = [
        member
        for member in sorted(timeline.members, key=lambda each: each.first)
        if member.subscription and member.spans and member.gone - member.first >= _TOGETHER
    ]
    if len({member.subscription for member in members}) < 2:
        return None
    strangers = _Strangers(members)
    begin = min((member.first for member in members if strangers.at_beginning(member)), default=None)
    end = max((member.gone for member in members if strangers.at_end(member)), default=None)
    if begin is None or end is None:
        return None
    parties: dict[tuple[str, ...], list[GroupMember]] = {}
    for member in members:
        if strangers.beside(member):
            parties.setdefault(member.subscription, []).append(member)
    made = _shared_incident(timeline, parties, begin, end)
    smallest = min(parties.values(), key=lambda party: (len(party), -party[0].first))
    attribute_those_of([member.member for member in smallest], made, timeline)
    for rebalance in timeline.rebalances:
        # the leader sees other topics when an application arrives or leaves
        changed = rebalance.trigger is Trigger.PARTITIONS_CHANGED and begin <= rebalance.time <= end + FOLLOWS
        if changed and rebalance.because_of is None:
            attribute(made, rebalance)
    return made


class _Presence(msgspec.Struct):
    """When some members arrived and left, each in the order of time."""

    joined: list[int] = []
    left: list[int] = []

    def count(self, came_until: int, went_from: int) -> int:
        """Return how many arrived at `came_until` or before, and left at `went_from` or later.

        :param went_from: must not be after the departure of any member that arrived after `came_until`
        """
        return bisect_right(self.joined, came_until) - bisect_left(self.left, went_from)


class _Strangers:
    """Counts members of other clients with another subscription, without comparing all pairs."""

    def __init__(self, members: Iterable[GroupMember]) -> None:
        self._all = _Presence()
        self._some: dict[object, _Presence] = {}
        for member in members:
            for presence in (self._all, *self._alike(member)):
                insort(presence.joined, member.first)
                insort(presence.left, member.gone)

    def beside(self, member: GroupMember) -> bool:
        """Return whether one was present long enough together with `member`."""
        return self._any(member, member.gone - _TOGETHER, member.first + _TOGETHER)

    def at_beginning(self, member: GroupMember) -> bool:
        """Return whether one was present when `member` arrived, and stayed long enough."""
        return self._any(member, member.first, member.first + _TOGETHER)

    def at_end(self, member: GroupMember) -> bool:
        """Return whether one had been present long enough when `member` left."""
        return self._any(member, member.gone - _TOGETHER, member.gone)

    def _any(self, member: GroupMember, came_until: int, went_from: int) -> bool:
        same_topics, same_client, same_both = (
            presence.count(came_until, went_from) for presence in self._alike(member)
        )
        return self._all.count(came_until, went_from) > same_topics + same_client - same_both

    def _alike(self, member: GroupMember) -> Iterator[_Presence]:
        for key in (member.subscription, member.client, (member.subscription, member.client)):
            yield self._some.setdefault(key, _Presence())


def _shared_incident(
    timeline: GroupTimeline, parties: dict[tuple[str, ...], list[GroupMember]], begin: int, end: int
) -> Incident:
    labels = Labels(timeline)
    wishes = [
        f"{labels.several(member.member for member in members)}: "
        f"{words.several(words.line(topic) for topic in topics)}"
        for topics, members in parties.items()
    ]
    apart = not set.intersection(*(set(topics) for topics in parties))
    group = words.line(timeline.group)
    what = (
        f"{len(parties)} applications used group {group}"
        if apart
        else f"Members of group {group} subscribed to different topics"
    )
    members = [member for party in parties.values() for member in party]
    return Incident(
        kind=IncidentKind.SHARED_GROUP_ID,
        begin=begin,
        end=end,
        who=tuple(dict.fromkeys(labels.of(member.member) for member in members)),
        sentence=f"{what} for {span(end - begin)} ({'; '.join(wishes)}).",
        certainty=Certainty.INFERRED if apart else Certainty.POSSIBLE,
        alternatives=() if apart else ("a rollout that changes the subscription",),
        evidence=tuple(sorted({member.spans[0].number for member in members} - {0})),
    )


# ---------------------------------------------------------------- all incidents of a group

APART = 120 * SECOND
"""Longest time in ns from the end of one restart to the start of the next in a rolling restart."""
_LOOP_APART = 600 * SECOND
"""Longest time in ns from one crash to the next in a loop: an orchestrator waits up to 5 minutes in between."""
_LOOP = 3
"""Fewest crashes of a loop."""
_LEADS_AGAIN = 300 * SECOND + FOLLOWS
"""ns after a broker's return within which it becomes leader again (``leader.imbalance.check.interval.seconds``)."""
_BEGIN = attrgetter("begin")


def of_group(
    timeline: GroupTimeline,
    calls: GroupCalls | None,
    outages: Mapping[str, Sequence[Incident]],
) -> list[Incident]:
    """Return the incidents of a group, with the rebalances that follow from each.

    :param outages: outages by broker, in the order of time; consequences of an outage of the group's coordinator are
        added to it
    """
    near = {
        broker: _near(timeline, outages[broker])
        for broker in dict.fromkeys(seen.broker for seen in timeline.coordinators)
        if broker in outages
    }
    concerning = [outage for some in near.values() for outage in some if _concerns(outage, timeline)]
    _give_to_outages(timeline, concerning)
    down = Periods(_downtime(outage, timeline) for outage in concerning)
    away = [each for each in absences(timeline, calls) if not _in_outage(each, timeline, down)]
    found = [*_of_silences(timeline, away)]
    away = [each for each in away if _is_of_process(each)]
    found += connector_restarts(timeline, filter(is_task, away))
    found += _of_absences(timeline, [each for each in away if not is_task(each)])
    shared = shared_group_id(timeline)
    found += [] if shared is None else [shared]
    found += _moves(timeline, near)
    for incident in found:
        incident.groups[timeline.group] = None
    return found


# ---------------------------------------------------------------- brokers
def _near(timeline: GroupTimeline, outages: Sequence[Incident]) -> Sequence[Incident]:
    """Return the outages of a broker that began while the group was seen, and the one before."""
    begin = bisect_left(outages, timeline.first, key=_BEGIN)
    return outages[max(begin - 1, 0) : bisect_right(outages, timeline.last, key=_BEGIN)]


def _concerns(outage: Incident, timeline: GroupTimeline) -> bool:
    """Return whether the broker was the group's coordinator when the outage began."""
    return timeline.coordinator_at(outage.begin) in outage.brokers


def _downtime(outage: Incident, timeline: GroupTimeline) -> Period[Incident]:
    return Period(outage.begin, timeline.last if outage.end is None else outage.end, outage)


def _give_to_outages(timeline: GroupTimeline, outages: Sequence[Incident]) -> None:
    """Make rebalances consequences of the coordinator's latest outage, if they follow from it."""
    for outage in outages:
        if timeline.first <= outage.begin <= timeline.last:
            outage.groups[timeline.group] = None
    down = Periods(_downtime(outage, timeline) for outage in outages)
    longest = max((member.session_timeout or 0 for member in timeline.members), default=0)
    members, namesakes = timeline.by_id(), Namesakes(timeline.members)
    for rebalance in timeline.rebalances:
        latest = down.latest(rebalance.time)
        if latest is None or rebalance.time > latest.end + longest + FOLLOWS:
            continue
        if any(_from_outage(cause, latest.begin, members, namesakes) for cause in rebalance.causes):
            attribute(latest.of, rebalance)


def _from_outage(cause: Cause, begin: int, members: Mapping[str, GroupMember], namesakes: Namesakes) -> bool:
    if cause.session_end is not None:
        return cause.session_end.cause is TimeoutCause.BROKER_GONE
    if cause.trigger in (
        Trigger.COORDINATOR_MOVED,
        Trigger.LEADER_REJOINED,
        Trigger.PARTITIONS_CHANGED,
        Trigger.COOPERATIVE_FOLLOW_UP,
        Trigger.UNKNOWN,
    ):
        return True
    if cause.trigger is not Trigger.MEMBER_JOINED:
        return False
    joined = members.get(cause.member)
    # a client that had been a member before comes back
    return joined is not None and namesakes.before(joined, begin)


def _in_outage(away: Absence, timeline: GroupTimeline, down: Periods[Incident]) -> bool:
    """Return whether a member was away because its coordinator was down."""
    if away.session_end is not None:
        return away.session_end.cause is TimeoutCause.BROKER_GONE
    back = timeline.last if away.end is None else away.end
    return not away.left and down.first(back, away.begin - FOLLOWS) is not None


# ---------------------------------------------------------------- silences that no process explains
_OF_PROCESS = (TimeoutCause.PROCESS_DIED, TimeoutCause.CLOSED_IN_ORDER)


def _is_of_process(away: Absence) -> bool:
    return away.session_end is None or away.session_end.cause in _OF_PROCESS


def _of_silences(timeline: GroupTimeline, away: Sequence[Absence]) -> Iterator[Incident]:
    members = timeline.by_id()
    for each in away:
        if _is_of_process(each) or each.session_end is None:
            continue
        ended, until = each.session_end, each.end
        kind, surely, perhaps = {
            TimeoutCause.PROCESS_PAUSED: (IncidentKind.PROCESS_PAUSE, "{} paused", "{} may have paused"),
            TimeoutCause.HOST_SUSPENDED: (IncidentKind.PROCESS_PAUSE, "The host of {} was suspended", ""),
            TimeoutCause.UNREACHABLE: (
                IncidentKind.NETWORK_OUTAGE,
                "{} was unreachable",
                "{} may have been unreachable",
            ),
        }.get(ended.cause, (IncidentKind.MEMBER_ABSENCE, "{} was silent", "{} was silent"))
        member = f"{each.who} of group {words.line(timeline.group)}"
        possible = ended.certainty is Certainty.POSSIBLE
        lasted = (
            f" for {span(until - each.begin)}"
            if until is not None
            else (f" for longer than its session of {span(each.session)}" if each.session else "")
        )
        made = Incident(
            kind=kind,
            begin=each.begin,
            end=until,
            who=(each.who,),
            sentence=f"{(perhaps if possible else surely).format(member)}{lasted}{_because(ended.evidence)}.",
            certainty=ended.certainty,
            alternatives=ended.alternatives or (("the capture does not show why",) if possible else ()),
            evidence=each.evidence,
        )
        if kind is IncidentKind.NETWORK_OUTAGE:
            known = [members[name] for name in each.members if name in members]
            made.cut = tuple(dict.fromkeys(connection for of in known for connection in of.connections))
        attribute_those_of(each.members, made, timeline, each.given_up)
        yield made


def _because(evidence: Sequence[str]) -> str:
    return f": {'; '.join(evidence)}" if evidence else ""


# ---------------------------------------------------------------- processes that ended
def _of_absences(timeline: GroupTimeline, away: Sequence[Absence]) -> Iterator[Incident]:
    loops = list(_loops(away))
    looping = {id(each) for loop in loops for each in loop}
    for loop in loops:
        yield _loop(timeline, loop)
    alone: list[Absence] = []
    for chain in _chains([each for each in away if id(each) not in looping]):
        if len({each.identity for each in chain}) > 1:
            yield _rolling(timeline, chain)
        else:
            alone += chain
    for each in sorted(alone, key=_BEGIN):
        yield _single(timeline, each)


def _loops(away: Sequence[Absence]) -> Iterator[list[Absence]]:
    by_identity: dict[tuple[str, str], list[Absence]] = {}
    for each in away:
        if each.crashed:
            same_member = by_identity.setdefault(each.identity, [])
            if same_member and each.begin - same_member[-1].begin > _LOOP_APART:
                same_member.clear()
            same_member.append(each)
    return (
        same_member
        for same_member in by_identity.values()
        if len(same_member) >= _LOOP and same_member[0].end is not None
    )


def _chains(away: Sequence[Absence]) -> Iterator[list[Absence]]:
    """Yield members that ended and came back one after another; a member that was not seen again is alone."""
    chain: list[Absence] = []
    back = 0
    for each in away:
        if each.end is None:
            yield [each]
            continue
        if chain and each.begin - back > APART:
            yield chain
            chain = []
        chain.append(each)
        back = max(back, each.end)
    if chain:
        yield chain


def _loop(timeline: GroupTimeline, loop: Sequence[Absence]) -> Incident:
    first, last = loop[0], loop[-1]
    every = (last.begin - first.begin) // (len(loop) - 1)
    made = Incident(
        kind=IncidentKind.CRASH_LOOP,
        begin=first.begin,
        end=last.end,
        who=(first.who,),
        sentence=f"{first.who} of group {words.line(timeline.group)} died {len(loop)} times, about every {span(every)}"
        f"{'' if last.end is not None else ', and was not seen again'}.",
        certainty=_least_sure(loop),
        alternatives=_others(loop),
        evidence=_numbers(loop),
    )
    attribute_those_of(_ids(loop), made, timeline, loop[-1].given_up)
    return made


def _rolling(timeline: GroupTimeline, chain: Sequence[Absence]) -> Incident:
    names = list(dict.fromkeys(each.who for each in chain))
    begin, end = chain[0].begin, max(each.end or 0 for each in chain)
    longest = max(chain, key=lambda each: (each.end or 0) - each.begin)
    away = (longest.end or 0) - longest.begin
    apart = any(later.begin > (one.end or 0) for one, later in pairwise(chain))
    how = "one after another" if apart else "at about the same time"
    static = "static " if all(each.static for each in chain) else ""
    sentence = (
        f"{words.counted(len(names), f'{static}member')} of group {words.line(timeline.group)} "
        f"({words.several(names)}) "
        f"{'were' if len(names) > 1 else 'was'} restarted {how} within {span(end - begin)}; "
        f"{longest.who} was away longest ({span(away)}"
    )
    if longest.static and longest.session and away > longest.session:
        sentence += f", longer than its session of {span(longest.session)}"
    sentence += ")"
    died = [each.who for each in chain if each.crashed and each.certainty is not Certainty.POSSIBLE]
    if died:
        sentence += f"; {words.several(died)} died without leaving"
    quiet = [each for each in chain if each.static and each.given_up is None]
    if quiet:
        number = "none" if len(quiet) == len(chain) else f"only {len(chain) - len(quiet):,}"
        sentence += f"; {number} of these restarts caused a rebalance"
    made = Incident(
        kind=IncidentKind.ROLLING_RESTART,
        begin=begin,
        end=end,
        who=tuple(names),
        sentence=f"{sentence}.",
        certainty=Certainty.INFERRED,
        evidence=_numbers(chain),
    )
    made.stopped_partitions = [
        (each.begin, each.end or end, each.who, each.partitions) for each in quiet if each.places
    ]
    attribute_those_of(_ids(chain), made, timeline, max(each.given_up or 0 for each in chain))
    return made


def _single(timeline: GroupTimeline, each: Absence) -> Incident:
    group = f"of group {words.line(timeline.group)}"
    back = each.end is not None
    away = (each.end or 0) - each.begin
    quick = (
        back
        and each.crashed
        and not each.static
        and each.given_up is not None
        and (each.end or 0) < each.given_up
    )
    possible = each.certainty is Certainty.POSSIBLE
    kind = IncidentKind.QUICK_RESTART if quick else IncidentKind.MEMBER_ABSENCE
    if quick:
        waits = (each.given_up or 0) - (each.end or 0)
        sentence = (
            f"{each.who} {group} died and came back after {span(away)} as a new member; the group waited "
            f"{span(waits)} more for the session of the former one to end"
        )
    else:
        verb = (
            ("may have died" if possible else "died")
            if each.crashed
            else ("was restarted" if back else "was shut down without a LeaveGroup")
        )
        sentence = f"{each.who} {group} {verb} and " + (
            f"was away for {span(away)}" if back else "was not seen again"
        )
        if back and each.given_up is not None and each.session:
            sentence += f", longer than its session of {span(each.session)}"
        elif back and each.static:
            sentence += ", without a rebalance"
    made = Incident(
        kind=kind,
        begin=each.begin,
        end=each.end,
        who=(each.who,),
        sentence=f"{sentence}.",
        certainty=each.certainty,
        alternatives=_others([each]),
        evidence=each.evidence,
        in_order=back and not each.crashed,
    )
    if back and each.static and each.given_up is None and each.places:
        made.stopped_partitions = [(each.begin, each.end or 0, each.who, each.partitions)]
    attribute_those_of(each.members, made, timeline, each.given_up)
    return made


def _ids(away: Sequence[Absence]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(member for each in away for member in each.members))


def _numbers(away: Sequence[Absence]) -> tuple[int, ...]:
    return tuple(sorted({number for each in away for number in each.evidence}))


def _others(away: Sequence[Absence]) -> tuple[str, ...]:
    ends = [each.session_end for each in away if each.session_end is not None]
    return tuple(dict.fromkeys(text for end in ends for text in end.alternatives))


def _least_sure(away: Sequence[Absence]) -> Certainty:
    possible = any(each.certainty is Certainty.POSSIBLE for each in away)
    return Certainty.POSSIBLE if possible else Certainty.INFERRED


# ---------------------------------------------------------------- coordinators
def _root(
    before: ObservedCoordinator, after: ObservedCoordinator, down: Mapping[str, Periods[Incident]]
) -> Incident | None:
    """Return the outage that caused a move: of the former coordinator, or of the new one, which is back."""
    for broker, soon in ((before.broker, FOLLOWS), (after.broker, _LEADS_AGAIN)):
        latest = down[broker].latest(after.time) if broker in down else None
        if latest is not None and after.time <= latest.end + soon:
            return latest.of
    return None


def _moves(timeline: GroupTimeline, outages: Mapping[str, Sequence[Incident]]) -> Iterator[Incident]:
    down = {
        broker: Periods(_downtime(outage, timeline) for outage in some) for broker, some in outages.items()
    }
    made: list[Incident] = []
    group = words.line(timeline.group)
    for before, after in pairwise(timeline.coordinators):
        text = f"Group {group} moved from coordinator {before.broker} to {after.broker}"
        root = _root(before, after, down)
        if root is not None:
            root.moves.append(Consequence("coordinator_move", group, after.time, f"{text}.", (after.number,)))
            root.groups[timeline.group] = None
            continue
        made.append(
            Incident(
                kind=IncidentKind.COORDINATOR_MOVE,
                begin=after.time,
                end=after.time,
                who=(before.broker, after.broker),
                sentence=f"{text}.",
                certainty=Certainty.OBSERVED,
                evidence=(after.number,),
            )
        )
    for rebalance in timeline.rebalances:
        index = bisect_left(made, rebalance.time - FOLLOWS, key=_BEGIN)
        near = index < len(made) and made[index].begin <= rebalance.time + FOLLOWS
        moved = any(cause.trigger is Trigger.COORDINATOR_MOVED for cause in rebalance.causes)
        if near and moved and rebalance.because_of is None:
            attribute(made[index], rebalance)
    yield from made
