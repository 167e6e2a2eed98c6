"""Per group: its kind, coordinator, members, generations, and what was asked of it.

Groups of all four kinds: classic (KIP-62), consumer (KIP-848), share (KIP-932) and streams (KIP-1071). A generation is
what JoinGroup answers call so, or the member epoch of the newer kinds. Only what was seen is counted: a generation
whose JoinGroup answers were not captured is missing, and so are members that did nothing since the capture began.

An exchange counts for every group that its messages name; a Fetch names none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from captures.analysis.introductions import client_name
from captures.exchanges import Exchange
from captures.meaning import groups_in
from captures.meaning.exchange import Body, number, rows, text

MOST_GENERATIONS = 50
"""The latest that are kept of each group."""
MOST_MEMBERS = 500
"""Of each group; those that were last seen are kept."""
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, OFFSET_COMMIT = 11, 12, 13, 14, 8
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
HEARTBEATS = {68: CONSUMER, 76: SHARE, 88: STREAMS}
"""API key -> kind of group whose members send it."""

_DESCRIBES = {15: "", 69: CONSUMER, 77: SHARE, 89: STREAMS}
_LIST_GROUPS = 16
_COORDINATED = frozenset({OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, *HEARTBEATS})
_LEAVING = frozenset({-1, -2})


@dataclass(slots=True)
class Member:
    """A member of a group.

    :ivar member_id: as the group knows it
    :ivar instance_id: of a static member (KIP-345); None if it is none, or the capture does not tell
    :ivar client: client ID, or address without one
    :ivar host: address without port
    :ivar generation: the latest it took part in; -1 if not told
    :ivar first: ns since the epoch, of its first request
    :ivar last: of its last
    :ivar exchanges: of it as a member
    :ivar left: ns since the epoch, when it left of its own accord; None if it did not
    """

    member_id: str
    client: str
    host: str
    first: int
    instance_id: str | None = None
    generation: int = -1
    last: int = 0
    exchanges: int = 0
    left: int | None = None


@dataclass(slots=True)
class Generation:
    """One generation of a group.

    :ivar number: of the generation
    :ivar first: number of the first exchange that told it
    :ivar time: ns since the epoch, when that was answered
    :ivar protocol: name of the assignor; empty if not told
    :ivar leader: member ID of the leader; empty if there is none
    :ivar members: IDs of the members that were told it
    :ivar size: members that it has, as the leader was told; None if it was not captured
    """

    number: int
    first: int
    time: int
    protocol: str = ""
    leader: str = ""
    members: list[str] = field(default_factory=list)
    size: int | None = None


@dataclass(slots=True)
class GroupRow:
    """One group.

    :ivar kind: ``classic``, ``consumer``, ``share`` or ``streams``; empty if not told
    :ivar protocol_type: of a classic group, such as ``consumer`` or ``connect``; empty if not told
    :ivar protocol: name of the assignor; empty if not told
    :ivar coordinator: ``host:port`` of the broker that last answered as its coordinator; empty if none did
    :ivar state: as last described; empty if it was not
    :ivar exchanges: those that name it
    :ivar apis: these by API, the most frequent first
    :ivar errors: how often by name, expected ones left out
    :ivar rebalances: generations that were begun while the capture went on
    :ivar generation: the latest; -1 if none was told
    :ivar generations: the latest of them, in order
    :ivar members: by ID, those that were seen, in order of appearance
    :ivar first: ns since the epoch, of the first exchange that names it
    :ivar last: of the last
    """

    group: str
    kind: str = ""
    protocol_type: str = ""
    protocol: str = ""
    coordinator: str = ""
    state: str = ""
    exchanges: int = 0
    apis: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    rebalances: int = 0
    generation: int = -1
    generations: list[Generation] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)
    first: int = 0
    last: int = 0

    @property
    def present(self) -> list[Member]:
        """The members that have not left."""
        return [member for member in self.members.values() if member.left is None]


class GroupStats:
    """Counts exchanges by group."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupRow] = {}

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        key = exchange.api_key
        if key is None:
            return
        request = (exchange.request.value if exchange.request else None) or {}
        response = (exchange.response.value if exchange.response else None) or {}
        named = _named(exchange)
        for name in named:
            self._count(self._group(name, exchange.time), exchange)
        if key == _LIST_GROUPS:
            self._listed(response)
        elif key in _DESCRIBES:
            self._described(response, _DESCRIBES[key])
        elif len(named) == 1:
            group = self._groups[named[0]]
            if key in _COORDINATED and response and not exchange.errors:
                group.coordinator = exchange.broker
            step = _STEPS.get(key)
            if step is not None:
                step(group, exchange, request, response)

    def result(self) -> list[GroupRow]:
        """Return the groups, the one with the most exchanges first."""
        for group in self._groups.values():
            group.apis = Counter(dict(group.apis.most_common()))
        return sorted(self._groups.values(), key=lambda group: (-group.exchanges, group.group))

    def _group(self, name: str, time: int) -> GroupRow:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = GroupRow(name, first=time)
        return group

    @staticmethod
    def _count(group: GroupRow, exchange: Exchange) -> None:
        group.exchanges += 1
        group.apis[exchange.api] += 1
        group.first = min(group.first, exchange.time)
        group.last = max(group.last, exchange.time)
        expected = {error.path for error in exchange.expected}
        group.errors.update({error.name for error in exchange.errors if error.path not in expected})

    def _listed(self, response: Body) -> None:
        for row in rows(response, "groups"):
            group = self._groups.get(text(row, "group_id"))
            if group is not None:
                group.state = text(row, "group_state") or group.state
                group.protocol_type = text(row, "protocol_type") or group.protocol_type
                group.kind = text(row, "group_type").lower() or group.kind

    def _described(self, response: Body, kind: str) -> None:
        for row in rows(response, "groups"):
            group = self._groups.get(text(row, "group_id"))
            if group is None or row.get("error_code"):
                continue
            group.state = text(row, "group_state") or group.state
            group.kind = group.kind or kind
            group.protocol_type = text(row, "protocol_type") or group.protocol_type
            group.protocol = text(row, "protocol_data") or text(row, "assignor_name") or group.protocol


def _named(exchange: Exchange) -> list[str]:
    """Return the groups that the messages name, each once."""
    found: dict[str, None] = {}
    key, request, response = exchange.api_key or 0, exchange.request, exchange.response
    if request is not None and request.version is not None:
        found.update(dict.fromkeys(groups_in(key, request.version, request.value)))
    if response is not None and response.version is not None:
        found.update(dict.fromkeys(groups_in(key, response.version, response.value, "response")))
    return list(found)


# ---------------------------------------------------------------- what the APIs of members tell
def _member(group: GroupRow, exchange: Exchange, member_id: str) -> Member | None:
    """Return the member that has sent a request; None if it has no ID yet."""
    if not member_id:
        return None
    member = group.members.get(member_id)
    if member is None:
        host = exchange.client.rpartition(":")[0]
        member = group.members[member_id] = Member(member_id, client_name(exchange), host, exchange.time)
        if len(group.members) > MOST_MEMBERS:
            del group.members[min(group.members.values(), key=lambda each: each.last or each.first).member_id]
    member.last = max(member.last, exchange.time)
    member.exchanges += 1
    return member


def _generation(group: GroupRow, exchange: Exchange, number_: int, member: Member) -> Generation:
    """Note that a member is told a generation; return it."""
    member.generation = number_
    known = next((each for each in reversed(group.generations) if each.number == number_), None)
    if known is None:
        known = Generation(number_, exchange.number, exchange.time + (exchange.latency or 0))
        group.generations.append(known)
        group.rebalances += 1
        del group.generations[:-MOST_GENERATIONS]
    group.generation = max(group.generation, number_)
    if member.member_id not in known.members:
        known.members.append(member.member_id)
    return known


def _join(group: GroupRow, exchange: Exchange, request: Body, response: Body) -> None:
    group.kind = CLASSIC
    group.protocol_type = text(request, "protocol_type") or group.protocol_type
    told = number(response, "generation_id")
    joined = not response.get("error_code") and told >= 0
    member = _member(group, exchange, text(response if joined else request, "member_id"))
    if member is None:
        return
    member.instance_id = request.get("group_instance_id") or member.instance_id
    if not joined:
        return
    member.left = None
    generation = _generation(group, exchange, told, member)
    generation.protocol = text(response, "protocol_name") or generation.protocol
    generation.leader = text(response, "leader") or generation.leader
    group.protocol = generation.protocol or group.protocol
    size = len(rows(response, "members"))
    if size:
        generation.size = size


def _stay(group: GroupRow, exchange: Exchange, request: Body, response: Body) -> None:
    """Heartbeat, SyncGroup and OffsetCommit of a member."""
    member = _member(group, exchange, text(request, "member_id"))
    if member is not None and not response.get("error_code"):
        # OffsetCommit calls it differently since it may be a member epoch
        told = number(request, "generation_id", number(request, "generation_id_or_member_epoch"))
        member.generation = max(member.generation, told)
        group.generation = max(group.generation, told)
        group.kind = group.kind or (CLASSIC if exchange.api_key != OFFSET_COMMIT else "")


def _leave(group: GroupRow, exchange: Exchange, request: Body, response: Body) -> None:
    group.kind = group.kind or CLASSIC
    if response.get("error_code"):
        return
    for row in rows(request, "members") or [request]:
        instance = row.get("group_instance_id")
        for member in group.members.values():
            if member.member_id == row.get("member_id") or (instance and member.instance_id == instance):
                member.left, member.last = exchange.time, max(member.last, exchange.time)


def _beat(group: GroupRow, exchange: Exchange, request: Body, response: Body) -> None:
    """A heartbeat of the newer kinds, by which members join, stay and leave."""
    group.kind = HEARTBEATS[exchange.api_key or 0]
    group.protocol = text(request, "server_assignor") or group.protocol
    member = _member(group, exchange, text(response, "member_id") or text(request, "member_id"))
    if member is None:
        return
    member.instance_id = request.get("instance_id") or member.instance_id
    if number(request, "member_epoch", 0) in _LEAVING:
        member.left = exchange.time
        return
    told = number(response, "member_epoch")
    if not response.get("error_code") and told >= 0:
        member.left = None
        _generation(group, exchange, told, member)


_STEPS: dict[int, Callable[[GroupRow, Exchange, Body, Body], None]] = {
    JOIN_GROUP: _join,
    HEARTBEAT: _stay,
    SYNC_GROUP: _stay,
    OFFSET_COMMIT: _stay,
    LEAVE_GROUP: _leave,
    **dict.fromkeys(HEARTBEATS, _beat),
}
