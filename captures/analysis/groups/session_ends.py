"""Why a member's session ended, decided from all that the capture shows of its process: one function per decision.

:mod:`captures.analysis.groups.silence` gathers the observations; this module only judges them. The decisions are tried
in order, and the first with an answer wins: explanations that do not involve the member precede those that blame its
process, and observations precede missing ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from captures.analysis.groups.vocabulary import Certainty, SessionEnd, TimeoutCause
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND


class Closing(NamedTuple):
    """The end of a connection on which the member sent requests.

    :ivar after: ns after its last sign of life; negative before it, as its last request may be answered later
    :ivar by_client: whether the client closed first
    :ivar reset: whether it was an RST
    """

    after: int
    by_client: bool
    reset: bool


class UnacknowledgedData(NamedTuple):
    """Data that was retransmitted between a member and its broker, and never acknowledged.

    :ivar by_client: whether the member's host sent it
    :ivar other_side_arrived: whether packets of the other side still arrived: only one direction was lost
    :ivar clock_seen: whether the TCP clock of the member's host was seen before and after
    :ivar suspended: ns in which that clock stood still
    :ivar queued: whether requests that the process had sent meanwhile arrived together afterwards
    """

    by_client: bool = False
    other_side_arrived: bool = False
    clock_seen: bool = False
    suspended: int = 0
    queued: bool = False


class SilenceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Observations of a member's process between its last sign of life and the end of its session.

    :ivar coordinator: ``host:port`` that FindCoordinator named as the coordinator, if none of its connections is in the
        capture; empty otherwise
    :ivar named: number of that FindCoordinator
    :ivar closings: ends of the connections on which it sent requests, in the order of time
    :ivar unanswered: whether the broker's host did not acknowledge within a second that the client closed a connection
    :ivar still_open: number of these connections that were open when its session ended
    :ivar others_closed: other connections that the broker ended within a second of the member's first
    :ivar broker_continued: whether the broker answered others on older connections after it had ended the member's
    :ivar farewell: number of the Fetch or ShareFetch with which the process closed its session; None if there is none
    :ivar quiet: why it sends no LeaveGroup, such as ``a static member``; empty if it should send one
    :ivar resumed_at: number of a later request of the process on a connection it had before; None if there is none
    :ivar in_vain: data sent to it, or by it, that was never acknowledged; None if there is none
    :ivar acknowledged: whether its host acknowledged data while the process sent nothing
    :ivar resumed: whether it continued where it had stopped, after its session had ended
    """

    coordinator: str = ""
    named: int = 0
    closings: tuple[Closing, ...] = ()
    unanswered: bool = False
    still_open: int = 0
    others_closed: int = 0
    broker_continued: bool = False
    farewell: int | None = None
    quiet: str = ""
    resumed_at: int | None = None
    in_vain: UnacknowledgedData | None = None
    acknowledged: bool = False
    resumed: bool = False

    @property
    def client_closed(self) -> bool:
        """Whether the client closed all connections of the member."""
        return bool(self.closings) and not self.still_open and all(each.by_client for each in self.closings)


def decide(seen: SilenceFacts) -> SessionEnd:
    """Return why the session ended."""
    for decision in _DECISIONS:
        found = decision(seen)
        if found is not None:
            return found
    return SessionEnd(TimeoutCause.UNKNOWN, Certainty.POSSIBLE, evidence=_closed(seen))


def by_connections(seen: SilenceFacts) -> SessionEnd | None:
    """Return the decision from connections and requests, without acknowledgments; None if they do not suffice."""
    return next((found for each in _BY_CONNECTIONS if (found := each(seen)) is not None), None)


def _elsewhere(seen: SilenceFacts) -> SessionEnd | None:
    """Decide for a coordinator that is not in the capture, as in a capture at one broker of several."""
    if not seen.coordinator:
        return None
    observation = (
        f"FindCoordinator #{seen.named} names {seen.coordinator}, of which no connection is in the capture"
    )
    return SessionEnd(TimeoutCause.ELSEWHERE, Certainty.OBSERVED, evidence=(observation,))


def _broker_gone(seen: SilenceFacts) -> SessionEnd | None:
    """Decide for the broker if it closed first, unless it dropped only this connection and answered on others."""
    first = seen.closings[0] if seen.closings else None
    if first is None or first.by_client or seen.broker_continued:
        return None
    evidence = [f"the broker {_how(first)} its connection first, {_after(first.after)}"]
    if seen.others_closed:
        evidence.append(
            f"{words.counted(seen.others_closed, 'other connection')} with that broker ended within a second"
        )
    return SessionEnd(TimeoutCause.BROKER_GONE, evidence=tuple(evidence))


def _lived(seen: SilenceFacts) -> SessionEnd | None:
    if seen.resumed_at is None:
        return None
    observation = f"its process sent #{seen.resumed_at} later, on a connection that it had before"
    return SessionEnd(TimeoutCause.PROCESS_LIVED, evidence=(*_closed(seen), observation))


def _closed_in_order(seen: SilenceFacts) -> SessionEnd | None:
    """Decide for an orderly shutdown: a closing consumer closes its fetch session (KIP-227) before its connections.

    A crashed process cannot. A commit right before proves nothing: a process that crashes after a batch has committed,
    too.
    """
    if not seen.client_closed or seen.farewell is None:
        return None
    observation = f"it closed its fetch session (#{seen.farewell}) before its connections"
    return SessionEnd(TimeoutCause.CLOSED_IN_ORDER, evidence=(observation, *_closed(seen)))


def _died(seen: SilenceFacts) -> SessionEnd | None:
    if not seen.client_closed:
        return None
    evidence = [*_closed(seen), "it sent neither LeaveGroup nor the end of its fetch session"]
    alternatives = []
    if seen.quiet:
        alternatives.append(f"it was shut down cleanly: {seen.quiet} sends no LeaveGroup")
    if seen.unanswered:
        evidence.append("the broker's host did not acknowledge the end of its connection within a second")
        alternatives.append("its host or the network had gone down before")
    certainty = Certainty.POSSIBLE if alternatives else Certainty.INFERRED
    return SessionEnd(TimeoutCause.PROCESS_DIED, certainty, tuple(alternatives), tuple(evidence))


def _suspended(seen: SilenceFacts) -> SessionEnd | None:
    if seen.in_vain is None or not seen.in_vain.suspended:
        return None
    observation = (
        "data to it was retransmitted and not acknowledged, and the TCP clock of its host stood still for "
        f"{span(seen.in_vain.suspended)}"
    )
    return SessionEnd(TimeoutCause.HOST_SUSPENDED, evidence=(observation,))


def _unreachable(seen: SilenceFacts) -> SessionEnd | None:
    if seen.in_vain is None:
        return None
    observation = "data was retransmitted again and again, and nothing came back"
    alternative = ""
    if seen.in_vain.other_side_arrived:
        way, other = ("from it", "the broker's") if seen.in_vain.by_client else ("to it", "its own")
        observation = (
            f"data {way} was retransmitted again and again and never acknowledged, but {other} packets still arrived: "
            "one direction was lost"
        )
    elif seen.in_vain.queued:
        observation += "; afterwards, requests that its process had sent meanwhile arrived together"
    elif seen.in_vain.clock_seen:
        observation = (
            "data was retransmitted again and again, nothing came back, and the TCP clock of its host went on"
        )
        alternative = "its host was suspended while its clock went on"
    elif not seen.in_vain.by_client:
        alternative = "its host was down or suspended"
    if alternative:
        return SessionEnd(TimeoutCause.UNREACHABLE, Certainty.POSSIBLE, (alternative,), (observation,))
    return SessionEnd(TimeoutCause.UNREACHABLE, evidence=(observation,))


def _paused(seen: SilenceFacts) -> SessionEnd | None:
    if seen.acknowledged:
        observation = "its host acknowledged data while the process sent nothing"
        return SessionEnd(TimeoutCause.PROCESS_PAUSED, evidence=(observation,))
    if not seen.resumed:
        return None
    observation = "it continued where it had stopped, on the same connections"
    return SessionEnd(
        TimeoutCause.PROCESS_PAUSED,
        Certainty.POSSIBLE,
        ("the network between it and the coordinator lost everything it sent", "its host was suspended"),
        (observation, "no data was sent to it meanwhile for its host to acknowledge"),
    )


_BY_CONNECTIONS: tuple[Callable[[SilenceFacts], SessionEnd | None], ...] = (
    _elsewhere,
    _broker_gone,
    _lived,
    _closed_in_order,
    _died,
)
_DECISIONS = (*_BY_CONNECTIONS, _suspended, _unreachable, _paused)


def _closed(seen: SilenceFacts) -> tuple[str, ...]:
    """Return how the member's connections ended, as evidence."""
    if not seen.closings:
        return ()
    first = seen.closings[0]
    which = "its connection" if len(seen.closings) == 1 else f"its {len(seen.closings)} connections"
    return (
        f"{'the client' if first.by_client else 'the broker'} {_how(first)} {which} {_after(first.after)}",
    )


def _how(closing: Closing) -> str:
    return "reset" if closing.reset else "closed"


def _after(time: int) -> str:
    if time < -SECOND:
        return f"{span(-time)} before its last request was answered"
    return f"{span(time)} after its last sign of life" if time > 0 else "with its last sign of life"
