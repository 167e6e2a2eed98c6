"""How a group of the newer kinds settles after an epoch bump: who revokes partitions, who gets them, when it is done.

Members of consumer and streams groups reach the new epoch one by one, each with its own heartbeats: a member that has
to revoke partitions stays in its epoch until it has confirmed that, and the next owner gets them with a later heartbeat
(KIP-848, reconciliation). Members of share groups revoke nothing: partitions are shared.

A coordinator leaves no partition without a member for longer than a heartbeat takes. So if the members that were seen
have all partitions, they are the whole group; if none of them has some partitions, a member was not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile, zip_longest

import msgspec

from captures.analysis.groups.context import GroupContext
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import (
    AwaitedMember,
    Cause,
    GroupTimeline,
    Move,
    Rebalance,
    SlowestRevocation,
    TopicPartition,
    Wait,
)
from captures.analysis.groups.modern.bumps import EpochBump
from captures.analysis.groups.modern.epochs import Epochs
from captures.analysis.groups.modern.members import Membership, MemberTimeline, State
from captures.analysis.groups.modern.reasons import Reason
from captures.analysis.groups.vocabulary import Kind, Trigger
from captures.analysis.groups.words import timeout_in_words
from captures.meaning import words

HANDED_ON = 2
"""Heartbeats within which a revoked partition has its new owner."""


class UncapturedMembers(msgspec.Struct):
    """Infers members that were not captured, epoch by epoch.

    :ivar strangers: whether there are any; None if unknown
    :ivar missing: partitions that they have
    """

    epochs: Epochs
    context: GroupContext
    strangers: bool | None = None
    missing: frozenset[TopicPartition] = frozenset()
    _had: set[TopicPartition] = set()

    def look(
        self,
        bump: EpochBump,
        members: Iterable[MemberTimeline],
        held: Iterable[frozenset[TopicPartition]],
        time: int,
        *,
        settled: bool,
    ) -> None:
        """Update from the state of the group before the next bump, or at the end.

        :param members: the known members
        :param held: their partitions
        :param time: time of that state
        :param settled: whether all of them reached the epoch of the bump
        """
        everybody = list(members)
        has = frozenset[TopicPartition]().union(*held)
        self._had |= has
        if any(reason.trigger is Trigger.UNKNOWN for reason in bump.reasons):
            self.strangers = True
        since = max([bump.time, *(member.changed_before(time) for member in everybody)])
        if (
            not settled
            or not everybody
            or time - since <= HANDED_ON * max(member.pace for member in everybody)
        ):
            return  # revoked partitions may be on their way to new owners
        # later changes of topics have no effect before the next bump
        self.missing = self._expected(everybody, since) - has
        if has or self.missing:
            self.strangers = bool(self.missing)

    @property
    def whole(self) -> bool:
        """Whether the members that were seen are the whole group."""
        return self.strangers is False or (self.strangers is None and self.epochs.counter.from_the_first)

    def add_to(self, timeline: GroupTimeline) -> None:
        """Add to the timeline how much of the group was seen."""
        epochs = self.epochs
        timeline.complete = self.whole
        if epochs.counter.started_before_capture and epochs.counter.first >= 0:
            timeline.seen.append(f"the capture begins in epoch {epochs.counter.first}")
        if self.strangers and self.missing:
            missing = partitions(self.missing)
            timeline.seen.append(f"{missing} belong to members that were not captured")
        elif not timeline.complete:
            count = len(epochs.roster.present)
            missing = f"{words.counted(count, 'member')} at the end; " if count else ""
            timeline.seen.append(f"{missing}whether there are more was not captured")

    def _expected(self, members: list[MemberTimeline], time: int) -> frozenset[TopicPartition]:
        """Return the partitions that one of the members must have."""
        if self.epochs.kind is Kind.STREAMS:
            return frozenset(self._had)
        wanted = {topic for member in members for topic in member.topics or ()}
        open_ended = any(member.pattern or member.topics is None for member in members)
        expected: set[TopicPartition] = set()
        for topic in {tp.topic for tp in self._had}:
            if topic not in wanted and not open_ended:
                continue
            count = self.context.partitions.at(topic, time)
            if count is None:
                expected |= {tp for tp in self._had if tp.topic == topic}
            else:
                expected |= {TopicPartition(topic, index) for index in range(count)}
        return frozenset(expected)


_Held = dict[str, frozenset[TopicPartition]]


class _MemberBump(msgspec.Struct, frozen=True):
    """The effect of a bump on one member.

    :ivar notified: the first state that shows it; None if there is none
    :ivar done: the state in which the member had its assignment; None if it did not get that far
    """

    notified: State | None
    done: State | None


class _Presence:
    """Finds the members at given times, which must be ascending."""

    def __init__(self, lanes: Iterable[MemberTimeline]) -> None:
        memberships = (
            (membership.begin, at, index, member)
            for at, member in enumerate(lanes)
            for index, membership in enumerate(member.memberships)
        )
        self._coming = sorted(memberships, key=lambda each: each[:3], reverse=True)
        self._present: dict[tuple[int, int], tuple[MemberTimeline, Membership]] = {}

    def at(self, time: int) -> list[tuple[MemberTimeline, Membership]]:
        """Return the members right after `time`, in the order of their first signs of life."""
        while self._coming and self._coming[-1][0] <= time:
            _, at, index, member = self._coming.pop()
            self._present[at, index] = member, member.memberships[index]
        self._present = {
            of: (member, membership)
            for of, (member, membership) in self._present.items()
            if membership.end is None or time < membership.end
        }
        first: dict[int, tuple[MemberTimeline, Membership]] = {}
        for of in sorted(self._present):
            first.setdefault(of[0], self._present[of])
        return list(first.values())


class Reconciliations:
    """Makes rebalances of bumps.

    :param labels: labels of the members
    :param seen: gets every epoch, and infers members that were not captured
    """

    def __init__(self, group: str, epochs: Epochs, labels: Labels, seen: UncapturedMembers, now: int) -> None:
        self._group = group
        self._epochs = epochs
        self._labels = labels
        self._seen = seen
        self._now = now
        self._nobody: str | None = "" if epochs.counter.from_the_first else None
        """The owner of a partition that no member seen here has: none (empty), or not known (None)."""

    def stories(self) -> list[Rebalance]:
        """Return the bumps as rebalances, in the order of time."""
        bumps = sorted(self._epochs.counter.counting.bumps, key=lambda bump: bump.time)
        lanes = self._epochs.roster.lanes
        self._before, self._after = _Presence(lanes), _Presence(lanes)
        return [self._story(bump, after) for bump, after in zip_longest(bumps, bumps[1:])]

    def _story(self, bump: EpochBump, following: EpochBump | None) -> Rebalance:
        members = self._after.at(bump.time)
        until = self._now if following is None else following.time
        settled = {membership.member: self._settled(member, bump, until) for member, membership in members}
        seen = [state.done for state in settled.values()]
        finished = [state.at for state in seen if state is not None]
        end = max(finished, default=bump.time) if len(finished) == len(seen) else None
        held = self._held(members, until)
        self._seen.look(
            bump, (member for member, _ in members), held.values(), until, settled=end is not None
        )
        others = "" if self._seen.whole and len(held) == len(members) else None
        rebalance = Rebalance(
            group=self._group,
            kind=self._epochs.kind,
            generation=bump.generation,
            previous_generation=bump.before,
            time=bump.time,
            end=end,
            emptied=not members and self._seen.whole,
            causes=[self.cause(reason) for reason in bump.reasons],
            alternatives=[text for reason in bump.reasons[:1] for text in reason.alternatives],
            members=[membership.member for _, membership in members],
            size=len(members) if self._seen.whole else None,
            joined=[reason.member for reason in bump.reasons if reason.joined],
            gone=[reason.member for reason in bump.reasons if reason.gone],
            protocol=next((member.assignor for member, _ in members if member.assignor), ""),
            cooperative=True,
            moved=self._moved(bump.time, held, others),
            assigned=held,
            tasks={
                membership.member: tasks
                for member, membership in members
                if (tasks := member.tasks_at(until)) is not None
            },
            status=self._epochs.status_between(bump.time, until),
            waits=[
                self._wait(member, membership, bump, settled[membership.member])
                for member, membership in members
            ],
            held_up=_held_up(bump, members, until),
        )
        rebalance.overtaken = end is None and following is not None
        if following is None:
            rebalance.awaited = self._awaited(bump, members, settled)
            rebalance.running = bool(rebalance.awaited) or self._in_between(rebalance, members)
            if rebalance.running:
                rebalance.end = None
        self._nobody = others
        rebalance.evidence = self._evidence(bump, settled.values())
        return rebalance

    def _settled(self, member: MemberTimeline, bump: EpochBump, until: int) -> _MemberBump:
        notified: State | None = None
        done: State | None = None
        before = member.state_at(bump.time)
        for state in member.states_after(bump.time):
            less = _given_up(before, state)
            if state.epoch > bump.generation or (less and done is not None and state.at >= until):
                break
            if notified is None and (less or state.epoch == bump.generation):
                notified = state
            if state.epoch == bump.generation and (done is None or state.assigned != done.assigned):
                done = state
            before = state
        return _MemberBump(notified, done)

    @staticmethod
    def _held(members: Iterable[tuple[MemberTimeline, Membership]], time: int) -> _Held:
        found: _Held = {}
        for member, membership in members:
            state = member.state_at(time)
            if state is not None and state.held is not None:
                found[membership.member] = state.held
        return found

    def _moved(self, time: int, after: _Held, others: str | None) -> list[Move]:
        """Return the partitions that changed hands.

        :param others: owner afterwards of partitions that no member seen has: none (empty), or unknown (None)
        """
        members = self._before.at(time - 1)
        before = self._held(members, time)
        # members with unknown partitions before have unknown gains
        vague = {membership.member for _, membership in members if membership.member not in before}
        gave, took = _owners(before, after), _owners(after, before)
        moved: list[Move] = []
        for tp in sorted(gave.keys() | took.keys()):
            givers, takers = gave.get(tp, []), took.get(tp, [])
            if givers or not vague.issuperset(takers):
                shared = min(len(givers), len(takers))
                moved += [Move(tp, *ends) for ends in zip(givers, takers, strict=False)]
                moved += [Move(tp, giver, others) for giver in givers[shared:]]
                moved += [Move(tp, self._nobody, taker) for taker in takers[shared:]]
        return moved

    @staticmethod
    def _wait(member: MemberTimeline, membership: Membership, bump: EpochBump, settled: _MemberBump) -> Wait:
        return Wait(
            member=membership.member,
            client=member.client,
            notified=None if settled.notified is None else max(settled.notified.at - bump.time, 0),
            total=None if settled.done is None else max(settled.done.at - bump.time, 0),
        )

    # ------------------------------------------------------------ running rebalances
    def _awaited(
        self,
        bump: EpochBump,
        members: list[tuple[MemberTimeline, Membership]],
        settled: dict[str, _MemberBump],
    ) -> list[AwaitedMember]:
        found: list[AwaitedMember] = []
        for member, membership in members:
            state = member.state
            held_up = state is not None and state.since is not None
            if member.paused is None and (settled[membership.member].done is None or held_up):
                found.append(self._waiting(member, membership, bump))
        return found

    def _in_between(self, rebalance: Rebalance, members: list[tuple[MemberTimeline, Membership]]) -> bool:
        """Return whether revoked partitions have no owner yet: they reach their owners with heartbeats."""
        if self._epochs.kind is Kind.SHARE or not members:
            return False
        if not any(move.before and move.after == "" for move in rebalance.moved):
            return False
        latest = max(member.changed_before(self._now) for member, _ in members)
        return self._now - max(latest, rebalance.time) <= HANDED_ON * max(
            member.pace for member, _ in members
        )

    def _waiting(self, member: MemberTimeline, membership: Membership, bump: EpochBump) -> AwaitedMember:
        since, timeout = None if member.state is None else member.state.since, member.rebalance_timeout
        if since is None:
            return AwaitedMember(membership.member, member.client, bump.time)
        deadline = None if timeout is None else since + timeout
        return AwaitedMember(membership.member, member.client, since, _beats(member, since), deadline)

    # ------------------------------------------------------------ words
    def cause(self, reason: Reason) -> Cause:
        """Return a reason as a cause, in words."""
        member = reason.timeline
        return Cause(
            trigger=reason.trigger,
            certainty=reason.certainty,
            time=reason.time,
            sentence=self._sentence(reason),
            member=reason.member,
            instance=None if member is None else member.instance,
            client="" if member is None else member.client,
            evidence=tuple(sorted(set(reason.numbers))),
            silence=reason.silence,
        )

    def _sentence(self, reason: Reason) -> str:
        member = reason.timeline
        if member is None:
            return words.line(reason.text)
        who = self._labels.of(reason.member, member.client)
        if reason.silence is None:
            return words.line(f"{who} {reason.text}")
        text = timeout_in_words(who, reason.silence, member.session_timeout)
        return words.line("; ".join([text, reason.text] if reason.text else [text]))

    @staticmethod
    def _evidence(bump: EpochBump, settled: Iterable[_MemberBump]) -> list[int]:
        numbers = {number for reason in bump.reasons for number in reason.numbers}
        numbers |= {
            state.number for each in settled for state in (each.notified, each.done) if state is not None
        }
        return sorted(numbers)


def _held_up(
    bump: EpochBump, members: Iterable[tuple[MemberTimeline, Membership]], until: int
) -> SlowestRevocation | None:
    """Return the member that took longest to revoke partitions before the next bump; None if none was seen to."""
    found = []
    for member, membership in members:
        states = list(takewhile(lambda state: state.at < until, member.states_after(bump.time)))
        for asked, after in zip_longest(states, states[1:]):
            if asked.since is not None and (after is None or after.since is None):
                time = (until if after is None else after.at) - asked.since
                who, released = (membership.member, member.client), after is not None
                found.append(SlowestRevocation(*who, time, asked.held_back, released))
    return max(found, key=lambda each: each.duration, default=None)


def _given_up(before: State | None, state: State) -> bool:
    if before is None or before.assigned is None or state.assigned is None:
        return False
    return bool(before.assigned - state.assigned)


def _owners(held: _Held, others: _Held) -> dict[TopicPartition, list[str]]:
    """Return partition -> members that have it in `held` and not in `others`, sorted."""
    found: dict[TopicPartition, list[str]] = {}
    for member in sorted(held):
        for tp in held[member] - others.get(member, frozenset()):
            found.setdefault(tp, []).append(member)
    return found


def _beats(member: MemberTimeline, since: int) -> int:
    """Return how many heartbeats a member sent since `since`, assuming that those of a run are evenly spread."""
    count = 0
    for call in member.calls:
        if call.time > since:
            count += call.count
        elif call.last > since and call.count > 1:
            count += round((call.count - 1) * (call.last - since) / (call.last - call.time))
    return count
