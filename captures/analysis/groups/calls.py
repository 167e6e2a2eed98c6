"""What members say to their coordinator, taken out of the exchanges: small values from which stories are made.

Heartbeats and commits that say nothing new are put together in runs, so that a group that is at peace for days takes
no more memory than one that is for a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from captures.analysis.groups.model import Kind, Place
from captures.analysis.introductions import client_name
from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, inner, items, number, rows, text
from dissectors import embedded

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 10, 11, 12, 13, 14
TXN_OFFSET_COMMIT = 28
HEARTBEATS = {68: Kind.CONSUMER, 76: Kind.SHARE, 88: Kind.STREAMS}
"""API key -> kind of group whose members send it."""
OF_MEMBERS = frozenset(
    {OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, TXN_OFFSET_COMMIT, *HEARTBEATS}
)
"""APIs that members speak with their coordinator."""

_MS = 1_000_000


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


@dataclass(slots=True, kw_only=True)
class Subscription:
    """What a member of a classic group says of itself.

    :ivar topics: that it wants
    :ivar owned: partitions that it says it has; None if the version of the protocol does not tell
    """

    topics: tuple[str, ...] = ()
    owned: frozenset[Place] | None = None
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
    :ivar rebalance_timeout: ns
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


@dataclass(slots=True, kw_only=True)
class Sync(Call):
    """A SyncGroup.

    :ivar assigned: partitions of the member; None if it was not answered, or they are no consumer's
    :ivar given: member ID -> partitions, as the leader hands them in; empty for others
    :ivar leads: whether it hands assignments in
    """

    protocol_type: str = ""
    protocol: str = ""
    assigned: frozenset[Place] | None = None
    given: dict[str, frozenset[Place]] = field(default_factory=dict)
    leads: bool = False


@dataclass(slots=True, kw_only=True)
class Run(Call):
    """Some calls of a member that are alike: same generation, same outcome, nothing else of it in between.

    ``number``, ``time`` and ``end`` are those of the first.

    :ivar count: how many
    :ivar last_number: of the last
    :ivar last: when the last was sent
    :ivar last_end: when the last was answered; None if it was not
    :ivar longest: ns, the longest time from one to the next
    :ivar longest_number: number of the exchange before that time
    """

    count: int = 1
    last_number: int = 0
    last: int = 0
    last_end: int | None = None
    longest: int = 0
    longest_number: int = 0


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
    :ivar standby: of a streams member, standby and warm-up tasks; None if unchanged
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
    owned: frozenset[Place] | None = None
    assigned: frozenset[Place] | None = None
    standby: frozenset[Place] | None = None
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
    :ivar version: changes with every exchange
    """

    group: str
    calls: list[Call] = field(default_factory=list)
    kinds: set[Kind] = field(default_factory=set)
    protocol_type: str = ""
    version: int = 0
    _running: dict[tuple[type[Run], str, int], Run] = field(default_factory=dict, repr=False)

    def ordered(self) -> list[Call]:
        """Return the calls in the order of their requests."""
        return sorted(self.calls, key=lambda call: (call.time, call.number))

    def add(self, call: Call) -> None:
        """Take a call in; one that goes on a run is put to it."""
        self.version += 1
        if isinstance(call, Run):
            place = type(call), call.member, call.connection
            run = self._running.get(place)
            if run is not None and _goes_on(run, call):
                _extend(run, call)
                return
            self._running[place] = call
        elif call.member:
            # what else a member does ends its runs
            for known in [known for known in self._running if known[1] == call.member]:
                del self._running[known]
        self.calls.append(call)


def _goes_on(run: Run, call: Run) -> bool:
    if (run.generation, run.error, run.broker) != (call.generation, call.error, call.broker):
        return False
    if run.pending or call.pending or call.end is None or run.last_end is None:
        return False
    if isinstance(call, ModernBeat):
        return not _tells(call) and isinstance(run, ModernBeat) and run.epoch == call.epoch
    return not (call.error and isinstance(call, Commit))


def _tells(beat: ModernBeat) -> bool:
    """Whether a heartbeat says more than that its sender is alive."""
    news = beat.owned, beat.assigned, beat.standby, beat.topics, beat.pattern, beat.topology
    return any(each is not None for each in news) or bool(beat.status) or beat.generation <= 0


def _extend(run: Run, call: Run) -> None:
    gap = call.time - run.last
    if gap > run.longest:
        run.longest, run.longest_number = gap, run.last_number
    run.count += 1
    run.last_number, run.last, run.last_end = call.number, call.time, call.end


# ---------------------------------------------------------------- out of exchanges
def read_call(
    exchange: Exchange, names: Names, protocol_type: str = "", *, pending: bool = False
) -> Call | None:
    """Return what a member says in an exchange; None if it is no call of a member, or too little of it is known.

    :param names: tells names of topic IDs
    :param protocol_type: of the group, where it was told before
    :param pending: whether the exchange may still be answered
    """
    read = _READERS.get(-1 if exchange.api_key is None else exchange.api_key)
    if read is None or exchange.request is None or not exchange.request.value:
        return None
    request = exchange.request.value
    response = (exchange.response.value if exchange.response else None) or {}
    latency = exchange.latency
    common: dict[str, Any] = {
        "number": exchange.number,
        "time": exchange.time,
        "end": None if latency is None else exchange.time + max(latency, 0),
        "pending": pending and latency is None,
        "connection": exchange.connection,
        "client": client_name(exchange),
        "host": exchange.client.rpartition(":")[0],
        "broker": exchange.broker,
    }
    return read(common, exchange, request, response, _Reading(names, protocol_type))


@dataclass(frozen=True, slots=True)
class _Reading:
    names: Names
    protocol_type: str


def group_of(exchange: Exchange) -> str:
    """Return the group that a call of a member names; empty if it cannot be read."""
    value = exchange.request.value if exchange.request else None
    return text(value, "group_id") if value else ""


def _join(common: dict[str, Any], _: Exchange, request: Body, response: Body, reading: _Reading) -> Call:
    protocol_type = text(request, "protocol_type") or reading.protocol_type
    protocols = rows(request, "protocols")
    first = protocols[0] if protocols else {}
    error = number(response, "error_code", 0)
    session = number(request, "session_timeout_ms")
    rebalance = number(request, "rebalance_timeout_ms")
    chosen = text(response, "protocol_name")
    told = rows(response, "members")
    metadata = first.get("metadata")
    subscriptions = {
        text(row, "member_id"): known
        for row in told
        if (known := _subscription(row.get("metadata"), protocol_type, chosen)) is not None
    }
    return Join(
        **common,
        member=text(request, "member_id") or text(response, "member_id"),
        instance=request.get("group_instance_id"),
        error=error,
        asked_as=text(request, "member_id"),
        protocol_type=protocol_type,
        reason=text(request, "reason"),
        protocols=tuple(text(row, "name") for row in protocols),
        subscription=_subscription(metadata, protocol_type, text(first, "name")),
        metadata=metadata if isinstance(metadata, bytes) else b"",
        answered=-1 if error else number(response, "generation_id"),
        chosen=chosen,
        leader=text(response, "leader"),
        members={text(row, "member_id"): row.get("group_instance_id") for row in told},
        subscriptions=subscriptions,
        skip=bool(response.get("skip_assignment")),
        session_timeout=session * _MS if session > 0 else None,
        # before KIP-62 the session timeout was the time to join, too
        rebalance_timeout=(rebalance if rebalance > 0 else session) * _MS
        if max(rebalance, session) > 0
        else None,
    )


def _sync(common: dict[str, Any], _: Exchange, request: Body, response: Body, reading: _Reading) -> Call:
    protocol_type = text(request, "protocol_type") or text(response, "protocol_type") or reading.protocol_type
    error = number(response, "error_code", 0)
    protocol = text(response, "protocol_name") or text(request, "protocol_name")
    given = rows(request, "assignments")
    known = {
        text(row, "member_id"): places
        for row in given
        if (places := _assignment(row.get("assignment"), protocol_type, protocol)) is not None
    }
    return Sync(
        **common,
        member=text(request, "member_id"),
        instance=request.get("group_instance_id"),
        generation=number(request, "generation_id"),
        error=error,
        protocol_type=protocol_type,
        protocol=protocol,
        assigned=_assignment(response.get("assignment"), protocol_type, protocol)
        if response and not error
        else None,
        given=known,
        leads=bool(given),
    )


def _run(common: dict[str, Any], request: Body, generation: str) -> dict[str, Any]:
    return common | {
        "member": text(request, "member_id"),
        "instance": request.get("group_instance_id"),
        "generation": number(request, generation),
        "last_number": common["number"],
        "last": common["time"],
        "last_end": common["end"],
    }


def _beat(common: dict[str, Any], _: Exchange, request: Body, response: Body, __: _Reading) -> Call:
    return Beat(**_run(common, request, "generation_id"), error=number(response, "error_code", 0))


def _commit(common: dict[str, Any], exchange: Exchange, request: Body, response: Body, _: _Reading) -> Call:
    transactional = exchange.api_key == TXN_OFFSET_COMMIT
    generation = "generation_id" if transactional else "generation_id_or_member_epoch"
    codes = [
        number(row, "error_code", 0)
        for topic in rows(response, "topics")
        for row in rows(topic, "partitions")
    ]
    error = number(response, "error_code", 0) or next((code for code in codes if code), 0)
    return Commit(**_run(common, request, generation), error=error, transactional=transactional)


def _leave(common: dict[str, Any], _: Exchange, request: Body, response: Body, __: _Reading) -> Call:
    answered = rows(response, "members")
    gone = []
    for place, row in enumerate(rows(request, "members") or [request]):
        code = number(answered[place], "error_code", 0) if place < len(answered) else 0
        gone.append((text(row, "member_id"), row.get("group_instance_id"), text(row, "reason"), code))
    first = gone[0]
    alone = len(gone) == 1
    return Leave(
        **common,
        member=first[0] if alone else "",
        instance=first[1] if alone else None,
        error=number(response, "error_code", 0) or (first[3] if alone else 0),
        gone=gone,
    )


def _modern(
    common: dict[str, Any], exchange: Exchange, request: Body, response: Body, reading: _Reading
) -> Call:
    kind = HEARTBEATS[exchange.api_key or 0]
    error = number(response, "error_code", 0)
    interval = number(response, "heartbeat_interval_ms")
    timeout = number(request, "rebalance_timeout_ms")
    epoch = response.get("member_epoch")
    topology = request.get("topology")
    if kind is Kind.STREAMS:
        owned, assigned = _tasks(request, "active_tasks"), _tasks(response, "active_tasks")
        others = [_tasks(response, name) for name in ("standby_tasks", "warmup_tasks")]
        standby = None if None in others else frozenset().union(*(each or () for each in others))
    else:
        owned, standby = _partitions(request.get("topic_partitions"), reading.names), None
        told = inner(response, "assignment")
        held = told.get("topic_partitions", told.get("assigned_topic_partitions"))
        assigned = _partitions(held, reading.names)
    named = request.get("subscribed_topic_names")
    return ModernBeat(
        **_run(common, request, "member_epoch")
        | {
            "member": text(request, "member_id") or text(response, "member_id"),
            "instance": request.get("instance_id"),
        },
        kind=kind,
        error=error,
        epoch=epoch if not error and isinstance(epoch, int) else None,
        owned=owned,
        assigned=None if error else assigned,
        standby=None if error else standby,
        topics=tuple(items(request, "subscribed_topic_names")) if named is not None else None,
        pattern=request.get("subscribed_topic_regex"),
        assignor=text(request, "server_assignor"),
        rack=text(request, "rack_id"),
        interval=interval * _MS if interval > 0 else None,
        rebalance_timeout=timeout * _MS if timeout > 0 else None,
        message=text(response, "error_message"),
        status=tuple(
            (number(row, "status_code"), text(row, "status_detail")) for row in rows(response, "status")
        ),
        topology=number(topology, "epoch") if isinstance(topology, dict) else None,
    )


def _tasks(body: Body, field_name: str) -> frozenset[Place] | None:
    if not isinstance(body.get(field_name), list):
        return None
    return frozenset(
        Place(text(row, "subtopology_id"), task)
        for row in rows(body, field_name)
        for task in items(row, "partitions")
    )


def _partitions(topics: Any, names: Names) -> frozenset[Place] | None:
    if not isinstance(topics, list | tuple):
        return None
    found: set[Place] = set()
    for topic in topics:
        if not isinstance(topic, Mapping):
            continue
        named = topic.get("topic") or topic.get("topic_id")
        if isinstance(named, str):
            named = names(named) or named if topic.get("topic") is None else named
            found.update(Place(named, index) for index in topic.get("partitions") or ())
    return frozenset(found)


def _embedded(content: str, data: Any, protocol_type: str, protocol: str) -> Mapping[str, Any] | None:
    if not isinstance(data, bytes) or not data:
        return None
    hints = embedded.Hints(protocol_type=protocol_type or None, protocol_name=protocol or None)
    value = embedded.decode(content, data, hints).value
    return value if isinstance(value, Mapping) else None


def _subscription(data: Any, protocol_type: str, protocol: str) -> Subscription | None:
    value = _embedded("group_metadata", data, protocol_type, protocol)
    if value is None or not isinstance(value.get("topics"), list | tuple):
        return None
    return Subscription(
        topics=tuple(sorted(text for text in value["topics"] if isinstance(text, str))),
        owned=_partitions(value.get("owned_partitions"), lambda _: None),
        generation=number(value, "generation_id"),
        rack=text(value, "rack_id"),
    )


def _assignment(data: Any, protocol_type: str, protocol: str) -> frozenset[Place] | None:
    if data == b"":
        return frozenset()
    value = _embedded("group_assignment", data, protocol_type, protocol)
    return None if value is None else _partitions(value.get("assigned_partitions"), lambda _: None)


_READERS = {
    OFFSET_COMMIT: _commit,
    TXN_OFFSET_COMMIT: _commit,
    JOIN_GROUP: _join,
    HEARTBEAT: _beat,
    LEAVE_GROUP: _leave,
    SYNC_GROUP: _sync,
    **dict.fromkeys(HEARTBEATS, _modern),
}
