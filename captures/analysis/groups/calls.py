"""What members say to their coordinator, taken out of the exchanges: small values from which stories are made.

Heartbeats and commits that say nothing new are put together in runs, so that a group that is at peace for days takes
no more memory than one that is for a minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
"""APIs that members speak with their coordinator."""
POLL_EXPIRED = "poll timeout has expired"
"""Part of the reason that the Java client gives as it leaves (KIP-800, ``AbstractCoordinator.HeartbeatThread``)."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One exchange of a member with its coordinator.

    :ivar number: of the exchange
    :ivar time: of the request
    :ivar end: of the response's first byte; None if there is none
    :ivar pending: whether it may still be answered
    :ivar client: client ID, or address without one
    :ivar host: the client's address without port
    :ivar broker: ``host:port``
    :ivar member: ID that the request names, or that the response gives where it names none; empty if neither does
    :ivar instance: of a static member
    :ivar generation: generation or member epoch of the request; -1 if it names none
    :ivar error: code of the response, 0 for none
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

    @property
    def at(self) -> int:
        """When it was over: when it was answered, or else asked."""
        return self.time if self.end is None else self.end

    @property
    def latest(self) -> int:
        """The last moment that it is about."""
        return self.at


@dataclass(slots=True, kw_only=True)
class Subscription:
    """What a member of a classic group says of itself.

    :ivar topics: that it wants
    :ivar owned: partitions that it says it has; None if the version of the protocol does not tell
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
    :ivar subscription: None if it is no consumer's, or cannot be read
    :ivar metadata: of the first protocol, as it is
    :ivar answered: generation of the response; -1 if there is none
    :ivar chosen: name of the assignor
    :ivar leader: member ID of the leader
    :ivar members: member ID -> instance ID, as the leader is told; empty for others
    :ivar subscriptions: member ID -> what it says of itself, likewise
    :ivar skip: whether the leader is to leave the assignment as it is (KIP-814)
    :ivar session_timeout: ns
    :ivar rebalance_timeout: ns; the session timeout where the request knows but one
    :ivar config_offset: up to where a worker of Kafka Connect has read its configuration; None of others
    :ivar running: member ID -> connectors and tasks that it runs, of this worker and of those that its leader knows
    :ivar one_timeout: whether it knows but one: before KIP-62, clients sent heartbeats only while they polled
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


@dataclass(frozen=True, slots=True)
class WorkerOrders:
    """What a worker of Kafka Connect is told with its assignment (KIP-415).

    :ivar runs: connectors and tasks that it is to run
    :ivar revoked: those that it is to stop, and to join again then
    :ivar incremental: whether it goes on with all else that it runs; else ``runs`` is all
    :ivar delay: ns until the group is to rebalance again, which waits for a lost worker to return; 0 if it is not
    :ivar behind: whether the leader's configuration is older than a member's, so that all are to join again
    """

    runs: frozenset[TopicPartition] = frozenset()
    revoked: frozenset[TopicPartition] = frozenset()
    incremental: bool = True
    delay: int = 0
    behind: bool = False

    def after(self, before: frozenset[TopicPartition] | None) -> frozenset[TopicPartition] | None:
        """Return what a worker runs that follows these orders; None if that is not known.

        :param before: what it ran when it joined; None if that is not known
        """
        if not self.incremental:
            return self.runs
        return None if before is None else (before - self.revoked) | self.runs


@dataclass(slots=True, kw_only=True)
class Sync(Call):
    """A SyncGroup.

    :ivar assigned: partitions of the member; None if it was not answered, or they are no consumer's
    :ivar given: member ID -> partitions, as the leader hands them in; empty for others
    :ivar leads: whether it hands assignments in
    :ivar orders: member ID -> orders of workers of Kafka Connect: those that the leader hands in, and its own if it was
        answered; empty of others
    :ivar tasks: member ID -> tasks of Kafka Streams, likewise
    """

    protocol_type: str = ""
    protocol: str = ""
    assigned: frozenset[TopicPartition] | None = None
    given: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    leads: bool = False
    orders: dict[str, WorkerOrders] = field(default_factory=dict)
    tasks: dict[str, Tasks] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Run(Call):
    """Some calls of a member that are alike: same generation, same outcome, nothing else of it in between.

    ``number``, ``time`` and ``end`` are those of the first.

    :ivar count: how many
    :ivar last_number: of the last
    :ivar last: when the last was sent
    :ivar last_end: when the last was answered; None if it was not
    :ivar longest: ns, the longest time from one to the next
    """

    count: int = 1
    last_number: int = 0
    last: int = 0
    last_end: int | None = None
    longest: int = 0

    @property
    def latest(self) -> int:
        """When the last one was answered, or else asked."""
        return max(self.last if self.last_end is None else self.last_end, self.at)


@dataclass(slots=True, kw_only=True)
class Beat(Run):
    """Heartbeats (key 12)."""


@dataclass(slots=True, kw_only=True)
class Commit(Run):
    """OffsetCommit and TxnOffsetCommit; those that failed stand alone."""

    transactional: bool = False


@dataclass(slots=True, kw_only=True)
class Leave(Call):
    """A LeaveGroup.

    :ivar gone: who is to go: member ID (empty if found by the instance), instance ID, reason, error code
    """

    gone: list[tuple[str, str | None, str, int]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ModernBeat(Run):
    """Heartbeats of a consumer, share or streams group; what says something new stands alone.

    :ivar kind: of the group
    :ivar epoch: member epoch of the response; None if it was not answered, or with an error
    :ivar owned: partitions that the member says it has; None if unchanged
    :ivar assigned: partitions that it is to have; None if unchanged
    :ivar tasks: of a streams member, those that it is to have; None if not told
    :ivar topics: of its subscription; None if unchanged
    :ivar pattern: of its subscription; None if unchanged
    :ivar rack: empty if none or unchanged
    :ivar interval: ns until the next one is due; None if not told
    :ivar rebalance_timeout: ns; None if unchanged
    :ivar message: of an error
    :ivar status: of a streams group: code and text of each problem
    :ivar topology: epoch of a streams topology that is sent; None if none is
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
    """What was said to one group.

    :ivar calls: in the order in which the exchanges were added
    :ivar kinds: of the calls by which members join
    :ivar protocol_type: of a classic group; empty if not told
    """

    group: str
    calls: list[Call] = field(default_factory=list)
    kinds: set[Kind] = field(default_factory=set)
    protocol_type: str = ""
    _running: dict[str, dict[tuple[type[Run], int], Run]] = field(default_factory=dict, repr=False)
    """Member ID -> kind of call and connection -> the run that may go on."""

    def ordered(self) -> list[Call]:
        """Return the calls in the order of their requests."""
        return sorted(self.calls, key=lambda call: (call.time, call.number))

    def add(self, call: Call) -> None:
        """Take a call in; one that goes on a run is put to it."""
        if isinstance(call, Run):
            mine = self._running.setdefault(call.member, {})
            place = type(call), call.connection
            run = mine.get(place)
            if run is not None and _goes_on(run, call):
                _extend(run, call)
                return
            mine[place] = call
        else:
            # what else a member does ends its runs
            self._running.pop(call.member, None)
        self._learn(call)
        self.calls.append(call)

    def heard(self, members: Iterable[str]) -> int:
        """Return when one of some members was last answered well in a run that goes on; 0 if none does."""
        return max(
            (
                run.last if isinstance(run, ModernBeat) else run.last_end or run.last
                for member in members
                for run in self._running.get(member, {}).values()
                if not run.error and not (isinstance(run, Commit) and run.generation < 0)
            ),
            default=0,
        )

    def and_also(self, calls: Iterable[Call]) -> GroupCalls:
        """Return the same with calls that are not answered yet; this stays as it is."""
        out = GroupCalls(self.group, [*self.calls], {*self.kinds}, self.protocol_type)
        for call in calls:
            out._learn(call)
            out.calls.append(call)
        return out

    def _learn(self, call: Call) -> None:
        if isinstance(call, Join):
            self.kinds.add(Kind.CLASSIC)
            self.protocol_type = call.protocol_type or self.protocol_type
        elif isinstance(call, ModernBeat):
            self.kinds.add(call.kind)


def _goes_on(run: Run, call: Run) -> bool:
    if (run.generation, run.error, run.broker) != (call.generation, call.error, call.broker):
        return False
    if run.pending or call.pending or call.end is None or run.last_end is None:
        return False
    if isinstance(call, ModernBeat):
        if not isinstance(run, ModernBeat) or (run.epoch, run.status) != (call.epoch, call.status):
            return False
        return not _tells(call, run)
    return not (call.error and isinstance(call, Commit))


def _tells(beat: ModernBeat, run: ModernBeat) -> bool:
    """Whether a heartbeat says more than that its sender is alive, and than those before it."""
    if beat.generation <= 0:
        return True
    said, before = _news(beat), _news(run)
    return any(each is not None and each != known for each, known in zip(said, before, strict=True))


def _news(beat: ModernBeat) -> tuple[object, ...]:
    copies = beat.tasks or Tasks(None, None, None)
    subscription = beat.topics, beat.pattern, beat.topology
    return beat.owned, beat.assigned, copies.standby, copies.warmup, *subscription


def _extend(run: Run, call: Run) -> None:
    run.longest = max(run.longest, call.longest if call.count > 1 else call.time - run.last)
    run.count += call.count
    run.last_number, run.last, run.last_end = call.number, call.time, call.end


def group_of(exchange: Exchange) -> str:
    """Return the group that a call of a member names; empty if it cannot be read."""
    value = exchange.request_body
    return text(value, "group_id") if value else ""
