"""Rebalances of recordings of older brokers, which logged nothing, from client and listener events.

A member that starts joins; one that is asked to end leaves unless it is static; one that is killed is removed after its
session timeout; and a cooperative one that gives up partitions rejoins. Everything before the next assignment that
listeners report is one round. Brokers count generations from 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from captures.analysis.groups.vocabulary import TimeoutCause, Trigger
from tests.captures.analysis.groups.truth import ExpectedRebalance, Said, Truth, TruthEvent, said

HEARTBEAT = 1.0
"""``heartbeat.interval.ms`` of the clients, in seconds"""


@dataclass(frozen=True, slots=True)
class _Change:
    """A cause of a rebalance, between two times."""

    earliest: float
    latest: float
    happened: TruthEvent


def rebalances(truth: Truth) -> list[ExpectedRebalance]:
    """Return the rebalances that the events must have caused."""
    told = said(truth)
    changes = _changes(truth, told)
    found: list[ExpectedRebalance] = []
    members: set[str] = set()
    for each in told:
        begun = [change for change in changes if change.earliest < each.time and _brings(change, each)]
        if begun:
            changes = [change for change in changes if change not in begun]
            found.append(_round(begun, members, len(found) + 1))
        found[-1].assigned[each.who] = each.has
    if changes:
        found.append(_round(changes, members, len(found) + 1))
        assert found[-1].emptied
    return found


def _brings(change: _Change, told: Said) -> bool:
    """Return whether a listener's event may result from a change: not if it has just left, or has yet to rejoin."""
    if change.happened.trigger is Trigger.COOPERATIVE_FOLLOW_UP:
        return not told.gave_up
    return change.happened.trigger is Trigger.MEMBER_JOINED or told.who not in change.happened.who


def _round(changes: list[_Change], members: set[str], generation: int) -> ExpectedRebalance:
    for change in changes:
        if change.happened.trigger is Trigger.MEMBER_JOINED:
            members |= change.happened.who
        elif change.happened.trigger is not Trigger.COOPERATIVE_FOLLOW_UP:
            members -= change.happened.who
    causes = [change.happened for change in changes]
    if causes[0].trigger is Trigger.COOPERATIVE_FOLLOW_UP:
        # whose JoinGroup came first is unknown
        who = frozenset().union(*(each.who for each in causes))
        causes = [TruthEvent(trigger=Trigger.COOPERATIVE_FOLLOW_UP, who=who)]
    return ExpectedRebalance(
        generation=generation,
        causes=causes,
        earliest=changes[0].earliest,
        latest=max(changes[0].latest, changes[-1].latest if len(causes) == 1 else 0),
        size=len(members),
        emptied=not members,
    )


def _changes(truth: Truth, told: list[Said]) -> list[_Change]:
    found = [_follow_up(each) for each in told if truth.cooperative and each.gave_up]
    begun: set[str] = set()
    for event in truth.events:
        who, what, time = event["who"], event["what"], event["t"]
        if what == "start" and who not in begun:
            found.append(_change(truth, Trigger.MEMBER_JOINED, who, time, time))
            begun.add(who)
        elif what.startswith("SIGTERM") and not truth.static:
            found.append(_change(truth, Trigger.MEMBER_LEFT, who, time, time))
            begun.discard(who)
        elif what == "SIGKILL":
            late = time + truth.session_timeout
            found.append(_change(truth, Trigger.SESSION_TIMEOUT, who, late - HEARTBEAT, late))
            begun.discard(who)
    return sorted(found, key=lambda change: change.earliest)


def _follow_up(told: Said) -> _Change:
    """Return the rejoin of a member, after it has learned what it keeps."""
    happened = TruthEvent(trigger=Trigger.COOPERATIVE_FOLLOW_UP, who=frozenset({told.who}))
    return _Change(told.time, told.time, happened)


def _change(truth: Truth, trigger: Trigger, who: str, earliest: float, latest: float) -> _Change:
    """Return the change of a client, which joined or left by the time of its event."""
    if trigger is not Trigger.SESSION_TIMEOUT:
        latest = next(
            (event["t"] for event in truth.events if event["t"] > earliest and _answers(event, who)), latest
        )
    why = TimeoutCause.PROCESS_DIED if trigger is Trigger.SESSION_TIMEOUT else None
    return _Change(earliest, latest, TruthEvent(trigger=trigger, who=frozenset({who}), why=why))


def _answers(event: dict[str, object], who: str) -> bool:
    """Return whether an event is the first that shows that a client has joined or left."""
    line = str(event.get("line", ""))
    return event["who"] == who and line.startswith(("revoked []", "assigned", "closed"))
