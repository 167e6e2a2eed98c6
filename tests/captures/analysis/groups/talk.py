"""Synthetic messages of classic group members to their coordinator: exchanges of a group ``orders``.

A member is named by its client ID; each has a connection of its own. Times are seconds after the beginning.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from captures.analysis.groups.history import GroupHistories
from captures.analysis.groups.model import GroupTimeline
from captures.exchanges import Exchange, Flag
from dissectors.embedded.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.captures.analysis import kit
from tests.captures.analysis.groups.kit import BEGIN, SECOND, at

GROUP = "orders"
Partitions = Mapping[str, Iterable[int]]


def subscription(topics: Iterable[str], owned: Partitions | None = None) -> bytes:
    """Return a consumer's subscription, prefixed with its version (ConsumerProtocol.java)."""
    value = {"topics": list(topics), "user_data": None, "owned_partitions": _named(owned or {})}
    return struct.pack(">h", 1) + ConsumerProtocolSubscription[1].build(value)


def assignment(partitions: Partitions) -> bytes:
    """Return a consumer's assignment, likewise."""
    value = {"assigned_partitions": _named(partitions), "user_data": None}
    return struct.pack(">h", 1) + ConsumerProtocolAssignment[1].build(value)


def _named(partitions: Partitions) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions.items()]


class Talk:
    """Exchanges in order.

    :ivar said: all of them
    """

    def __init__(self, group: str = GROUP, protocol: str = "range") -> None:
        self.group = group
        self.protocol = protocol
        self.said: list[Exchange] = []
        self._connections: dict[str, int] = {}

    # ------------------------------------------------------------ members
    def join(
        self,
        member: str,
        begin: float,
        end: float | None,
        generation: int,
        *,
        leader: str = "",
        members: Iterable[str] = (),
        new: bool = False,
        topics: Iterable[str] = ("orders",),
        owned: Partitions | None = None,
        reason: str = "",
        instance: str | None = None,
        error: int = 0,
        version: int = 9,
        **more: Any,
    ) -> Exchange:
        """A JoinGroup; its response tells the leader all members.

        :param new: it does not know its ID yet
        """
        name = member.partition("/")[0]
        request = {
            "group_id": self.group,
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": "" if new else member,
            "group_instance_id": instance,
            "protocol_type": "consumer",
            "protocols": [{"name": self.protocol, "metadata": subscription(topics, owned)}],
            "reason": reason,
        } | more.pop("request", {})
        leads = member == leader
        response = {
            "error_code": error,
            "generation_id": -1 if error else generation,
            "protocol_name": self.protocol,
            "leader": leader,
            "member_id": member,
            "members": [
                {"member_id": each, "group_instance_id": None, "metadata": subscription(topics)}
                for each in members
            ]
            if leads
            else [],
        }
        return self._say(11, version, name, request, response, begin, end, **more)

    def new(self, member: str, begin: float, end: float | None, generation: int, **more: Any) -> Exchange:
        """A member's first JoinGroup, answered with an ID, and a second one with that ID (KIP-394)."""
        first = {name: value for name, value in more.items() if name in ("topics", "instance")}
        self.join(member, begin, begin + 0.001, -1, new=True, error=79, **first)
        return self.join(member, begin + 0.002, end, generation, **more)

    def sync(
        self,
        member: str,
        time: float,
        generation: int,
        assigned: Partitions | None = None,
        given: Mapping[str, Partitions] | None = None,
        error: int = 0,
        took: float | None = 0.002,
    ) -> Exchange:
        """A SyncGroup; the leader's contains the assignments."""
        request = {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": member,
            "protocol_type": "consumer",
            "protocol_name": self.protocol,
            "assignments": [
                {"member_id": each, "assignment": assignment(partitions)}
                for each, partitions in (given or {}).items()
            ],
        }
        response = {"error_code": error, "assignment": b"" if assigned is None else assignment(assigned)}
        return self._say(14, 5, member, request, response, time, None if took is None else time + took)

    def beat(self, member: str, time: float, generation: int, error: int = 0, **more: Any) -> Exchange:
        """A heartbeat."""
        request = {"group_id": self.group, "generation_id": generation, "member_id": member}
        return self._say(12, 4, member, request, {"error_code": error}, time, time + 0.001, **more)

    def beats(self, member: str, begin: float, end: float, generation: int, error: int = 0) -> None:
        """Heartbeats, one per second."""
        for step in range(int(end - begin) + 1):
            self.beat(member, begin + step, generation, error)

    def commit(self, member: str, time: float, generation: int, error: int = 0) -> Exchange:
        """An OffsetCommit."""
        request = {"group_id": self.group, "generation_id_or_member_epoch": generation, "member_id": member}
        response = {
            "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": error}]}]
        }
        return self._say(8, 8, member, request, response, time, time + 0.001)

    def leave(self, member: str, time: float, *, reason: str = "", by: str = "", **more: Any) -> Exchange:
        """A LeaveGroup.

        :param by: client that sends it, if it is not the member
        """
        gone = {"member_id": member, "group_instance_id": None, "reason": reason} | more.pop("gone", {})
        response = {"error_code": 0, "members": [gone | {"error_code": more.pop("error", 0)}]}
        request = {"group_id": self.group, "members": [gone]}
        end = None if more.pop("unanswered", False) else time + 0.001
        return self._say(13, 5, by or member, request, response, time, end, **more)

    # ------------------------------------------------------------ others
    def metadata(self, client: str, time: float, partitions: Mapping[str, int]) -> Exchange:
        """A Metadata with the partition counts of topics; 0 for topics that do not exist."""
        topics = [
            {
                "name": topic,
                "error_code": 0 if count else 3,
                "partitions": [{"partition_index": i} for i in range(count)],
            }
            for topic, count in partitions.items()
        ]
        return self._say(3, 12, client, {"topics": None}, {"topics": topics}, time, time + 0.001)

    def find_coordinator(self, client: str, time: float, host: str, port: int = 9092) -> Exchange:
        response = {"error_code": 0, "node_id": 1, "host": host, "port": port}
        return self._say(10, 2, client, {"key": self.group, "key_type": 0}, response, time, time + 0.001)

    def _say(
        self,
        key: int,
        version: int,
        member: str,
        request: dict[str, Any],
        response: dict[str, Any],
        begin: float,
        end: float | None,
        **fields: Any,
    ) -> Exchange:
        client = member.partition("/")[0]
        connection = self._connections.setdefault(member, len(self._connections))
        common: dict[str, Any] = {
            "number": len(self.said) + 1,
            "time": at(begin),
            "latency": None if end is None else at(end) - at(begin),
            "flag": Flag.UNANSWERED if end is None else Flag(0),
            "client_id": client,
            "client": f"10.0.0.{connection + 10}:4000",
            "connection": connection,
        }
        answer = None if end is None else response
        made = kit.exchange(key, version, request=request, response=answer, **common | fields)
        self.said.append(made)
        return made

    # ------------------------------------------------------------ results
    def timelines(self, until: float | None = None, pending: Iterable[Exchange] = ()) -> list[GroupTimeline]:
        """Return the timelines of all groups.

        :param until: the end of the capture
        """
        waiting = list(pending)
        histories = GroupHistories(lambda _: None)
        for exchange in self.said:
            if exchange not in waiting:
                histories.add(exchange)
        return histories.result(now=None if until is None else at(until), pending=waiting)

    def timeline(self, until: float | None = None, pending: Iterable[Exchange] = ()) -> GroupTimeline:
        """Return the timeline of the group."""
        return next(each for each in self.timelines(until, pending) if each.group == self.group)


def seconds(time: int | None) -> float | None:
    """Return a time as seconds after the beginning."""
    return None if time is None else round((time - BEGIN) / SECOND, 3)


def one_member() -> Talk:
    """m1 has joined, leads, and has all partitions in generation 1 from second 3.01 on."""
    talk = Talk()
    talk.new("m1", 0, 3, 1, leader="m1", members=["m1"])
    talk.sync("m1", 3.005, 1, {"orders": [0, 1]}, {"m1": {"orders": [0, 1]}})
    return talk


def two_members(protocol: str = "range") -> Talk:
    """m1 leads generation 1, m2 is also in it; each has a partition from second 3.01 on."""
    talk = Talk(protocol=protocol)
    talk.new("m1", 0, 3, 1, leader="m1", members=["m1", "m2"])
    talk.new("m2", 1, 3, 1, leader="m1")
    talk.sync("m1", 3.005, 1, {"orders": [0]}, {"m1": {"orders": [0]}, "m2": {"orders": [1]}})
    talk.sync("m2", 3.006, 1, {"orders": [1]})
    return talk
