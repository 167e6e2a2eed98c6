"""Reasons of epoch bumps in groups of the newer kinds, and the heartbeats that show the bumps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from captures.analysis.groups.calls import Call
from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.modern.members import MemberTimeline
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.meaning import words
from dissectors.domains import STREAMS_STATUS

MISSING = frozenset({1, 2, 3})
"""Status codes of a streams group with missing or wrongly partitioned topics (KIP-1071)."""
_NORMAL = frozenset({3, 5})
"""MISSING_INTERNAL_TOPICS and ASSIGNMENT_DELAYED: the coordinator creates the topics, and waits for more members."""
_DETAIL_LENGTH = 120

_UNSEEN = "a member that was not captured joined, left, or timed out"
_LOST = "a member that was not captured joined: it has the partitions that were given up"
_GAINED = "a member that was not captured left or timed out: it had the partitions that were given out"


@dataclass(slots=True, kw_only=True)
class Reason:
    """A reason of an epoch bump.

    :ivar text: what happened; without the member's name, which precedes it; for a session timeout, only additional
        facts
    :ivar timeline: the member that it concerns; None if it concerns none
    :ivar member: ID of the member at that time
    :ivar numbers: numbers of the exchanges that show it
    :ivar silence: ns without a sign of life before it, for a removed member
    :ivar bounds: lower (exclusive) and upper bound in ns of a session timeout; None if it is known
    :ivar joined: whether the member is new
    :ivar gone: whether the member left the group
    :ivar alternatives: other possible reasons
    """

    trigger: Trigger
    certainty: Certainty
    time: int
    text: str
    timeline: MemberTimeline | None = None
    member: str = ""
    numbers: tuple[int, ...] = ()
    silence: int | None = None
    bounds: tuple[int, int] | None = None
    joined: bool = False
    gone: bool = False
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BumpEvidence:
    """A heartbeat that shows that the epoch was bumped.

    :ivar time: time of the request
    :ivar gained: partitions that the member has and did not have before
    :ivar lost: partitions that the member had before and no longer has
    :ivar status: codes of a streams group's problems
    :ivar since: the latest known time with the previous epoch; None before that was determined
    """

    time: int
    number: int
    gained: frozenset[TopicPartition] = frozenset()
    lost: frozenset[TopicPartition] = frozenset()
    status: tuple[int, ...] = ()
    since: int | None = None

    @property
    def earliest(self) -> int:
        """The earliest possible time of the bump."""
        return self.time if self.since is None else min(self.since, self.time)

    @property
    def about(self) -> int:
        """The estimated time of the bump: the middle of its bounds, which are all that is known."""
        return self.earliest + (self.time - self.earliest) // 2


def did(trigger: Trigger, text: str, member: MemberTimeline, call: Call) -> Reason:
    """Return what a member did with a call, as a reason."""
    return Reason(
        trigger=trigger,
        certainty=Certainty.OBSERVED,
        time=call.time,
        text=text,
        timeline=member,
        member=member.member,
        numbers=(call.number,),
    )


def unknown(shown: BumpEvidence, count: int, coordinator: str) -> Reason:
    """Return the reason of unexplained bumps, with alternatives that match the partitions gained or lost.

    :param count: number of bumps
    :param coordinator: broker that became the coordinator meanwhile; empty if none
    """
    seen = "the epoch increased" if count == 1 else f"the epoch increased by {count}"
    unseen = _UNSEEN
    if bool(shown.lost) != bool(shown.gained):
        unseen = _LOST if shown.lost else _GAINED
    trigger, text = Trigger.UNKNOWN, f"{seen}, and the capture does not show why"
    if coordinator:
        trigger, text = Trigger.COORDINATOR_MOVED, f"{seen} because {coordinator} became the coordinator"
    return Reason(
        trigger=trigger,
        certainty=Certainty.POSSIBLE,
        time=shown.about,
        text=text,
        numbers=(shown.number,),
        alternatives=(unseen, "the partitions of a topic changed"),
    )


def problems(status: Iterable[tuple[int, str]]) -> str:
    """Return the problems that keep a streams group from running, in words, without those normal at its start."""
    return "; ".join(dict.fromkeys(problem(*each) for each in status if each[0] not in _NORMAL))


def problem(code: int, text: str) -> str:
    """Return a problem of a streams group in words: ``MISSING_SOURCE_TOPICS (orders)``."""
    name = STREAMS_STATUS.name_of(code) or f"status {code}"
    return f"{name} ({words.clipped(text, _DETAIL_LENGTH)})" if text else name
