"""Why sessions ended, put into the causes of rebalances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import (
    Cause,
    GroupMember,
    GroupTimeline,
    Rebalance,
    TimeoutCause,
    Trigger,
)
from captures.analysis.groups.silence import Silence, Silences
from captures.analysis.groups.words import timeout_in_words


@dataclass(frozen=True, slots=True)
class _Timeout:
    """A session that ended.

    :ivar place: of the cause among those of the rebalance
    :ivar member: None if the timeline does not have it
    :ivar label: what it is called
    """

    timeline: GroupTimeline
    rebalance: Rebalance
    place: int
    cause: Cause
    member: GroupMember | None
    label: str

    @property
    def silence(self) -> int:
        return self.cause.silence or 0


def explain_timeouts(timelines: Sequence[GroupTimeline], silences: Silences) -> None:
    """Fill ``timeout_cause`` of every session timeout, and say it in the sentence of the cause."""
    found = [timeout for timeline in timelines for timeout in _timeouts(timeline)]
    for timeout, why in zip(found, silences.causes([_silence(each) for each in found]), strict=True):
        if why is TimeoutCause.PROCESS_PAUSED and _came_back(timeout):
            why = TimeoutCause.UNKNOWN
        session = timeout.member.session_timeout if timeout.member is not None else None
        bare = timeout_in_words(timeout.label, timeout.silence, session)
        full = timeout_in_words(timeout.label, timeout.silence, session, why)
        # what else is known of it stands behind, and stays
        sentence = timeout.cause.sentence.replace(bare, full, 1)
        timeout.rebalance.causes[timeout.place] = replace(timeout.cause, timeout_cause=why, sentence=sentence)


def _timeouts(timeline: GroupTimeline) -> Iterator[_Timeout]:
    found = [
        (rebalance, place, cause)
        for rebalance in timeline.rebalances
        for place, cause in enumerate(rebalance.causes)
        if cause.trigger is Trigger.SESSION_TIMEOUT and cause.silence is not None
    ]
    if found:
        members, labels = timeline.by_id(), Labels(timeline)
        for rebalance, place, cause in found:
            label = labels.of(cause.member, cause.client)
            yield _Timeout(timeline, rebalance, place, cause, members.get(cause.member), label)


def _came_back(timeout: _Timeout) -> bool:
    """Whether the client joined as another member before its session ended: then it was not paused all the time."""
    cause, member = timeout.cause, timeout.member
    return member is not None and any(
        (other.client, other.host) == (member.client, member.host)
        and cause.time - timeout.silence < other.first < cause.time
        for other in timeout.timeline.members
        if other is not member
    )


def _silence(timeout: _Timeout) -> Silence:
    cause, member = timeout.cause, timeout.member
    return Silence(
        client=cause.client,
        host=member.host if member is not None else "",
        connections=tuple(member.connections) if member is not None else (),
        since=cause.time - timeout.silence,
        until=cause.time,
    )
