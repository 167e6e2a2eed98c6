"""The timeline of a group of a newer kind: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071).

A group may change its protocol during its life (KIP-848, online upgrade and downgrade). The first member of the new
kind turns a classic group into a consumer group, whose other members stay classic; when the last member of the new kind
has left, the group is a classic one again. So the calls of such a group are split into eras, each with its own rules.
A JoinGroup response shows the era by its leader: a consumer group has none.

An era of a newer kind takes three steps: :mod:`.epochs` reads the calls of members, :mod:`.bumps` counts the epochs and
finds the reasons of bumps, and :mod:`.reconciliations` finds how the group settled after each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from captures.analysis.groups import classic
from captures.analysis.groups.calls import Call, GroupCalls, HeartbeatRun, Join, ModernHeartbeatRun
from captures.analysis.groups.context import GroupContext
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import (
    Cause,
    GroupMember,
    GroupTimeline,
    Rebalance,
    TopicPartition,
    Wait,
    moves,
    owners,
)
from captures.analysis.groups.modern.epochs import Epochs
from captures.analysis.groups.modern.members import ALWAYS, Membership, MemberTimeline, State, as_member
from captures.analysis.groups.modern.reasons import MISSING
from captures.analysis.groups.modern.reconciliations import Reconciliations, UncapturedMembers
from captures.analysis.groups.vocabulary import Certainty, Kind, Trigger
from dissectors.error_codes import ErrorCode

UPGRADED = "the classic group became a consumer group (KIP-848)"
DOWNGRADED = "the consumer group became a classic group again, because its last member of the new kind left"


class Era(msgspec.Struct):
    """A time in which a group had one protocol.

    :ivar modern: whether it was a consumer group
    :ivar calls: in order
    :ivar end: when the next era began; None for the last
    :ivar closing: first call of the next era; None for the last
    """

    modern: bool
    calls: list[Call] = []
    end: int | None = None
    closing: Call | None = None


def eras(calls: Sequence[Call]) -> list[Era]:
    """Return the eras of a group, in order; never empty.

    :param calls: in the order of their requests
    """
    kinds = [(call, kind) for call in calls if (kind := _shows(call)) is not None]
    out: list[Era] = [Era(kinds[0][1] if kinds else True)]
    begins = [0]
    for index, (call, kind) in enumerate(kinds[1:], 1):
        if kind != out[-1].modern:
            begins.append(call.time if kind else _turned(calls, kinds[index - 1][0], call))
            out.append(Era(kind))
    current = 0
    for call in calls:
        while current + 1 < len(out) and call.time >= begins[current + 1]:
            current += 1
            out[current - 1].end, out[current - 1].closing = call.time, call
        out[current].calls.append(call)
    return out


def _shows(call: Call) -> bool | None:
    """Return whether a call shows that the group is a consumer group; None if it shows neither kind."""
    if isinstance(call, ModernHeartbeatRun):
        answered = call.epoch is not None or (call.generation < 0 and not call.error)
        return True if answered else None
    if isinstance(call, Join) and not call.error and call.answered >= 0:
        return not call.leader
    return None


def _turned(calls: Sequence[Call], last: Call, first: Call) -> int:
    """Return when a consumer group became a classic one: its members learn of it with their next heartbeat.

    :param last: call that shows it as a consumer group
    :param first: call that shows it as a classic one
    """
    for call in calls:
        upgraded = (
            isinstance(call, HeartbeatRun)
            and call.error == ErrorCode.REBALANCE_IN_PROGRESS
            and call.time > last.at
        )
        if upgraded and call.time < first.time:
            return call.time
    return first.time


# ---------------------------------------------------------------- from one era to the next
def members_left(timeline: GroupTimeline, end: int) -> list[MemberTimeline]:
    """Return the members of a classic group when it became a consumer group."""
    last = timeline.rebalances[-1] if timeline.rebalances else None
    if last is not None and last.emptied:
        return []
    present = set(last.members) if last is not None else set()
    found = []
    for member in timeline.members:
        if member.left is None and (not present or member.member in present):
            assigned = last.assigned.get(member.member) if last is not None else None
            found.append(_lane(member, timeline.generation, assigned, end))
    return found


def _lane(
    member: GroupMember, generation: int, assigned: frozenset[TopicPartition] | None, end: int
) -> MemberTimeline:
    number = member.spans[-1].number if member.spans else 0
    known = member.facts() | {"former_subscriptions": []}
    timeline = MemberTimeline(**known, classic=True, topics=member.subscription or None)
    timeline.memberships.append(Membership(member.member, ALWAYS))
    timeline.states.append(State(end, end, number, generation, assigned))
    return timeline


def joined_together(parts: Iterable[GroupTimeline]) -> GroupTimeline:
    """Return the timelines of all eras as one, with the final state of the last."""
    every = list(parts)
    last = every[-1]
    members: dict[str, GroupMember] = {}
    for part in every:
        for member in part.members:
            known = members.get(member.instance or member.member)
            members[member.instance or member.member] = member if known is None else known.followed_by(member)
    return replace(
        last,
        members=list(members.values()),
        rebalances=sorted(
            (rebalance for part in every for rebalance in part.rebalances),
            key=lambda rebalance: rebalance.time,
        ),
        protocol=next((part.protocol for part in reversed(every) if part.protocol), ""),
        seen=every[0].seen if last.complete else last.seen,
        first=every[0].first,
    )


def downgrade(timeline: GroupTimeline, gone: Cause, before: Rebalance | None, generation: int) -> None:
    """Make the first rebalance of a classic era the group's downgrade.

    :param gone: how the last member of the new kind left
    :param before: last rebalance of the previous era; None if there was none
    :param generation: last epoch of the previous era
    """
    if not timeline.rebalances:
        return
    first = timeline.rebalances[0]
    cause = replace(
        gone, trigger=Trigger.PROTOCOL_DOWNGRADED, sentence=DOWNGRADED, session_end=None, silence=None
    )
    others = [
        each for each in first.causes if each.certainty is Certainty.OBSERVED and each.time >= gone.time
    ]
    shift = first.time - gone.time
    first.causes = [replace(cause, certainty=Certainty.OBSERVED), gone, *others]
    first.alternatives = []
    first.previous_generation = generation
    first.time = gone.time
    first.waits = [_later(wait, shift) for wait in first.waits]
    first.gone = [gone.member, *(member for member in first.gone if member != gone.member)]
    if before is not None:
        known = {*before.members, *before.joined}
        first.joined = [member for member in first.joined if member not in known]
        first.moved = moves(owners(before.assigned), owners(first.assigned), "", "")
    first.evidence = sorted({*first.evidence, *gone.evidence})


def _later(wait: Wait, shift: int) -> Wait:
    return replace(
        wait,
        notified=None if wait.notified is None else wait.notified + shift,
        asked=None if wait.asked is None else wait.asked + shift,
        total=None if wait.total is None else wait.total + shift,
    )


def upgrade(timeline: GroupTimeline, labels: Labels) -> None:
    """Make the first rebalance of a consumer era that follows a classic one the group's upgrade."""
    for rebalance in timeline.rebalances[:1]:
        cause = rebalance.cause
        if cause.trigger is Trigger.MEMBER_JOINED:
            who = labels.of(cause.member, cause.client)
            joined = replace(cause, sentence=f"{who} joined with the consumer protocol")
            upgraded = replace(cause, trigger=Trigger.PROTOCOL_UPGRADED, sentence=UPGRADED)
            rebalance.causes[:1] = [upgraded, joined]


def timeline_of(calls: GroupCalls, context: GroupContext) -> GroupTimeline:
    """Return the timeline of a group."""
    ordered = calls.ordered()
    kind = _kind(ordered)
    every = eras(ordered) if Kind.CLASSIC in calls.kinds else [Era(True, ordered)]
    timelines: list[GroupTimeline] = []
    gone: Cause | None = None
    unfinished: list[Cause] = []
    for era in every:
        now = context.now if era.end is None else era.end
        then = replace(context, now=now)
        before = timelines[-1] if timelines else None
        if era.modern:
            timeline, gone = _modern(calls, kind, era, then, before)
        else:
            timeline = classic.timeline_of(
                GroupCalls(calls.group, era.calls, {Kind.CLASSIC}, calls.protocol_type), then
            )
            if before is not None and gone is not None:
                last = before.rebalances[-1] if before.rebalances else None
                downgrade(timeline, gone, last, before.generation)
        for first in timeline.rebalances[:1]:
            first.causes += unfinished
            first.evidence = sorted(
                {*first.evidence, *(each for cause in unfinished for each in cause.evidence)}
            )
        unfinished = [] if era.end is None else _overtaken(timeline)
        timelines.append(timeline)
    timeline = joined_together(timelines)
    timeline.kind = kind
    timeline.coordinators = context.coordinators
    timeline.first = min((call.time for call in ordered), default=0)
    timeline.last = max((call.at for call in ordered), default=0)
    return timeline


def _modern(
    calls: GroupCalls, kind: Kind, era: Era, context: GroupContext, before: GroupTimeline | None
) -> tuple[GroupTimeline, Cause | None]:
    """Return an era of a newer kind, and how its last member of that kind left if a classic era follows."""
    members = members_left(before, era.calls[0].time) if before is not None and era.calls else []
    epochs = Epochs(
        kind, context, era.calls, members, before.generation if before is not None and members else -1
    )
    epochs.read()
    last = None if era.closing is None else epochs.last_to_go(era.closing)
    timeline = GroupTimeline(
        group=calls.group,
        kind=kind,
        protocol_type=calls.protocol_type,
        generation=epochs.counter.latest,
        members=[as_member(member, context.now) for member in epochs.roster.lanes],
    )
    labels = Labels(timeline)
    seen = UncapturedMembers(epochs, context)
    settling = Reconciliations(calls.group, epochs, labels, seen, context.now)
    timeline.rebalances = settling.stories()
    if members:
        upgrade(timeline, labels)
    seen.add_to(timeline)
    timeline.state = _state(timeline, epochs)
    timeline.protocol = next(
        (member.assignor for member in reversed(epochs.roster.lanes) if member.assignor), ""
    )
    return timeline, None if last is None else settling.cause(last)


def _overtaken(timeline: GroupTimeline) -> list[Cause]:
    """Mark the last rebalance of an era as ended; return the causes of a transition that led to no generation."""
    last = timeline.rebalances[-1] if timeline.rebalances else None
    if last is None or not last.running:
        return []
    if last.kind is Kind.CLASSIC:
        return timeline.rebalances.pop().causes
    last.running = False
    last.awaited = []
    return []


def _state(timeline: GroupTimeline, epochs: Epochs) -> str:
    """Return the state as brokers call it (``ConsumerGroup.ConsumerGroupState``, and those of the other kinds)."""
    last = timeline.rebalances[-1] if timeline.rebalances else None
    if last is not None and last.emptied:
        return "Empty"
    if epochs.roster.alone:
        return ""
    if MISSING & {code for code, _ in epochs.status}:
        return "NotReady"
    # members of share groups lose partitions at once
    return (
        "Reconciling" if last is not None and last.running and timeline.kind is not Kind.SHARE else "Stable"
    )


def _kind(calls: list[Call]) -> Kind:
    """Return the kind of the latest heartbeat without an error; two groups may have had the same name."""
    kind = Kind.CONSUMER
    for call in calls:
        if isinstance(call, ModernHeartbeatRun) and (not call.error or kind is Kind.CONSUMER):
            kind = call.kind
    return kind
