"""Members of groups of the newer kinds that the coordinator removed: silent ones, and slow ones.

No message says so. A session timeout, which is a broker setting and in no heartbeat, shows as an epoch bump after a
member fell silent; a member that does not revoke its partitions within its rebalance timeout shows in the same way
after it was asked to. A removed member that returns gets UNKNOWN_MEMBER_ID.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from captures.analysis.groups.calls import Call, ModernHeartbeatRun
from captures.analysis.groups.labels import partitions
from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.modern.members import MemberTimeline, Roster
from captures.analysis.groups.modern.reasons import BumpEvidence, Reason
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.meaning import words
from captures.time_format import span
from dissectors.error_codes import ErrorCode

_SURE = 5
"""Missing heartbeats after which a member is surely gone; the session timeout is never shorter."""
_DEFAULT = 45_000_000_000
"""ns; default of ``group.consumer.session.timeout.ms``, and of those of share and streams groups."""
_ROUND = (10_000_000_000, 5_000_000_000, 1_000_000_000, 100_000_000)
"""ns; usual steps of configured timeouts."""

_UNEXPLAINED = (
    "it did not give up partitions within its rebalance timeout",
    "it was removed by an administrator",
    "the group was deleted",
    "its coordinator lost it",
)
"""Possible reasons for which a member is no longer one."""


class Refusals(msgspec.Struct):
    """Joins that were refused because the instance ID was still in use (UNRELEASED_INSTANCE_ID).

    :ivar known: instance ID -> time and number of the exchange
    """

    known: dict[str, list[tuple[int, int]]] = {}

    def add(self, call: Call) -> None:
        if call.instance:
            self.known.setdefault(call.instance, []).append((call.time, call.number))

    def between(self, instance: str | None, begin: int, end: int) -> tuple[int, ...]:
        """Return the numbers of the refused joins of an instance from `begin` to `end`, both included."""
        return tuple(number for time, number in self.known.get(instance or "", ()) if begin <= time <= end)


class SessionTimeout(msgspec.Struct):
    """The session timeout of a group, as far as it can be inferred.

    :ivar low: lower bound in ns, exclusive
    :ivar high: upper bound in ns; None if unknown
    """

    low: int = 0
    high: int | None = None

    def ended(self, low: int, high: int) -> int:
        """Return after how long a session ended, in ns: the roundest number of seconds within all bounds.

        :param low: ns without a heartbeat after which it had not ended, as far as known
        :param high: ns after which it had ended
        """
        least, most = self._bounds(low, high)
        if least < _DEFAULT <= most:
            return _DEFAULT
        if most - least > most // 2:
            return most  # the bounds are too wide
        rounded = (most // step * step for step in _ROUND)
        return next((known for known in rounded if known > least), most)

    def learn(self, low: int, high: int) -> None:
        """Narrow the bounds with those of a session that did end."""
        self.low, self.high = self._bounds(low, high)

    def _bounds(self, low: int, high: int) -> tuple[int, int]:
        most = high if self.high is None else min(high, self.high)
        least = max(low, self.low)
        # otherwise the setting has changed, or the cause was another
        return (least, most) if least < most else (low, high)


class Removals:
    """Finds members that were removed.

    :param roster: all members that were seen; may grow
    :param calls: calls by member ID, in order, including those after a silence
    """

    def __init__(self, roster: Roster, calls: Mapping[str, Sequence[Call]]) -> None:
        self.refusals = Refusals()
        self._roster = roster
        self._calls = calls
        self._session = SessionTimeout()

    def found(self, shown: BumpEvidence) -> tuple[list[Reason], list[Reason]]:
        """Return members whose removal may explain a bump: those surely gone, and those possibly gone."""
        sure: list[Reason] = []
        perhaps: list[Reason] = []
        for member in self._roster.present:
            if not self._vanishes(member, shown.time):
                continue
            silence = self._silence_of(member, shown.time)
            if (late := self._late(member, shown)) is not None:
                sure.append(late)
            elif silence > member.patience or member.paused is not None:
                is_sure = silence > _SURE * member.pace or bool(_places_of(member) & shown.gained)
                (sure if is_sure else perhaps).append(self.timed_out(member, shown))
        for reasons in (sure, perhaps):  # those that were silent longest must have gone first
            reasons.sort(key=lambda reason: -(reason.silence or 0))
        return sure, perhaps

    def known_gone(self, member: MemberTimeline, shown: BumpEvidence) -> Reason:
        """Return why a client is no longer a member, after the coordinator answered UNKNOWN_MEMBER_ID."""
        late = self._late(member, shown)
        if late is not None:
            return late
        if self._silence_of(member, shown.time) > member.patience:
            return self.timed_out(member, shown)
        text = "was no longer a member, though it had not been silent"
        reason = _gone(member, shown, Trigger.UNKNOWN, shown.time, text)
        reason.certainty, reason.alternatives = Certainty.POSSIBLE, _UNEXPLAINED
        return reason

    def expired(self, lanes: Iterable[MemberTimeline], shown: BumpEvidence) -> Reason | None:
        """Return why the last of `lanes` that did not leave is no longer a member; None if all of them left."""
        alive = [member for member in lanes if member.alive]
        reasons = [self.timed_out(member, shown) for member in alive]
        for reason in reasons:
            self.taken(reason)
        return max(reasons, key=lambda reason: reason.time, default=None)

    def displaced(self, member: MemberTimeline, shown: BumpEvidence) -> list[MemberTimeline]:
        """Return silent members that must have been removed, because another member got their partitions."""
        return [
            other
            for other in self._roster.present
            if other is not member
            and _places_of(other) & shown.gained
            and self._silence_of(other, shown.time) > other.patience
            and self._vanishes(other, shown.time)
        ]

    def _late(self, member: MemberTimeline, shown: BumpEvidence) -> Reason | None:
        """Return the reason if a member did not revoke its partitions within its rebalance timeout; otherwise None."""
        state, timeout = member.state, member.rebalance_timeout
        if state is None or state.since is None or timeout is None or shown.time - state.since < timeout:
            return None
        time = min(max(state.since + timeout, shown.earliest), shown.time)
        held = partitions(state.held_back)
        text = f"did not give up {held} within its rebalance timeout of {span(timeout)} and was removed"
        return _gone(member, shown, Trigger.REBALANCE_TIMEOUT, time, text, state.number)

    def timed_out(self, member: MemberTimeline, shown: BumpEvidence) -> Reason:
        """Return the removal of a silent member as a reason."""
        silence = self._silence_of(member, shown.time)
        last_call = shown.time - silence
        bounds = max(shown.earliest - last_call, 0), silence
        timeout = member.session_timeout
        silence = timeout if timeout is not None and timeout <= silence else self._session.ended(*bounds)
        last = member.last_number(shown.time)
        refused = self.refusals.between(member.instance, last_call, shown.time)
        text, numbers = _beside(member, len(refused)), [*([] if last is None else [last]), *refused]
        reason = _gone(member, shown, Trigger.SESSION_TIMEOUT, last_call + silence, text, *numbers)
        reason.silence, reason.bounds = silence, bounds if timeout is None else None
        return reason

    def taken(self, reason: Reason) -> None:
        """Record that a reason applies: its member is no longer one."""
        if reason.gone and reason.timeline is not None:
            reason.timeline.ends(reason.time, expelled=True)
        if reason.bounds is not None:
            self._session.learn(*reason.bounds)

    def _vanishes(self, member: MemberTimeline, time: int) -> bool:
        """Return whether a client sends no calls as a member after `time`."""
        calls = self._calls.get(member.member, [])
        index = bisect_right(calls, time, key=lambda call: call.time)
        for call in calls[max(index - 1, 0) :]:
            if call.last >= time:
                gone = call.error == ErrorCode.UNKNOWN_MEMBER_ID or (
                    isinstance(call, ModernHeartbeatRun) and call.generation == 0
                )
                return gone and call.time > time
        return True

    @staticmethod
    def _silence_of(member: MemberTimeline, time: int) -> int:
        last_call = member.paused if member.paused is not None else member.silent_since(time)
        return 0 if last_call is None else time - last_call


def _beside(member: MemberTimeline, refused: int) -> str:
    """Return additional facts about a session timeout, in words."""
    clauses = []
    if member.paused is not None:
        clauses.append("it had left for a while (member epoch -2), and did not come back in time")
    if refused:
        were = "was" if refused == 1 else "were"
        clauses.append(
            f"{words.counted(refused, 'join')} with its instance ID {were} refused meanwhile, "
            "because it still counted as a member"
        )
    return "; ".join(clauses)


def _gone(
    member: MemberTimeline, shown: BumpEvidence, trigger: Trigger, time: int, text: str, *numbers: int
) -> Reason:
    """Return the removal of a member as a reason."""
    return Reason(
        trigger=trigger,
        certainty=Certainty.INFERRED,
        time=time,
        text=text,
        timeline=member,
        member=member.member,
        numbers=(*numbers, shown.number),
        gone=True,
    )


def _places_of(member: MemberTimeline) -> frozenset[TopicPartition]:
    return (member.state.assigned if member.state is not None else None) or frozenset()
