"""Members of a consumer group that still speak the classic protocol (KIP-848, online upgrade).

To them the group looks as ever: JoinGroup, SyncGroup, and heartbeats that tell them to join anew; the generation is the
group epoch. But nobody leads, the coordinator makes the assignment, and nobody waits for others.
"""

from __future__ import annotations

from dataclasses import replace

from captures.analysis.groups.calls import Beat, Call, Join, Leave, Sync
from captures.analysis.groups.model import Trigger
from captures.analysis.groups.modern.counting import EpochCounter
from captures.analysis.groups.modern.lanes import Lane
from captures.analysis.groups.modern.reasons import Reason, did
from captures.analysis.groups.modern.removals import UNKNOWN_MEMBER
from captures.analysis.groups.modern.roster import Roster
from captures.analysis.groups.words import quoted_reason

REBALANCE_IN_PROGRESS = 27

_POLL_EXPIRED = "poll timeout has expired"
"""Part of what the Java client gives as its reason to leave (KIP-800)."""


class ClassicMembers:
    """Reads the calls of such members."""

    def __init__(self, roster: Roster, counter: EpochCounter) -> None:
        self._roster = roster
        self._counter = counter

    def take(self, call: Join | Sync | Beat | Leave) -> None:
        """Take a call in."""
        if isinstance(call, Leave):
            self._leave(call)
        elif call.error == UNKNOWN_MEMBER:
            self.not_known(call)
        elif isinstance(call, Join):
            self._join(call)
        elif isinstance(call, Sync):
            self._sync(call)
        else:
            self._beat(call)

    def not_known(self, call: Call) -> None:
        """Take in that the coordinator does not know who calls."""
        lane = self._roster.find(call.member)
        if lane is not None and lane.alive:
            self._counter.removed(lane, call)

    def _join(self, join: Join) -> None:
        if join.error or join.answered < 0 or not join.member:
            return
        roster, counter = self._roster, self._counter
        alone = roster.alone
        lane = roster.find(join.member, join.instance)
        was_there = lane is not None and lane.alive
        if lane is None:
            lane = roster.enter(join)
        lane.classic = True
        changed = roster.resubscribe(lane, join)
        roster.enrol(lane, join.member, join.time)
        lane.heard(join)
        reason = self._why(lane, join, was_there=was_there, changed=changed)
        if reason is None:
            counter.observe(join.answered, counter.plain(join))
        else:
            counter.joined(reason, join.answered, counter.plain(join), alone=alone)
        lane.note(replace(lane.now(join), epoch=join.answered, since=None))

    @staticmethod
    def _why(lane: Lane, join: Join, *, was_there: bool, changed: str) -> Reason | None:
        """Return what a member that joins changes in the group; None if nothing: it was told to join anew."""
        if not was_there:
            reason = did(Trigger.MEMBER_JOINED, "joined with the classic protocol", lane, join)
            reason.joined = True
            return reason
        return did(Trigger.SUBSCRIPTION_CHANGED, changed, lane, join) if changed else None

    def _sync(self, sync: Sync) -> None:
        lane = self._roster.find(sync.member)
        if lane is None or sync.error or sync.assigned is None:
            return
        lane.heard(sync)
        self._counter.topics.assigned(sync.assigned)
        lane.note(replace(lane.now(sync), epoch=sync.generation, assigned=sync.assigned, since=None))

    def _beat(self, beat: Beat) -> None:
        lane = self._roster.find(beat.member)
        if lane is None and (beat.error or beat.generation <= 0 or not beat.member):
            return
        if lane is None:
            lane = self._roster.known(beat)
            lane.classic = True
            lane.note(replace(lane.now(beat), epoch=beat.generation))
        if not lane.alive:
            return
        lane.heard(beat)
        self._counter.observe(beat.generation, self._counter.plain(beat))
        state = lane.state
        if beat.error == REBALANCE_IN_PROGRESS and state is not None and state.since is None:
            lane.note(replace(lane.now(beat), since=beat.at))

    def _leave(self, leave: Leave) -> None:
        for member, instance, said, code in leave.gone:
            lane = self._roster.find(member, instance)
            if code or leave.error or lane is None or not lane.alive:
                continue
            itself = leave.connection in lane.connections
            trigger = Trigger.MEMBER_LEFT if itself else Trigger.REMOVED_BY_ADMIN
            if itself and _POLL_EXPIRED in said:
                trigger = Trigger.MAX_POLL_EXCEEDED
            text = "left" if itself else f"was removed by {leave.client}"
            reason = did(trigger, text + quoted_reason(said), lane, leave)
            reason.gone = True
            lane.ends(leave.time)
            self._counter.bumped(reason)
