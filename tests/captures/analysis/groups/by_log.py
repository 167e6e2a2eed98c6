"""Rebalances of classic groups from the coordinator's log (``GroupMetadataManager``, Kafka 3.9 and 4.x).

A round begins with "Preparing to rebalance", with the reason that opened it, and ends with "Stabilized" or "is now
empty". Other causes between the two joined the round. If a group is upgraded to KIP-848 for a while, the epoch of the
upgrade also counts as a round. Unknown lines are an error, so that nothing is overlooked.
"""

from __future__ import annotations

import re

from captures.analysis.groups.vocabulary import TimeoutCause, Trigger
from tests.captures.analysis.groups.truth import ExpectedRebalance, Truth, TruthEvent, is_slow, said, silenced

_PREPARING = re.compile(
    r"Preparing to rebalance group \S+ in state \w+ with old generation (\d+) \(reason: (.*)\)\.$"
)
_STABLE = re.compile(r"Stabilized group \S+ generation (\d+) with (\d+) members")
_EMPTY = re.compile(r"Group \S+ with generation (\d+) is now empty")
_JOINS = re.compile(
    r"Pending dynamic member with id (\S+) joins group|Created a new member id (\S+) for this member and"
)
_LEFT = re.compile(r"Member (\S+) has left group through explicit `LeaveGroup` request; client reason: (.*)")
_FAILED = re.compile(r"Member (\S+) in group \S+ has failed, removing it from the group")
_OVERDUE = re.compile(r"Group \S+ removed dynamic members who haven't joined: \[(.*)\]")
_UPGRADES = re.compile(r"Member (\S+) joins the consumer group using the consumer protocol")
_DOWNGRADES = re.compile(r"Member (\S+) left the consumer group")
_BUMPED = re.compile(r"Bumped group epoch to (\d+) ")
_LOADED = re.compile(r"Loaded classic group \S+ with \d+ members")
_SILENT = re.compile(
    r"requesting the member to rejoin with this id|Assignment received from leader|Replacing previously mapped member|"
    r"Unload(ing|ed) group metadata|Converted the (classic|consumer) group to|using the classic protocol|"
    r"Computed a new target assignment"
)

_ADDING = re.compile(r"Adding new member (\S+) with group instance id \S+; client reason: ")
_EXPIRED = re.compile(r"removing member (\S+) on heartbeat expiration")
_LEAVING = re.compile(r"explicit `LeaveGroup` request for \(\S*\) members")
_RETURNING = re.compile(r"Group's selectedProtocol will change because static member (\S+) with instance id")
_AGAIN = re.compile(
    r"(?:Leader|Updating metadata for member) (\S+) (?:re-joining group )?during Stable; client reason: (.*)"
)

_TOLD = {"subscribe": Trigger.SUBSCRIPTION_CHANGED, "rejoin": Trigger.LEADER_REJOINED}
"""What an application was told to do; librdkafka gives no reason, and a reason can be any text."""
_UUID = 37
"""length of the UUID at the end of a member ID, and of the hyphen before it"""
_SAID = {
    "need to revoke partitions and re-join": Trigger.COOPERATIVE_FOLLOW_UP,
    "after revoking what we lost from a rebalance": Trigger.COOPERATIVE_FOLLOW_UP,
    # of Streams, whose internal topics were created: ConsumerCoordinator.rejoinNeededOrPending
    "cached metadata has changed": Trigger.PARTITIONS_CHANGED,
    "subscription has changed": Trigger.SUBSCRIPTION_CHANGED,
    "not provided": Trigger.LEADER_REJOINED,
}
"""Reasons of members that rejoin without need, in the words of Java and franz-go."""
_FAILED_BEFORE = "rebalance failed due to"
"""Prefix of Java's reason for a rejoin after a failed attempt."""


def rebalances(truth: Truth) -> list[ExpectedRebalance]:
    """Return the rebalances that the coordinator logged."""
    return _LogReader(truth).all()


class _LogReader:
    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._found: list[ExpectedRebalance] = []
        self._causes: list[TruthEvent] = []
        self._begun: float | None = None
        self._latest = 0.0
        self._loaded = 0.0
        self._perhaps: list[TruthEvent] = []

    def all(self) -> list[ExpectedRebalance]:
        ends = [end for time, line in self._truth.log if (end := self._line(time, line)) is not None]
        if self._causes and self._begun is not None:
            self._found.append(
                ExpectedRebalance(
                    generation=None,
                    causes=self._causes,
                    earliest=self._begun,
                    latest=self._begun,
                    running=True,
                )
            )
        self._listeners(ends)
        return self._found

    def _line(self, time: float, line: str) -> float | None:
        """Process a line; return the time if it ends a round."""
        if match := _PREPARING.search(line):
            self._prepared(time, match[2])
        elif _LOADED.search(line):
            self._loaded = time
        elif match := _JOINS.search(line):
            self._join_in(self._happened(Trigger.MEMBER_JOINED, match[1] or match[2], time))
        elif match := _LEFT.search(line):
            self._join_in(self._leave(match[1], match[2], time))
        elif match := _FAILED.search(line):
            self._join_in(self._happened(Trigger.SESSION_TIMEOUT, match[1], time))
        elif match := _OVERDUE.search(line):
            for member in match[1].split(", "):
                self._join_in(self._happened(Trigger.REBALANCE_TIMEOUT, member, time))
        elif match := _STABLE.search(line):
            return self._ended(time, int(match[1]), int(match[2]))
        elif match := _EMPTY.search(line):
            return self._ended(time, int(match[1]), 0)
        elif match := _UPGRADES.search(line):
            self._begun = self._latest = time
            self._causes = [self._of_latest(Trigger.PROTOCOL_UPGRADED, match[1], time)]
        elif match := _DOWNGRADES.search(line):
            self._causes = [self._of_latest(Trigger.PROTOCOL_DOWNGRADED, match[1], time)]
        elif match := _BUMPED.search(line):
            return self._ended(time, int(match[1]), (self._found[-1].size or 0) + 1)
        else:
            assert _SILENT.search(line), f"unknown line: {line}"
        return None

    def _ended(self, time: float, generation: int, size: int) -> float:
        assert self._begun is not None, f"generation {generation} out of nothing"
        self._found.append(
            ExpectedRebalance(
                generation=generation,
                causes=self._causes,
                perhaps=self._perhaps,
                # in a round that began with one coordinator and ended with another, either cause may come first
                openers=sum(cause.trigger is Trigger.COORDINATOR_MOVED for cause in self._causes) + 1,
                earliest=self._begun,
                latest=self._latest,
                size=size,
                emptied=size == 0,
            )
        )
        self._causes, self._perhaps, self._begun = [], [], None
        return time

    def _prepared(self, time: float, reason: str) -> None:
        """Begin a round; or continue one whose coordinator is gone, because its members rejoin elsewhere."""
        moved = time - self._loaded < self._truth.session_timeout
        if moved and self._begun is not None:
            # the new coordinator knows neither the round nor members without an assignment
            self._causes.append(TruthEvent(trigger=Trigger.COORDINATOR_MOVED))
            self._latest = time
            return
        self._begun = self._latest = time
        self._opened(time, reason)
        if moved:
            # members that lost their coordinator for too long join anew
            self._perhaps = [TruthEvent(trigger=Trigger.COORDINATOR_MOVED)]

    def _opened(self, time: float, reason: str) -> None:
        """Put the cause in a reason before all earlier causes."""
        if match := _ADDING.search(reason):
            opener = self._happened(Trigger.MEMBER_JOINED, match[1], time)
        elif match := _EXPIRED.search(reason):
            opener = self._happened(Trigger.SESSION_TIMEOUT, match[1], time)
        elif _LEAVING.search(reason) or "Downgrade group" in reason:
            opener = self._causes[-1]
        elif match := _RETURNING.search(reason):
            opener = self._returns(match[1], time)
        else:
            match = _AGAIN.search(reason)
            assert match, f"unknown reason: {reason}"
            follows = reason.startswith("Updating metadata")
            opener = self._happened(self._again(match[1], match[2], time, follows=follows), match[1], time)
        self._causes = [opener, *(each for each in self._causes if each.member != opener.member)]

    def _returns(self, member: str, time: float) -> TruthEvent:
        """Return that a static member returned, or that another one replaced a live one."""
        returned = self._happened(Trigger.STATIC_MEMBER_RETURNED, member, time)
        former = self._truth.of_instance(member[:-_UUID], time, place=1)
        if former in returned.who or not self._truth.memberships(former, time):
            return returned
        return TruthEvent(trigger=Trigger.INSTANCE_FENCED, who=returned.who | {former})

    def _again(self, member: str, reason: str, time: float, *, follows: bool) -> Trigger:
        """Return why a member rejoined: what its application was told to do, or else its own reason.

        :param follows: whether it is not the leader
        """
        who = self._who(member)
        before = [
            event["what"] for event in self._truth.events if event["t"] <= time and event.get("who") in who
        ]
        latest = [what for what in before if what in ("assigned", *_TOLD)][-1:]
        if latest and latest[0] in _TOLD:
            return _TOLD[latest[0]]
        if self._gave_up(who, time):
            return Trigger.COOPERATIVE_FOLLOW_UP
        if follows and any(event["what"].startswith("PUT /connectors") for event in self._truth.events):
            return Trigger.SUBSCRIPTION_CHANGED  # a worker of Connect that announces a later configuration
        return Trigger.LEADER_REJOINED if reason.startswith(_FAILED_BEFORE) else _SAID[reason]

    def _gave_up(self, who: frozenset[str], time: float) -> bool:
        """Return whether a Kafka Connect worker has just stopped tasks that another one starts after its rejoin.

        Stopping takes up to 5 s (task.shutdown.graceful.timeout.ms).
        """
        done = [event for event in self._truth.events if event["what"].split()[0] in ("starting", "stopping")]
        for place, event in enumerate(done):
            if event["who"] in who and event["what"].startswith("stop") and time - 7 < event["t"] < time:
                same = (each for each in done[place + 1 :] if each["data"] == event["data"])
                following = next(same, None)
                if following is None or (following["who"] not in who and following["t"] > time):
                    return True
        return False

    def _join_in(self, happened: TruthEvent) -> None:
        if all(each.member != happened.member for each in self._causes):
            self._causes.append(happened)

    def _leave(self, member: str, reason: str, time: float) -> TruthEvent:
        if reason == "consumer poll timeout has expired.":
            return self._happened(Trigger.MAX_POLL_EXCEEDED, member, time)
        if reason == "member was removed by an admin":
            return self._happened(Trigger.REMOVED_BY_ADMIN, member, time)
        if is_slow(self._truth, self._who(member), time):
            # librdkafka gives no reason; its application was busy then, and had not been asked to end
            return self._happened(Trigger.MAX_POLL_EXCEEDED, member, time, told=False)
        return self._happened(Trigger.MEMBER_LEFT, member, time)

    def _of_latest(self, trigger: Trigger, member: str, time: float) -> TruthEvent:
        """Return the cause of a KIP-848 member whose ID does not identify it: the client that started last."""
        starts = [event for event in self._truth.events if event["what"] == "start" and event["t"] <= time]
        who = frozenset({starts[-1]["who"]})
        joins = trigger is Trigger.PROTOCOL_UPGRADED
        self._perhaps = [
            TruthEvent(
                trigger=Trigger.MEMBER_JOINED if joins else Trigger.MEMBER_LEFT, who=who, member=member
            )
        ]
        return TruthEvent(trigger=trigger, who=who, member=member)

    def _happened(self, trigger: Trigger, member: str, time: float, *, told: bool = True) -> TruthEvent:
        who, why = self._who(member), None
        if trigger is Trigger.SESSION_TIMEOUT:
            why = self._silenced(member, who, time)
        return TruthEvent(trigger=trigger, who=who, member=member, why=why, told=told)

    def _silenced(self, member: str, who: frozenset[str], time: float) -> TimeoutCause | None:
        """Return why a member was silent. The log does not name the ID of a static member when it returns."""
        seen = next(when for when, line in self._truth.log if member in line)
        return silenced(self._truth, who, seen if seen < time else 0.0, time)

    def _who(self, member: str) -> frozenset[str]:
        """Return the name of the client: a member ID starts with its client ID or instance ID."""
        stem = member[:-_UUID]
        seen = next(when for when, line in self._truth.log if member in line)
        started = {event["who"] for event in self._truth.events if event["what"] == "start"}
        name = next((each for each in started if stem == each or stem.startswith(f"{each}-Stream")), "")
        return frozenset({name or self._truth.of_instance(stem, seen)})

    def _listeners(self, ends: list[float]) -> None:
        ended = [each for each in self._found if not each.running]
        joined: set[str] = set()
        heard = said(self._truth)
        for told in heard:
            transitions = [each for each, end in zip(ended, ends, strict=True) if end <= told.time]
            for each in transitions:
                joined |= {who for cause in each.causes for who in cause.who}
            # a static member that replaces another gets its partitions without a rebalance
            if transitions and told.who in joined:
                transitions[-1].assigned[told.who] = told.has
                if told.gave_up:
                    _also_joined_again(ended[len(transitions) : len(transitions) + 1], {told.who})
        if not heard:
            # any client without a listener may have given up something
            for place, each in enumerate(ended):
                before = {who for earlier in ended[:place] for cause in earlier.causes for who in cause.who}
                _also_joined_again([each], before)


def _also_joined_again(after: list[ExpectedRebalance], who: set[str]) -> None:
    """Record that members which gave up partitions also rejoin in the second round for that reason."""
    for each in after:
        if each.causes[0].trigger is Trigger.COOPERATIVE_FOLLOW_UP:
            each.perhaps.append(TruthEvent(trigger=Trigger.COOPERATIVE_FOLLOW_UP, who=frozenset(who)))
