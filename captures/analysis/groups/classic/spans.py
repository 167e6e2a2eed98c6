"""The phases of a classic group's members: joining, waiting, consuming, being silent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from captures.analysis.groups.calls import HeartbeatRun, Join, Subscription, Sync
from captures.analysis.groups.classic.generations import Generation, Transition, missing_in_next
from captures.analysis.groups.classic.memberships import Membership, Memberships
from captures.analysis.groups.model import GroupMember, Span, TopicPartition
from captures.analysis.groups.vocabulary import Phase
from dissectors.error_codes import ErrorCode

_HELD_UP = 2
"""Heartbeats answered with a rebalance, without a JoinGroup, after which a member counts as not joining."""


def members_over_time(
    memberships: Memberships, generations: Sequence[Generation], transitions: Sequence[Transition], now: int
) -> list[GroupMember]:
    """Return the members in the order of their first signs of life; a static one once, whatever its IDs were.

    :param now: the end of the capture
    """
    gone = {member: time for transition in transitions for member, time in transition.ended.items()}
    left_out = _left_out(transitions, memberships)
    belonged: dict[str, list[Generation]] = {}
    for generation in generations:
        for member in generation.members:
            belonged.setdefault(member, []).append(generation)
    out: dict[str, GroupMember] = {}
    for membership in sorted(memberships, key=lambda each: _first(each, belonged.get(each.member, []))):
        spans = belonged.get(membership.member, [])
        if not spans and all(join.error for join in membership.joins):
            continue  # was given an ID, or refused, and never joined
        member_ = _member(
            membership, spans, gone.get(membership.member), left_out.get(membership.member), now
        )
        key = membership.instance or membership.member
        out[key] = out[key].followed_by(member_) if key in out else member_
    return list(out.values())


def _left_out(transitions: Sequence[Transition], memberships: Memberships) -> dict[str, int]:
    """Return members that are missing in a generation though nothing ended their sessions, with its time."""
    return {
        membership.member: transition.generation.formed
        for transition in transitions
        if transition.generation is not None and transition.generation.whole
        for membership in missing_in_next(transition, memberships)
    }


def _first(membership: Membership, generations: Sequence[Generation]) -> int:
    if membership.calls:
        return membership.calls[0].time
    return generations[0].formed if generations else 0


def _member(
    membership: Membership,
    generations: Sequence[Generation],
    ended: int | None,
    left_out: int | None,
    now: int,
) -> GroupMember:
    left = left_out if ended is None else ended
    subscription = _subscription(membership, generations)
    first = _first(membership, generations)
    last = max((sign.end for sign in membership.signs), default=first)
    return GroupMember(
        member=membership.member,
        client=membership.client,
        host=membership.host,
        instance=membership.instance,
        rack=subscription.rack if subscription is not None else "",
        subscription=tuple(sorted(subscription.topics)) if subscription is not None else (),
        former_subscriptions=list(_former_subscriptions(membership)),
        session_timeout=membership.session_timeout,
        rebalance_timeout=membership.rebalance_timeout,
        interval=membership.interval(),
        first=first,
        last=max(last, first),
        left=left,
        connections=membership.connections,
        spans=_spans(membership, generations, left, _silent(membership, ended), now),
    )


def _subscription(membership: Membership, generations: Sequence[Generation]) -> Subscription | None:
    own = [join.subscription for join in membership.joins if join.subscription is not None]
    if own:
        return own[-1]
    subscriptions = [
        known for each in generations if (known := each.subscriptions.get(membership.member)) is not None
    ]
    return subscriptions[-1] if subscriptions else None


def _former_subscriptions(membership: Membership) -> Iterator[tuple[tuple[str, ...], int]]:
    subscription = (
        (join.time, tuple(sorted(join.subscription.topics))) for join in membership.joins if join.subscription
    )
    for (_, before), (time, after) in pairwise(subscription):
        if before and before != after:
            yield before, time


# ---------------------------------------------------------------- phases
def _spans(
    membership: Membership, generations: Sequence[Generation], left: int | None, silent: Span | None, now: int
) -> list[Span]:
    assigned = {each.id: each.assigned.get(membership.member) for each in generations}
    begins = sorted(_begins(membership, assigned), key=lambda span: span.begin)
    end = now if left is None else left
    if silent is not None:
        begins = [span for span in begins if span.begin <= silent.begin] + [silent]
    out: list[Span] = []
    for span in begins:
        if out:
            out[-1].end = min(span.begin, end)
            if (out[-1].phase, out[-1].generation, out[-1].assigned) == (
                span.phase,
                span.generation,
                span.assigned,
            ):
                continue
        out.append(span)
    if out:
        out[-1].end = max(end, out[-1].begin)
    return [span for span in out if span.begin <= end and (span.end > span.begin or span is out[-1])]


def _begins(membership: Membership, assigned: dict[int, frozenset[TopicPartition] | None]) -> list[Span]:
    """Return the phases that the member began; their ends are not set yet."""
    out = []
    joined = False
    for call in membership.calls:
        if isinstance(call, Join) and not call.error:
            out.append(Span(call.time, call.time, Phase.JOINING, call.answered, call.number))
            joined = True
        elif isinstance(call, Sync):
            joined = True
            out.append(Span(call.time, call.time, Phase.SYNCING, call.generation, call.number))
            if call.end is not None and not call.error:
                partitions = assigned.get(call.generation) if call.assigned is None else call.assigned
                out.append(Span(call.end, call.end, Phase.STABLE, call.generation, call.number, partitions))
        elif isinstance(call, HeartbeatRun) and call.error == ErrorCode.REBALANCE_IN_PROGRESS:
            if call.count >= _HELD_UP and call.end is not None:
                out.append(Span(call.end, call.end, Phase.NOT_JOINING, call.generation, call.number))
        elif not joined and not call.error and call.generation >= 0:
            # the capture begins in the middle
            joined = True
            partitions = assigned.get(call.generation)
            out.append(Span(call.time, call.time, Phase.STABLE, call.generation, call.number, partitions))
    return out


def _silent(membership: Membership, left: int | None) -> Span | None:
    """Return the time without a sign of life before a session ended; None if there is none."""
    if left is None or membership.left is not None or not membership.signs:
        return None
    latest = max(membership.signs, key=lambda sign: sign.end)
    return Span(min(latest.end, left), left, Phase.SILENT, -1, latest.number)
