"""What the members of a classic group did from one moment to another: joining, waiting, consuming, being silent."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.groups.calls import Beat, Join, Subscription, Sync
from captures.analysis.groups.classic.formations import Formation
from captures.analysis.groups.classic.lives import REBALANCE_IN_PROGRESS, Life, Lives
from captures.analysis.groups.classic.rounds import Round, members_of
from captures.analysis.groups.model import GroupMember, Phase, Place, Span

_HELD_UP = 2
"""Heartbeats that tell of a rebalance, without a JoinGroup after, from which on a member does not join."""


def members_over_time(
    lives: Lives, formations: Sequence[Formation], rounds: Sequence[Round], now: int
) -> list[GroupMember]:
    """Return the members, in the order of their first signs of life; a static one once, whatever its IDs were.

    :param now: the end of the capture
    """
    gone = {member: time for round_ in rounds for member, time in round_.ended.items()}
    left_out = _left_out(rounds, lives)
    belonged: dict[str, list[Formation]] = {}
    for formation in formations:
        for member in formation.members:
            belonged.setdefault(member, []).append(formation)
    out: dict[str, GroupMember] = {}
    for life in sorted(lives, key=lambda each: _first(each, belonged.get(each.member, []))):
        mine = belonged.get(life.member, [])
        if not mine and all(join.error for join in life.joins):
            continue  # was given an ID, or refused, and never came in
        member_ = _member(life, mine, gone.get(life.member), left_out.get(life.member), now)
        key = life.instance or life.member
        if key in out:
            _replace(out[key], member_)
        else:
            out[key] = member_
    return list(out.values())


def _left_out(rounds: Sequence[Round], lives: Lives) -> dict[str, int]:
    """Return the members that a generation was formed without though nothing ended their sessions, and when."""
    out = {}
    for round_ in rounds:
        if round_.formation is None or not round_.formation.whole:
            continue
        stayed = members_of(round_.formation, lives)
        for member in round_.present:
            if not round_.gone(member) and member not in stayed and lives.of(member).instance not in stayed:
                out[member] = round_.formation.formed
    return out


def _first(life: Life, formations: Sequence[Formation]) -> int:
    if life.calls:
        return life.calls[0].time
    return formations[0].formed if formations else 0


def _replace(known: GroupMember, latest: GroupMember) -> None:
    """Go on with a static member under another ID."""
    known.former.append(known.member)
    if known.spans and latest.spans and known.spans[-1].end > latest.spans[0].begin:
        known.spans[-1].end = max(latest.spans[0].begin, known.spans[-1].begin)
    known.member, known.client, known.host = latest.member, latest.client, latest.host
    known.rack, known.subscription = latest.rack or known.rack, latest.subscription or known.subscription
    known.session_timeout = latest.session_timeout or known.session_timeout
    known.rebalance_timeout = latest.rebalance_timeout or known.rebalance_timeout
    known.interval = latest.interval or known.interval
    known.last, known.left = max(known.last, latest.last), latest.left
    known.connections = list(dict.fromkeys(known.connections + latest.connections))
    known.spans += latest.spans


def _member(
    life: Life, formations: Sequence[Formation], ended: int | None, left_out: int | None, now: int
) -> GroupMember:
    left = left_out if ended is None else ended
    told = _subscription(life, formations)
    first = _first(life, formations)
    last = max((sign.end for sign in life.signs), default=first)
    return GroupMember(
        member=life.member,
        client=life.client,
        host=life.host,
        instance=life.instance,
        rack=told.rack if told is not None else "",
        subscription=told.topics if told is not None else (),
        session_timeout=life.session_timeout,
        rebalance_timeout=life.rebalance_timeout,
        interval=life.interval(),
        first=first,
        last=max(last, first),
        left=left,
        connections=life.connections,
        spans=_spans(life, formations, left, _silent(life, ended), now),
    )


def _subscription(life: Life, formations: Sequence[Formation]) -> Subscription | None:
    own = [join.subscription for join in life.joins if join.subscription is not None]
    if own:
        return own[-1]
    told = [known for each in formations if (known := each.subscriptions.get(life.member)) is not None]
    return told[-1] if told else None


# ---------------------------------------------------------------- phases
def _spans(
    life: Life, formations: Sequence[Formation], left: int | None, silent: Span | None, now: int
) -> list[Span]:
    assigned = {each.generation: each.assigned.get(life.member) for each in formations}
    begins = sorted(_begins(life, assigned), key=lambda span: span.begin)
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


def _begins(life: Life, assigned: dict[int, frozenset[Place] | None]) -> list[Span]:
    """Return what the member began to do; the ends are not right yet."""
    out = []
    joined = False
    for call in life.calls:
        if isinstance(call, Join) and not call.error:
            out.append(Span(call.time, call.time, Phase.JOINING, call.answered, call.number))
            joined = True
        elif isinstance(call, Sync):
            joined = True
            out.append(Span(call.time, call.time, Phase.SYNCING, call.generation, call.number))
            if call.end is not None and not call.error:
                places = assigned.get(call.generation) if call.assigned is None else call.assigned
                out.append(Span(call.end, call.end, Phase.STABLE, call.generation, call.number, places))
        elif isinstance(call, Beat) and call.error == REBALANCE_IN_PROGRESS:
            if call.count >= _HELD_UP and call.end is not None:
                out.append(Span(call.end, call.end, Phase.NOT_JOINING, call.generation, call.number))
        elif not joined and not call.error and call.generation >= 0:
            # the capture begins in the middle
            joined = True
            places = assigned.get(call.generation)
            out.append(Span(call.time, call.time, Phase.STABLE, call.generation, call.number, places))
    return out


def _silent(life: Life, left: int | None) -> Span | None:
    """Return the time without a sign of life before a session ended."""
    if left is None or life.left is not None or not life.signs:
        return None
    latest = max(life.signs, key=lambda sign: sign.end)
    return Span(min(latest.end, left), left, Phase.SILENT, -1, latest.number)
