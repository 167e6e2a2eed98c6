"""The group epoch of a group of a newer kind, counted as its coordinator counts it, and the reasons of its bumps.

Only members show the group epoch: the response to a heartbeat has the member's own epoch, which follows it. So the
group epoch is at least the highest that was seen. The reasons for a bump by one are known (``GroupMetadataManager`` of
Kafka): a new member, one that leaves or is removed, another subscription, other partitions. Such bumps are counted as
they are seen; when an epoch is seen, the number of bumps is known, and reasons are sought for those that no message
announced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import msgspec

from captures.analysis.groups.calls import Call, HeartbeatRun, ModernHeartbeatRun
from captures.analysis.groups.context import GroupContext
from captures.analysis.groups.modern.members import ALWAYS, MemberTimeline, Roster
from captures.analysis.groups.modern.reasons import BumpEvidence, Reason, unknown
from captures.analysis.groups.modern.removals import Removals
from captures.analysis.groups.modern.topics import TopicChanges
from captures.analysis.groups.vocabulary import Kind, Trigger

_FIRST = 2
_HIGHEST = 2**31 - 1
"""Epochs are int32. No group gets there, but any client can claim it."""


class EpochBump(msgspec.Struct, kw_only=True):
    """An increase of the group epoch.

    :ivar reasons: all known reasons, the first one first; never empty
    :ivar generation: group epoch after it; -1 if unknown
    :ivar before: group epoch before it; -1 if unknown
    :ivar width: size of the increase: more than one if a part of it is unexplained
    :ivar late: whether the member that joined was not answered with this epoch, but had to wait for it
    """

    time: int
    reasons: list[Reason]
    generation: int = -1
    before: int = -1
    width: int = 1
    late: bool = False


class BumpLog(msgspec.Struct):
    """Numbers bumps.

    :ivar sure: highest epoch that was seen; -1 if none
    :ivar open: later bumps, whose epochs follow from it
    """

    bumps: list[EpochBump] = []
    sure: int = -1
    open: list[EpochBump] = []

    @property
    def latest(self) -> int:
        """The group epoch, as far as known; -1 if unknown."""
        return self.open[-1].generation if self.open and self.sure >= 0 else self.sure

    def add(self, *bumps: EpochBump) -> None:
        """Count bumps whose epochs were not seen yet, among the open ones, in the order of time."""
        self.bumps += bumps
        self.open = sorted([*self.open, *bumps], key=lambda bump: bump.time)
        self._number()

    def follow(self, epoch: int, begun: int) -> None:
        """Set the first epoch that is seen, which bumps up to `begun` led to, and later ones follow.

        :param begun: when the member with that epoch joined: it got the epoch in a later response
        """
        self.sure = epoch - sum(bump.width for bump in self.open if bump.time <= begun)
        self._number()

    def begin(self, epoch: int) -> None:
        """Set the first epoch that is seen as the one that all bumps so far led to."""
        self.sure = epoch - sum(bump.width for bump in self.open)
        self._number()
        self.seen(epoch)

    def restart(self, bump: EpochBump, epoch: int) -> None:
        """Restart with a bump that led to `epoch`: the group was deleted in between, or nothing was known."""
        bump.generation = epoch
        self.bumps.append(bump)
        self.sure, self.open = epoch, []

    def seen(self, epoch: int) -> None:
        """Record that an epoch was seen, which is accounted for."""
        self.sure = max(self.sure, epoch)
        self.open = [bump for bump in self.open if bump.generation > epoch]

    def _number(self) -> None:
        epoch = self.sure
        for bump in self.open if epoch >= 0 else ():
            bump.before, bump.generation = epoch, _after(epoch, bump.width)
            epoch = bump.generation


class EpochCounter:
    """Counts the epochs of a group, and finds the reasons of bumps that no request announced.

    :param roster: all members that were seen; may grow
    :param calls: calls by member ID, in the order of their requests
    :ivar started_before_capture: whether the group existed before the capture
    :ivar first: epoch in which the capture begins, if the group existed before; otherwise -1
    """

    def __init__(
        self,
        kind: Kind,
        context: GroupContext,
        roster: Roster,
        calls: Mapping[str, Sequence[Call]],
    ) -> None:
        self.counting = BumpLog()
        self.removals = Removals(roster, calls)
        self.topics = TopicChanges(kind, context, roster, self._is_whole)
        self.started_before_capture = False
        self.first = -1
        self._first_explained = 0
        self._possible_reasons: list[Reason] = []
        self._kind = kind
        self._context = context
        self._roster = roster

    @property
    def latest(self) -> int:
        """The group epoch, as far as known; -1 if unknown."""
        return self.counting.latest

    @property
    def from_the_first(self) -> bool:
        """Whether the group was seen from its first member on: groups begin with epoch 1, or 2 since Kafka 4.3."""
        bumps = self.counting.bumps
        return not self.started_before_capture and (not bumps or bumps[0].generation <= _FIRST)

    def bumped(self, reason: Reason) -> None:
        """Count a bump with a known reason."""
        self.counting.add(EpochBump(time=reason.time, reasons=[reason]))

    def add_possible_reason(self, reason: Reason) -> None:
        """Record a possible reason of a bump, for use if nothing else explains it."""
        self._possible_reasons.append(reason)

    def removed(self, member: MemberTimeline, call: Call) -> None:
        """Count the bump that removed a member which the coordinator no longer knows."""
        reason = self.removals.known_gone(member, self.bounded(self.plain(call)))
        last_call = member.silent_since(call.time) or 0
        # a bump that nothing explained may have been this one
        rest = islice(self.counting.bumps, self._explained(), None)
        open_question = next((bump for bump in rest if _is_unexplained(bump, last_call)), None)
        if open_question is None:
            self.bumped(reason)
        else:
            reason.time = open_question.time
            reason.numbers = (*open_question.reasons[0].numbers, *reason.numbers)
            reason.silence = None if reason.silence is None else max(reason.time - last_call, 0)
            open_question.reasons = [reason]
        self.removals.taken(reason)

    def joined(
        self, reason: Reason, epoch: int, shown: BumpEvidence, *, alone: bool, waits: bool = False
    ) -> None:
        """Count the bump of a member that joined.

        :param epoch: member epoch of the response
        :param alone: whether there was no other member
        :param waits: whether the response had no assignment yet
        """
        counting = self.counting
        bump = EpochBump(time=reason.time, reasons=[reason])
        # Kafka 4.3 begins with epoch 1, and answers the first member with that if it has no assignment yet: regular
        # expressions are resolved, and tasks of a streams group assigned, a moment later
        resolves = self._kind is Kind.STREAMS or (
            reason.timeline is not None and bool(reason.timeline.pattern)
        )
        bump.late = waits and epoch <= 1 and resolves
        if epoch <= 0:
            counting.add(bump)  # the mock cluster of librdkafka sends this before it has an assignment
        elif not counting.open and counting.sure < 0:
            counting.restart(bump, epoch)
        elif self._is_another(epoch, alone=alone, waits=waits):
            for member in self._roster.present:
                if member is not reason.timeline:
                    member.ends(reason.time, expelled=True)
            counting.restart(bump, epoch)
        elif counting.sure < 0:
            counting.add(bump)
            counting.begin(epoch)
        else:
            if epoch - counting.latest > 1:
                self.hidden(epoch - counting.latest - 1, shown)
            counting.add(bump)
            counting.seen(epoch)

    def _is_another(self, epoch: int, *, alone: bool, waits: bool) -> bool:
        """Return whether another group of the same name answered a join: epochs only grow until a group is deleted."""
        return epoch < self.counting.sure or (alone and not waits and epoch <= self.latest)

    def observe(self, epoch: int, shown: BumpEvidence, begun: int = ALWAYS) -> None:
        """Record that a member has an epoch.

        :param begun: when it joined, if that was seen
        """
        counting = self.counting
        if epoch <= 0:
            return
        if counting.sure < 0:
            if begun == ALWAYS:
                self.started_before_capture, self.first = True, epoch
            counting.follow(epoch, begun)
            return
        hidden = epoch - counting.latest
        if hidden > 0 and self._is_late(shown):
            hidden -= 1
        if hidden > 0:
            self.hidden(hidden, shown)
        counting.seen(epoch)

    def hidden(self, count: int, shown: BumpEvidence) -> None:
        """Count bumps that no request announced."""
        shown = self.bounded(shown)
        bumps = [EpochBump(time=reason.time, reasons=[reason]) for reason in self._explain(count, shown)]
        rest = count - len(bumps)
        if rest:
            reason = unknown(shown, rest, self._new_coordinator(shown.time))
            bumps.append(EpochBump(time=reason.time, reasons=[reason], width=rest))
        self.counting.add(*bumps)

    def displace(self, member: MemberTimeline, shown: BumpEvidence) -> None:
        """Add the removal of members whose partitions another member got: a partition has one owner (KIP-848)."""
        bumps = self.counting.bumps
        if self._kind is Kind.SHARE or not shown.gained or not bumps:
            return
        for other in self.removals.displaced(member, shown):
            reason = self.removals.timed_out(other, self.bounded(shown))
            bumps[-1].reasons.append(reason)
            self.removals.taken(reason)

    def resolve(self, time: int) -> None:
        """Count the bump of a pattern that is resolved after one of its topics was deleted, if due by `time`."""
        reason = self.topics.resolved(time)
        if reason is not None:
            self.bumped(reason)

    def plain(self, call: Call) -> BumpEvidence:
        """Return a call as evidence of an epoch only."""
        return BumpEvidence(call.time, call.number)

    def bounded(self, shown: BumpEvidence) -> BumpEvidence:
        """Return the evidence with the latest time of the previous epoch."""
        return replace(shown, since=self._since(shown.time))

    def _explain(self, count: int, shown: BumpEvidence) -> list[Reason]:
        sure, perhaps = self.removals.found(shown)
        chosen = [*sure, *self.topics.found(shown), *perhaps][:count]
        removed = any(reason.gone for reason in chosen)
        if len(chosen) < count and (given := self.topics.given_out(shown, removed=removed)) is not None:
            chosen.append(given)
        for reason in self._possible_reasons if len(chosen) < count else ():
            if len(chosen) < count and shown.earliest <= reason.time <= shown.time:
                chosen.append(reason)
        self._possible_reasons = [reason for reason in self._possible_reasons if reason.time > shown.time]
        for reason in chosen:
            self.removals.taken(reason)
            self.topics.taken(reason)
        return chosen

    def _is_late(self, shown: BumpEvidence) -> bool:
        """Give the first member's join the epoch that it had to wait for; return whether it had to."""
        bumps = self.counting.bumps
        if len(bumps) != 1 or not bumps[0].late or self.started_before_capture:
            return False
        bump = bumps[0]
        bump.late = False
        bump.before, bump.generation = bump.generation, _after(bump.generation, 1)
        bump.reasons[0].numbers = (*bump.reasons[0].numbers, shown.number)
        self.counting.sure = bump.generation
        return True

    def _since(self, time: int) -> int:
        """Return the latest time before `time` at which the group had the epoch that is known."""
        latest, bumps = self.latest, self.counting.bumps
        since = bumps[-1].time if bumps else ALWAYS
        for member in self._roster.present:
            call = member.call_before(time)
            epoch = call.epoch if isinstance(call, ModernHeartbeatRun) else None
            if isinstance(call, HeartbeatRun) and not call.error:
                epoch = call.generation
            if (
                isinstance(call, ModernHeartbeatRun | HeartbeatRun)
                and epoch == latest
                and call.last_end is not None
            ):
                known = call.last_end if call.last_end < time else max(call.at, time - member.pace)
                since = max(since, known)
        return min(since, time) if since else time

    def _new_coordinator(self, time: int) -> str:
        """Return the broker that became the coordinator since the last bump; empty if none did."""
        bumps = self.counting.bumps
        since = bumps[-1].time if bumps else 0
        moved = [seen for seen in self._context.coordinators[1:] if since < seen.time <= time]
        return moved[-1].broker if moved else ""

    def _is_whole(self) -> bool:
        """Return whether nothing so far indicates members that were not captured."""
        return self.from_the_first and self._explained() == len(self.counting.bumps)

    def _explained(self) -> int:
        """Return how many bumps at the start are explained: they stay so, and need not be examined again."""
        bumps = self.counting.bumps
        while self._first_explained < len(bumps) and not any(
            reason.trigger is Trigger.UNKNOWN for reason in bumps[self._first_explained].reasons
        ):
            self._first_explained += 1
        return self._first_explained


def _after(epoch: int, width: int) -> int:
    """Return the epoch after bumps."""
    return min(epoch + width, _HIGHEST)


def _is_unexplained(bump: EpochBump, since: int) -> bool:
    """Return whether a bump at or after `since` has no known reason."""
    return (
        bump.time >= since
        and bump.width == 1
        and bump.reasons[0].trigger is Trigger.UNKNOWN
        and (bump.reasons[0].timeline is None)
    )
