"""What is known of a group over time: its members, its rebalances as stories, and how sure all of it is.

Everything here is plain values: what made them is in :mod:`captures.analysis.groups.history`, what shows them is
elsewhere. Times are ns since the epoch, durations ns, exchanges are told by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from captures.analysis.groups.parts import Again, Awaited, Cause, CommitFailure, Move, Stop, Wait
from captures.analysis.groups.vocabulary import Certainty, Kind, Phase, Place, TimeoutCause, Trigger
from captures.exchanges import rfc3339

__all__ = [
    "Again",
    "Awaited",
    "Cause",
    "Certainty",
    "CommitFailure",
    "CoordinatorSeen",
    "GroupMember",
    "GroupTimeline",
    "Kind",
    "Move",
    "Phase",
    "Place",
    "Rebalance",
    "Span",
    "Stop",
    "TimeoutCause",
    "Trigger",
    "Wait",
]


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
    :ivar consumed_on: how many partitions were consumed all the while
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
    consumed_on: int = 0
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
        """The member that joined last, so that the others waited for it; None if not known.

        Of the newer kinds, the one that had its assignment last.
        """
        known = [(late, wait) for wait in self.waits if (late := wait.late) is not None]
        return max(known, key=lambda each: each[0], default=(0, None))[1]

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
            "consumed_on": self.consumed_on,
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

    def by_id(self) -> dict[str, GroupMember]:
        """Return the members by their IDs, those of before included."""
        return {each_id: each for each in self.members for each_id in (*each.former, each.member)}

    def member(self, member_id: str) -> GroupMember | None:
        """Return the member with an ID, now or before."""
        for each in self.members:
            if each.member == member_id or member_id in each.former:
                return each
        return None
