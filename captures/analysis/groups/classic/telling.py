"""Classic groups (KIP-62): their members, generations and rebalances, told from the calls of the members.

The calls are put together to lives of members (:mod:`lives`) and to generations (:mod:`formations`); what lies between
two generations is a round (:mod:`rounds`), which has causes (:mod:`causes`) and is told as a story (:mod:`story`).
"""

from __future__ import annotations

from captures.analysis.groups.calls import Call, GroupCalls, Join
from captures.analysis.groups.classic.causes import Causes
from captures.analysis.groups.classic.formations import Formation, find_formations
from captures.analysis.groups.classic.lives import Lives
from captures.analysis.groups.classic.rounds import Round, find_rounds, present_in
from captures.analysis.groups.classic.spans import members_over_time
from captures.analysis.groups.classic.story import Stories
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import GroupTimeline, Kind, Rebalance
from captures.analysis.groups.surroundings import Surroundings

_LOADING = 14
"""COORDINATOR_LOAD_IN_PROGRESS"""


def tell(calls: GroupCalls, scene: Surroundings) -> GroupTimeline:
    """Return all that is known of a group."""
    ordered = calls.ordered()
    formations = find_formations(ordered)
    formed = sorted(formation.formed for formation in formations)
    until = _coordinated_until(ordered, scene)
    lives = Lives(ordered, formed, _reloads(ordered, scene), until)
    for formation in formations:
        for member, instance in formation.listed.items():
            lives.know(member, instance)
    rounds = find_rounds(ordered, formations, lives, until)
    timeline = GroupTimeline(
        group=calls.group,
        kind=Kind.CLASSIC,
        protocol_type=calls.protocol_type,
        coordinators=scene.coordinators,
        first=min((call.time for call in ordered), default=0),
        last=max((call.latest for call in ordered), default=0),
        members=members_over_time(lives, formations, rounds, scene.now),
    )
    _tell_rounds(timeline, rounds, lives, scene)
    _conclude(timeline, formations, lives, ordered)
    if until < scene.now:
        timeline.seen.append(
            "the coordinator closed the connections of the members, and was not heard of again"
        )
    return timeline


def _coordinated_until(ordered: list[Call], scene: Surroundings) -> int:
    """Return up to when there was a coordinator that could end sessions: the end of the capture, as a rule.

    One that closes the connections of its members, and answers none of them any more, was stopped or has died.
    """
    answered = max((call.latest for call in ordered if call.end is not None), default=0)
    endings = [scene.ending(connection) for connection in {call.connection for call in ordered}]
    gone = [ending.time for ending in endings if ending is not None and not ending.by_client]
    return min((time for time in gone if time >= answered), default=scene.now)


def _reloads(ordered: list[Call], scene: Surroundings) -> list[int]:
    """Return when the group was loaded by a coordinator: another one, or the same after it was restarted."""
    loading = [call.at for call in ordered if call.error == _LOADING]
    return sorted([*loading, *(seen.time for seen in scene.coordinators[1:])])


def _tell_rounds(timeline: GroupTimeline, rounds: list[Round], lives: Lives, scene: Surroundings) -> None:
    causes = Causes(lives, scene, Labels(timeline))
    stories = Stories(timeline.group, lives, scene.now)
    for round_ in rounds:
        found = causes.of(round_)
        if found:
            timeline.rebalances.append(stories.tell(round_, found))
    if rounds and timeline.rebalances:
        latest = next((round_ for round_ in reversed(rounds) if round_.formation is not None), None)
        if latest is not None:
            stories.conclude(timeline.rebalances[-1], latest)


def _conclude(
    timeline: GroupTimeline, formations: list[Formation], lives: Lives, ordered: list[Call]
) -> None:
    """Fill in what holds at the end, and how much was seen."""
    latest = formations[-1] if formations else None
    last = timeline.rebalances[-1] if timeline.rebalances else None
    known = [each.generation for each in (last, latest) if each is not None and each.generation >= 0]
    timeline.generation = known[0] if known else -1
    timeline.protocol = next((each.protocol for each in reversed(formations) if each.protocol), "")
    timeline.state = _state(last, latest)
    if latest is None:
        return
    members = present_in(latest, lives)
    timeline.complete = latest.whole and all(lives.of(member).seen for member in members)
    speaking = sum(1 for member in timeline.members if member.connections)
    if speaking < len(timeline.members):
        timeline.seen.append(f"{speaking} of {len(timeline.members)} members were seen speaking")
    if not latest.whole:
        timeline.seen.append(f"how many members generation {latest.generation} has was not captured")
    first = formations[0]
    if not first.joined:
        timeline.seen.append(f"the capture begins in generation {first.generation}")
    elif any(_belongs(call) for call in ordered if call.time < first.formed and not _is_given(call, lives)):
        timeline.seen.append(
            f"the capture begins before generation {first.generation}, when the group had members"
        )


def _belongs(call: Call) -> bool:
    """Whether who sends a call takes itself for a member."""
    return bool(call.member) and (call.generation >= 0 or (isinstance(call, Join) and bool(call.asked_as)))


def _is_given(call: Call, lives: Lives) -> bool:
    """Whether a member was seen to be given its ID."""
    return any(not join.asked_as for join in lives.of(call.member).joins)


def _state(last: Rebalance | None, latest: Formation | None) -> str:
    if last is not None and last.running:
        return "CompletingRebalance" if last.generation >= 0 else "PreparingRebalance"
    if last is not None and last.emptied:
        return "Empty"
    if last is not None and latest is not None and last.generation > latest.generation:
        return ""  # it went on without those that were captured
    return "Stable" if latest is not None else ""
