"""Incidents of one group: restarts, crashes, pauses, outages of the network, other applications, moves, topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from captures.analysis.groups.calls import GroupCalls
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import (
    Because,
    Cause,
    Certainty,
    GroupMember,
    GroupTimeline,
    Rebalance,
    TimeoutCause,
    Trigger,
)
from captures.analysis.incidents.absences import Absence, absences
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

APART = 120 * SECOND
"""ns from the end of one restart to the beginning of the next that make one rolling restart, at most."""
_LOOP_APART = 600 * SECOND
"""ns from one crash to the next in a loop: an orchestrator waits for up to 5 minutes in between."""
_LOOP = 3
"""Crashes that make a loop."""
_TOGETHER = SECOND
"""ns that members have to be in a group together at least, to be two applications."""
_FOLLOWS = 5 * SECOND
"""ns after an incident in which a rebalance of one of its members, or a second round, follows from it."""
_SHOWN = 5


def of_group(
    timeline: GroupTimeline, calls: GroupCalls | None, outages: Sequence[Incident]
) -> list[Incident]:
    """Return the incidents of a group, with the rebalances that follow from each.

    :param outages: of brokers; what happened in one of the group's coordinator is its consequence, and is put there
    """
    _give_to_outages(timeline, outages)
    away = [each for each in absences(timeline, calls) if not _in_outage(each, timeline, outages)]
    found = [*_of_silences(timeline, away)]
    away = [each for each in away if _is_of_process(each)]
    found += _of_absences(timeline, away)
    found += _shared(timeline)
    found += _moves(timeline, outages)
    found += _topics(timeline)
    for incident in found:
        incident.groups = (timeline.group,)
    return found


# ---------------------------------------------------------------- brokers
def _give_to_outages(timeline: GroupTimeline, outages: Sequence[Incident]) -> None:
    """Put rebalances to the outages of the group's coordinator that they follow from."""
    for outage in outages:
        if not _concerns(outage, timeline):
            continue
        end = outage.end if outage.end is not None else timeline.last
        longest = max((member.session_timeout or 0 for member in timeline.members), default=0)
        for rebalance in timeline.rebalances:
            meets = (
                rebalance.because_of is None and outage.begin <= rebalance.time <= end + longest + _FOLLOWS
            )
            if meets and any(_from_outage(cause, outage, timeline) for cause in rebalance.causes):
                _put(outage, rebalance)
        if timeline.first <= outage.begin <= timeline.last:
            outage.groups = tuple(dict.fromkeys((*outage.groups, timeline.group)))


def _concerns(outage: Incident, timeline: GroupTimeline) -> bool:
    """Whether the broker was the group's coordinator when it went."""
    before = [seen for seen in timeline.coordinators if seen.time <= outage.begin]
    seen = before[-1] if before else next(iter(timeline.coordinators), None)
    return seen is not None and seen.broker in outage.brokers


def _from_outage(cause: Cause, outage: Incident, timeline: GroupTimeline) -> bool:
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
    joined = timeline.member(cause.member)
    # who had been a member before comes back
    return joined is not None and any(
        (other.client, other.host) == (joined.client, joined.host) and other.first < outage.begin
        for other in timeline.members
    )


def _in_outage(away: Absence, timeline: GroupTimeline, outages: Sequence[Incident]) -> bool:
    if away.session_end is not None and away.session_end.cause is TimeoutCause.BROKER_GONE:
        return True
    return away.session_end is None and any(
        _concerns(outage, timeline)
        and outage.begin <= (timeline.last if away.end is None else away.end)
        and away.begin <= (timeline.last if outage.end is None else outage.end) + _FOLLOWS
        and not away.left
        for outage in outages
    )


# ---------------------------------------------------------------- silences that no process explains
_OF_PROCESS = (TimeoutCause.PROCESS_DIED, TimeoutCause.CLOSED_IN_ORDER)


def _is_of_process(away: Absence) -> bool:
    return away.session_end is None or away.session_end.cause in _OF_PROCESS


def _of_silences(timeline: GroupTimeline, away: Sequence[Absence]) -> Iterator[Incident]:
    for each in away:
        if _is_of_process(each) or each.session_end is None:
            continue
        ended, until = each.session_end, each.end
        kind, text = {
            TimeoutCause.PROCESS_PAUSED: (IncidentKind.PROCESS_PAUSE, "stood still"),
            TimeoutCause.UNREACHABLE: (IncidentKind.NETWORK_OUTAGE, "could not be reached"),
        }.get(ended.cause, (IncidentKind.MEMBER_ABSENCE, "was not heard of"))
        possible = ended.certainty is Certainty.POSSIBLE
        how = "Perhaps " if possible and kind is not IncidentKind.MEMBER_ABSENCE else ""
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
            sentence=f"{how}{each.who} of group {_name(timeline)} {text}{lasted}{_because(ended.evidence)}.",
            certainty=ended.certainty,
            alternatives=ended.alternatives or (("the capture does not tell why",) if possible else ()),
            evidence=each.evidence,
        )
        yield _with_rebalances(made, timeline, each.members, each.given_up)


def _because(evidence: Sequence[str]) -> str:
    return f": {'; '.join(evidence)}" if evidence else ""


# ---------------------------------------------------------------- processes that ended
def _of_absences(timeline: GroupTimeline, away: Sequence[Absence]) -> Iterator[Incident]:
    rest = list(away)
    for loop in _loops(rest):
        rest = [each for each in rest if each not in loop]
        yield _loop(timeline, loop)
    for chain in _chains(rest):
        if len({each.identity for each in chain}) > 1:
            rest = [each for each in rest if each not in chain]
            yield _rolling(timeline, chain)
    for each in rest:
        yield _single(timeline, each)


def _loops(away: Sequence[Absence]) -> Iterator[list[Absence]]:
    by_identity: dict[tuple[str, str], list[Absence]] = {}
    for each in away:
        if each.crashed:
            mine = by_identity.setdefault(each.identity, [])
            if mine and each.begin - mine[-1].begin > _LOOP_APART:
                mine.clear()
            mine.append(each)
    return (mine for mine in by_identity.values() if len(mine) >= _LOOP and mine[0].end is not None)


def _chains(away: Sequence[Absence]) -> Iterator[list[Absence]]:
    """Yield members that went and came back one after another."""
    chain: list[Absence] = []
    for each in away:
        if each.end is None:
            continue
        if chain and each.begin - max(one.end or 0 for one in chain) > APART:
            yield chain
            chain = []
        chain.append(each)
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
        sentence=f"{first.who} of group {_name(timeline)} died {len(loop)} times, every {span(every)}"
        f"{'' if last.end is not None else ', and was not seen again'}.",
        certainty=_least_sure(loop),
        alternatives=_others(loop),
        evidence=_numbers(loop),
    )
    return _with_rebalances(made, timeline, _ids(loop), loop[-1].given_up)


def _rolling(timeline: GroupTimeline, chain: Sequence[Absence]) -> Incident:
    names = list(dict.fromkeys(each.who for each in chain))
    begin, end = chain[0].begin, max(each.end or 0 for each in chain)
    longest = max(chain, key=lambda each: (each.end or 0) - each.begin)
    away = (longest.end or 0) - longest.begin
    apart = any(later.begin > (one.end or 0) for one, later in pairwise(chain))
    how = "one after another" if apart else "at about the same time"
    static = "static " if all(each.static for each in chain) else ""
    sentence = (
        f"{words.counted(len(names), f'{static}member')} of group {_name(timeline)} ({_listed(names)}) "
        f"{'were' if len(names) > 1 else 'was'} restarted {how} within {span(end - begin)}; "
        f"{longest.who} was away longest, {span(away)}"
    )
    if longest.static and longest.session and away > longest.session:
        sentence += f", longer than its session of {span(longest.session)}"
    died = [each.who for each in chain if each.crashed and each.certainty is not Certainty.POSSIBLE]
    if died:
        sentence += f"; {_listed(died)} ended without leaving"
    quiet = [each for each in chain if each.static and each.given_up is None]
    if quiet:
        sentence += f"; {_times(len(quiet))} without a rebalance"
    made = Incident(
        kind=IncidentKind.ROLLING_RESTART,
        begin=begin,
        end=end,
        who=tuple(names),
        sentence=f"{sentence}.",
        certainty=Certainty.INFERRED,
        evidence=_numbers(chain),
    )
    made.stood_still = [
        (each.begin, each.end or end, each.who, each.partitions) for each in quiet if each.places
    ]
    return _with_rebalances(made, timeline, _ids(chain), max(each.given_up or 0 for each in chain))


def _single(timeline: GroupTimeline, each: Absence) -> Incident:
    group = f"of group {_name(timeline)}"
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
            f"{each.who} {group} died and was back after {span(away)} as another member; the group had to wait "
            f"{span(waits)} more for the session of the former one"
        )
    else:
        verb = (
            ("perhaps died" if possible else "died")
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
    )
    if back and each.static and each.given_up is None and each.places:
        made.stood_still = [(each.begin, each.end or 0, each.who, each.partitions)]
    return _with_rebalances(made, timeline, each.members, each.given_up)


def _times(count: int) -> str:
    return "one of these restarts" if count == 1 else f"{count} of these restarts"


def _ids(away: Sequence[Absence]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(member for each in away for member in each.members))


def _numbers(away: Sequence[Absence]) -> tuple[int, ...]:
    return tuple(sorted({number for each in away for number in each.evidence}))


def _others(away: Sequence[Absence]) -> tuple[str, ...]:
    ends = [each.session_end for each in away if each.session_end is not None]
    return tuple(dict.fromkeys(text for end in ends for text in end.alternatives))


def _least_sure(away: Sequence[Absence]) -> Certainty:
    return (
        Certainty.POSSIBLE
        if any(each.certainty is Certainty.POSSIBLE for each in away)
        else Certainty.INFERRED
    )


# ---------------------------------------------------------------- two applications
def _shared(timeline: GroupTimeline) -> Iterator[Incident]:
    """Yield an incident if members subscribed to different topics at the same time."""
    if timeline.protocol_type not in ("", "consumer"):
        return
    wanted: dict[tuple[str, ...], list[GroupMember]] = {}
    for member in timeline.members:
        if member.subscription and member.spans:
            wanted.setdefault(member.subscription, []).append(member)
    if len(wanted) < 2:
        return
    sides = sorted(wanted.items(), key=lambda side: side[1][0].first)
    together: list[tuple[int, int]] = []
    parties: dict[tuple[str, ...], list[GroupMember]] = {}
    for place, (topics, members) in enumerate(sides):
        for others, strangers in sides[place + 1 :]:
            for one in members:
                for other in strangers:
                    begin, end = max(one.first, other.first), min(_gone(one), _gone(other))
                    if end - begin >= _TOGETHER and one.client != other.client:
                        together.append((begin, end))
                        parties.setdefault(topics, []).append(one)
                        parties.setdefault(others, []).append(other)
    if not together:
        return
    labels = Labels(timeline)
    begin, end = min(each[0] for each in together), max(each[1] for each in together)
    told = [
        f"{labels.several(dict.fromkeys(member.member for member in members))} "
        f"{'wants' if len({member.member for member in members}) == 1 else 'want'} "
        f"{_listed(words.line(topic) for topic in topics)}"
        for topics, members in parties.items()
    ]
    apart = not set.intersection(*(set(topics) for topics in parties))
    what = (
        f"{len(parties)} applications used group {_name(timeline)}"
        if apart
        else f"Members of group {_name(timeline)} wanted different topics"
    )
    made = Incident(
        kind=IncidentKind.SHARED_GROUP_ID,
        begin=begin,
        end=end,
        who=tuple(dict.fromkeys(labels.of(each.member) for members in parties.values() for each in members)),
        sentence=f"{what} for {span(end - begin)}: {'; '.join(told)}.",
        certainty=Certainty.INFERRED if apart else Certainty.POSSIBLE,
        alternatives=() if apart else ("a rollout that changes the subscription",),
        evidence=tuple(
            sorted({each.spans[0].number for members in parties.values() for each in members} - {0})
        ),
    )
    smallest = min(parties.values(), key=lambda members: (len(members), -members[0].first))
    _with_rebalances(made, timeline, tuple(member.member for member in smallest))
    for rebalance in timeline.rebalances:
        # the leader sees other topics when an application comes or goes
        changed = (
            rebalance.trigger is Trigger.PARTITIONS_CHANGED and begin <= rebalance.time <= end + _FOLLOWS
        )
        if changed and rebalance.because_of is None:
            _put(made, rebalance)
    yield made


def _gone(member: GroupMember) -> int:
    return member.last if member.left is None else member.left


# ---------------------------------------------------------------- coordinators and topics
def _moves(timeline: GroupTimeline, outages: Sequence[Incident]) -> Iterator[Incident]:
    for before, after in pairwise(timeline.coordinators):
        outage = next(
            (
                each
                for each in outages
                if before.broker in each.brokers
                and each.begin <= after.time <= (each.end or timeline.last) + _FOLLOWS
            ),
            None,
        )
        text = f"Group {_name(timeline)} moved from coordinator {before.broker} to {after.broker}"
        if outage is not None:
            outage.moves.append((after.time, timeline.group, text, after.number))
            outage.groups = tuple(dict.fromkeys((*outage.groups, timeline.group)))
            continue
        made = Incident(
            kind=IncidentKind.COORDINATOR_MOVE,
            begin=after.time,
            end=after.time,
            who=(before.broker, after.broker),
            sentence=f"{text}.",
            certainty=Certainty.OBSERVED,
            evidence=(after.number,),
        )
        for rebalance in timeline.rebalances:
            moved = any(cause.trigger is Trigger.COORDINATOR_MOVED for cause in rebalance.causes)
            if moved and abs(rebalance.time - after.time) <= _FOLLOWS:
                _put(made, rebalance)
        yield made


def _topics(timeline: GroupTimeline) -> Iterator[Incident]:
    latest: Incident | None = None
    for rebalance in timeline.rebalances:
        cause = next((each for each in rebalance.causes if each.trigger is Trigger.PARTITIONS_CHANGED), None)
        # what is not told by a message is the state of a share or streams group, as a rule
        if cause is None or cause.certainty is not Certainty.OBSERVED or rebalance.because_of is not None:
            continue
        if latest is None or cause.time - latest.begin > _FOLLOWS:
            if latest is not None:
                yield latest
            latest = Incident(
                kind=IncidentKind.TOPIC_CHANGE,
                begin=cause.time,
                end=cause.time,
                who=(_name(timeline),),
                sentence=f"Topics of group {_name(timeline)} changed: {cause.sentence}.",
                certainty=cause.certainty,
                evidence=cause.evidence,
            )
        _put(latest, rebalance)
    if latest is not None:
        yield latest


# ---------------------------------------------------------------- rebalances
def _with_rebalances(
    made: Incident, timeline: GroupTimeline, members: Sequence[str], given_up: int | None = None
) -> Incident:
    """Put the rebalances to an incident that its members made, and the second rounds right behind them.

    :param given_up: when the coordinator gave the last of them up, which may be later than the end
    """
    end = max(timeline.last if made.end is None else made.end, given_up or 0) + SECOND
    rebalances = timeline.rebalances
    for first in timeline.caused_by(members):
        place = first
        while place < len(rebalances) and (
            place == first or rebalances[place].trigger is Trigger.COOPERATIVE_FOLLOW_UP
        ):
            if (
                rebalances[place].because_of is not None
                or not made.begin - SECOND <= rebalances[place].time <= end
            ):
                break
            _put(made, rebalances[place])
            place += 1
    return made


def _put(incident: Incident, rebalance: Rebalance) -> None:
    rebalance.because_of = Because(incident.id, incident.sentence)
    incident.rebalances.append(rebalance)


def _listed(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    rest = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _name(timeline: GroupTimeline) -> str:
    return words.line(timeline.group)
