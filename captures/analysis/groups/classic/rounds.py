"""Rounds of a classic group: from one generation to the next, to the group's being empty, or to the end of the capture.

A round is a stretch of time in which the number of the generation rises by one. Where its members are known, what
became of each tells whether the group was empty in between: the coordinator counts that as a generation of its own
(``GroupMetadata.initNextGeneration``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from captures.analysis.groups.calls import Call, Join
from captures.analysis.groups.classic.formations import Formation
from captures.analysis.groups.classic.lives import (
    FENCED_INSTANCE_ID,
    MEMBER_ID_REQUIRED,
    Departure,
    Life,
    Lives,
)

_NO_LIMIT = 1 << 32
_Timed = TypeVar("_Timed", Join, Departure)

LATE = 1_000_000_000
"""ns by which the end of a session may seem to come later than it did: what was heard last was not what came last."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The end of a member's session.

    :ivar time: when the coordinator gave it up
    :ivar since: of its last sign of life
    :ivar number: of the exchange with that
    """

    member: str
    time: int
    since: int
    number: int


@dataclass(slots=True, kw_only=True)
class Round:
    """What led from one state of a group to the next.

    :ivar before: generation that the group had; None if that was not seen
    :ivar previous: the same as a number, that of an empty group included; -1 if not known
    :ivar begin: time after which it began at the earliest
    :ivar end: when its generation was formed, or the group was empty; the end of the capture if it goes on
    :ivar formation: that it led to; None if the group was emptied, or it goes on
    :ivar emptied: whether it left the group without members
    :ivar unseen: whether it led to a generation of which nothing was seen
    :ivar present: IDs of the members at its beginning, as far as they are known
    :ivar whole: whether they are all known
    :ivar expiries: sessions that ended in it
    :ivar departures: members that were removed in it by LeaveGroup
    :ivar joins: JoinGroups that were sent in it, in the order of time
    :ivar ended: member IDs of those that left or whose session ended in it, and when
    """

    before: Formation | None
    previous: int
    begin: int
    end: int
    formation: Formation | None = None
    emptied: bool = False
    unseen: bool = False
    present: dict[str, None] = field(default_factory=dict)
    whole: bool = False
    expiries: Sequence[Expiry] = ()
    departures: Sequence[Departure] = ()
    joins: Sequence[Join] = ()
    ended: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.ended = {each.member: each.time for each in self.departures} | {
            each.member: each.time for each in self.expiries
        }

    def gone(self, member: str, until: int | None = None) -> bool:
        """Whether a member left, or its session ended, in the round or up to a moment of it."""
        time = self.ended.get(member)
        return time is not None and (until is None or time <= until)


def present_in(formation: Formation, lives: Lives) -> dict[str, None]:
    """Return the members of a generation when it ended: of static members that returned, the latest ID."""
    members = dict(formation.members)
    for join in formation.later:
        instance = join.instance
        if instance and join.member not in members:
            for old in [old for old in members if lives.of(old).instance == instance]:
                del members[old]
        members[join.member] = None
    return members


def find_rounds(
    calls: Sequence[Call], formations: Sequence[Formation], lives: Lives, now: int
) -> list[Round]:
    """Return the rounds in the order of time; the last may lead nowhere, because nothing was going on.

    :param now: the end of the capture
    """
    out: list[Round] = []
    joins = [call for call in calls if isinstance(call, Join)]
    for place in range(len(formations) + 1):
        before = formations[place - 1] if place else None
        after = formations[place] if place < len(formations) else None
        if after is not None and before is None and not after.joined:
            continue  # the capture begins in the midst of it
        out += _between(before, after, joins, lives, now)
    return out


def _between(
    before: Formation | None, after: Formation | None, joins: Sequence[Join], lives: Lives, now: int
) -> list[Round]:
    begin = 0 if before is None or not (before.joined or before.listed) else before.formed
    end = now if after is None else after.formed
    anew = before is not None and after is not None and after.generation <= before.generation
    answered = {id(join) for join in before.joins + before.later} if before is not None else set()
    # what was under way when a generation was formed came too late for it, and belongs to the next
    sent = [join for join in after.joins if join.time < begin] if after is not None else []
    latest = after.generation if after is not None and not anew else _NO_LIMIT
    within = [
        join for join in _within(joins, begin, end) if id(join) not in answered and join.answered <= latest
    ]
    round_ = Round(
        before=before,
        previous=-1 if before is None else before.generation,
        begin=begin,
        end=end,
        formation=after,
        present={} if before is None else present_in(before, lives),
        whole=before is not None and before.whole,
        joins=sent + within,
        departures=_within(lives.departures, begin, end),
    )
    round_ = replace(round_, expiries=_expiries(round_, lives))
    emptied = _forgotten_at(round_) if anew else _emptied_at(round_, lives)
    if emptied is not None:
        first, second = _split(round_, emptied)
        # the coordinator forgets empty groups after a while, and begins to count anew
        second.previous = -1 if anew else second.previous
        return [first, second]
    if (between := _unseen_at(round_)) is not None:
        first, second = _split(round_, between)
        first.emptied, first.unseen, second.whole = False, True, False
        return [first, second]
    return [round_]


def _within(found: Sequence[_Timed], begin: int, end: int) -> Sequence[_Timed]:
    """Return what lies in a time, of what is in the order of time."""
    first = bisect_left(found, begin, key=lambda each: each.time)
    return found[first : bisect_right(found, end, key=lambda each: each.time)]


def _expiries(round_: Round, lives: Lives) -> list[Expiry]:
    """Return the sessions that ended: of members that are not among the next and did not leave."""
    stayed = members_of(round_.formation, lives)
    out = []
    for member in round_.present:
        life = lives.of(member)
        if round_.gone(member) or member in stayed or life.instance in stayed:
            continue
        if life.refused(FENCED_INSTANCE_ID) is not None:
            continue  # its place in the group was taken by another with its instance ID
        found = _expiry(life, lives, round_)
        if found is not None:
            out.append(found)
    return sorted(out, key=lambda each: each.time)


def members_of(formation: Formation | None, lives: Lives) -> set[str | None]:
    """Return the IDs of the members of a generation, and the instance IDs of the static ones; none if there is none."""
    if formation is None:
        return set()
    known = {*formation.members, *formation.heard}
    return {*known, *(instance for member in known if (instance := lives.of(member).instance))}


def _expiry(life: Life, lives: Lives, round_: Round) -> Expiry | None:
    sign, session = life.last_sign(round_.end), lives.session_timeout(life)
    if session is None or not life.seen:
        return None
    if life.signs and life.signs[-1].begin > round_.end:
        return None  # it was heard of later, as a member
    time, number = sign if sign is not None else (round_.begin, 0)
    if round_.before is not None and time < round_.before.formed:
        # its answer was not seen to come, but with it the session began anew
        time = round_.before.formed if round_.before.joined else time
    ends = lives.counted_from(time, round_.end) + session
    # without a generation that lacks it, nothing shows that it is gone but the time
    slack = min(LATE, session // 5) if round_.formation is not None else 0
    if round_.formation is None and _goes_on(round_, lives, ends + LATE):
        return None  # the others would have been told
    if life.unknown_since is not None and life.unknown_since < ends - slack:
        return None  # the coordinator did not know it any more before
    return Expiry(life.member, min(ends, round_.end), time, number) if ends <= round_.end + slack else None


def _goes_on(round_: Round, lives: Lives, time: int) -> bool:
    """Whether heartbeats show after a moment that the generation before is still there."""
    before = round_.before
    return before is not None and any(
        lives.of(member).beat_well(before.generation, time) for member in round_.present
    )


def _emptied_at(round_: Round, lives: Lives) -> int | None:
    """Return when the last member was gone; None if somebody stayed, or that is not known."""
    before, after = round_.before, round_.formation
    if before is None or not round_.present or not all(round_.gone(member) for member in round_.present):
        return None
    if after is not None and after.generation == before.generation + 1:
        return None
    if after is not None and not all(lives.of(member).seen for member in after.members):
        return None  # there are members that were not captured, who may have been there all the time
    time = max(round_.ended[member] for member in round_.present)
    waiting = [
        join
        for join in round_.joins
        if join.time < time and not _refused(join) and not round_.gone(join.member, time)
    ]
    return None if waiting else time


def _forgotten_at(round_: Round) -> int:
    """Return when a group was empty that counts its generations anew: after the last ending that was seen."""
    endings = [time for who, time in round_.ended.items() if who in round_.present]
    came = [join.time for join in round_.joins if join.member not in round_.present and not _refused(join)]
    return max(endings, default=min(came, default=round_.end))


def _unseen_at(round_: Round) -> int | None:
    """Return when a member's going led to a generation that nobody was seen in; None if there is none such.

    Where a member goes and comes back, and the rest of the group was not captured, the numbers tell that there was
    one.
    """
    before, after = round_.before, round_.formation
    if before is None or after is None or after.generation < before.generation + 2:
        return None
    first = min((time for who, time in round_.ended.items() if who in round_.present), default=None)
    came = [join for join in round_.joins if join.member not in round_.present and not _refused(join)]
    return first if first is not None and came and all(join.time > first for join in came) else None


def _refused(join: Join) -> bool:
    return join.error not in (0, MEMBER_ID_REQUIRED)


def _split(round_: Round, time: int) -> list[Round]:
    """Return the round that emptied the group, and what came after."""
    first = Round(
        before=round_.before,
        previous=round_.previous,
        begin=round_.begin,
        end=time,
        emptied=True,
        present=round_.present,
        whole=round_.whole,
        expiries=round_.expiries,
        departures=[each for each in round_.departures if each.time <= time],
        joins=[each for each in round_.joins if each.time <= time],
    )
    second = Round(
        before=None,
        previous=round_.previous + 1,
        begin=time,
        end=round_.end,
        formation=round_.formation,
        whole=True,
        departures=[each for each in round_.departures if each.time > time],
        joins=[each for each in round_.joins if each.time > time],
    )
    return [first, second]
