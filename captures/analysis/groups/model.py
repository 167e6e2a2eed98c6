"""What is known of a group over time: its members, its rebalances as stories, and how sure all of it is.

Everything here is plain values: what made them is in :mod:`captures.analysis.groups.history`, what shows them is
elsewhere. Times are ns since the epoch, durations ns, exchanges are told by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from captures.exchanges import rfc3339


class Kind(StrEnum):
    """Which protocol a group speaks."""

    CLASSIC = "classic"
    """JoinGroup and SyncGroup (KIP-62), Connect and Streams among them."""
    CONSUMER = "consumer"
    """KIP-848; members that still join the classic way may be among its members."""
    SHARE = "share"
    """KIP-932."""
    STREAMS = "streams"
    """KIP-1071."""


class Trigger(StrEnum):
    """What began a rebalance. The words are stable: programs may rely on them."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_TIMEOUT = "session_timeout"
    MAX_POLL_EXCEEDED = "max_poll_exceeded"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_CHANGED = "partitions_changed"
    LEADER_REJOINED = "leader_rejoined"
    COOPERATIVE_FOLLOW_UP = "cooperative_follow_up"
    STATIC_MEMBER_RETURNED = "static_member_returned"
    INSTANCE_FENCED = "instance_fenced"
    REMOVED_BY_ADMIN = "removed_by_admin"
    COORDINATOR_MOVED = "coordinator_moved"
    PROTOCOL_UPGRADED = "protocol_upgraded"
    PROTOCOL_DOWNGRADED = "protocol_downgraded"
    UNKNOWN = "unknown"


class Certainty(StrEnum):
    """How sure something is, the surest first."""

    OBSERVED = "observed"
    """A message says so."""
    INFERRED = "inferred"
    """It follows from what was seen, and nothing else that is likely would look the same."""
    POSSIBLE = "possible"
    """It fits what was seen, and so does something else."""


class TimeoutCause(StrEnum):
    """Why a member was silent until its session ended."""

    PROCESS_DIED = "process_died"
    """Its connections were closed or reset when it fell silent, and it did not leave."""
    PROCESS_PAUSED = "process_paused"
    """Its kernel acknowledged what came, and nothing was sent: a long collection of garbage, SIGSTOP, a debugger."""
    UNREACHABLE = "unreachable"
    """What was sent to it was sent again and again, and never acknowledged: host or network gone."""
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """What a member does, from one moment to another."""

    JOINING = "joining"
    """Its JoinGroup waits for an answer, or it is between JoinGroup and SyncGroup."""
    SYNCING = "syncing"
    """Its SyncGroup waits for an answer."""
    STABLE = "stable"
    """It has an assignment, and may consume."""
    REVOKING = "revoking"
    """It was told to give partitions up and has not confirmed it yet (KIP-848)."""
    NOT_JOINING = "not joining"
    """It was told of the rebalance and sends heartbeats on, but does not join."""
    SILENT = "silent"
    """Nothing was heard of it any more, until its session ended."""


class Place(NamedTuple):
    """A partition; of a Streams group a task, with the subtopology in the place of the topic.

    :ivar topic: its name, or its ID where no message has told the name
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


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
    """

    member: str
    client: str
    told: int | None = None
    join: int | None = None
    sync: int | None = None
    total: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape."""
        return {
            "member": self.member,
            "client_id": self.client,
            "told_ns": self.told,
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


@dataclass(slots=True, kw_only=True)
class Rebalance:
    """One rebalance as a story: a new generation, a new group epoch, or the group's last member gone.

    :ivar generation: generation or group epoch that it led to; -1 if it has not ended and that is not known yet
    :ivar before: generation or epoch before; -1 if none, or not seen
    :ivar time: when it began
    :ivar end: when all members that took part had their assignment; None if that was not seen, or it goes on
    :ivar running: whether it had not ended when the capture did
    :ivar emptied: whether it left the group without members
    :ivar causes: all that led to it, that which opened it first; never empty
    :ivar alternatives: what else its opening could have been, in words
    :ivar sentence: all of it in one or two sentences
    :ivar members: IDs of the members after it, as far as they are known
    :ivar size: members that it has after it; None if not known
    :ivar joined: member IDs that are new
    :ivar gone: member IDs that are not there any more
    :ivar leader: member ID of the leader; empty where there is none, or it is not known
    :ivar protocol: name of the assignor; empty if not known
    :ivar cooperative: whether members keep what they have while it goes on; None if not known
    :ivar moved: partitions that changed hands
    :ivar assigned: member ID -> partitions after it, of the members whose assignment was seen
    :ivar waits: of the members
    :ivar awaited: of whom it still waits, if it is running
    :ivar stopped: partitions that were not consumed for a while
    :ivar again: records to be expected twice
    :ivar commit_failures: commits that failed because of it
    :ivar evidence: numbers of the exchanges that show it, in order
    :ivar storm: how many rebalances of one cause it is part of; 0 if it is not part of a storm
    """

    group: str
    kind: Kind
    generation: int
    before: int
    time: int
    end: int | None = None
    running: bool = False
    emptied: bool = False
    causes: list[Cause]
    alternatives: list[str] = field(default_factory=list)
    sentence: str = ""
    members: list[str] = field(default_factory=list)
    size: int | None = None
    joined: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    leader: str = ""
    protocol: str = ""
    cooperative: bool | None = None
    moved: list[Move] = field(default_factory=list)
    assigned: dict[str, frozenset[Place]] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    awaited: list[Awaited] = field(default_factory=list)
    stopped: list[Stop] = field(default_factory=list)
    again: list[Again] = field(default_factory=list)
    commit_failures: list[CommitFailure] = field(default_factory=list)
    evidence: list[int] = field(default_factory=list)
    storm: int = 0

    @property
    def cause(self) -> Cause:
        """What opened it."""
        return self.causes[0]

    @property
    def trigger(self) -> Trigger:
        """The same, as a word."""
        return self.causes[0].trigger

    @property
    def certainty(self) -> Certainty:
        """How sure that is."""
        return self.causes[0].certainty

    @property
    def duration(self) -> int | None:
        """ns that it took; None if its end was not seen."""
        return None if self.end is None else self.end - self.time

    @property
    def slowest(self) -> Wait | None:
        """The member that was told or joined last, so that the others waited for it; None if not known."""
        known = [wait for wait in self.waits if wait.told is not None]
        return max(known, key=lambda wait: wait.told or 0, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/json-groups.md``)."""
        cause, slowest = self.cause, self.slowest
        return {
            "group": self.group,
            "kind": self.kind,
            "generation": None if self.generation < 0 else self.generation,
            "generation_before": None if self.before < 0 else self.before,
            "time": rfc3339(self.time),
            "duration_ns": self.duration,
            "running": self.running,
            "emptied": self.emptied,
            "trigger": cause.trigger,
            "causes": [each.to_json() for each in self.causes],
            "member": cause.member or None,
            "instance_id": cause.instance,
            "client_id": cause.client or None,
            "timeout_cause": cause.timeout_cause,
            "certainty": cause.certainty,
            "alternatives": list(self.alternatives),
            "sentence": self.sentence,
            "evidence": list(self.evidence),
            "members": list(self.members),
            "size": self.size,
            "joined": list(self.joined),
            "gone": list(self.gone),
            "leader": self.leader or None,
            "protocol": self.protocol or None,
            "cooperative": self.cooperative,
            "moved": [each.to_json() for each in self.moved],
            "assigned": {
                member: [{"topic": place.topic, "partition": place.partition} for place in sorted(places)]
                for member, places in self.assigned.items()
            },
            "waits": [each.to_json() for each in self.waits],
            "slowest": slowest.member if slowest is not None else None,
            "awaited": [each.to_json() for each in self.awaited],
            "stopped": [each.to_json() for each in self.stopped],
            "duplicates": [each.to_json() for each in self.again],
            "commit_failures": [each.to_json() for each in self.commit_failures],
            "storm": self.storm or None,
        }


@dataclass(slots=True)
class Span:
    """What a member did for a while.

    :ivar end: when it ended; the end of the capture if it did not
    :ivar generation: it belonged to then; -1 if none
    :ivar number: of the exchange that began it
    :ivar assigned: what the member had, while it was stable; None if that was not seen
    """

    begin: int
    end: int
    phase: Phase
    generation: int
    number: int
    assigned: frozenset[Place] | None = None


@dataclass(slots=True, kw_only=True)
class GroupMember:
    """A member of a group over the time it was seen. A process that joins anew is another member, unless it is static.

    :ivar member: ID; of a static member (KIP-345) the latest
    :ivar former: IDs of a static member before that
    :ivar instance: of a static member; None if it is none, or not told
    :ivar client: client ID, or address without one
    :ivar host: address without port
    :ivar rack: ``client.rack``; empty if not told
    :ivar subscription: topics, or a pattern between slashes; empty if not told
    :ivar session_timeout: ns; None if not told
    :ivar rebalance_timeout: ns; None if not told
    :ivar interval: ns between heartbeats: told by the coordinator, or else the median of what was seen; None if neither
    :ivar first: of its first sign of life
    :ivar last: of its last
    :ivar left: when it left or was removed; None if neither was seen
    :ivar connections: ids of the connections it was heard on as a member
    :ivar spans: what it did, in order
    """

    member: str
    client: str
    host: str
    first: int
    last: int
    instance: str | None = None
    former: list[str] = field(default_factory=list)
    rack: str = ""
    subscription: tuple[str, ...] = ()
    session_timeout: int | None = None
    rebalance_timeout: int | None = None
    interval: int | None = None
    left: int | None = None
    connections: list[int] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What it is called where there is no room for its ID: its instance ID, else its client ID."""
        return self.instance or self.client


@dataclass(frozen=True, slots=True)
class CoordinatorSeen:
    """A broker that answered as the group's coordinator, from then on.

    :ivar broker: ``host:port``
    :ivar number: of the first exchange with it
    """

    time: int
    broker: str
    number: int


@dataclass(slots=True, kw_only=True)
class GroupTimeline:
    """All that is known of one group.

    :ivar protocol_type: of a classic group, such as ``consumer`` or ``connect``; empty if not told
    :ivar protocol: latest assignor; empty if not told
    :ivar state: ``Stable``, ``PreparingRebalance``, ``CompletingRebalance``, ``Empty``, as the broker calls them;
        empty if not known
    :ivar generation: the latest generation or epoch; -1 if none was seen
    :ivar members: those that were seen, in the order of their first sign of life
    :ivar rebalances: in the order of time
    :ivar coordinators: in the order of time, one for each change
    :ivar seen: how much of the group the capture shows, in words; empty if all of it
    :ivar complete: whether every member of the latest generation was seen speaking
    :ivar first: of the first exchange
    :ivar last: of the last
    """

    group: str
    kind: Kind
    protocol_type: str = ""
    protocol: str = ""
    state: str = ""
    generation: int = -1
    members: list[GroupMember] = field(default_factory=list)
    rebalances: list[Rebalance] = field(default_factory=list)
    coordinators: list[CoordinatorSeen] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    complete: bool = True
    first: int = 0
    last: int = 0

    def member(self, member_id: str) -> GroupMember | None:
        """Return the member with an ID, now or before."""
        for each in self.members:
            if each.member == member_id or member_id in each.former:
                return each
        return None
