"""How a group of the newer kinds settles after an epoch bump: who gives what up, who gets it, and when it is over.

Members of consumer and streams groups are brought to the new epoch one by one, each by its own heartbeats: one that has
to give partitions up stays in its epoch until it said that it did, and what it gave up is given to the next owner by a
heartbeat after that (KIP-848, reconciliation). Members of share groups have nothing to give up: partitions are shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from captures.analysis.groups.calls import Run
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Awaited, Cause, Kind, Move, Place, Rebalance, Wait
from captures.analysis.groups.modern.counting import Bump
from captures.analysis.groups.modern.epochs import Epochs
from captures.analysis.groups.modern.lanes import Lane, Life, State
from captures.analysis.groups.modern.reasons import Reason
from captures.analysis.groups.modern.seen import HANDED_ON, Seen
from captures.analysis.groups.words import timeout_in_words
from captures.meaning import words

_Held = dict[str, frozenset[Place]]


@dataclass(frozen=True, slots=True)
class _Settled:
    """What a bump came to for one member.

    :ivar told: the state by which it first knew of it; None if it did not
    :ivar done: the state in which it had its assignment; None if it did not get so far
    """

    told: State | None
    done: State | None


class Settling:
    """Makes stories of bumps.

    :param labels: of the members
    :param seen: is shown every epoch, and tells who was not captured
    """

    def __init__(self, group: str, epochs: Epochs, labels: Labels, seen: Seen, now: int) -> None:
        self._group = group
        self._epochs = epochs
        self._labels = labels
        self._seen = seen
        self._now = now

    def stories(self) -> list[Rebalance]:
        """Return the bumps as rebalances, in the order of time."""
        bumps = sorted(self._epochs.counter.counting.bumps, key=lambda bump: bump.time)
        return [self._story(bump, after) for bump, after in zip_longest(bumps, bumps[1:])]

    def _story(self, bump: Bump, following: Bump | None) -> Rebalance:
        members = self._members(bump.time)
        until = self._now if following is None else following.time
        settled = {life.member: self._settled(lane, bump, until) for lane, life in members}
        seen = [state.done for state in settled.values()]
        finished = [state.at for state in seen if state is not None]
        end = max(finished, default=bump.time) if len(finished) == len(seen) else None
        held = self._held(members, until)
        self._seen.look(bump, (lane for lane, _ in members), held.values(), until, settled=end is not None)
        told = Rebalance(
            group=self._group,
            kind=self._epochs.kind,
            generation=bump.generation,
            before=bump.before,
            time=bump.time,
            end=end,
            emptied=not members and self._seen.whole,
            causes=[self.cause(reason) for reason in bump.reasons],
            alternatives=[text for reason in bump.reasons[:1] for text in reason.alternatives],
            members=[life.member for _, life in members],
            size=len(members) if self._seen.whole else None,
            joined=[reason.member for reason in bump.reasons if reason.joined],
            gone=[reason.member for reason in bump.reasons if reason.gone],
            protocol=next((lane.assignor for lane, _ in members if lane.assignor), ""),
            cooperative=True,
            moved=self._moved(bump.time, held),
            assigned=held,
            waits=[self._wait(lane, life, bump, settled[life.member]) for lane, life in members],
        )
        if following is None:
            told.awaited = self._awaited(bump, members, settled)
            told.running = bool(told.awaited) or self._in_between(told, members)
            if told.running:
                told.end = None
        told.evidence = self._evidence(bump, settled.values())
        return told

    def _members(self, time: int) -> list[tuple[Lane, Life]]:
        """Return who was a member right after a moment."""
        found = ((lane, lane.lived_at(time)) for lane in self._epochs.lanes)
        return [(lane, life) for lane, life in found if life is not None]

    def _settled(self, lane: Lane, bump: Bump, until: int) -> _Settled:
        told: State | None = None
        done: State | None = None
        before = lane.state_at(bump.time)
        for state in lane.states_after(bump.time):
            less = _given_up(before, state)
            if state.epoch > bump.generation or (less and done is not None and state.at >= until):
                break
            if told is None and (less or state.epoch == bump.generation):
                told = state
            if state.epoch == bump.generation and (done is None or state.assigned != done.assigned):
                done = state
            before = state
        return _Settled(told, done)

    @staticmethod
    def _held(members: Iterable[tuple[Lane, Life]], time: int) -> _Held:
        found: _Held = {}
        for lane, life in members:
            state = lane.state_at(time)
            if state is not None and state.held is not None:
                found[life.member] = state.held
        return found

    def _moved(self, time: int, after: _Held) -> list[Move]:
        members = self._members(time - 1)
        before = self._held(members, time)
        # of whom it is not known what they had, it is not known either what they got
        vague = {life.member for _, life in members if life.member not in before}
        gave, took = _owners(before, after), _owners(after, before)
        moved: list[Move] = []
        for place in sorted(gave.keys() | took.keys()):
            givers, takers = gave.get(place, []), took.get(place, [])
            if givers or not vague.issuperset(takers):
                moved += [Move(place, *ends) for ends in zip_longest(givers, takers, fillvalue="")]
        return moved

    @staticmethod
    def _wait(lane: Lane, life: Life, bump: Bump, settled: _Settled) -> Wait:
        return Wait(
            member=life.member,
            client=lane.client,
            told=None if settled.told is None else max(settled.told.at - bump.time, 0),
            total=None if settled.done is None else max(settled.done.at - bump.time, 0),
        )

    # ------------------------------------------------------------ what has not ended
    def _awaited(
        self, bump: Bump, members: list[tuple[Lane, Life]], settled: dict[str, _Settled]
    ) -> list[Awaited]:
        found: list[Awaited] = []
        for lane, life in members:
            state = lane.state
            held_up = state is not None and state.since is not None
            if lane.paused is None and (settled[life.member].done is None or held_up):
                found.append(self._waiting(lane, life, bump))
        return found

    def _in_between(self, told: Rebalance, members: list[tuple[Lane, Life]]) -> bool:
        """Whether partitions that were given up are with nobody for now: heartbeats bring them to their owners."""
        if self._epochs.kind is Kind.SHARE or not members:
            return False
        if not any(move.before and not move.after for move in told.moved):
            return False
        latest = max(lane.changed_before(self._now) for lane, _ in members)
        return self._now - max(latest, told.time) <= HANDED_ON * max(lane.pace for lane, _ in members)

    def _waiting(self, lane: Lane, life: Life, bump: Bump) -> Awaited:
        state = lane.state
        since = state.since if state is not None and state.since is not None else None
        if since is None:
            return Awaited(life.member, lane.client, bump.time)
        timeout = lane.rebalance_timeout
        return Awaited(
            life.member,
            lane.client,
            since,
            beats=_beats(lane, since),
            deadline=None if timeout is None else since + timeout,
        )

    # ------------------------------------------------------------ words
    def cause(self, reason: Reason) -> Cause:
        """Return a reason in words."""
        lane = reason.lane
        return Cause(
            trigger=reason.trigger,
            certainty=reason.certainty,
            time=reason.time,
            sentence=self._sentence(reason),
            member=reason.member,
            instance=None if lane is None else lane.instance,
            client="" if lane is None else lane.client,
            evidence=tuple(sorted(set(reason.numbers))),
            silence=reason.silence,
        )

    def _sentence(self, reason: Reason) -> str:
        lane = reason.lane
        if lane is None:
            return words.line(reason.text)
        who = self._labels.of(reason.member, lane.client)
        if reason.silence is None:
            return words.line(f"{who} {reason.text}")
        said = timeout_in_words(who, reason.silence, lane.session_timeout)
        return words.line("; ".join([said, reason.text] if reason.text else [said]))

    @staticmethod
    def _evidence(bump: Bump, settled: Iterable[_Settled]) -> list[int]:
        numbers = {number for reason in bump.reasons for number in reason.numbers}
        numbers |= {state.number for each in settled for state in (each.told, each.done) if state is not None}
        return sorted(numbers)


def _given_up(before: State | None, state: State) -> bool:
    if before is None or before.assigned is None or state.assigned is None:
        return False
    return bool(before.assigned - state.assigned)


def _owners(held: _Held, others: _Held) -> dict[Place, list[str]]:
    """Return who has a partition in one state of the group and not in another, members in order."""
    found: dict[Place, list[str]] = {}
    for member in sorted(held):
        for place in held[member] - others.get(member, frozenset()):
            found.setdefault(place, []).append(member)
    return found


def _beats(lane: Lane, since: int) -> int:
    """Return how many heartbeats a member sent since a moment; those of a run are counted as evenly spread."""
    count = 0
    for call in lane.calls:
        if call.time > since:
            count += call.count if isinstance(call, Run) else 1
        elif isinstance(call, Run) and call.last > since and call.count > 1:
            count += round((call.count - 1) * (call.last - since) / (call.last - call.time))
    return count
