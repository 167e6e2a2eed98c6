"""What led to a round of a classic group: each thing that opened it or joined in, with the exchanges that show it.

The coordinator rebalances (``GroupMetadataManager`` and ``GroupCoordinator`` of Kafka) when a member is added or
removed, when the leader joins again while the group is stable, and when another member does with other metadata. What
else joins again in a round does so because it was told to.
"""

from __future__ import annotations

from captures.analysis.groups.calls import Join
from captures.analysis.groups.classic.formations import Formation
from captures.analysis.groups.classic.leaving import Leaving
from captures.analysis.groups.classic.lives import (
    FENCED_INSTANCE_ID,
    MEMBER_ID_REQUIRED,
    UNKNOWN_MEMBER_ID,
    Departure,
    Life,
    Lives,
)
from captures.analysis.groups.classic.rejoins import Rejoins
from captures.analysis.groups.classic.rounds import LATE, Expiry, Round, members_of
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, Certainty, CoordinatorSeen, Trigger
from captures.analysis.groups.surroundings import Surroundings
from captures.analysis.groups.words import timeout_in_words


class Causes:
    """Finds causes in the rounds of one group."""

    def __init__(self, lives: Lives, scene: Surroundings, labels: Labels) -> None:
        self._lives = lives
        self._scene = scene
        self._labels = labels
        self._leaving = Leaving(lives, scene, labels)
        self._rejoins = Rejoins(lives, scene, labels)

    def of(self, round_: Round) -> list[Cause]:
        """Return the causes of a round in the order of time; if nothing tells what opened it, that comes first."""
        found = [
            self._leaving.cause(each, round_.begin)
            for each in round_.departures
            if self._counts(each, round_)
        ]
        found += [self._expired(each, round_) for each in round_.expiries]
        found += self._joined(round_)
        found += self._left_out(round_)
        told = self._told(round_)
        opened = min((cause.time for cause in found), default=None)
        first = told if opened is None or (told is not None and told[0] < opened) else None
        found += self._rejoins.causes(round_, opened, None if told is None else told[0])
        found.sort(key=lambda cause: cause.time)
        found = self._with_moves(found, round_)
        opened = found[0].time if found else None
        if first is not None and (opened is None or first[0] < opened - self._slack(found[0], round_)):
            found.insert(0, self._unknown(round_, *first))
        elif not found and round_.formation is not None:
            formation = round_.formation
            begin = min((join.time for join in formation.joins), default=formation.formed)
            found.append(self._unknown(round_, begin, formation.number))
        return found

    @staticmethod
    def _slack(cause: Cause, round_: Round) -> int:
        return LATE if cause.trigger is Trigger.SESSION_TIMEOUT else 0

    def _told(self, round_: Round) -> tuple[int, int] | None:
        """Return when a member was first told of the round, and the number of that exchange."""
        if round_.before is None:
            return None
        calls = [
            call
            for member in round_.present
            if (call := self._lives.of(member).told(round_.begin, round_.end)) is not None
        ]
        first = min(calls, key=lambda call: call.at, default=None)
        return None if first is None else (max(first.at, round_.begin), first.number)

    # ------------------------------------------------------------ members that go
    @staticmethod
    def _counts(departure: Departure, round_: Round) -> bool:
        """Whether a LeaveGroup removed a member, not one that had only been given an ID."""
        member = departure.member
        if member in round_.present:
            return True
        if not round_.whole and round_.before is None:
            return departure.call.end is not None
        return any(
            join.member == member and join.error != MEMBER_ID_REQUIRED and join.time < departure.time
            for join in round_.joins
        )

    def _expired(self, expiry: Expiry, round_: Round) -> Cause:
        life = self._lives.of(expiry.member)
        session = self._lives.session_timeout(life)
        return Cause(
            trigger=Trigger.SESSION_TIMEOUT,
            certainty=Certainty.INFERRED,
            time=max(expiry.time, round_.begin),
            sentence=timeout_in_words(self._labels.of(expiry.member), expiry.time - expiry.since, session),
            member=expiry.member,
            instance=life.instance,
            client=life.client,
            evidence=(expiry.number,) if expiry.number else (),
            silence=expiry.time - expiry.since,
        )

    def _left_out(self, round_: Round) -> list[Cause]:
        """Members that are not among the next, though they did not leave and their sessions had not ended."""
        formation = round_.formation
        if formation is None or not formation.whole:
            return []
        stayed = members_of(formation, self._lives)
        found = []
        for member in round_.present:
            life = self._lives.of(member)
            if round_.gone(member) or member in stayed or life.instance in stayed:
                continue
            found.append(
                self._overdue(life, round_) if life.seen else self._vanished(life, formation, round_)
            )
        return found

    def _overdue(self, life: Life, round_: Round) -> Cause:
        sign = life.last_sign(round_.end)
        begin = self._beginning(round_)
        if sign is not None and sign[0] < begin and self._lives.session_timeout(life) is None:
            return self._silent(life, round_.end, *sign)
        timeouts = [self._lives.of(member).rebalance_timeout or 0 for member in round_.present]
        if round_.end - begin < max(timeouts) - LATE:
            return self._removed(life, begin)
        who = self._labels.of(life.member)
        told = life.told(round_.begin, round_.end)
        refused = life.refused(UNKNOWN_MEMBER_ID)
        beats = life.beats_told(round_.begin, round_.end)
        going_on = f", though it sent {beats} heartbeats meanwhile" if beats > 1 else ""
        return Cause(
            trigger=Trigger.REBALANCE_TIMEOUT,
            certainty=Certainty.INFERRED,
            time=round_.end,
            sentence=f"{who} did not join in time{going_on}, and the coordinator went on without it",
            member=life.member,
            instance=life.instance,
            client=life.client,
            evidence=tuple(call.number for call in (told, refused) if call is not None),
        )

    def _removed(self, life: Life, time: int) -> Cause:
        """Return that a member is gone which had neither left nor was silent or late: an admin may have removed it."""
        refused = life.refused(UNKNOWN_MEMBER_ID)
        return Cause(
            trigger=Trigger.UNKNOWN,
            certainty=Certainty.POSSIBLE,
            time=time,
            sentence=f"{self._labels.of(life.member)} was removed, and it was not captured why",
            member=life.member,
            instance=life.instance,
            client=life.client,
            evidence=(refused.number,) if refused is not None else (),
        )

    def _silent(self, life: Life, time: int, since: int, number: int) -> Cause:
        """Return that a member fell silent whose session timeout is not known."""
        return Cause(
            trigger=Trigger.SESSION_TIMEOUT,
            certainty=Certainty.POSSIBLE,
            time=time,
            sentence=timeout_in_words(self._labels.of(life.member), time - since, None),
            member=life.member,
            instance=life.instance,
            client=life.client,
            evidence=(number,),
            silence=time - since,
        )

    def _vanished(self, life: Life, formation: Formation, round_: Round) -> Cause:
        who = self._labels.of(life.member)
        return Cause(
            trigger=Trigger.UNKNOWN,
            certainty=Certainty.POSSIBLE,
            time=self._beginning(round_),
            sentence=f"{who}, whose connection was not captured, is not among the members any more",
            member=life.member,
            instance=life.instance,
            client=life.client,
            evidence=(formation.number,),
        )

    # ------------------------------------------------------------ members that come
    def _joined(self, round_: Round) -> list[Cause]:
        found = []
        told: set[str] = set()
        for join in round_.joins:
            if self._is_new(join, round_) and join.member not in told:
                told.add(join.member)
                found.append(self._new(join, round_))
        return found + self._listed(round_, told)

    def _is_new(self, join: Join, round_: Round) -> bool:
        """Whether the coordinator added a member for a JoinGroup."""
        if join.error not in (0, UNKNOWN_MEMBER_ID) or (join.error and join.asked_as):
            return False
        if join.error or (join.end is None and not join.member):
            return False
        if join.asked_as and join.member in round_.present:
            return False
        if not join.asked_as:
            return True
        # the ID was given before, by an answer that asked to come again with it (KIP-394)
        given = any(
            other.error == MEMBER_ID_REQUIRED and other.time <= join.time
            for other in self._lives.of(join.member).joins
        )
        return given or round_.whole

    def _new(self, join: Join, round_: Round) -> Cause:
        former = self._former(join, round_)
        life = self._lives.of(join.member)
        who = self._labels.of(join.member)
        trigger, evidence = Trigger.MEMBER_JOINED, [join.number]
        sentence = f"{who} joined"
        if former is not None:
            trigger = Trigger.STATIC_MEMBER_RETURNED
            sentence = f"{who} returned (group.instance.id {join.instance})"
            fenced = former.refused(FENCED_INSTANCE_ID)
            if fenced is not None:
                trigger = Trigger.INSTANCE_FENCED
                sentence = (
                    f"{who} joined with a group.instance.id in use, and the member that had it was fenced"
                )
                evidence.append(fenced.number)
        # where the members before are not known, one of them may have had the instance ID
        first = round_.formation is not None and round_.formation.generation <= 1
        sure = join.instance is None or former is not None or round_.whole or first
        return Cause(
            trigger=trigger,
            certainty=Certainty.OBSERVED if sure else Certainty.POSSIBLE,
            time=max(join.time, round_.begin),
            sentence=sentence,
            member=join.member,
            instance=life.instance,
            client=life.client,
            evidence=tuple(evidence),
        )

    def _former(self, join: Join, round_: Round) -> Life | None:
        """Return the member whose place a static one takes."""
        for member in round_.present:
            life = self._lives.of(member)
            if join.instance and life.instance == join.instance and member != join.member:
                gone = (
                    round_.gone(member, join.time) or life.refused(UNKNOWN_MEMBER_ID, join.time) is not None
                )
                return None if gone else life
        return None

    def _listed(self, round_: Round, told: set[str]) -> list[Cause]:
        """Members that the leader was told of, and whose JoinGroup was not seen."""
        formation = round_.formation
        if formation is None or round_.before is None or not round_.whole or not formation.listed:
            return []
        found = []
        known = {self._lives.of(member).instance for member in round_.present} - {None}
        for member, instance in formation.listed.items():
            if member in round_.present or member in told or instance in known:
                continue
            life = self._lives.of(member)
            found.append(
                Cause(
                    trigger=Trigger.MEMBER_JOINED,
                    certainty=Certainty.INFERRED,
                    time=self._beginning(round_),
                    sentence=f"{self._labels.of(member)} joined, on a connection that was not captured",
                    member=member,
                    instance=instance,
                    client=life.client,
                    evidence=(formation.number,),
                )
            )
        return found

    # ------------------------------------------------------------ what is not known
    def _beginning(self, round_: Round) -> int:
        """Return when a round was first noticed."""
        told = self._told(round_)
        times = [join.time for join in round_.joins] + ([told[0]] if told is not None else [])
        return max(min(times, default=round_.end), round_.begin)

    def _unknown(self, round_: Round, time: int, number: int) -> Cause:
        for seen in self._scene.coordinators[1:]:
            if round_.begin < seen.time <= round_.end:
                return _moved(seen, Certainty.POSSIBLE, min(seen.time, time))
        return Cause(
            trigger=Trigger.UNKNOWN,
            certainty=Certainty.POSSIBLE,
            time=time,
            sentence="what began it was not captured",
            evidence=(number,),
        )

    def _with_moves(self, causes: list[Cause], round_: Round) -> list[Cause]:
        """Return the causes with the moves of the group to other coordinators, in the order of time.

        A move in a round makes the members begin it anew with another broker. One before makes no rebalance, unless the
        leader joins there again, having lost its former coordinator.
        """
        if not causes:
            return causes
        first = causes[0]
        moves = []
        for seen in self._scene.coordinators[1:]:
            if first.trigger is Trigger.LEADER_REJOINED and round_.begin < seen.time <= first.time:
                moves.append(_moved(seen, Certainty.INFERRED, seen.time))
            elif first.time <= seen.time <= round_.end and seen.time > round_.begin:
                moves.append(_moved(seen, Certainty.OBSERVED, seen.time))
        return sorted([*moves, *causes], key=lambda cause: cause.time)


def _moved(seen: CoordinatorSeen, certainty: Certainty, time: int) -> Cause:
    return Cause(
        trigger=Trigger.COORDINATOR_MOVED,
        certainty=certainty,
        time=time,
        sentence=f"the group moved to another coordinator, {seen.broker}",
        evidence=(seen.number,),
    )
