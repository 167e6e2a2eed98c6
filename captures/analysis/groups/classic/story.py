"""A round of a classic group as a rebalance: who waited how long, who leads, and which partitions changed hands."""

from __future__ import annotations

from collections.abc import Mapping

from captures.analysis.groups.calls import Join, Sync
from captures.analysis.groups.classic.formations import Formation
from captures.analysis.groups.classic.lives import Life, Lives
from captures.analysis.groups.classic.rounds import Round
from captures.analysis.groups.model import (
    Awaited,
    Cause,
    Certainty,
    Kind,
    Move,
    Place,
    Rebalance,
    Trigger,
    Wait,
)

COOPERATIVE = frozenset({"cooperative-sticky", "stream", "streams", "compatible", "sessioned"})
"""Names of assignors whose members keep what they have: KIP-429 for consumers and Streams, KIP-415 for Connect."""
EAGER = frozenset({"range", "roundrobin", "sticky", "default"})

Holders = dict[Place, str]
"""Partition -> member ID of whom it was assigned to."""


class Stories:
    """Makes rebalances from rounds, in the order of time."""

    def __init__(self, group: str, lives: Lives, now: int) -> None:
        self._group = group
        self._lives = lives
        self._now = now
        self._holders: Holders = {}

    def tell(self, round_: Round, causes: list[Cause]) -> Rebalance:
        """Return the rebalance that a round was.

        :param causes: what led to it; not empty
        """
        rebalance = Rebalance(
            group=self._group,
            kind=Kind.CLASSIC,
            generation=-1,
            before=round_.previous,
            time=causes[0].time,
            causes=causes,
            alternatives=_alternatives(causes),
        )
        if round_.emptied:
            self._empty(rebalance, round_)
        elif round_.unseen:
            rebalance.generation = round_.previous + 1
            rebalance.gone = [member for member in round_.present if round_.gone(member)]
        elif round_.formation is not None:
            self._form(rebalance, round_, round_.formation)
        else:
            self._run(rebalance, round_)
        rebalance.evidence = sorted(
            {number for cause in causes for number in cause.evidence} | {*_numbers(round_)}
        )
        return rebalance

    # ------------------------------------------------------------ rounds that led to something
    def _empty(self, rebalance: Rebalance, round_: Round) -> None:
        rebalance.generation = round_.previous + 1
        rebalance.end = round_.end
        rebalance.emptied = True
        rebalance.size = 0
        rebalance.gone = list(round_.present)
        rebalance.moved = [Move(place, member, "") for place, member in sorted(self._holders.items())]
        self._holders = {}

    def _form(self, rebalance: Rebalance, round_: Round, formation: Formation) -> None:
        rebalance.generation = formation.generation
        rebalance.members = list(formation.members)
        rebalance.size = len(formation.listed) or None
        rebalance.leader, rebalance.protocol = formation.leader, formation.protocol
        rebalance.cooperative = is_cooperative(formation)
        aliases = self._aliases(round_, formation)
        present = {aliases.get(member, member) for member in round_.present}
        new = {cause.member for cause in rebalance.causes if cause.trigger is Trigger.MEMBER_JOINED}
        rebalance.joined = [member for member in formation.members if member in new]
        if round_.before is not None or round_.whole:
            rebalance.joined = [member for member in formation.members if member not in present]
            if formation.whole:
                rebalance.gone = [member for member in present if member not in formation.members]
            else:
                rebalance.gone = [member for member in round_.present if round_.gone(member)]
        rebalance.assigned = dict(formation.assigned)
        self._move(rebalance, aliases)
        syncs = {sync.member: sync for sync in reversed(formation.syncs)}
        rebalance.waits = [
            self._wait(join, syncs.get(join.member), rebalance.time, round_) for join in _answered(formation)
        ]
        rebalance.end = _ended(formation, rebalance)

    def _aliases(self, round_: Round, formation: Formation) -> dict[str, str]:
        """Return former IDs of static members with those that they have in a generation."""
        now = {
            instance: member for member in formation.members if (instance := self._lives.of(member).instance)
        }
        out = {}
        for member in {*round_.present, *self._holders.values()}:
            instance = self._lives.of(member).instance
            if instance in now and member not in formation.members:
                out[member] = now[instance]
        return out

    def _move(self, rebalance: Rebalance, aliases: Mapping[str, str]) -> None:
        if not rebalance.assigned:
            return
        before = {place: aliases.get(member, member) for place, member in self._holders.items()}
        after = {place: member for member, places in rebalance.assigned.items() for place in places}
        # of members whose assignment was not seen, nothing is known to have changed
        known = {*rebalance.assigned, *rebalance.gone}
        for place, member in before.items():
            if place not in after and member not in known:
                after[place] = member
        rebalance.moved = [
            Move(place, before.get(place, ""), after.get(place, ""))
            for place in sorted({*before, *after})
            if before.get(place) != after.get(place)
        ]
        self._holders = after

    def _wait(self, join: Join, sync: Sync | None, begin: int, round_: Round) -> Wait:
        told = self._lives.of(join.member).told(max(round_.begin, begin - 1), join.time)
        asked = max(join.time - begin, 0)
        end = None if sync is None or sync.error else sync.end
        return Wait(
            member=join.member,
            client=join.client,
            told=max(told.at - begin, 0) if told is not None else asked,
            asked=asked,
            join=None if join.end is None else join.end - join.time,
            sync=None if sync is None or sync.end is None else sync.end - sync.time,
            total=None if end is None else end - begin,
        )

    # ------------------------------------------------------------ a round that goes on
    def conclude(self, rebalance: Rebalance, round_: Round) -> None:
        """Say of the last rebalance that its leader has not handed out assignments, if that is so."""
        formation = round_.formation
        if formation is None or rebalance.generation != formation.generation or rebalance.emptied:
            return
        leader = self._lives.of(formation.leader)
        handed_out = any(sync.end is not None for sync in formation.syncs)
        # heartbeats with a generation are answered without an error once it is stable
        stable = any(
            self._lives.of(member).beat_well(formation.generation, formation.formed)
            for member in formation.heard
        )
        if not formation.joins or handed_out or stable or not leader.seen:
            return
        rebalance.running, rebalance.end = True, None
        timeout = self._deadline(formation.formed, [*formation.members])
        rebalance.awaited = [
            Awaited(
                member=leader.member,
                client=leader.client,
                since=formation.formed,
                deadline=self._given_up(leader, timeout),
            )
        ]

    def _run(self, rebalance: Rebalance, round_: Round) -> None:
        left = [member for member in round_.present if not round_.gone(member)]
        asked = {join.member for join in round_.joins if join.end is None or not join.error}
        rebalance.gone = [member for member in round_.present if round_.gone(member)]
        waiting = [join for join in round_.joins if join.end is None]
        if not waiting and not any(self._lives_on(member, rebalance.time) for member in left):
            # whoever is left was not captured, so that nothing can be said of how it went on
            rebalance.generation = round_.previous + 1 if round_.previous >= 0 else -1
            return
        rebalance.running = True
        timeout = self._deadline(rebalance.time, [*left, *asked])
        for member in left:
            if member in asked:
                continue
            life = self._lives.of(member)
            told = life.told(rebalance.time - 1, self._now)
            rebalance.awaited.append(
                Awaited(
                    member=member,
                    client=life.client,
                    since=rebalance.time if told is None else max(told.at, rebalance.time),
                    beats=life.beats_told(rebalance.time - 1, self._now),
                    deadline=self._given_up(life, timeout),
                )
            )
        rebalance.waits = [
            Wait(member=join.member, client=join.client, asked=max(join.time - rebalance.time, 0))
            for join in waiting
        ]

    def _lives_on(self, member: str, time: int) -> bool:
        """Whether a member was heard of not longer than its session before a moment, or after it."""
        life = self._lives.of(member)
        sign = life.last_sign(self._now)
        return sign is not None and sign[0] + (life.session_timeout or 0) >= time

    def _given_up(self, life: Life, timeout: int | None) -> int | None:
        """Return when the coordinator goes on without a member: at the timeout, or when a silent one's session ends."""
        sign = life.last_sign(self._now)
        if sign is None or life.session_timeout is None:
            return timeout
        patience = life.session_timeout // 2 if (interval := life.interval()) is None else 2 * interval
        if self._now - sign[0] < patience:
            return timeout
        ends = sign[0] + life.session_timeout
        return ends if timeout is None else min(ends, timeout)

    def _deadline(self, begin: int, members: list[str]) -> int | None:
        """Return when the coordinator goes on without those that have not joined: after the longest timeout of all."""
        timeouts = [self._lives.of(member).rebalance_timeout for member in members]
        known = [timeout for timeout in timeouts if timeout is not None]
        return begin + max(known) if known else None


def _answered(formation: Formation) -> list[Join]:
    """Return the JoinGroups that made a generation, the last one of each member."""
    return list({join.member: join for join in formation.joins}.values())


def _ended(formation: Formation, rebalance: Rebalance) -> int | None:
    """Return when all members that were seen had their assignments; None if one was not seen to get it."""
    ends: list[int] = []
    for wait in rebalance.waits:
        if wait.total is None:
            return None
        ends.append(rebalance.time + wait.total)
    return max(ends, default=None)


def is_cooperative(formation: Formation) -> bool | None:
    """Return whether members keep what they have while a rebalance goes on; None if it is not known."""
    if formation.protocol in COOPERATIVE:
        return True
    if formation.protocol in EAGER:
        return False
    told = [*formation.subscriptions.values()]
    told += [join.subscription for join in formation.joins if join.subscription is not None]
    if told and all(each.owned is None for each in told):
        return False  # members of a version that does not tell what they own cannot keep it (KIP-429)
    # who revokes everything first owns nothing when it joins
    return True if any(each.owned for each in told) else None


def _numbers(round_: Round) -> list[int]:
    formation = round_.formation
    if formation is None:
        return [join.number for join in round_.joins if join.end is None]
    calls: list[Join | Sync] = [*formation.joins, *formation.syncs]
    return [call.number for call in calls]


def _alternatives(causes: list[Cause]) -> list[str]:
    out: dict[str, None] = {}
    for cause in causes:
        if cause.trigger is Trigger.SESSION_TIMEOUT and cause.certainty is Certainty.POSSIBLE:
            out["it did not join in time"] = None
        elif cause.trigger is Trigger.MAX_POLL_EXCEEDED and cause.certainty is Certainty.POSSIBLE:
            out["it unsubscribed from its topics"] = None
        elif cause.trigger is Trigger.MEMBER_JOINED and cause.certainty is Certainty.POSSIBLE:
            out["a static member returned, or took the place of another with its instance ID"] = None
        elif cause.trigger is Trigger.COORDINATOR_MOVED:
            out["a member joined or left that was not captured"] = None
        elif cause.trigger is Trigger.UNKNOWN and cause.member:
            out |= dict.fromkeys(
                ("it left", "its session ended", "it did not join in time", "an admin client removed it")
            )
        elif cause.trigger is Trigger.UNKNOWN:
            out["a member joined, left or fell silent whose connection was not captured"] = None
            out["the leader joined again"] = None
    return list(out)
