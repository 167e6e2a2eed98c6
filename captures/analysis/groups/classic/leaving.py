"""Members that leave, and why: they are closed, somebody removes them, or they have not polled for too long.

Java says why (KIP-800). librdkafka and clients of old give no reason; that they leave for a slow poll shows in that the
process goes on: its connection stays, and it joins anew when it polls again.
"""

from __future__ import annotations

from captures.analysis.groups.calls import Join, Sync
from captures.analysis.groups.classic.lives import Departure, Life, Lives
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, Certainty, Trigger
from captures.analysis.groups.surroundings import Surroundings
from captures.analysis.groups.words import left_in_words

_POLL_EXPIRED = "poll timeout has expired"
"""In the reason that the Java client gives (``AbstractCoordinator.HeartbeatThread``)."""
_CLOSING = 3_000_000_000
"""ns after the LeaveGroup of a member that closes in which its connection ends; a few ms as a rule."""
_BACK = 600_000_000_000
"""ns after a LeaveGroup in which the same connection joins again if it left for a slow poll."""


class Leaving:
    """Tells why members of one group left."""

    def __init__(self, lives: Lives, scene: Surroundings, labels: Labels) -> None:
        self._lives = lives
        self._scene = scene
        self._labels = labels

    def cause(self, departure: Departure, begin: int) -> Cause:
        """Return a departure as the cause of a rebalance.

        :param begin: before which the rebalance did not begin
        """
        life = self._lives.of(departure.member)
        trigger, certainty = Trigger.MEMBER_LEFT, Certainty.OBSERVED
        evidence = [departure.call.number]
        if departure.by_admin:
            trigger = Trigger.REMOVED_BY_ADMIN
        elif _POLL_EXPIRED in departure.reason:
            trigger = Trigger.MAX_POLL_EXCEEDED
        elif not departure.reason and self._stays(departure, life):
            trigger, certainty = Trigger.MAX_POLL_EXCEEDED, Certainty.POSSIBLE
            back = self._comes_back(departure, life)
            evidence += [back.number] if back is not None else []
        return Cause(
            trigger=trigger,
            certainty=certainty,
            time=max(departure.time, begin),
            sentence=left_in_words(self._labels.of(departure.member), departure, trigger, certainty),
            member=departure.member,
            instance=life.instance,
            client=life.client,
            evidence=tuple(evidence),
        )

    def _stays(self, departure: Departure, life: Life) -> bool:
        """Whether a process that left without a reason went on: who closes ends its connections at once."""
        left = departure.call
        # whoever joins polls, and the interval begins anew (it is the rebalance timeout of JoinGroup since KIP-62)
        joined = max((sync.at for sync in life.calls if isinstance(sync, Sync)), default=None)
        if joined is not None and left.time - joined < (life.rebalance_timeout or 0):
            return False
        if self._comes_back(departure, life) is not None:
            return True
        if self._scene.capture is None or left.end is None or left.time + _CLOSING > self._scene.now:
            return False
        ending = self._scene.ending(left.connection)
        return ending is None or ending.time > left.time + _CLOSING

    def _comes_back(self, departure: Departure, life: Life) -> Join | None:
        """Return the JoinGroup with which a process that left without a reason joins anew, on the same connection."""
        left = departure.call
        for join in self._lives.newcomers.get(left.connection, ()):
            if join.member != life.member and 0 < join.time - left.time < _BACK:
                return join if (join.client, join.host) == (life.client, life.host) else None
        return None
