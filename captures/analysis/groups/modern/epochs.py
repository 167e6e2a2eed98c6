"""The calls of a newer kind of group's members, read in the order of their responses.

Members of a consumer group may still speak the classic protocol (KIP-848, online upgrade). To them the group looks
unchanged: JoinGroup, SyncGroup, and heartbeats that ask them to rejoin; the generation is the group epoch. But no
member leads, the coordinator makes the assignment, and no member waits for others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from captures.analysis.groups.calls import (
    POLL_EXPIRED,
    Call,
    HeartbeatRun,
    Join,
    Leave,
    ModernHeartbeatRun,
    Sync,
)
from captures.analysis.groups.context import GroupContext
from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.modern.bumps import EpochCounter
from captures.analysis.groups.modern.members import ALWAYS, MemberTimeline, Roster, news
from captures.analysis.groups.modern.reasons import BumpEvidence, Reason, did, problem, problems
from captures.analysis.groups.vocabulary import Certainty, Kind, Trigger
from captures.analysis.groups.words import quoted_reason
from captures.time_format import span
from dissectors.error_codes import ErrorCode


class ClassicMembers:
    """Reads the calls of members that speak the classic protocol."""

    def __init__(self, roster: Roster, counter: EpochCounter) -> None:
        self._roster = roster
        self._counter = counter

    def take(self, call: Join | Sync | HeartbeatRun | Leave) -> None:
        if isinstance(call, Leave):
            self._leave(call)
        elif call.error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.not_known(call)
        elif isinstance(call, Join):
            self._join(call)
        elif isinstance(call, Sync):
            self._sync(call)
        else:
            self._beat(call)

    def not_known(self, call: Call) -> None:
        """Record that the coordinator does not know the sender of a call."""
        member = self._roster.find(call.member)
        if member is not None and member.alive:
            self._counter.removed(member, call)

    def _join(self, join: Join) -> None:
        if join.error or join.answered < 0 or not join.member:
            return
        roster, counter = self._roster, self._counter
        alone = roster.alone
        member, was_there = roster.admit(join)
        member.classic = True
        changed = roster.resubscribe(member, join)
        roster.enrol(member, join.member, join.time)
        member.add_contact(join)
        reason = self._why(member, join, was_there=was_there, changed=changed)
        if reason is None:
            counter.observe(join.answered, counter.plain(join))
        else:
            counter.joined(reason, join.answered, counter.plain(join), alone=alone)
        member.note(replace(member.now(join), epoch=join.answered, since=None))

    @staticmethod
    def _why(member: MemberTimeline, join: Join, *, was_there: bool, changed: str) -> Reason | None:
        """Return the change that a joining member causes in the group; None if none: it was asked to rejoin."""
        if not was_there:
            reason = did(Trigger.MEMBER_JOINED, "joined with the classic protocol", member, join)
            reason.joined = True
            return reason
        return did(Trigger.SUBSCRIPTION_CHANGED, changed, member, join) if changed else None

    def _sync(self, sync: Sync) -> None:
        member = self._roster.find(sync.member)
        if member is None or sync.error or sync.assigned is None:
            return
        member.add_contact(sync)
        self._counter.topics.assigned(sync.assigned)
        member.note(replace(member.now(sync), epoch=sync.generation, assigned=sync.assigned, since=None))

    def _beat(self, beat: HeartbeatRun) -> None:
        member = self._roster.find(beat.member)
        if member is None and (beat.error or beat.generation <= 0 or not beat.member):
            return
        if member is None:
            member = self._roster.known(beat)
            member.classic = True
            member.note(replace(member.now(beat), epoch=beat.generation))
        if not member.alive:
            return
        member.add_contact(beat)
        self._counter.observe(beat.generation, self._counter.plain(beat))
        state = member.state
        if beat.error == ErrorCode.REBALANCE_IN_PROGRESS and state is not None and state.since is None:
            member.note(replace(member.now(beat), since=beat.at))

    def _leave(self, leave: Leave) -> None:
        for member, instance, given_reason, code in leave.gone:
            timeline = self._roster.find(member, instance)
            if code or leave.error or timeline is None or not timeline.alive:
                continue
            itself = leave.connection in timeline.connections
            trigger = Trigger.MEMBER_LEFT if itself else Trigger.REMOVED_BY_ADMIN
            if itself and POLL_EXPIRED in given_reason:
                trigger = Trigger.MAX_POLL_EXCEEDED
            text = "left" if itself else f"was removed by {leave.client}"
            reason = did(trigger, text + quoted_reason(given_reason), timeline, leave)
            reason.gone = True
            timeline.ends(leave.time)
            self._counter.bumped(reason)


class ReportedProblem(msgspec.Struct):
    """A problem of a streams group, as the coordinator reported it to one member.

    :ivar begin: ns since the epoch
    :ivar end: when it was last reported, or first not any more
    :ivar over: whether a later response does not report it
    """

    text: str
    begin: int
    end: int
    over: bool = False


def _lasted(reported: Sequence[ReportedProblem]) -> str:
    """Return for how long a problem was reported to any member, in words; empty if it was reported once only."""
    last = max(reported, key=lambda each: each.end)
    lasted = last.end - min(each.begin for each in reported)
    return f" for {'' if last.over else 'at least '}{span(lasted)}" if lasted else ""


LEAVE, LEAVE_FOR_A_WHILE = -1, -2
"""Member epochs of requests with which a member leaves, and a static one that will return (KIP-848)."""


class Epochs:
    """Reads the calls of a group.

    :param calls: all calls
    :param members: the members before the first call, as far as known
    :param epoch: group epoch before the first call; -1 if unknown
    :ivar status: latest problems of a streams group: code and text
    """

    def __init__(
        self,
        kind: Kind,
        context: GroupContext,
        calls: Sequence[Call],
        members: Iterable[MemberTimeline] = (),
        epoch: int = -1,
    ) -> None:
        self.kind = kind
        self.roster = Roster(kind)
        self.status: tuple[tuple[int, str], ...] = ()
        self._problems: list[ReportedProblem] = []
        self._lasting: dict[str, dict[str, ReportedProblem]] = {}
        self._context = context
        self._names: dict[str, str] = {}
        self._calls = sorted(calls, key=lambda call: (call.at, call.number))
        self._of_member: dict[str, list[Call]] = {}
        for call in sorted(calls, key=lambda call: (call.time, call.number)):
            self._of_member.setdefault(call.member, []).append(call)
        self.counter = EpochCounter(kind, context, self.roster, self._of_member)
        self._classic = ClassicMembers(self.roster, self.counter)
        self.counter.counting.sure = epoch
        for member in members:
            self.roster.take(member)
            self.counter.topics.assigned(member.states[-1].assigned or ())

    def read(self) -> None:
        for call in self._calls:
            self.counter.resolve(call.at)
            if isinstance(call, ModernHeartbeatRun):
                self._beat(call if self.kind is Kind.STREAMS else self._named(call))
            elif isinstance(call, Join | Sync | HeartbeatRun | Leave):
                self._classic.take(call)
        self.counter.resolve(self._context.now)

    def status_between(self, begin: int, end: int) -> list[str]:
        """Return the problems of a streams group that the coordinator reported from `begin` up to `end`, in words."""
        found: dict[str, list[ReportedProblem]] = {}
        for each in self._problems:
            if begin <= each.begin < end:
                found.setdefault(each.text, []).append(each)
        return [f"{text}{_lasted(reported)}" for text, reported in found.items()]

    def last_to_go(self, closing: Call) -> Reason | None:
        """Return how the last member of the new kind left, and drop its bump: the group became a classic one.

        :param closing: first call to the classic group
        """
        counting = self.counter.counting
        shown = self.counter.bounded(self.counter.plain(closing))
        silent = self.counter.removals.expired(
            (member for member in self.roster.lanes if not member.classic), shown
        )
        for bump in reversed(counting.open):
            reason = bump.reasons[0]
            if reason.gone and reason.timeline is not None and not reason.timeline.classic and silent is None:
                counting.open.remove(bump)
                counting.bumps.remove(bump)
                return reason
        return silent

    def _beat(self, beat: ModernHeartbeatRun) -> None:
        if beat.error == ErrorCode.UNRELEASED_INSTANCE_ID:
            self.counter.removals.refusals.add(beat)
        elif beat.error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._classic.not_known(beat)
        elif beat.error or not beat.member:
            return  # refused requests change nothing
        elif beat.generation in (LEAVE, LEAVE_FOR_A_WHILE):
            self._leaves(beat)
        elif beat.generation > 0:
            # if the response was not captured, the request has the previous epoch
            self._lives_on(beat, beat.generation if beat.epoch is None else beat.epoch)
        elif beat.generation == 0 and beat.epoch is None:
            self._joins_unseen(beat)
        elif beat.generation == 0 and beat.epoch is not None:
            self._joins(beat, beat.epoch)

    def _named(self, beat: ModernHeartbeatRun) -> ModernHeartbeatRun:
        """Return a heartbeat with the names of topics that were unknown when it was read."""
        owned, assigned = self._with_names(beat.owned), self._with_names(beat.assigned)
        if owned == beat.owned and assigned == beat.assigned:
            return beat
        return replace(beat, owned=owned, assigned=assigned)

    def _with_names(self, partitions: frozenset[TopicPartition] | None) -> frozenset[TopicPartition] | None:
        for topic in {tp.topic for tp in partitions or ()} - self._names.keys():
            self._names[topic] = self._context.names(topic) or topic
        return partitions and frozenset(
            TopicPartition(self._names[tp.topic], tp.partition) for tp in partitions
        )

    # ------------------------------------------------------------ leaving
    def _leaves(self, beat: ModernHeartbeatRun) -> None:
        member = self.roster.known(beat)
        if not member.alive:
            return
        member.last = max(member.last, beat.time)
        if beat.generation == LEAVE_FOR_A_WHILE:
            member.paused = beat.time
            return
        reason = self._why_left(member, beat)
        member.ends(beat.time)
        self.counter.bumped(reason)

    def _why_left(self, member: MemberTimeline, beat: ModernHeartbeatRun) -> Reason:
        reason = did(Trigger.MEMBER_LEFT, "left", member, beat)
        reason.gone = True
        rejoined = self._rejoin_time(beat)
        if rejoined is not None:
            reason.trigger, reason.certainty = Trigger.MAX_POLL_EXCEEDED, Certainty.POSSIBLE
            reason.text = (
                f"left, and joined again after {span(rejoined - beat.time)}, as a member does if its application "
                "did not poll within max.poll.interval.ms"
            )
            reason.alternatives = ("its application unsubscribed, and subscribed again",)
        return reason

    def _rejoin_time(self, beat: ModernHeartbeatRun) -> int | None:
        """Return when a leaving member rejoins with the same ID; None if it does not."""
        calls = self._of_member[beat.member]
        for call in calls[bisect_right(calls, beat.time, key=lambda call: call.time) :]:
            if isinstance(call, ModernHeartbeatRun) and call.generation == 0 and not call.error:
                return call.time
        return None

    # ------------------------------------------------------------ joining
    def _joins(self, beat: ModernHeartbeatRun, epoch: int) -> None:
        roster, counter = self.roster, self.counter
        alone = roster.alone
        member, was_there = roster.admit(beat)
        changed = roster.subscribe(member, beat)
        roster.enrol(member, beat.member, beat.time)
        shown = replace(counter.plain(beat), gained=beat.assigned or frozenset())
        if was_there and (epoch <= counter.latest or not beat.instance):
            # it resumes its place, and the group is unchanged
            counter.observe(epoch, shown, member.memberships[-1].begin)
        elif beat.instance and not was_there and self._only_returns(member, epoch):
            member.memberships[-1].begin = ALWAYS
        else:
            reason = self._why_joined(member, beat, returned=was_there, changed=changed)
            counter.joined(reason, epoch, shown, alone=alone, waits=not beat.assigned)
        self._answered(member, beat, epoch, shown)

    def _joins_unseen(self, beat: ModernHeartbeatRun) -> None:
        """Read a join whose response was not captured, if the client continues as a member."""
        calls = self._of_member[beat.member]
        index = bisect_right(calls, beat.time, key=lambda call: call.time)
        if not any(
            isinstance(call, ModernHeartbeatRun) and call.generation > 0 for call in calls[index : index + 1]
        ):
            return
        member, was_there = self.roster.admit(beat)
        self.roster.subscribe(member, beat)
        self.roster.enrol(member, beat.member, beat.time)
        member.add_contact(beat)
        if not was_there:
            reason = self._why_joined(member, beat, returned=False, changed="")
            reason.certainty = Certainty.INFERRED
            self.counter.bumped(reason)

    def _only_returns(self, member: MemberTimeline, epoch: int) -> bool:
        """Return whether a static member that is new to the capture was a member before: the epoch is unchanged."""
        counting = self.counter.counting
        unchanged = epoch == counting.sure and not counting.open
        return len(member.memberships) == 1 and unchanged and self.counter.started_before_capture

    def _why_joined(
        self, member: MemberTimeline, beat: ModernHeartbeatRun, *, returned: bool, changed: str
    ) -> Reason:
        text = "joined again" if len(member.memberships) > 1 else "joined"
        trigger = Trigger.MEMBER_JOINED
        if returned:
            trigger, text = Trigger.STATIC_MEMBER_RETURNED, "came back"
        if changed:
            text += f", and {changed}"
        problem = problems(beat.status)
        if problem:
            text += f"; the coordinator says {problem}"
        reason = did(trigger, text, member, beat)
        reason.joined = not returned
        return reason

    # ------------------------------------------------------------ heartbeats of members
    def _lives_on(self, beat: ModernHeartbeatRun, epoch: int) -> None:
        member = self.roster.known(beat)
        if not member.alive:
            self.roster.enrol(member, beat.member, beat.time)
        shown = self._shown(member, beat)
        self.counter.observe(beat.generation, self.counter.plain(beat), member.memberships[-1].begin)
        known = member.subscription
        changed = self.roster.subscribe(member, beat)
        if changed:
            self.counter.bumped(did(Trigger.SUBSCRIPTION_CHANGED, changed, member, beat))
        elif member.subscription and not known:
            self.counter.add_possible_reason(_first_assignment(member, beat))
        self.counter.observe(epoch, shown)
        if self.counter.latest <= epoch and _asks_back(member, beat, epoch):
            self.counter.hidden(1, shown)
        self._answered(member, beat, epoch, shown)

    def _answered(
        self, member: MemberTimeline, beat: ModernHeartbeatRun, epoch: int, shown: BumpEvidence
    ) -> None:
        self.counter.displace(member, shown)
        self.counter.topics.assigned(self.roster.answered(member, beat, epoch))
        self.counter.topics.status((code for code, _ in beat.status), beat.number)
        self._report(beat)
        self.status = beat.status

    def _report(self, beat: ModernHeartbeatRun) -> None:
        before = self._lasting.get(beat.member, {})
        for lasting in before.values():
            lasting.end = beat.at
        now: dict[str, ReportedProblem] = {}
        for each in beat.status:
            text = problem(*each)
            now[text] = before.get(text) or ReportedProblem(text, beat.at, beat.at)
            if text not in before:
                self._problems.append(now[text])
        for text in before.keys() - now.keys():
            before[text].over = True
        self._lasting[beat.member] = now

    def _shown(self, member: MemberTimeline, beat: ModernHeartbeatRun) -> BumpEvidence:
        had = (member.state.assigned if member.state is not None else None) or frozenset()
        has = had if beat.assigned is None else beat.assigned
        gained = has - had if member.states else frozenset[TopicPartition]()
        codes = tuple(code for code, _ in beat.status)
        return replace(self.counter.plain(beat), gained=gained, lost=had - has, status=codes)


def _first_assignment(member: MemberTimeline, beat: ModernHeartbeatRun) -> Reason:
    """Return the reason for a first subscription of a member older than the capture: it sends it on a change."""
    reason = did(Trigger.SUBSCRIPTION_CHANGED, news(member), member, beat)
    reason.certainty = Certainty.INFERRED
    reason.alternatives = ("an earlier heartbeat failed, so it sent its subscription again",)
    return reason


def _asks_back(member: MemberTimeline, beat: ModernHeartbeatRun, epoch: int) -> bool:
    """Return whether a member has to revoke partitions in the epoch that it already has."""
    state = member.state
    if state is None or state.epoch != epoch or state.assigned is None or beat.assigned is None:
        return False
    return bool(state.assigned - beat.assigned)
