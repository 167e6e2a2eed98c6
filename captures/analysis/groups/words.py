"""Causes and rebalances in plain words, for groups of all kinds."""

from __future__ import annotations

from captures.analysis.groups.classic.lives import Departure
from captures.analysis.groups.costs import cost_in_words
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import (
    Cause,
    Certainty,
    GroupTimeline,
    Kind,
    Place,
    Rebalance,
    TimeoutCause,
    Trigger,
)
from captures.meaning import words

_SECOND = 1_000_000_000
_NOTABLE = _SECOND
"""ns that a member holds the others up before it is worth a word."""
_REASON_LENGTH = 160
_SILENT = frozenset({Trigger.SESSION_TIMEOUT, Trigger.REBALANCE_TIMEOUT})
_OWN_WORDS = ("nobody ", "it has ", "the ", "what began ", "all had ")
"""Beginnings of texts that are no names."""
_CAUSES_SHOWN = _TAKERS_SHOWN = _AWAITED_SHOWN = 3

_OF_SILENCE = {
    TimeoutCause.PROCESS_DIED: "its connections were closed then: the process died",
    TimeoutCause.PROCESS_PAUSED: "its host went on acknowledging what came: the process was paused",
    TimeoutCause.UNREACHABLE: "what was sent to it was not acknowledged any more: its host or the network was gone",
}


def seconds(duration: int) -> str:
    """Return a duration: ``12 ms``, ``5.3 s``, ``4 min 10 s``."""
    if duration < _SECOND:
        return f"{round(duration / 1_000_000)} ms"
    if duration < 120 * _SECOND:
        text = f"{duration / _SECOND:.1f}"
        return f"{text.removesuffix('.0')} s"
    minutes, rest = divmod(round(duration / _SECOND), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def quoted_reason(reason: str) -> str:
    """Return a reason that a member gives (KIP-800), to be put behind a sentence; empty if it gives none."""
    text = words.clipped(words.line(reason), _REASON_LENGTH).rstrip(".")
    return f' (it says: "{text}")' if text else ""


def left_in_words(who: str, departure: Departure, trigger: Trigger, certainty: Certainty) -> str:
    """Return how a member left."""
    said = quoted_reason(departure.reason)
    if trigger is Trigger.REMOVED_BY_ADMIN:
        return f"{who} was removed by an admin client{said}"
    if trigger is not Trigger.MAX_POLL_EXCEEDED:
        return f"{who} left{said}"
    if certainty is Certainty.OBSERVED:
        return f"{who} left because it had not polled for longer than max.poll.interval.ms{said}"
    return (
        f"{who} left without a reason and kept its connection: "
        "it had probably not polled for longer than max.poll.interval.ms"
    )


def timeout_in_words(who: str, silence: int, session: int | None, cause: TimeoutCause | None = None) -> str:
    """Return how the session of a member ended.

    :param silence: ns without a sign of life
    :param session: the session timeout in ns; None if it is not known
    :param cause: why it was silent; None if that was not looked for
    """
    limit = f" (session timeout {seconds(session)})" if session else ""
    why = _OF_SILENCE.get(cause) if cause is not None else None
    return f"{who} was removed after {seconds(silence)} without a heartbeat{limit}" + (
        f"; {why}" if why else ""
    )


def compose(timeline: GroupTimeline) -> None:
    """Put the sentences of all rebalances of a group together."""
    labels = Labels(timeline)
    for rebalance in timeline.rebalances:
        rebalance.sentence = _sentence(rebalance, labels)


def _sentence(rebalance: Rebalance, labels: Labels) -> str:
    told = [text for text in (*_outcome(rebalance, labels), cost_in_words(rebalance)) if text]
    both = _causes(rebalance.causes, labels), "; ".join(told)
    return " ".join(f"{_begun(text)}." for text in both if text)


def _begun(text: str) -> str:
    """Return a text as the beginning of a sentence; names keep their spelling."""
    return text[0].upper() + text[1:] if text.startswith(_OWN_WORDS) else text


def _causes(causes: list[Cause], labels: Labels) -> str:
    told = []
    for place, cause in enumerate(causes[:_CAUSES_SHOWN]):
        again = place > 0 and causes[place - 1].trigger is cause.trigger is Trigger.COOPERATIVE_FOLLOW_UP
        told.append(f"{labels.of(cause.member, cause.client)} likewise" if again else cause.sentence)
    rest = len(causes) - _CAUSES_SHOWN
    return "; then ".join(told + ([f"{rest} more"] if rest > 0 else []))


def _outcome(rebalance: Rebalance, labels: Labels) -> list[str]:
    if rebalance.running:
        return [_awaited(rebalance, labels)]
    if rebalance.emptied:
        return ["nobody is left in the group"]
    held_up = _held_up(rebalance, labels) if rebalance.kind is Kind.CLASSIC else _done(rebalance)
    return [held_up, _taken(rebalance, labels)]


def _done(rebalance: Rebalance) -> str:
    """Return when a group of a newer kind was done, where nobody waits for all others; empty if that was soon."""
    if rebalance.duration is None or rebalance.duration < _NOTABLE:
        return ""
    return f"all had their partitions after {seconds(rebalance.duration)}"


def _held_up(rebalance: Rebalance, labels: Labels) -> str:
    """Return who kept the others waiting; empty if it was not for long."""
    silent = [
        cause
        for cause in rebalance.causes[1:]
        if cause.trigger in _SILENT and cause.time - rebalance.time >= _NOTABLE
    ]
    waited = _for_more(rebalance)
    if waited >= _NOTABLE:
        return f"the coordinator waited {seconds(waited)} for more members (group.initial.rebalance.delay.ms)"
    if silent:
        last = max(silent, key=lambda cause: cause.time)
        who = labels.of(last.member, last.client)
        return f"the others waited {seconds(last.time - rebalance.time)} for {who}, until it was given up"
    slowest = rebalance.slowest
    late = slowest.late if slowest is not None else None
    if slowest is None or late is None or late < _NOTABLE or len(rebalance.waits) < 2:
        return ""
    who = labels.of(slowest.member, slowest.client)
    told = f"{who} kept the others waiting for {seconds(late)}"
    known = slowest.told
    if known is None or slowest.asked is None or slowest.asked - known < _NOTABLE:
        return told
    return f"{told}: it was told after {seconds(known)}, and did not join for another {seconds(slowest.asked - known)}"


def _for_more(rebalance: Rebalance) -> int:
    """Return how long a group that was empty waited for more members after the last had joined, in ns."""
    if rebalance.kind is not Kind.CLASSIC or not rebalance.waits or rebalance.joined != rebalance.members:
        return 0
    return min(wait.join or 0 for wait in rebalance.waits)


def _taken(rebalance: Rebalance, labels: Labels) -> str:
    """Return who got which partitions; empty if none changed hands."""
    taken: dict[str, set[Place]] = {}
    for move in rebalance.moved:
        if move.after:
            taken.setdefault(move.after, set()).add(move.place)
    verb = "took over" if any(move.before for move in rebalance.moved if move.after) else "got"
    told = [f"{labels.of(member)} {verb} {partitions(found)}" for member, found in taken.items()]
    rest = len(told) - _TAKERS_SHOWN
    return ", ".join(told[:_TAKERS_SHOWN]) + (f", and {rest} more members others" if rest > 0 else "")


def _awaited(rebalance: Rebalance, labels: Labels) -> str:
    awaited = rebalance.awaited
    if not awaited:
        return "it has not ended"
    idle = "does not join" if rebalance.kind is Kind.CLASSIC else "does not give its partitions up"
    told = []
    for each in awaited[:_AWAITED_SHOWN]:
        who = labels.of(each.member, each.client)
        beats = words.counted(each.beats, "heartbeat")
        told.append(f"{who}, which goes on with heartbeats ({beats} since) and {idle}" if each.beats else who)
    rest = len(awaited) - _AWAITED_SHOWN
    also = f" and {rest} more" if rest > 0 else ""
    return f"it has not ended: the coordinator waits for {'; '.join(told)}{also}"
