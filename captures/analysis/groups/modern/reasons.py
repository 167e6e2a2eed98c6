"""What leads to an epoch bump of a group of the newer kinds, and the heartbeats that show one."""

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
"""Status codes of a streams group that topics which it needs are not there, or not as they have to be (KIP-1071)."""
_NORMAL = frozenset({3, 5})
"""MISSING_INTERNAL_TOPICS and ASSIGNMENT_DELAYED: the coordinator creates the topics, and waits for more members."""
_DETAIL_LENGTH = 120

_UNSEEN = "a member that was not captured joined, left, or timed out"
_LOST = "a member that was not captured joined: it has the partitions that were given up"
_GAINED = "a member that was not captured left or timed out: it had the partitions that were given out"


@dataclass(slots=True, kw_only=True)
class Reason:
    """Something that led to an epoch bump.

    :ivar text: what happened; of a member without its name, which stands before; of a session timeout, what is to be
        said beside that it was one
    :ivar lane: the member that it is about; None if it is about none
    :ivar member: ID that the member had then
    :ivar numbers: of the exchanges that show it
    :ivar silence: ns without a sign of life before it, of a member that was removed
    :ivar bounds: ns, of a session timeout that is not known otherwise: it was longer than one, and not than the other
    :ivar joined: whether the member is new
    :ivar gone: whether the member is not there any more
    :ivar alternatives: what else it could have been
    """

    trigger: Trigger
    certainty: Certainty
    time: int
    text: str
    lane: MemberTimeline | None = None
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

    :ivar time: of the request
    :ivar gained: partitions that the member has now and had not before
    :ivar lost: likewise
    :ivar status: codes of a streams group's problems
    :ivar since: before which the epoch was not bumped, as far as known: the latest moment with the epoch before; None
        before that was looked for
    """

    time: int
    number: int
    gained: frozenset[TopicPartition] = frozenset()
    lost: frozenset[TopicPartition] = frozenset()
    status: tuple[int, ...] = ()
    since: int | None = None

    @property
    def earliest(self) -> int:
        """When the bump was at the earliest."""
        return self.time if self.since is None else min(self.since, self.time)

    @property
    def about(self) -> int:
        """When the bump was, as well as can be told: nothing but its bounds is known, and this is never far off."""
        return self.earliest + (self.time - self.earliest) // 2


def did(trigger: Trigger, text: str, lane: MemberTimeline, call: Call) -> Reason:
    """Return what a member did by a call."""
    return Reason(
        trigger=trigger,
        certainty=Certainty.OBSERVED,
        time=call.time,
        text=text,
        lane=lane,
        member=lane.member,
        numbers=(call.number,),
    )


def unknown(shown: BumpEvidence, count: int, coordinator: str) -> Reason:
    """Return the reason of bumps that nothing explains, with what the member that shows them gained or lost in mind.

    :param count: how many
    :param coordinator: that came in the meantime; empty if none
    """
    seen = "the epoch went up" if count == 1 else f"the epoch went up by {count}"
    unseen = _UNSEEN
    if bool(shown.lost) != bool(shown.gained):
        unseen = _LOST if shown.lost else _GAINED
    trigger, text = Trigger.UNKNOWN, f"{seen}, and the capture does not show why"
    if coordinator:
        trigger, text = Trigger.COORDINATOR_MOVED, f"{seen} as {coordinator} became the coordinator"
    return Reason(
        trigger=trigger,
        certainty=Certainty.POSSIBLE,
        time=shown.about,
        text=text,
        numbers=(shown.number,),
        alternatives=(unseen, "the partitions of a topic changed"),
    )


def problems(status: Iterable[tuple[int, str]], *, normal: bool = False) -> str:
    """Return what keeps a streams group from running, in words.

    :param normal: whether to name what is normal at its start, too
    """
    told = []
    for code, text in status:
        if normal or code not in _NORMAL:
            name = STREAMS_STATUS.name_of(code) or f"status {code}"
            told.append(f"{name} ({words.clipped(text, _DETAIL_LENGTH)})" if text else name)
    return "; ".join(dict.fromkeys(told))
