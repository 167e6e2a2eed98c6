"""Sentences for causes, costs and rebalances, for groups of all kinds."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.groups import labels
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import (
    Cause,
    GroupTimeline,
    Rebalance,
    RepeatedFetch,
    Stop,
    TopicPartition,
)
from captures.analysis.groups.vocabulary import Certainty, Kind, SessionEnd, TimeoutCause, Trait, Trigger
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_ALIKE, _SHOWN = 0.8, 2
"""Stops of at least this share of the longest are named with it; this many durations are named."""


def cost_in_words(rebalance: Rebalance) -> str:
    """Return the cost of a rebalance as parts of a sentence; empty if none was seen.

    For example ``no member consumed orders 3-5 for 5.3 s (consumption of 3 other partitions continued); 12 records of
    orders-4 were fetched again; 2 commits failed (REBALANCE_IN_PROGRESS)``.
    """
    parts = [_stops_in_words(rebalance), _refetched_in_words(rebalance), _failures_in_words(rebalance)]
    return "; ".join(part for part in parts if part)


def _stops_in_words(rebalance: Rebalance) -> str:
    ended = [stop for stop in rebalance.stopped if stop.ended]
    lasting = [stop for stop in rebalance.stopped if not stop.ended]
    parts = []
    if ended:
        parts.append(f"no {'worker ran' if rebalance.of_workers else 'member consumed'} {_listed(ended)}")
    if lasting:
        done = "worker has run" if rebalance.of_workers else "member has consumed"
        parts.append(f"no {done} {_listed(lasting)} so far")
    text = " and ".join(parts)
    on = rebalance.consumed_on
    if text and on:
        text += f" (consumption of {words.counted(on, 'other partition')} continued)"
    return text


def _listed(stops: list[Stop]) -> str:
    """Return ``orders 3-5 for 5.3 s, orders-1 for 250.0 ms``: stops of similar duration together, the longest first."""
    together: list[list[Stop]] = []
    for stop in sorted(stops, key=lambda stop: -stop.duration):
        if not together or stop.duration < together[-1][0].duration * _ALIKE:
            together.append([])
        together[-1].append(stop)
    shown, rest = together[:_SHOWN], [stop for alike in together[_SHOWN:] for stop in alike]
    parts = [f"{_places(alike)} for {span(alike[0].duration)}" for alike in shown]
    if rest:
        parts.append(f"{words.counted(len(rest), 'more partition')} for up to {span(rest[0].duration)}")
    return _enumerated(parts)


def _enumerated(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _refetched_in_words(rebalance: Rebalance) -> str:
    if not rebalance.refetched:
        return ""
    count = sum(refetched.count for refetched in rebalance.refetched)
    verb = "was" if count == 1 else "were"
    return f"{words.counted(count, 'record')} of {_places(rebalance.refetched)} {verb} fetched again"


def _failures_in_words(rebalance: Rebalance) -> str:
    if not rebalance.commit_failures:
        return ""
    names = dict.fromkeys(failure.name for failure in rebalance.commit_failures)
    return f"{words.counted(len(rebalance.commit_failures), 'commit')} failed ({', '.join(names)})"


def _places(found: Sequence[Stop] | Sequence[RepeatedFetch]) -> str:
    return labels.partitions(each.tp for each in found)


_NOTABLE = SECOND
"""Shortest delay in ns by one member that is mentioned."""
_REASON_LENGTH = 160
_OWN_WORDS = (
    "a member ",
    "all members ",
    "its trigger ",
    "no member ",
    "no worker ",
    "share partitions ",
    "the ",
    "this rebalance ",
)
"""Starts of texts that are not names."""
_BRIEF = (Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT, Trigger.UNKNOWN)
"""Triggers whose sentences are so short that they are repeated for each member."""
CAUSES_SHOWN = 3
"""Causes that the sentence of a rebalance names; the rest is counted."""
_TAKERS_SHOWN = _AWAITED_SHOWN = 3

_OF_SILENCE = {
    TimeoutCause.BROKER_GONE: "lost its connection because the broker was down, and",
    TimeoutCause.PROCESS_LIVED: "stopped its heartbeats while its process sent other requests, and",
    TimeoutCause.CLOSED_IN_ORDER: "was shut down without a LeaveGroup and",
    TimeoutCause.PROCESS_DIED: "died and",
    TimeoutCause.PROCESS_PAUSED: "paused and",
    TimeoutCause.UNREACHABLE: "was unreachable (its host or the network was down) and",
    TimeoutCause.HOST_SUSPENDED: "was suspended with its host and",
}
_POSSIBLY = {
    TimeoutCause.PROCESS_DIED: "may have died and",
    TimeoutCause.PROCESS_PAUSED: "may have paused and",
    TimeoutCause.UNREACHABLE: "may have been unreachable (its host or the network was down) and",
}
"""The phrases for causes that are only possible."""


def quoted_reason(reason: str) -> str:
    """Return the reason that a member gave (KIP-800), to be appended to a sentence; empty if it gave none."""
    text = words.clipped(words.line(reason), _REASON_LENGTH).rstrip(".")
    return f' (it says: "{text}")' if text else ""


def left_in_words(who: str, reason: str, trigger: Trigger, certainty: Certainty) -> str:
    """Return how a member left, with its own reason if it gave one."""
    text = quoted_reason(reason)
    if trigger is Trigger.REMOVED_BY_ADMIN:
        return f"{who} was removed by an admin client{text}"
    if trigger is not Trigger.MAX_POLL_EXCEEDED:
        return f"{who} left{text}"
    if certainty is Certainty.OBSERVED:
        return f"{who} left because it had not polled for longer than max.poll.interval.ms{text}"
    return (
        f"{who} left without a reason and kept its connection: "
        "it had probably not polled for longer than max.poll.interval.ms"
    )


def timeout_in_words(
    who: str,
    silence: int,
    session: int | None,
    end: SessionEnd | None = None,
    away: int | None = None,
    quiet: str = "",
) -> str:
    """Return how a member's session ended: ``m2 died and was removed after 6 s without a heartbeat``.

    :param silence: ns without a sign of life
    :param session: session timeout in ns; None if unknown
    :param end: why it was silent; None if that was not examined
    :param away: ns from its last sign of life until it came back; None if that was not seen
    :param quiet: why it sends no LeaveGroup when it is closed, such as ``a static member``
    """
    limit = f" (session timeout {span(session)})" if session else ""
    if session and span(session) == span(silence):
        limit = ", its session timeout"
    text = f"was removed after {span(silence)} without a heartbeat{limit}"
    if end is None or end.cause not in _OF_SILENCE:
        return f"{who} {text}"
    why = _OF_SILENCE[end.cause]
    if end.certainty is Certainty.POSSIBLE:
        why = _POSSIBLY.get(end.cause, why)
    if end.cause is TimeoutCause.CLOSED_IN_ORDER:
        why = why.replace(" and", f" ({quiet} sends none) and") if quiet else why
        text += "" if away is None else f"; it came back after {span(away)}"
    return f"{who} {why} {text}"


def elsewhere_in_words(who: str, silence: int, end: SessionEnd) -> str:
    """Return what is known about a member whose new coordinator is not in the capture."""
    return (
        f"{who} was silent for {span(silence)}, because it had another coordinator; "
        f"the capture does not show what became of it ({'; '.join(end.evidence)})"
    )


def compose(timeline: GroupTimeline) -> None:
    """Compose the sentences of all rebalances of a group."""
    labels = Labels(timeline)
    for rebalance in timeline.rebalances:
        rebalance.sentence = _sentence(rebalance, labels)


def _sentence(rebalance: Rebalance, labels: Labels) -> str:
    clauses = [text for text in (*_outcome(rebalance, labels), cost_in_words(rebalance)) if text]
    both = _causes(rebalance.causes, labels), "; ".join(clauses)
    return " ".join(f"{_begun(text)}." for text in both if text)


def _begun(text: str) -> str:
    """Return `text` as the start of a sentence; names keep their spelling."""
    return text[0].upper() + text[1:] if text.startswith(_OWN_WORDS) else text


def _causes(causes: list[Cause], labels: Labels) -> str:
    clauses: list[str] = []
    before: tuple[Trigger, str] | None = None
    for cause in causes[:CAUSES_SHOWN]:
        who = labels.of(cause.member, cause.client)
        follow_up = cause.trigger is Trigger.COOPERATIVE_FOLLOW_UP
        what = cause.trigger, "" if follow_up else cause.sentence.removeprefix(who)
        same = f"{who} did the same" if follow_up else f"the same happened to {who}"
        repeated = what == before and cause.trigger not in _BRIEF
        clauses.append(same if repeated else cause.sentence)
        before = what
    rest = len(causes) - CAUSES_SHOWN
    return "; then ".join(clauses) + (f"; and {words.counted(rest, 'more cause')}" if rest > 0 else "")


def _outcome(rebalance: Rebalance, labels: Labels) -> list[str]:
    if rebalance.running:
        return [_awaited(rebalance, labels)]
    if rebalance.emptied:
        return ["the group has no members left"]
    held_up = _held_up(rebalance, labels) if rebalance.kind is Kind.CLASSIC else _done(rebalance, labels)
    overtaken = "the next rebalance began before this one ended" if rebalance.overtaken else ""
    return [held_up, _taken(rebalance, labels), overtaken]


def _done(rebalance: Rebalance, labels: Labels) -> str:
    """Return when a group of a newer kind was done, and which member held it up; empty if it was quick.

    No member waits for all others, but partitions wait for the member that has to revoke them.
    """
    held = rebalance.held_up
    slow = ""
    if held is not None and held.duration >= _NOTABLE:
        who, what = labels.of(held.member, held.client), partitions(held.places)
        slow = f"{who} took {span(held.duration)} to give up {what}"
        if not held.released:
            slow = f"{who} had not given up {what} {span(held.duration)} after it was asked to"
    if rebalance.duration is None or rebalance.duration < _NOTABLE:
        return slow
    return f"all members had their partitions after {span(rebalance.duration)}" + (
        f": {slow}" if slow else ""
    )


def _held_up(rebalance: Rebalance, labels: Labels) -> str:
    """Return what the members waited for; empty if they did not wait long.

    A member waits for members that learned of the rebalance late (from the response to a heartbeat), for members that
    were slow to join once they knew, and for vanished members until the coordinator removes them. Only the second is
    the fault of a member.
    """
    gone = [
        cause
        for cause in rebalance.causes[1:]
        if cause.trigger is Trigger.MEMBER_LEFT or Trait.SILENT in cause.trigger.traits
    ]
    last = max(gone, key=lambda cause: cause.time, default=None)
    latest = max((wait.late or 0 for wait in rebalance.waits), default=0)
    if last is not None and (waited := last.time - rebalance.time) >= max(latest, _NOTABLE):
        how = "left" if last.trigger is Trigger.MEMBER_LEFT else "was removed"
        return f"the others waited {span(waited)} until {labels.of(last.member, last.client)} {how}"
    waited = _for_more(rebalance)
    if waited >= _NOTABLE:
        return f"the coordinator waited {span(waited)} for more members (group.initial.rebalance.delay.ms)"
    slowest = rebalance.slowest
    late = slowest.late if slowest is not None else None
    if slowest is None or late is None or late < _NOTABLE or len(rebalance.waits) < 2:
        return ""
    who = labels.of(slowest.member, slowest.client)
    known, asked = slowest.notified, slowest.asked
    if known is None or asked is None:
        return f"{who} was the last to join, {span(late)} after the rebalance began"
    if asked - known < _NOTABLE:
        return (
            f"the others waited {span(known)} for {who}, which learned of the rebalance from its next heartbeat "
            "(heartbeat.interval.ms)"
        )
    after = span(asked - known)
    return f"the others waited {span(late)} for {who}, which joined {after} after it learned of the rebalance"


def _for_more(rebalance: Rebalance) -> int:
    """Return how long an empty group waited for more members after the last one had joined, in ns."""
    empty = not rebalance.gone and rebalance.joined == rebalance.members
    if rebalance.kind is not Kind.CLASSIC or not rebalance.waits or not empty:
        return 0
    return min(wait.join or 0 for wait in rebalance.waits)


def _taken(rebalance: Rebalance, labels: Labels) -> str:
    """Return which members got which partitions; empty if none changed hands."""
    taken: dict[str, set[TopicPartition]] = {}
    for move in rebalance.moved:
        if move.after:
            taken.setdefault(move.after, set()).add(move.tp)
    verb = "took over" if any(move.before for move in rebalance.moved if move.after) else "got"
    clauses = [f"{labels.of(member)} {verb} {partitions(found)}" for member, found in taken.items()]
    rest = len(clauses) - _TAKERS_SHOWN
    if rest > 0:
        clauses[_TAKERS_SHOWN:] = [f"{words.counted(rest, 'other')} {verb} the rest"]
    return _enumerated(clauses)


def _awaited(rebalance: Rebalance, labels: Labels) -> str:
    awaited = rebalance.awaited
    if not awaited:
        return "this rebalance has not ended"
    idle = "does not join" if rebalance.kind is Kind.CLASSIC else "does not give up its partitions"
    clauses = []
    for each in awaited[:_AWAITED_SHOWN]:
        who = labels.of(each.member, each.client)
        clauses.append(
            f"{who}, which still sends heartbeats ({each.beats:,} since) but {idle}" if each.beats else who
        )
    rest = len(awaited) - _AWAITED_SHOWN
    also = f" and {rest} more" if rest > 0 else ""
    return f"this rebalance has not ended: the coordinator waits for {', and for '.join(clauses)}{also}"
