"""Groups of the newer kinds: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071).

Consumer groups that are upgraded from the classic protocol, or back, are told era by era (:mod:`.eras`). An era
of a newer kind is told in three steps: :mod:`.epochs` reads what heartbeats say, :mod:`.counting` counts
the epochs and finds what bumped them, and :mod:`.settling` tells how the group settled after each.
"""

from __future__ import annotations

from dataclasses import replace

from captures.analysis.groups import classic
from captures.analysis.groups.calls import Call, GroupCalls, ModernBeat
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, GroupTimeline, Kind
from captures.analysis.groups.modern.epochs import Epochs
from captures.analysis.groups.modern.eras import Era, downgrade, eras, joined_together, members_left, upgrade
from captures.analysis.groups.modern.lanes import as_member
from captures.analysis.groups.modern.reasons import MISSING
from captures.analysis.groups.modern.seen import Seen
from captures.analysis.groups.modern.settling import Settling
from captures.analysis.groups.surroundings import Surroundings


def tell(calls: GroupCalls, scene: Surroundings) -> GroupTimeline:
    """Return all that is known of a group."""
    ordered = calls.ordered()
    kind = _kind(ordered)
    every = eras(ordered) if Kind.CLASSIC in calls.kinds else [Era(True, ordered)]
    told: list[GroupTimeline] = []
    gone: Cause | None = None
    unfinished: list[Cause] = []
    for era in every:
        now = scene.now if era.end is None else era.end
        then = replace(scene, now=now)
        before = told[-1] if told else None
        if era.modern:
            timeline, gone = _modern(calls, kind, era, then, before)
        else:
            timeline = classic.tell(
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
        told.append(timeline)
    timeline = joined_together(told)
    timeline.kind = kind
    timeline.coordinators = scene.coordinators
    timeline.first = min((call.time for call in ordered), default=0)
    timeline.last = max((call.at for call in ordered), default=0)
    return timeline


def _modern(
    calls: GroupCalls, kind: Kind, era: Era, scene: Surroundings, before: GroupTimeline | None
) -> tuple[GroupTimeline, Cause | None]:
    """Return an era of a newer kind, and how its last member of that kind went if a classic era follows."""
    members = members_left(before, era.calls[0].time) if before is not None and era.calls else []
    epochs = Epochs(
        kind, scene, era.calls, members, before.generation if before is not None and members else -1
    )
    epochs.read()
    last = None if era.closing is None else epochs.last_to_go(era.closing)
    timeline = GroupTimeline(
        group=calls.group,
        kind=kind,
        protocol_type=calls.protocol_type,
        generation=epochs.counter.latest,
        members=[as_member(lane, scene.now) for lane in epochs.lanes],
    )
    labels = Labels(timeline)
    seen = Seen(epochs, scene)
    settling = Settling(calls.group, epochs, labels, seen, scene.now)
    timeline.rebalances = settling.stories()
    if members:
        upgrade(timeline, labels)
    seen.tell(timeline)
    timeline.state = _state(timeline, epochs)
    timeline.protocol = next((lane.assignor for lane in reversed(epochs.lanes) if lane.assignor), "")
    return timeline, None if last is None else settling.cause(last)


def _overtaken(timeline: GroupTimeline) -> list[Cause]:
    """Note that what an era ends in does not go on; return what began a round to which no generation came any more."""
    last = timeline.rebalances[-1] if timeline.rebalances else None
    if last is None or not last.running:
        return []
    if last.kind is Kind.CLASSIC:
        return timeline.rebalances.pop().causes
    last.running = False
    last.awaited = []
    return []


def _state(timeline: GroupTimeline, epochs: Epochs) -> str:
    """Return the state as brokers call it (``ConsumerGroup.ConsumerGroupState``, and likewise of the other kinds)."""
    last = timeline.rebalances[-1] if timeline.rebalances else None
    if last is not None and last.emptied:
        return "Empty"
    if not any(lane.alive for lane in epochs.lanes):
        return ""
    if MISSING & {code for code, _ in epochs.status}:
        return "NotReady"
    # what is asked back from a member of a share group has gone at once
    return (
        "Reconciling" if last is not None and last.running and timeline.kind is not Kind.SHARE else "Stable"
    )


def _kind(calls: list[Call]) -> Kind:
    """Return what the latest heartbeat that was answered well says; a name may have served two groups."""
    kind = Kind.CONSUMER
    for call in calls:
        if isinstance(call, ModernBeat) and (not call.error or kind is Kind.CONSUMER):
            kind = call.kind
    return kind
