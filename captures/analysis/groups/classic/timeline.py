"""The timeline of a classic group (KIP-62): its members, generations and rebalances, made from the calls of members.

Calls are grouped into memberships (:mod:`.memberships`) and generations (:mod:`.generations`). Between two generations
is a transition, which has causes (:mod:`.causes`) and becomes a rebalance with waits, leader and moved partitions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

from captures.analysis.groups.calls import Call, GroupCalls, Join, Sync
from captures.analysis.groups.classic.causes import Causes
from captures.analysis.groups.classic.generations import (
    LATE,
    Generation,
    Transition,
    find_generations,
    find_transitions,
    present_in,
)
from captures.analysis.groups.classic.memberships import Membership, Memberships
from captures.analysis.groups.classic.spans import members_over_time
from captures.analysis.groups.classic.workers import WorkerStops
from captures.analysis.groups.context import GroupContext
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import (
    AwaitedMember,
    Cause,
    GroupTimeline,
    Move,
    Rebalance,
    TopicPartition,
    Wait,
    moves,
    owners,
)
from captures.analysis.groups.vocabulary import Certainty, Kind, Trigger
from captures.meaning.assignments import STREAMS_ASSIGNOR
from dissectors.error_codes import ErrorCode

COOPERATIVE = frozenset({"cooperative-sticky", STREAMS_ASSIGNOR, "streams", "compatible", "sessioned"})
"""Names of assignors whose members keep their partitions: KIP-429 for consumers and Streams, KIP-415 for Connect."""
EAGER = frozenset({"range", "roundrobin", "sticky", "default"})

_NEVER = 1 << 63
"""End of a connection that is open."""

Holders = dict[TopicPartition, str]
"""Partition -> ID of the member that it was assigned to."""


class RebalanceBuilder:
    """Makes rebalances from transitions, in the order of time.

    :param workers: finds when connectors and tasks ran nowhere; None if the members are not workers of Kafka Connect
    """

    def __init__(self, group: str, memberships: Memberships, now: int, workers: WorkerStops | None) -> None:
        self._group = group
        self._workers = workers
        self._memberships = memberships
        self._now = now
        self._holders: Holders = {}
        self._nobody: str | None = None
        """The owner of a partition that is not among these: none (empty), or not known (None)."""

    def rebalance(self, transition: Transition, causes: list[Cause]) -> Rebalance:
        """Return the rebalance of a transition.

        :param causes: its causes; not empty
        """
        rebalance = Rebalance(
            group=self._group,
            kind=Kind.CLASSIC,
            generation=-1,
            previous_generation=transition.previous,
            time=causes[0].time,
            causes=causes,
            alternatives=_alternatives(causes),
            of_workers=self._workers is not None,
        )
        if transition.emptied:
            self._empty(rebalance, transition)
        elif transition.unseen:
            rebalance.generation = transition.previous + 1
            rebalance.gone = [member for member in transition.present if transition.gone(member)]
            self._holders, self._nobody = {}, None
        elif transition.generation is not None:
            self._form(rebalance, transition, transition.generation)
        else:
            self._run(rebalance, transition)
        rebalance.evidence = sorted(
            {number for cause in causes for number in cause.evidence} | {*_numbers(transition)}
        )
        return rebalance

    # ------------------------------------------------------------ finished transitions
    def _empty(self, rebalance: Rebalance, transition: Transition) -> None:
        rebalance.generation = transition.previous + 1
        rebalance.end = transition.end
        rebalance.emptied = True
        rebalance.size = 0
        rebalance.gone = list(transition.present)
        rebalance.moved = [Move(tp, member, "") for tp, member in sorted(self._holders.items())]
        self._holders, self._nobody = {}, ""
        if self._workers is not None:
            self._workers.emptied()

    def _form(self, rebalance: Rebalance, transition: Transition, generation: Generation) -> None:
        rebalance.generation = generation.id
        rebalance.members = list(generation.members)
        rebalance.size = len(generation.listed) or None
        rebalance.leader, rebalance.protocol = generation.leader, generation.protocol
        rebalance.cooperative = is_cooperative(generation)
        aliases = self._aliases(transition, generation)
        present = dict.fromkeys(aliases.get(member, member) for member in transition.present)
        new = {cause.member for cause in rebalance.causes if cause.trigger is Trigger.MEMBER_JOINED}
        rebalance.joined = [member for member in generation.members if member in new]
        if transition.before is not None or transition.whole:
            rebalance.joined = [member for member in generation.members if member not in present]
            if generation.whole:
                rebalance.gone = [member for member in present if member not in generation.members]
            else:
                rebalance.gone = [member for member in transition.present if transition.gone(member)]
        rebalance.assigned = dict(generation.assigned)
        rebalance.tasks = generation.tasks
        if transition.before is None and (transition.whole or generation.id == 1):
            self._holders, self._nobody = {}, ""  # it had no members before
        self._move(rebalance, aliases, generation)
        if self._workers is not None:
            self._workers.formed(rebalance, transition, generation)
        syncs = {sync.member: sync for sync in reversed(generation.syncs)}
        rebalance.waits = [
            self._wait(join, syncs.get(join.member), rebalance.time, transition)
            for join in _answered(generation)
        ]
        rebalance.end = _ended(generation, rebalance)
        rebalance.overtaken = rebalance.end is None and any(
            sync.error == ErrorCode.REBALANCE_IN_PROGRESS for sync in generation.syncs
        )

    def _aliases(self, transition: Transition, generation: Generation) -> dict[str, str]:
        """Return former IDs of static members -> their IDs in a generation."""
        now = {
            instance: member
            for member in generation.members
            if (instance := self._memberships.of(member).instance)
        }
        out = {}
        for member in {*transition.present, *self._holders.values()}:
            instance = self._memberships.of(member).instance
            if instance in now and member not in generation.members:
                out[member] = now[instance]
        return out

    def _move(self, rebalance: Rebalance, aliases: Mapping[str, str], generation: Generation) -> None:
        if not rebalance.assigned:
            self._holders, self._nobody = {}, None
            return
        before = {tp: aliases.get(member, member) for tp, member in self._holders.items()}
        after = owners(rebalance.assigned)
        # members whose assignment was not seen are assumed to keep theirs
        known = {*rebalance.assigned, *rebalance.gone}
        for tp, member in before.items():
            if tp not in after and member not in known:
                after[tp] = member
        whole = generation.whole and rebalance.assigned.keys() >= generation.members.keys()
        others = "" if whole else None
        rebalance.moved = moves(before, after, self._nobody, others)
        self._holders, self._nobody = after, others

    def _wait(self, join: Join, sync: Sync | None, begin: int, transition: Transition) -> Wait:
        notified = self._memberships.of(join.member).first_notice(max(transition.begin, begin - 1), join.time)
        asked = max(join.time - begin, 0)
        end = None if sync is None or sync.error else sync.end
        return Wait(
            member=join.member,
            client=join.client,
            notified=max(notified.at - begin, 0) if notified is not None else asked,
            asked=asked,
            join=None if join.end is None else join.end - join.time,
            sync=None if sync is None or sync.end is None else sync.end - sync.time,
            total=None if end is None else end - begin,
        )

    # ------------------------------------------------------------ a running transition
    def conclude(self, rebalance: Rebalance, transition: Transition) -> None:
        """Mark the last rebalance as running if its leader has not handed in the assignments."""
        generation = transition.generation
        if generation is None or rebalance.generation != generation.id or rebalance.emptied:
            return
        leader = self._memberships.of(generation.leader)
        handed_out = any(sync.end is not None for sync in generation.syncs)
        # heartbeats with a generation are answered without an error once it is stable
        stable = any(
            self._memberships.of(member).beat_well(generation.id, generation.formed)
            for member in generation.contacts
        )
        if not generation.joins or handed_out or stable or not leader.seen:
            return
        rebalance.running, rebalance.end = True, None
        timeout = self._deadline(generation.formed, [*generation.members])
        rebalance.awaited = [
            AwaitedMember(
                member=leader.member,
                client=leader.client,
                since=generation.formed,
                deadline=self._given_up(leader, timeout),
            )
        ]

    def _run(self, rebalance: Rebalance, transition: Transition) -> None:
        left = [member for member in transition.present if not transition.gone(member)]
        asked = {join.member for join in transition.joins if join.end is None or not join.error}
        rebalance.gone = [member for member in transition.present if transition.gone(member)]
        waiting = [join for join in transition.joins if join.end is None]
        if not waiting and not any(self._lives_on(member, rebalance.time) for member in left):
            # the remaining members were not captured, so nothing shows how it continued
            rebalance.generation = transition.previous + 1 if transition.previous >= 0 else -1
            return
        rebalance.running = True
        timeout = self._deadline(rebalance.time, [*left, *asked])
        for member in left:
            if member in asked:
                continue
            membership = self._memberships.of(member)
            notified = membership.first_notice(rebalance.time - 1, self._now)
            rebalance.awaited.append(
                AwaitedMember(
                    member=member,
                    client=membership.client,
                    since=rebalance.time if notified is None else max(notified.at, rebalance.time),
                    beats=membership.notices(rebalance.time - 1, self._now),
                    deadline=self._given_up(membership, timeout),
                )
            )
        rebalance.waits = [
            Wait(member=join.member, client=join.client, asked=max(join.time - rebalance.time, 0))
            for join in waiting
        ]

    def _lives_on(self, member: str, time: int) -> bool:
        """Return whether a member's last sign of life was at most a session timeout before `time`, or after it."""
        membership = self._memberships.of(member)
        sign = membership.last_sign(self._now)
        return sign is not None and sign[0] + (membership.session_timeout or 0) >= time

    def _given_up(self, membership: Membership, timeout: int | None) -> int | None:
        """Return when the coordinator continues without a member: at the timeout, or at a silent one's session end."""
        sign = membership.last_sign(self._now)
        if sign is None or membership.session_timeout is None:
            return timeout
        patience = (
            membership.session_timeout // 2 if (interval := membership.interval()) is None else 2 * interval
        )
        if self._now - sign[0] < patience:
            return timeout
        ends = sign[0] + membership.session_timeout
        return ends if timeout is None else min(ends, timeout)

    def _deadline(self, begin: int, members: list[str]) -> int | None:
        """Return when the coordinator continues without missing members: after the longest timeout of all."""
        timeouts = [self._memberships.of(member).rebalance_timeout for member in members]
        known = [timeout for timeout in timeouts if timeout is not None]
        return begin + max(known) if known else None


def _answered(generation: Generation) -> list[Join]:
    """Return the JoinGroups that formed a generation, the last one of each member."""
    return list({join.member: join for join in generation.joins}.values())


def _ended(generation: Generation, rebalance: Rebalance) -> int | None:
    """Return when all members that were seen had their assignments; None if one was not seen to get it."""
    ends: list[int] = []
    for wait in rebalance.waits:
        if wait.total is None:
            return None
        ends.append(rebalance.time + wait.total)
    return max(ends, default=None)


def is_cooperative(generation: Generation) -> bool | None:
    """Return whether members keep their partitions during a rebalance; None if unknown."""
    if generation.protocol in COOPERATIVE:
        return True
    if generation.protocol in EAGER:
        return False
    subscriptions = [*generation.subscriptions.values()]
    subscriptions += [join.subscription for join in generation.joins if join.subscription is not None]
    if subscriptions and all(each.owned is None for each in subscriptions):
        return False  # members with a version without owned partitions cannot keep them (KIP-429)
    # a member that revokes everything first owns nothing when it joins
    return True if any(each.owned for each in subscriptions) else None


def _numbers(transition: Transition) -> list[int]:
    generation = transition.generation
    if generation is None:
        return [join.number for join in transition.joins if join.end is None]
    calls: list[Join | Sync] = [*generation.joins, *generation.syncs]
    return [call.number for call in calls]


def _alternatives(causes: list[Cause]) -> list[str]:
    """Return what else may have opened a rebalance."""
    found: dict[str, None] = {}
    for cause in causes:
        if cause.trigger is Trigger.UNKNOWN:
            found |= dict.fromkeys(_OF_A_MEMBER if cause.member else _OF_NONE)
        elif cause.trigger is Trigger.COORDINATOR_MOVED or cause.certainty is Certainty.POSSIBLE:
            found |= dict.fromkeys(_OR_ELSE.get(cause.trigger, ()))
    return list(found)


_OR_ELSE = {
    Trigger.SESSION_TIMEOUT: ("it did not join in time",),
    Trigger.MAX_POLL_EXCEEDED: ("it unsubscribed from its topics",),
    Trigger.MEMBER_JOINED: ("a static member returned, or took the place of another with its instance ID",),
    Trigger.COOPERATIVE_FOLLOW_UP: ("a member that was not captured joined again first",),
    Trigger.COORDINATOR_MOVED: ("a member that was not captured joined or left",),
}
_OF_A_MEMBER = "it left", "its session ended", "it did not join in time", "an admin client removed it"
_OF_NONE = (
    "a member whose connection was not captured joined, left or fell silent",
    "the leader joined again",
)


def timeline_of(calls: GroupCalls, context: GroupContext) -> GroupTimeline:
    """Return the timeline of a group."""
    ordered = calls.ordered()
    generations = find_generations(ordered)
    formed = sorted(generation.formed for generation in generations)
    until = _coordinated_until(ordered, context)
    memberships = Memberships(ordered, formed, _reloads(ordered, context), until)
    for generation in generations:
        for member, instance in generation.listed.items():
            memberships.know(member, instance)
    transitions = find_transitions(ordered, generations, memberships, until)
    timeline = GroupTimeline(
        group=calls.group,
        kind=Kind.CLASSIC,
        protocol_type=calls.protocol_type,
        coordinators=context.coordinators,
        first=min((call.time for call in ordered), default=0),
        last=max((call.latest for call in ordered), default=0),
        members=members_over_time(memberships, generations, transitions, context.now),
    )
    _add_rebalances(timeline, transitions, memberships, context)
    _conclude(timeline, generations, memberships, ordered)
    if until < context.now:
        timeline.seen.append("the coordinator closed the connections of the members, and sent nothing more")
    return timeline


def _coordinated_until(ordered: list[Call], context: GroupContext) -> int:
    """Return until when a coordinator could end sessions: usually the end of the capture.

    A coordinator that closes the connections of its members, and then answers none of them, was stopped or has died.
    """
    answered = max((call.latest for call in ordered if call.end is not None), default=0)
    endings = [context.ending(connection) for connection in {call.connection for call in ordered}]
    gone = [ending.time for ending in endings if ending is not None and ending.by_broker]
    return min((time for time in gone if time >= answered), default=context.now)


def _reloads(ordered: list[Call], context: GroupContext) -> list[int]:
    """Return when a coordinator loaded the group: another one, or the same after a restart."""
    loading = [call.at for call in ordered if call.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    return sorted([*loading, *(seen.time for seen in context.coordinators[1:]), *_returns(ordered, context)])


def _returns(ordered: list[Call], context: GroupContext) -> Iterator[int]:
    """Yield when a coordinator that had ended all connections of the members accepted one again: it was restarted."""
    by_broker: dict[str, dict[int, int]] = {}
    for call in ordered:
        by_broker.setdefault(call.broker, {}).setdefault(call.connection, call.time)
    for broker, begun in by_broker.items():
        endings = {connection: context.ending(connection) for connection in begun}
        order = sorted(begun, key=lambda connection: begun[connection])
        begins = [begun[connection] for connection in order]
        # for each connection, in the order of starts, the latest end of it and all before it
        last_ends = list(
            accumulate((_NEVER if (each := endings[one]) is None else each.time for one in order), max)
        )
        over = 0
        for ending in sorted(each for each in endings.values() if each is not None and each.by_broker):
            before = bisect_left(begins, ending.time)
            if ending.time <= over or not before or last_ends[before - 1] > ending.time + LATE:
                continue  # it answered on another connection all the while
            # a connection accepted sooner was still in the queue of the socket that is being closed
            accepted = context.accepted(broker, last_ends[before - 1] + LATE)
            if accepted is not None:
                over = accepted
                yield over


def _add_rebalances(
    timeline: GroupTimeline, transitions: list[Transition], memberships: Memberships, context: GroupContext
) -> None:
    causes = Causes(timeline.group, memberships, context, Labels(timeline))
    workers = WorkerStops(context.now) if timeline.of_workers else None
    stories = RebalanceBuilder(timeline.group, memberships, context.now, workers)
    for transition in transitions:
        found = causes.of(transition)
        if found:
            timeline.rebalances.append(stories.rebalance(transition, found))
    for rebalance in timeline.rebalances[:-1]:
        # a member that joined and got no assignment
        unserved = any(wait.join is not None and wait.sync is None for wait in rebalance.waits)
        rebalance.overtaken |= rebalance.end is None and unserved
    if workers is not None:
        workers.concluded()
    if transitions and timeline.rebalances:
        latest = next(
            (transition for transition in reversed(transitions) if transition.generation is not None), None
        )
        if latest is not None:
            stories.conclude(timeline.rebalances[-1], latest)


def _conclude(
    timeline: GroupTimeline, generations: list[Generation], memberships: Memberships, ordered: list[Call]
) -> None:
    """Fill in the final state, and how much of the group was seen."""
    latest = generations[-1] if generations else None
    last = timeline.rebalances[-1] if timeline.rebalances else None
    timeline.generation = -1 if latest is None else latest.id
    if last is not None and last.generation >= 0:
        timeline.generation = last.generation
    timeline.protocol = next((each.protocol for each in reversed(generations) if each.protocol), "")
    timeline.state = _state(last, latest)
    if latest is None:
        return
    members = present_in(latest, memberships)
    timeline.complete = latest.whole and all(memberships.of(member).seen for member in members)
    speaking = sum(1 for member in timeline.members if member.connections)
    if speaking < len(timeline.members):
        timeline.seen.append(f"requests of {speaking} of {len(timeline.members)} members were captured")
    if not latest.whole:
        timeline.seen.append(f"the number of members of generation {latest.id} was not captured")
    first = generations[0]
    if not first.joined:
        timeline.seen.append(f"the capture begins in generation {first.id}")
    elif any(
        _belongs(call) for call in ordered if call.time < first.formed and not _is_given(call, memberships)
    ):
        timeline.seen.append(f"the capture begins before generation {first.id}, when the group had members")


def _belongs(call: Call) -> bool:
    """Return whether the sender of a call considers itself a member."""
    return bool(call.member) and (call.generation >= 0 or (isinstance(call, Join) and bool(call.asked_as)))


def _is_given(call: Call, memberships: Memberships) -> bool:
    """Return whether a member was seen to be given its ID."""
    return any(not join.asked_as for join in memberships.of(call.member).joins)


def _state(last: Rebalance | None, latest: Generation | None) -> str:
    if last is not None and last.running:
        return "CompletingRebalance" if last.generation >= 0 else "PreparingRebalance"
    if last is not None and last.emptied:
        return "Empty"
    if last is not None and latest is not None and last.generation > latest.id:
        return ""  # it continued without the captured members
    return "Stable" if latest is not None else ""
