"""The calls between members and their coordinator, extracted from exchanges: small values for making timelines.

Heartbeats and commits without news are merged into runs, so that a group that is stable for days takes no more memory
than one that is stable for a minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.vocabulary import Kind
from captures.exchanges import Exchange
from captures.meaning.assignments import Tasks
from captures.meaning.exchange import text
from dissectors.api_keys import ApiKey

HEARTBEATS: dict[int, Kind] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Kind.CONSUMER,
    ApiKey.SHARE_GROUP_HEARTBEAT: Kind.SHARE,
    ApiKey.STREAMS_GROUP_HEARTBEAT: Kind.STREAMS,
}
"""API key -> kind of group whose members send it."""
OF_MEMBERS = frozenset({
    ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP,
    ApiKey.TXN_OFFSET_COMMIT, *HEARTBEATS,
})  # fmt: skip
"""APIs of calls from members to their coordinator."""
POLL_EXPIRED = "poll timeout has expired"
"""Part of the Java client's reason for leaving (KIP-800, ``AbstractCoordinator.HeartbeatThread``)."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One exchange of a member with its coordinator, or consecutive equal ones that were merged (:class:`Run`).

    ``number``, ``time`` and ``end`` are those of the first.

    :ivar number: number of the exchange
    :ivar time: time of the request
    :ivar end: time of the response's first byte; None if there is none
    :ivar pending: whether it may still be answered
    :ivar client: client ID, or address without one
    :ivar host: the client's address without port
    :ivar broker: ``host:port``
    :ivar member: member ID in the request, or else in the response; empty if in neither
    :ivar instance: instance ID of a static member
    :ivar generation: generation or member epoch of the request; -1 if it has none
    :ivar error: error code of the response, 0 for none
    :ivar count: number of exchanges
    :ivar last_number: number of the last exchange
    :ivar last: time of the last request
    :ivar last_end: time of the last response; None if there is none
    :ivar longest: longest time in ns from one to the next
    """

    number: int
    time: int
    end: int | None
    pending: bool
    connection: int
    client: str
    host: str
    broker: str
    member: str = ""
    instance: str | None = None
    generation: int = -1
    error: int = 0
    count: int = 1
    last_number: int = -1
    last: int = -1
    last_end: int | None = None
    longest: int = 0

    def __post_init__(self) -> None:
        if self.last < 0:
            self.last_number, self.last, self.last_end = self.number, self.time, self.end

    @property
    def at(self) -> int:
        """Time of the response, or of the request if there is none."""
        return self.time if self.end is None else self.end

    @property
    def latest(self) -> int:
        """Time of the last response, or of the last request if that has none."""
        return max(self.last if self.last_end is None else self.last_end, self.at)


class Subscription(msgspec.Struct, kw_only=True):
    """The metadata that a member of a classic group sends in JoinGroup.

    :ivar topics: subscribed topics
    :ivar owned: partitions that it claims to own; None if the protocol version has no such field
    """

    topics: tuple[str, ...] = ()
    owned: frozenset[TopicPartition] | None = None
    generation: int = -1
    rack: str = ""


@dataclass(slots=True, kw_only=True)
class Join(Call):
    """A JoinGroup.

    :ivar asked_as: member ID of the request; empty for a new member
    :ivar reason: in the member's words (KIP-800); empty if it gives none
    :ivar protocols: names of the assignors that it supports
    :ivar subscription: None if it is not a consumer's, or cannot be read
    :ivar metadata: raw metadata of the first protocol
    :ivar answered: generation of the response; -1 if there is none
    :ivar chosen: name of the chosen assignor
    :ivar leader: member ID of the leader
    :ivar members: member ID -> instance ID, in the response to the leader; empty for others
    :ivar subscriptions: member ID -> subscription, in the response to the leader; empty for others
    :ivar skip: whether the leader is to leave the assignment unchanged (KIP-814)
    :ivar session_timeout: ns
    :ivar rebalance_timeout: ns; the session timeout if the request has only that
    :ivar config_offset: offset up to which a worker of Kafka Connect has read its configuration; None for others
    :ivar running: member ID -> connectors and tasks that it runs: of this worker and, for the leader, of all workers
    :ivar one_timeout: whether it has only the session timeout: before KIP-62, clients sent heartbeats only while
        polling
    """

    asked_as: str = ""
    protocol_type: str = ""
    reason: str = ""
    protocols: tuple[str, ...] = ()
    subscription: Subscription | None = None
    metadata: bytes = b""
    answered: int = -1
    chosen: str = ""
    leader: str = ""
    members: dict[str, str | None] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    skip: bool = False
    session_timeout: int | None = None
    rebalance_timeout: int | None = None
    config_offset: int | None = None
    running: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    one_timeout: bool = False


class WorkerOrders(msgspec.Struct, frozen=True):
    """The assignment of a worker of Kafka Connect (KIP-415).

    :ivar runs: connectors and tasks that it has to run
    :ivar revoked: connectors and tasks that it has to stop before it rejoins
    :ivar incremental: whether it keeps everything else that it runs; otherwise ``runs`` is all
    :ivar delay: ns until the next rebalance of a group that waits for a lost worker to return; 0 if it does not wait
    :ivar behind: whether the leader's configuration is older than a member's, so that all have to rejoin
    """

    runs: frozenset[TopicPartition] = frozenset()
    revoked: frozenset[TopicPartition] = frozenset()
    incremental: bool = True
    delay: int = 0
    behind: bool = False

    def after(self, before: frozenset[TopicPartition] | None) -> frozenset[TopicPartition] | None:
        """Return what a worker runs after this assignment; None if unknown.

        :param before: what it ran when it joined; None if unknown
        """
        if not self.incremental:
            return self.runs
        return None if before is None else (before - self.revoked) | self.runs


@dataclass(slots=True, kw_only=True)
class Sync(Call):
    """A SyncGroup.

    :ivar assigned: partitions of the member; None if it was not answered, or the member is not a consumer
    :ivar given: member ID -> partitions, in the leader's request; empty for others
    :ivar gives_all: whether the request has assignments, and the partitions of all of them are known
    :ivar orders: member ID -> assignment of workers of Kafka Connect: those in the leader's request, and the worker's
        own if it was answered; empty for others
    :ivar tasks: member ID -> tasks of Kafka Streams, from the same sources
    """

    protocol_type: str = ""
    protocol: str = ""
    assigned: frozenset[TopicPartition] | None = None
    given: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    gives_all: bool = False
    orders: dict[str, WorkerOrders] = field(default_factory=dict)
    tasks: dict[str, Tasks] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Run(Call):
    """A call that is merged with the ones before if they are equal: same generation, same outcome, no other between."""


@dataclass(slots=True, kw_only=True)
class HeartbeatRun(Run):
    """Heartbeats (key 12)."""


@dataclass(slots=True, kw_only=True)
class Commit(Run):
    """OffsetCommit and TxnOffsetCommit; failed ones are not merged."""

    transactional: bool = False


@dataclass(slots=True, kw_only=True)
class Leave(Call):
    """A LeaveGroup.

    :ivar gone: leaving members: member ID (empty if identified by the instance), instance ID, reason, error code
    """

    gone: list[tuple[str, str | None, str, int]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ModernHeartbeatRun(Run):
    """Heartbeats of a consumer, share or streams group; those with news are not merged.

    :ivar kind: kind of the group
    :ivar epoch: member epoch of the response; None if there is none, or it has an error
    :ivar owned: partitions that the member claims to own; None if unchanged
    :ivar assigned: partitions assigned to it; None if unchanged
    :ivar tasks: tasks assigned to a streams member; None if not in the response
    :ivar topics: topics of its subscription; None if unchanged
    :ivar pattern: pattern of its subscription; None if unchanged
    :ivar rack: empty if none or unchanged
    :ivar interval: ns until the next one is due; None if not in the response
    :ivar rebalance_timeout: ns; None if unchanged
    :ivar message: error message
    :ivar status: for a streams group: code and text of each problem
    :ivar topology: epoch of a streams topology in the request; None if there is none
    """

    kind: Kind = Kind.CONSUMER
    epoch: int | None = None
    owned: frozenset[TopicPartition] | None = None
    assigned: frozenset[TopicPartition] | None = None
    tasks: Tasks | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str = ""
    rack: str = ""
    interval: int | None = None
    rebalance_timeout: int | None = None
    message: str = ""
    status: tuple[tuple[int, str], ...] = ()
    topology: int | None = None


@dataclass(slots=True)
class GroupCalls:
    """The calls to one group.

    :ivar calls: in the order in which the exchanges were added
    :ivar kinds: kinds of the calls with which members join
    :ivar protocol_type: protocol type of a classic group; empty if unknown
    """

    group: str
    calls: list[Call] = field(default_factory=list)
    kinds: set[Kind] = field(default_factory=set)
    protocol_type: str = ""
    _running: dict[str, dict[tuple[type[Run], int], Run]] = field(default_factory=dict, repr=False)
    """Member ID -> kind of call and connection -> the open run."""

    def ordered(self) -> list[Call]:
        """Return the calls in the order of their requests."""
        return sorted(self.calls, key=lambda call: (call.time, call.number))

    def add(self, call: Call) -> None:
        """Add a call, or merge it into the run that it continues."""
        if isinstance(call, Run):
            runs = self._running.setdefault(call.member, {})
            key = type(call), call.connection
            run = runs.get(key)
            if run is not None and _extends(run, call):
                _extend(run, call)
                return
            runs[key] = call
        else:
            # any other call of a member ends its runs
            self._running.pop(call.member, None)
        self._learn(call)
        self.calls.append(call)

    def last_contact(self, members: Iterable[str]) -> int:
        """Return when one of `members` last had a call without an error in an open run; 0 if there is none."""
        return max(
            (
                run.last if isinstance(run, ModernHeartbeatRun) else run.last_end or run.last
                for member in members
                for run in self._running.get(member, {}).values()
                if not run.error and not (isinstance(run, Commit) and run.generation < 0)
            ),
            default=0,
        )

    def and_also(self, calls: Iterable[Call]) -> GroupCalls:
        """Return a copy with `calls`, which are not answered yet."""
        out = GroupCalls(self.group, [*self.calls], {*self.kinds}, self.protocol_type)
        for call in calls:
            out._learn(call)
            out.calls.append(call)
        return out

    def _learn(self, call: Call) -> None:
        if isinstance(call, Join):
            self.kinds.add(Kind.CLASSIC)
            self.protocol_type = call.protocol_type or self.protocol_type
        elif isinstance(call, ModernHeartbeatRun):
            self.kinds.add(call.kind)


def _extends(run: Run, call: Run) -> bool:
    if (run.generation, run.error, run.broker) != (call.generation, call.error, call.broker):
        return False
    if run.pending or call.pending or call.end is None or run.last_end is None:
        return False
    if isinstance(call, ModernHeartbeatRun):
        if not isinstance(run, ModernHeartbeatRun) or (run.epoch, run.status) != (call.epoch, call.status):
            return False
        return not _has_news(call, run)
    return not (call.error and isinstance(call, Commit))


def _has_news(beat: ModernHeartbeatRun, run: ModernHeartbeatRun) -> bool:
    """Return whether a heartbeat has news beyond its sender being alive, compared with `run`."""
    if beat.generation <= 0:
        return True
    news, before = _news(beat), _news(run)
    return any(each is not None and each != known for each, known in zip(news, before, strict=True))


def _news(beat: ModernHeartbeatRun) -> tuple[object, ...]:
    copies = beat.tasks or Tasks(None, None, None)
    subscription = beat.topics, beat.pattern, beat.topology
    return beat.owned, beat.assigned, copies.standby, copies.warmup, *subscription


def _extend(run: Run, call: Run) -> None:
    run.longest = max(run.longest, call.longest if call.count > 1 else call.time - run.last)
    run.count += call.count
    run.last_number, run.last, run.last_end = call.number, call.time, call.end


def group_of(exchange: Exchange) -> str:
    """Return the group that a member's call names; empty if it cannot be read."""
    value = exchange.request_body
    return text(value, "group_id") if value else ""
