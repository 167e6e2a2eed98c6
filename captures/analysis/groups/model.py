"""The model of a group over time: its members and its rebalances, each with causes, costs and certainty.

Everything here is plain values; :mod:`captures.analysis.groups.history` makes them. Times are ns since the epoch,
durations ns; exchanges are given by their numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from captures.analysis.groups.vocabulary import (
    CONNECT,
    Certainty,
    Kind,
    Phase,
    SessionEnd,
    TimeoutCause,
    Trigger,
)
from captures.json_objects import NotNegative, OrNull, Time
from captures.meaning.assignments import STREAMS_ASSIGNOR
from captures.meaning.assignments import Tasks as Tasks
from captures.meaning.topic_partitions import TopicPartition as TopicPartition


class Move(msgspec.Struct, frozen=True):
    """A partition that has another owner after a rebalance than before.

    :ivar before: member ID; empty if no member owned it, None if unknown
    :ivar after: member ID; empty if no member owns it, None if unknown
    """

    JSON = "topic=tp.topic partition=tp.partition from=before to=after"

    tp: TopicPartition
    before: OrNull[str | None]
    after: OrNull[str | None]


def owners(assigned: Mapping[str, frozenset[TopicPartition]]) -> dict[TopicPartition, str]:
    """Return partition -> its owner, of member ID -> its partitions."""
    return {tp: member for member, partitions in assigned.items() for tp in partitions}


def moves(
    before: Mapping[TopicPartition, str],
    after: Mapping[TopicPartition, str],
    others_before: str | None,
    others_after: str | None,
) -> list[Move]:
    """Return the partitions that changed hands, in order.

    :param others_before: owner of partitions that are not in `before`: empty if none, None if unknown
    :param others_after: the same for `after`
    """
    return [
        Move(tp, before.get(tp, others_before), after.get(tp, others_after))
        for tp in sorted(before.keys() | after.keys())
        if before.get(tp) != after.get(tp)
    ]


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a member waited in a rebalance; for members of the newer kinds only ``total`` is known.

    :ivar notified: ns from the start of the rebalance until the member learned of it; None if not seen
    :ivar join: ns that its JoinGroup waited; None if it sent none, or the response was not seen
    :ivar sync: ns that its SyncGroup waited; None if it sent none, or the response was not seen
    :ivar total: ns from the start of the rebalance until it had its assignment
    :ivar asked: ns from the start of the rebalance until it sent its JoinGroup; None if not seen
    """

    JSON = "member client_id=client told_ns=notified asked_ns=asked join_ns=join sync_ns=sync total_ns=total"

    member: str
    client: str
    notified: int | None = None
    join: int | None = None
    sync: int | None = None
    total: int | None = None
    asked: int | None = None

    @property
    def late(self) -> int | None:
        """ns from the start of the rebalance until the member had done its part and the others no longer waited for it.

        That is when it joined or, in the newer kinds, when it had its assignment; None if neither was seen.
        """
        return self.total if self.asked is None and self.join is None else self.asked


LEAST_STOP = 250_000_000
"""Shortest stop in ns."""


class Stop(msgspec.Struct, frozen=True):
    """A partition that no member consumed, or a connector or task that no worker ran, because of a rebalance.

    :ivar duration: ns from the last fetch before to the first after; up to the end of the capture if ``ended`` is false
    :ivar ended: whether a member consumes it again
    :ivar before: number of the last Fetch before, or of the last exchange that shows the worker; None if there was none
    :ivar after: number of the first Fetch after, or of the SyncGroup that names another worker; None if there was none
    :ivar begin: ns since the epoch, of the last Fetch before
    :ivar behind: records that were waiting when a member consumed it again; -1 if unknown
    """

    JSON = "topic=tp.topic partition=tp.partition duration_ns=duration ended evidence"

    tp: TopicPartition
    duration: int
    ended: bool
    before: int | None
    after: int | None
    begin: int = 0
    behind: int = -1

    @property
    def end(self) -> int:
        """When the stop ended, or the capture did."""
        return self.begin + self.duration

    @property
    def evidence(self) -> list[int]:
        """Numbers of the exchanges ``before`` and ``after``."""
        return [number for number in (self.before, self.after) if number is not None]


class RepeatedFetch(msgspec.Struct, frozen=True):
    """Records that were fetched before a rebalance and are fetched again after it: probable duplicates.

    :ivar begin: first offset that is fetched again
    :ivar end: offset after the last one
    :ivar number: number of the Fetch that goes back
    """

    JSON = "topic=tp.topic partition=tp.partition from_offset=begin to_offset=end count exchange=number"

    tp: TopicPartition
    begin: int
    end: int
    number: int

    @property
    def count(self) -> int:
        """Number of offsets that are fetched again."""
        return self.end - self.begin


class CommitFailure(msgspec.Struct, frozen=True):
    """A commit that failed because of a rebalance.

    :ivar error: error code
    :ivar name: name of the error, such as ``REBALANCE_IN_PROGRESS``
    """

    JSON = "exchange=number time member error_code=error error=name"

    number: int
    time: Time
    member: str
    error: int
    name: str


@dataclass(frozen=True, slots=True)
class Cause:
    """One of the causes of a rebalance.

    :ivar member: ID of the member that it concerns; empty if it concerns none
    :ivar instance: instance ID of a static member; None for others
    :ivar client: client ID of the member, or its address
    :ivar time: when it happened
    :ivar evidence: numbers of the exchanges that show it
    :ivar sentence: in words, such as ``m2 left: the consumer is being closed``
    :ivar session_end: why a member was silent until its session ended; None for other causes
    :ivar silence: ns without a sign of life before it; None for other causes
    """

    JSON = (
        "trigger certainty time member instance_id=instance client_id=client evidence sentence "
        "timeout_cause session_end silence_ns=silence"
    )

    trigger: Trigger
    certainty: Certainty
    time: Time
    sentence: str
    member: OrNull[str] = ""
    instance: str | None = None
    client: OrNull[str] = ""
    evidence: tuple[int, ...] = ()
    session_end: SessionEnd | None = None
    silence: int | None = None

    @property
    def timeout_cause(self) -> TimeoutCause | None:
        """The reason for which a member was silent; None for other causes."""
        return None if self.session_end is None else self.session_end.cause


class AwaitedMember(msgspec.Struct, frozen=True):
    """A member that a running rebalance waits for.

    :ivar since: when it learned of the rebalance, or when the rebalance began if that was not seen
    :ivar beats: heartbeats that it sent since then without joining
    :ivar deadline: when the coordinator continues without it (its rebalance timeout); None if unknown
    """

    JSON = "member client_id=client since heartbeats=beats deadline"

    member: str
    client: str
    since: Time
    beats: int = 0
    deadline: Time | None = None


class SlowestRevocation(NamedTuple):
    """The member of a newer kind of group that took longest to revoke partitions assigned to others.

    :ivar member: member ID
    :ivar client: client ID, or address without one
    :ivar duration: ns from the coordinator's request to revoke until the member confirmed it, or the next bump
    :ivar places: the partitions that it had to revoke
    :ivar released: whether the member confirmed it
    """

    member: str
    client: str
    duration: int
    places: frozenset[TopicPartition] = frozenset()
    released: bool = True


class IncidentReference(NamedTuple):
    """The incident that caused a rebalance (:mod:`captures.analysis.incidents`).

    :ivar id: incident ID, such as ``broker_outage-1``
    :ivar sentence: what happened
    """

    id: str
    sentence: str


class Rebalance(msgspec.Struct, kw_only=True):
    """One rebalance with its causes and effects: a new generation, a new group epoch, or the group becoming empty.

    :ivar generation: generation or group epoch that it led to; -1 if it has not ended and that is not known yet
    :ivar previous_generation: generation or epoch before; -1 if none, or not seen
    :ivar time: when it began
    :ivar end: when all members that took part had their assignment; None if that was not seen, or it is running
    :ivar running: whether it had not ended when the capture did
    :ivar overtaken: whether the next one began before all members had their assignment
    :ivar emptied: whether it left the group without members
    :ivar causes: all causes, the one that opened it first; never empty
    :ivar alternatives: what else could have opened it, in words
    :ivar sentence: the whole rebalance in one or two sentences
    :ivar members: IDs of the members after it, as far as known
    :ivar size: number of members after it; None if unknown
    :ivar joined: IDs of new members
    :ivar gone: IDs of former members
    :ivar leader: member ID of the leader; empty if there is none, or it is unknown
    :ivar protocol: name of the assignor; empty if unknown
    :ivar cooperative: whether members keep their partitions while it is running; None if unknown
    :ivar moved: partitions that changed hands
    :ivar assigned: member ID -> partitions after it, for members whose assignment was seen
    :ivar tasks: for Kafka Streams, member ID -> its tasks after it, for members whose assignment was seen
    :ivar status: for a streams group (KIP-1071), what the coordinator reports until the next rebalance, and how long
    :ivar waits: waits of the members
    :ivar awaited: members that it still waits for, if it is running
    :ivar stopped: partitions that were not consumed for a while
    :ivar consumed_on: number of partitions that were consumed all the while
    :ivar delay: for workers of Kafka Connect, ns for which the group waits for a lost worker after its assignment;
        None if it does not wait
    :ivar unassigned: connectors and tasks that no worker runs during ``delay``
    :ivar of_workers: whether the members are workers of Kafka Connect
    :ivar refetched: records that are fetched again
    :ivar commit_failures: commits that failed because of it
    :ivar evidence: numbers of the exchanges that show it, in order
    :ivar held_up: in the newer kinds, the member for whose partitions others waited longest; None if for none
    :ivar storm: size of the storm that it belongs to; 0 if it belongs to none
    :ivar because_of: the incident that caused it; None if none is known
    :ivar cluster: as in :class:`GroupTimeline`
    """

    JSON = (
        "group kind generation generation_before=previous_generation time duration_ns=duration running emptied trigger "
        "causes member=cause.member instance_id=cause.instance client_id=cause.client "
        "timeout_cause=cause.timeout_cause certainty alternatives sentence evidence members size joined "
        "gone leader protocol cooperative moved assigned waits slowest=slowest.member awaited stopped "
        "consumed_on duplicates=refetched commit_failures storm because_of=incident unknown_owners delay_ns=delay "
        "unassigned tasks status cluster_id=cluster"
    )

    group: str
    kind: Kind
    generation: NotNegative
    previous_generation: NotNegative
    time: Time
    end: int | None = None
    running: bool = False
    overtaken: bool = False
    emptied: bool = False
    causes: list[Cause]
    alternatives: list[str] = []
    sentence: str = ""
    members: list[str] = []
    size: int | None = None
    joined: list[str] = []
    gone: list[str] = []
    leader: OrNull[str] = ""
    protocol: OrNull[str] = ""
    cooperative: bool | None = None
    moved: list[Move] = []
    assigned: dict[str, frozenset[TopicPartition]] = {}
    tasks: dict[str, Tasks] = {}
    status: list[str] = []
    waits: list[Wait] = []
    awaited: list[AwaitedMember] = []
    stopped: list[Stop] = []
    consumed_on: int = 0
    delay: int | None = None
    unassigned: list[TopicPartition] = []
    of_workers: bool = False
    refetched: list[RepeatedFetch] = []
    commit_failures: list[CommitFailure] = []
    evidence: list[int] = []
    held_up: SlowestRevocation | None = None
    storm: OrNull[int] = 0
    because_of: IncidentReference | None = None
    cluster: str | UnsetType = UNSET

    @property
    def incident(self) -> OrNull[str]:
        """The ID of the incident that caused it; empty if none is known."""
        return "" if self.because_of is None else self.because_of.id

    @property
    def unknown_owners(self) -> list[TopicPartition]:
        """Partitions that changed hands and whose owner before or after is unknown."""
        return [move.tp for move in self.moved if None in (move.before, move.after)]

    @property
    def cause(self) -> Cause:
        """The cause that opened it."""
        return self.causes[0]

    @property
    def trigger(self) -> Trigger:
        """The trigger of the cause that opened it."""
        return self.causes[0].trigger

    @property
    def certainty(self) -> Certainty:
        """The certainty of the cause that opened it."""
        return self.causes[0].certainty

    @property
    def duration(self) -> int | None:
        """Duration in ns; None if its end was not seen."""
        return None if self.end is None else self.end - self.time

    @property
    def slowest(self) -> Wait | None:
        """The wait of the member that joined last, so that the others waited for it; None if unknown.

        In the newer kinds, that of the member that held the others up, or else had its assignment last.
        """
        if self.held_up is not None:
            return next((wait for wait in self.waits if wait.member == self.held_up.member), None)
        known = [(late, wait) for wait in self.waits if (late := wait.late) is not None]
        return max(known, key=lambda each: each[0], default=(0, None))[1]


@dataclass(slots=True)
class Span:
    """A period in which a member stayed in one phase.

    :ivar end: when it ended; the end of the capture if it did not
    :ivar generation: the member's generation then; -1 if none
    :ivar number: number of the exchange that started it
    :ivar assigned: the member's partitions, if it was stable; None if that was not seen
    """

    begin: int
    end: int
    phase: Phase
    generation: int
    number: int
    assigned: frozenset[TopicPartition] | None = None


@dataclass(slots=True, kw_only=True)
class MemberFacts:
    """Facts about a member, whatever protocol it speaks.

    :ivar member: member ID; for a static member (KIP-345) the latest
    :ivar former: earlier IDs of a static member
    :ivar instance: instance ID of a static member; None for others, or if unknown
    :ivar client: client ID, or address without one
    :ivar host: address without port
    :ivar rack: ``client.rack``; empty if unknown
    :ivar former_subscriptions: earlier subscriptions (topics in order, or a pattern between slashes), each with the
        time of its end
    :ivar session_timeout: ns; None if unknown
    :ivar rebalance_timeout: ns; None if unknown
    :ivar interval: ns between heartbeats: as the coordinator sets it, or else the median of those seen; None if neither
        is known
    :ivar first: time of its first sign of life
    :ivar last: time of its last sign of life
    :ivar connections: IDs of the connections on which it sent requests as a member
    """

    member: str
    client: str
    host: str
    first: int
    last: int
    instance: str | None = None
    former: list[str] = field(default_factory=list)
    rack: str = ""
    former_subscriptions: list[tuple[tuple[str, ...], int]] = field(default_factory=list)
    session_timeout: int | None = None
    rebalance_timeout: int | None = None
    interval: int | None = None
    connections: list[int] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Return the fields of :class:`MemberFacts` by name, as arguments for another object; lists are copies."""
        found = {each.name: getattr(self, each.name) for each in fields(MemberFacts)}
        return {name: [*value] if isinstance(value, list) else value for name, value in found.items()}


@dataclass(slots=True, kw_only=True)
class GroupMember(MemberFacts):
    """A member of a group over the time it was seen. A process that rejoins is another member, unless it is static.

    :ivar subscription: topics in order, or a pattern between slashes; empty if unknown
    :ivar left: when it left or was removed; None if neither was seen
    :ivar spans: its phases, in order
    """

    subscription: tuple[str, ...] = ()
    left: int | None = None
    spans: list[Span] = field(default_factory=list)

    def followed_by(self, later: GroupMember) -> GroupMember:
        """Return this static member merged with `later`: the same member under another ID or with another protocol."""
        former = (*self.former, self.member, *later.former)
        changed = self.subscription and later.subscription not in ((), self.subscription)
        begin = later.spans[0].begin if later.spans else None
        spans = [span for span in self.spans if begin is None or span.begin < begin]
        if spans and begin is not None and spans[-1].end > begin:
            spans[-1] = replace(spans[-1], end=begin)
        return replace(
            later,
            former=[each for each in dict.fromkeys(former) if each != later.member],
            first=min(self.first, later.first),
            last=max(self.last, later.last),
            rack=later.rack or self.rack,
            subscription=later.subscription or self.subscription,
            former_subscriptions=[
                *self.former_subscriptions,
                *([(self.subscription, later.first)] if changed else ()),
                *later.former_subscriptions,
            ],
            session_timeout=later.session_timeout or self.session_timeout,
            rebalance_timeout=later.rebalance_timeout or self.rebalance_timeout,
            interval=later.interval or self.interval,
            connections=list(dict.fromkeys((*self.connections, *later.connections))),
            spans=[*spans, *later.spans],
        )

    def subscribed(self, until: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """Yield its known subscriptions, each with start and end.

        :param until: end of the subscription of a member that has not left
        """
        begin, gone = self.first, max(until if self.left is None else min(self.left, until), self.first)
        for topics, end in (*self.former_subscriptions, (self.subscription, gone)):
            if topics:
                yield topics, begin, max(begin, min(end, gone))
            begin = max(begin, min(end, gone))

    @property
    def name(self) -> str:
        """Its short name: its instance ID, else its client ID."""
        return self.instance or self.client

    @property
    def gone(self) -> int:
        """When it left or was removed, or else the time of its last sign of life."""
        return self.last if self.left is None else self.left


class ObservedCoordinator(msgspec.Struct, frozen=True):
    """A broker that answered as the group's coordinator, from ``time`` on.

    :ivar broker: ``host:port``
    :ivar number: number of the first exchange with it
    """

    time: int
    broker: str
    number: int


class RefusedClient(msgspec.Struct):
    """A client that a group did not accept, or fenced.

    :ivar error: error code
    :ivar name: name of the error, such as ``FENCED_INSTANCE_ID``
    :ivar time: time of the first refused call
    :ivar number: number of the first refused exchange
    :ivar count: number of refused calls
    :ivar holder: client that has its group.instance.id; empty if the error has another reason, or that is unknown
    """

    client: str
    host: str
    instance: str | None
    error: int
    name: str
    time: int
    number: int
    count: int = 0
    holder: str = ""


@dataclass(slots=True, kw_only=True)
class GroupTimeline:
    """Everything known about one group.

    :ivar protocol_type: protocol type of a classic group, such as ``consumer`` or ``connect``; empty if unknown
    :ivar protocol: latest assignor; empty if unknown
    :ivar state: ``Stable``, ``PreparingRebalance``, ``CompletingRebalance``, ``Empty``, as the broker calls them;
        empty if unknown
    :ivar generation: the latest generation or epoch; -1 if none was seen
    :ivar members: members that were seen, in the order of their first sign of life
    :ivar rebalances: rebalances in the order of time
    :ivar coordinators: coordinators in the order of time, one for each change
    :ivar seen: how much of the group the capture shows, in words; empty if all of it
    :ivar refused: clients that it did not accept, or fenced, in the order of time
    :ivar pauses: pauses in the consumption of partitions, of at least a second, that no rebalance explains
    :ivar complete: whether requests of every member of the latest generation were seen
    :ivar first: time of the first exchange
    :ivar last: time of the last exchange
    :ivar cluster: its cluster (:mod:`captures.analysis.clusters`), if the capture shows several
    """

    group: str
    kind: Kind
    protocol_type: str = ""
    protocol: str = ""
    state: str = ""
    generation: int = -1
    members: list[GroupMember] = field(default_factory=list)
    rebalances: list[Rebalance] = field(default_factory=list)
    coordinators: list[ObservedCoordinator] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    refused: list[RefusedClient] = field(default_factory=list)
    pauses: list[Stop] = field(default_factory=list)
    complete: bool = True
    first: int = 0
    last: int = 0
    cluster: str | UnsetType = UNSET
    _caused: tuple[int, dict[str, list[int]]] = field(
        default_factory=lambda: (0, {}), init=False, repr=False, compare=False
    )

    def coordinator_at(self, time: int) -> str | None:
        """Return the address of the coordinator at a time, of the first one before it was seen; None if none was."""
        index = bisect_right(self.coordinators, time, key=attrgetter("time"))
        return self.coordinators[max(index - 1, 0)].broker if self.coordinators else None

    @property
    def of_workers(self) -> bool:
        """Whether the members are workers of Kafka Connect."""
        return self.protocol_type == CONNECT

    @property
    def of_streams(self) -> bool:
        """Whether its members are threads of Kafka Streams, in either protocol."""
        return self.kind is Kind.STREAMS or self.protocol == STREAMS_ASSIGNOR

    @property
    def may_be_static(self) -> bool:
        """Whether members may have a group.instance.id (KIP-345)."""
        return self.kind in (Kind.CLASSIC, Kind.CONSUMER) and not self.of_workers

    def caused_by(self, members: Iterable[str]) -> list[int]:
        """Return the indexes of the rebalances with a cause that concerns one of `members`, in the order of time."""
        if self._caused[0] != len(self.rebalances):
            found: dict[str, list[int]] = {}
            for index, rebalance in enumerate(self.rebalances):
                for cause in rebalance.causes:
                    found.setdefault(cause.member, []).append(index)
            self._caused = len(self.rebalances), found
        return sorted({index for member in members for index in self._caused[1].get(member, ())})

    def by_id(self) -> dict[str, GroupMember]:
        """Return the members by ID, including their former IDs."""
        return {each_id: each for each in self.members for each_id in (*each.former, each.member)}

    def member(self, member_id: str) -> GroupMember | None:
        """Return the member that has or had `member_id`; None if there is none."""
        for each in self.members:
            if each.member == member_id or member_id in each.former:
                return each
        return None
