"""What a rebalance is told of: causes, waits, partitions that moved, and what it cost.

Times are ns since the epoch, durations ns, exchanges are told by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from captures.analysis.groups.vocabulary import Certainty, Place, TimeoutCause, Trigger
from captures.exchanges import rfc3339


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that another member has after a rebalance than before.

    :ivar before: member ID; empty if nobody had it, or it is not known who
    :ivar after: member ID; likewise
    """

    place: Place
    before: str
    after: str

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape."""
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "from": self.before or None,
            "to": self.after or None,
        }


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a member waited in a rebalance; of a member of the newer kinds only ``total`` is known.

    :ivar told: ns from the beginning of the rebalance until the member knew of it; None if not seen
    :ivar join: ns that its JoinGroup waited; None if it sent none, or the answer was not seen
    :ivar sync: ns that its SyncGroup waited; likewise
    :ivar total: ns from the beginning of the rebalance until it had its assignment
    :ivar asked: ns from the beginning of the rebalance until it sent its JoinGroup; likewise
    """

    member: str
    client: str
    told: int | None = None
    join: int | None = None
    sync: int | None = None
    total: int | None = None
    asked: int | None = None

    @property
    def late(self) -> int | None:
        """ns from the beginning of the rebalance until it had done its part, so that the others did not wait for it.

        That is when it joined, or of the newer kinds, when it had its assignment; None if neither was seen.
        """
        return self.total if self.asked is None and self.join is None else self.asked

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape."""
        return {
            "member": self.member,
            "client_id": self.client,
            "told_ns": self.told,
            "asked_ns": self.asked,
            "join_ns": self.join,
            "sync_ns": self.sync,
            "total_ns": self.total,
        }


@dataclass(frozen=True, slots=True)
class Stop:
    """A partition that nobody consumed for a while because of a rebalance.

    :ivar duration: ns from the last fetch before to the first after; up to the end of the capture if ``ended`` is false
    :ivar ended: whether somebody consumes it again
    :ivar before: number of the last Fetch before; None if there was none
    :ivar after: number of the first Fetch after; None if there was none
    """

    place: Place
    duration: int
    ended: bool
    before: int | None
    after: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape."""
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "duration_ns": self.duration,
            "ended": self.ended,
            "evidence": [number for number in (self.before, self.after) if number is not None],
        }


@dataclass(frozen=True, slots=True)
class Again:
    """Records that were fetched before a rebalance and are fetched again after it: to be expected twice.

    :ivar begin: first offset that is fetched again
    :ivar end: offset behind the last
    :ivar number: of the Fetch that goes back
    """

    place: Place
    begin: int
    end: int
    number: int

    @property
    def count(self) -> int:
        """How many offsets that is."""
        return self.end - self.begin

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape."""
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "from_offset": self.begin,
            "to_offset": self.end,
            "count": self.count,
            "exchange": self.number,
        }


@dataclass(frozen=True, slots=True)
class CommitFailure:
    """A commit that failed because of a rebalance.

    :ivar error: code
    :ivar name: name of the error, such as ``REBALANCE_IN_PROGRESS``
    """

    number: int
    time: int
    member: str
    error: int
    name: str

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape."""
        return {
            "exchange": self.number,
            "time": rfc3339(self.time),
            "member": self.member,
            "error_code": self.error,
            "error": self.name,
        }


@dataclass(frozen=True, slots=True)
class Cause:
    """One of the things that led to a rebalance.

    :ivar member: member ID of whom it is about; empty if it is about none
    :ivar instance: of a static member; None if it is none
    :ivar client: client ID of the member, or its address
    :ivar time: when it happened
    :ivar evidence: numbers of the exchanges that show it
    :ivar sentence: in words, such as ``m2 left: the consumer is being closed``
    :ivar timeout_cause: why a member was silent; None if it is not about that
    :ivar silence: ns without a sign of life before it; None likewise
    """

    trigger: Trigger
    certainty: Certainty
    time: int
    sentence: str
    member: str = ""
    instance: str | None = None
    client: str = ""
    evidence: tuple[int, ...] = ()
    timeout_cause: TimeoutCause | None = None
    silence: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape."""
        return {
            "trigger": self.trigger,
            "certainty": self.certainty,
            "time": rfc3339(self.time),
            "member": self.member or None,
            "instance_id": self.instance,
            "client_id": self.client or None,
            "evidence": list(self.evidence),
            "sentence": self.sentence,
            "timeout_cause": self.timeout_cause,
            "silence_ns": self.silence,
        }


@dataclass(frozen=True, slots=True)
class Awaited:
    """A member that a running rebalance waits for.

    :ivar since: when it was told, or the rebalance began if it was not seen to be told
    :ivar beats: heartbeats that it sent since, without joining
    :ivar deadline: when the coordinator goes on without it (its rebalance timeout); None if not known
    """

    member: str
    client: str
    since: int
    beats: int = 0
    deadline: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape."""
        return {
            "member": self.member,
            "client_id": self.client,
            "since": rfc3339(self.since),
            "heartbeats": self.beats,
            "deadline": None if self.deadline is None else rfc3339(self.deadline),
        }
