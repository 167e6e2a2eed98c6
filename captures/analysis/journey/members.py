"""Which member of a group a client is: a Fetch names neither, so this is inferred.

Members are known by what they say to the coordinator (JoinGroup, SyncGroup, heartbeats, commits), and belong to the
client ID and host from which they say it. Where a client has been several members, it is the latest whom the partition
was assigned to; if no assignment tells, none is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from captures.analysis.introductions import client_name
from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, inner, items, rows, text
from captures.meaning.places import Place, topic
from dissectors import embedded

OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, CONSUMER_HEARTBEAT = 8, 11, 12, 13, 14, 68
_TOLD_BY = frozenset({OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, CONSUMER_HEARTBEAT})
_CONSUMER = embedded.Hints(protocol_type="consumer")

MOST_MEMBERS = 64
"""Members that are remembered of a client in a group: one that crashes again and again is a new one each time."""

_Key = tuple[str, str, str]
"""Group, client ID or address, host."""


class Members:
    """Remembers members; exchanges in their order.

    :param names: tells names of topic IDs
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._members: dict[_Key, dict[str, set[Place] | None]] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange, of whichever API."""
        if exchange.api_key not in _TOLD_BY:
            return
        request = (exchange.request.value if exchange.request else None) or {}
        response = (exchange.response.value if exchange.response else None) or {}
        group = text(request, "group_id")
        member = text(response, "member_id") or text(request, "member_id")
        if not group or not member:
            return
        known = self._members.setdefault((group, client_name(exchange), _host(exchange)), {})
        assigned = known.pop(member, None)
        if exchange.api_key == LEAVE_GROUP:
            return
        told = self._assignment(exchange.api_key, response)
        known[member] = assigned if told is None else told  # the latest comes last
        if len(known) > MOST_MEMBERS:
            del known[next(iter(known))]

    def of(self, group: str, client: str, host: str, place: Place) -> str:
        """Return the member ID of who fetches a partition for a group; empty if it cannot be told."""
        known = self._members.get((group, client, host))
        if not known:
            return ""
        if len(known) == 1:
            return next(iter(known))
        for member in reversed(known):
            assigned = known[member]
            if assigned is not None and place in assigned:
                return member
        return ""

    def _assignment(self, key: int | None, response: Body) -> set[Place] | None:
        """Return the partitions that a response assigns; None if it tells nothing of that."""
        if key == SYNC_GROUP and isinstance(response.get("assignment"), bytes):
            said = embedded.decode("group_assignment", response["assignment"], _CONSUMER).value
            return set(self._places(said, "assigned_partitions")) if isinstance(said, dict) else None
        if key == CONSUMER_HEARTBEAT and isinstance(response.get("assignment"), dict):
            return set(self._places(inner(response, "assignment"), "topic_partitions"))
        return None

    def _places(self, holder: Any, field: str) -> Iterator[Place]:
        for row in rows(holder, field):
            name = topic(row, lambda uuid: self._names(uuid) or uuid)
            for partition in items(row, "partitions"):
                yield name, partition


def _host(exchange: Exchange) -> str:
    return exchange.client.rpartition(":")[0]
