"""The causes of a transition of a classic group: everything that opened or extended it, with evidence.

The coordinator rebalances (``GroupMetadataManager`` and ``GroupCoordinator`` of Kafka) when a member is added or
removed, when the leader rejoins while the group is stable, and when another member rejoins with other metadata. All
others rejoin because the coordinator asks them to.

Members leave because they are closed, because an admin client removes them, or because they have not polled for too
long. Java gives the reason (KIP-800). librdkafka and old clients give none; they left for a slow poll if the process
continues: its connection stays open, and it rejoins at its next poll.
"""

from __future__ import annotations

from captures.analysis.groups.calls import POLL_EXPIRED, Call, Join, Sync
from captures.analysis.groups.classic.generations import LATE, Expiry, Transition, missing_in_next
from captures.analysis.groups.classic.memberships import Departure, Membership, Memberships
from captures.analysis.groups.classic.rejoins import Rejoins
from captures.analysis.groups.context import GroupContext
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, ObservedCoordinator
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.analysis.groups.words import left_in_words, timeout_in_words
from dissectors.error_codes import ErrorCode

_CLOSING = 3_000_000_000
"""ns after a closing member's LeaveGroup within which its connection ends; usually a few ms."""
_BACK = 600_000_000_000
"""ns after a LeaveGroup within which the same connection rejoins if it left for a slow poll."""


class Causes:
    """Finds causes in the transitions of one group."""

    def __init__(self, group: str, memberships: Memberships, context: GroupContext, labels: Labels) -> None:
        self._memberships = memberships
        self._context = context
        self._labels = labels
        self._rejoins = Rejoins(group, memberships, context, labels)

    def of(self, transition: Transition) -> list[Cause]:
        """Return the causes of a transition in the order of time, starting with an unknown one if needed."""
        found = [
            self._left(each, transition.begin)
            for each in transition.departures
            if self._counts(each, transition)
        ]
        found += [self._expired(each, transition) for each in transition.expiries]
        found += self._joined(transition)
        found += self._left_out(transition)
        notified = self._first_notice(transition)
        opened = min((cause.time for cause in found), default=None)
        first = notified if opened is None or (notified is not None and notified[0] < opened) else None
        found += self._rejoins.causes(transition, opened, None if notified is None else notified[0])
        found.sort(key=lambda cause: cause.time)
        found = self._with_moves(found, transition)
        opened = found[0].time if found else None
        slack = LATE if found and found[0].trigger is Trigger.SESSION_TIMEOUT else 0
        if first is not None and (opened is None or first[0] < opened - slack):
            found.insert(0, self._unknown(transition, *first))
        elif not found and transition.generation is not None:
            generation = transition.generation
            begin = min((join.time for join in generation.joins), default=generation.formed)
            found.append(self._unknown(transition, begin, generation.number))
        return found

    def _first_notice(self, transition: Transition) -> tuple[int, int] | None:
        """Return when a member first learned of the transition, and the number of that exchange."""
        if transition.before is None:
            return None
        calls = [
            call
            for member in transition.present
            if (call := self._memberships.of(member).first_notice(transition.begin, transition.end))
            is not None
        ]
        first = min(calls, key=lambda call: call.at, default=None)
        return None if first is None else (max(first.at, transition.begin), first.number)

    def _cause(
        self,
        trigger: Trigger,
        certainty: Certainty,
        time: int,
        member: str,
        sentence: str,
        *evidence: Call | int | None,
        silence: int | None = None,
    ) -> Cause:
        """Return a cause that concerns a member."""
        membership = self._memberships.of(member)
        numbers = [each.number if isinstance(each, Call) else each for each in evidence]
        return Cause(
            trigger=trigger,
            certainty=certainty,
            time=time,
            sentence=sentence,
            member=member,
            instance=membership.instance,
            client=membership.client,
            evidence=tuple(number for number in numbers if number),
            silence=silence,
        )

    # ------------------------------------------------------------ members that leave
    def _left(self, departure: Departure, begin: int) -> Cause:
        """Return a departure as the cause of a rebalance.

        :param begin: earliest start of the rebalance
        """
        membership = self._memberships.of(departure.member)
        trigger, certainty = Trigger.MEMBER_LEFT, Certainty.OBSERVED
        back: Join | None = None
        if departure.by_admin:
            trigger = Trigger.REMOVED_BY_ADMIN
        elif POLL_EXPIRED in departure.reason:
            trigger = Trigger.MAX_POLL_EXCEEDED
        elif not departure.reason and self._stays(departure, membership):
            trigger, certainty = Trigger.MAX_POLL_EXCEEDED, Certainty.POSSIBLE
            back = self._return_of(departure, membership)
        text = left_in_words(self._labels.of(departure.member), departure.reason, trigger, certainty)
        time = max(departure.time, begin)
        return self._cause(trigger, certainty, time, departure.member, text, departure.call, back)

    def _stays(self, departure: Departure, membership: Membership) -> bool:
        """Return whether a process that left without a reason continued: a closing one ends its connections at once."""
        left = departure.call
        # joining polls, and restarts the interval (the rebalance timeout of JoinGroup since KIP-62)
        joined = max((sync.at for sync in membership.calls if isinstance(sync, Sync)), default=None)
        if joined is not None and left.time - joined < (membership.rebalance_timeout or 0):
            return False
        if self._return_of(departure, membership) is not None:
            return True
        if self._context.capture is None or left.end is None or left.time + _CLOSING > self._context.now:
            return False
        ending = self._context.ending(left.connection)
        return ending is None or ending.time > left.time + _CLOSING

    def _return_of(self, departure: Departure, membership: Membership) -> Join | None:
        """Return the JoinGroup with which a process that left without a reason rejoins on the same connection."""
        left = departure.call
        for join in self._memberships.newcomers.get(left.connection, ()):
            if join.member != membership.member and 0 < join.time - left.time < _BACK:
                return join if (join.client, join.host) == (membership.client, membership.host) else None
        return None

    @staticmethod
    def _counts(departure: Departure, transition: Transition) -> bool:
        """Return whether a LeaveGroup removed a member, not one that had only been given an ID."""
        member = departure.member
        if member in transition.present:
            return True
        if not transition.whole and transition.before is None:
            return departure.call.end is not None
        return any(
            join.member == member
            and join.error != ErrorCode.MEMBER_ID_REQUIRED
            and join.time < departure.time
            for join in transition.joins
        )

    def _expired(self, expiry: Expiry, transition: Transition) -> Cause:
        session = self._memberships.session_timeout(self._memberships.of(expiry.member))
        silence, time = expiry.time - expiry.since, max(expiry.time, transition.begin)
        text = timeout_in_words(self._labels.of(expiry.member), silence, session)
        trigger, number = Trigger.SESSION_TIMEOUT, expiry.number
        return self._cause(trigger, Certainty.INFERRED, time, expiry.member, text, number, silence=silence)

    def _left_out(self, transition: Transition) -> list[Cause]:
        """Return causes for members missing in the next generation that neither left nor had their sessions end."""
        generation = transition.generation
        if generation is None or not generation.whole:
            return []
        return [
            self._overdue(membership, transition)
            if membership.seen
            else self._unexplained(
                membership,
                self._beginning(transition),
                ", whose connection was not captured, is no longer a member",
                generation.number,
            )
            for membership in missing_in_next(transition, self._memberships)
        ]

    def _overdue(self, membership: Membership, transition: Transition) -> Cause:
        sign = membership.last_sign(transition.end)
        begin = self._beginning(transition)
        if sign is not None and sign[0] < begin and self._memberships.session_timeout(membership) is None:
            return self._silent(membership, transition.end, *sign)
        timeouts = [self._memberships.of(member).rebalance_timeout or 0 for member in transition.present]
        if transition.end - begin < max(timeouts) - LATE:
            # it neither left nor was silent or late: an admin may have removed it
            shown = membership.refused(ErrorCode.UNKNOWN_MEMBER_ID)
            what = " was removed, and the capture does not show why"
            return self._unexplained(membership, begin, what, shown)
        who = self._labels.of(membership.member)
        notified = membership.first_notice(transition.begin, transition.end)
        refused = membership.refused(ErrorCode.UNKNOWN_MEMBER_ID)
        beats = membership.notices(transition.begin, transition.end)
        going_on = f", though it sent {beats} heartbeats meanwhile" if beats > 1 else ""
        return self._cause(
            Trigger.REBALANCE_TIMEOUT,
            Certainty.INFERRED,
            transition.end,
            membership.member,
            f"{who} did not join in time{going_on}, and the coordinator continued without it",
            notified,
            refused,
        )

    def _silent(self, membership: Membership, time: int, since: int, number: int) -> Cause:
        """Return the cause for a member that fell silent and has an unknown session timeout."""
        text, silence = timeout_in_words(self._labels.of(membership.member), time - since, None), time - since
        trigger, member = Trigger.SESSION_TIMEOUT, membership.member
        return self._cause(trigger, Certainty.POSSIBLE, time, member, text, number, silence=silence)

    def _unexplained(self, membership: Membership, time: int, what: str, shown: Call | int | None) -> Cause:
        """Return the cause for a member that is gone for unknown reasons."""
        sentence = f"{self._labels.of(membership.member)}{what}"
        return self._cause(Trigger.UNKNOWN, Certainty.POSSIBLE, time, membership.member, sentence, shown)

    # ------------------------------------------------------------ members that join
    def _joined(self, transition: Transition) -> list[Cause]:
        found = []
        explained: set[str] = set()
        for join in transition.joins:
            if self._is_new(join, transition) and join.member not in explained:
                explained.add(join.member)
                found.append(self._new(join, transition))
        return found + self._listed(transition, explained)

    def _is_new(self, join: Join, transition: Transition) -> bool:
        """Return whether the coordinator added a member for a JoinGroup."""
        if join.error not in (0, ErrorCode.UNKNOWN_MEMBER_ID) or (join.error and join.asked_as):
            return False
        if join.error or (join.end is None and not join.member):
            return False
        if join.asked_as and join.member in transition.present:
            return False
        if not join.asked_as:
            return True
        # the ID was given before, in a response that asked to rejoin with it (KIP-394)
        given = any(
            other.error == ErrorCode.MEMBER_ID_REQUIRED and other.time <= join.time
            for other in self._memberships.of(join.member).joins
        )
        return given or transition.whole

    def _new(self, join: Join, transition: Transition) -> Cause:
        former = self._former(join, transition)
        who = self._labels.of(join.member) or "a member"
        trigger, evidence = Trigger.MEMBER_JOINED, [join.number]
        sentence = f"{who} joined"
        if former is not None:
            trigger = Trigger.STATIC_MEMBER_RETURNED
            sentence = f"{who} returned (group.instance.id {join.instance})"
            fenced = former.refused(ErrorCode.FENCED_INSTANCE_ID)
            if fenced is not None:
                trigger = Trigger.INSTANCE_FENCED
                sentence = (
                    f"{who} joined with a group.instance.id in use, and the member that had it was fenced"
                )
                evidence.append(fenced.number)
        # if the members before are unknown, one of them may have had the instance ID
        first = transition.generation is not None and transition.generation.id <= 1
        sure = join.instance is None or former is not None or transition.whole or first
        certainty = Certainty.OBSERVED if sure else Certainty.POSSIBLE
        time = max(join.time, transition.begin)
        return self._cause(trigger, certainty, time, join.member, sentence, *evidence)

    def _former(self, join: Join, transition: Transition) -> Membership | None:
        """Return the member that a static member replaces; None if there is none."""
        for member in transition.present:
            membership = self._memberships.of(member)
            if join.instance and membership.instance == join.instance and member != join.member:
                gone = (
                    transition.gone(member, join.time)
                    or membership.refused(ErrorCode.UNKNOWN_MEMBER_ID, join.time) is not None
                )
                return None if gone else membership
        return None

    def _listed(self, transition: Transition, explained: set[str]) -> list[Cause]:
        """Return causes for members in the leader's response whose JoinGroup was not seen."""
        generation = transition.generation
        if generation is None or transition.before is None or not transition.whole or not generation.listed:
            return []
        known = {self._memberships.of(member).instance for member in transition.present} - {None}
        return [
            self._cause(
                Trigger.MEMBER_JOINED,
                Certainty.INFERRED,
                self._beginning(transition),
                member,
                f"{self._labels.of(member)} joined, on a connection that was not captured",
                generation.number,
            )
            for member, instance in generation.listed.items()
            if member not in transition.present and member not in explained and instance not in known
        ]

    # ------------------------------------------------------------ unknown causes
    def _beginning(self, transition: Transition) -> int:
        """Return when a transition was first noticed."""
        notified = self._first_notice(transition)
        times = [join.time for join in transition.joins] + ([notified[0]] if notified is not None else [])
        return max(min(times, default=transition.end), transition.begin)

    def _unknown(self, transition: Transition, time: int, number: int) -> Cause:
        for seen in self._context.coordinators[1:]:
            if transition.begin < seen.time <= transition.end:
                return _moved(seen, Certainty.POSSIBLE, min(seen.time, time))
        return Cause(
            trigger=Trigger.UNKNOWN,
            certainty=Certainty.POSSIBLE,
            time=time,
            sentence="its trigger was not captured",
            evidence=(number,),
        )

    def _with_moves(self, causes: list[Cause], transition: Transition) -> list[Cause]:
        """Return the causes and the group's moves to other coordinators, in the order of time.

        After a move during a round, members restart the round with another broker. A move before it causes no
        rebalance, unless the leader rejoins there because it lost its former coordinator.
        """
        if not causes:
            return causes
        first = causes[0]
        moves = []
        for seen in self._context.coordinators[1:]:
            if first.trigger is Trigger.LEADER_REJOINED and transition.begin < seen.time <= first.time:
                moves.append(_moved(seen, Certainty.INFERRED, seen.time))
            elif first.time <= seen.time <= transition.end and seen.time > transition.begin:
                moves.append(_moved(seen, Certainty.OBSERVED, seen.time))
        return sorted([*moves, *causes], key=lambda cause: cause.time)


def _moved(seen: ObservedCoordinator, certainty: Certainty, time: int) -> Cause:
    return Cause(
        trigger=Trigger.COORDINATOR_MOVED,
        certainty=certainty,
        time=time,
        sentence=f"the group moved to another coordinator, {seen.broker}",
        evidence=(seen.number,),
    )
