"""Values that only the live cluster can give, instead of recorded ones.

A recorded client repeated what a broker had told it: its member ID, its generation, its producer ID, an offset. The
live broker tells other values at the same place of the same exchange, so each pair of recorded and live response
teaches what to put into later requests. The meaning of a field follows from its declaration and the structs around it.
A value of which nothing was learned goes out as it was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from captures.meaning import places
from dissectors import wire
from dissectors.api_keys import GROUP_HEARTBEATS, ApiKey
from dissectors.apis import api
from dissectors.domains import LEADER_EPOCH
from dissectors.session_context import SessionContext
from kproxy.replay.cluster import LiveCluster
from kproxy.replay.fetch_sessions import FetchSession, FetchSessions, answered
from kproxy.replay.offsets import Offsets, told_offsets
from kproxy.replay.producers import Producer, with_producers

Body = dict[str, Any]


GIVEN: Final = ("member_id", "client_instance_id", "subscription_id")
"""Fields whose values a broker makes up, and clients repeat."""

GENERATIONS: Final = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
"""Fields that hold a generation or member epoch; 0 and less have meanings of their own."""

_OFFSETS: dict[int, str] = {
    ApiKey.FETCH: "fetch_offset",
    ApiKey.OFFSET_COMMIT: "committed_offset",
    ApiKey.TXN_OFFSET_COMMIT: "committed_offset",
    ApiKey.DELETE_RECORDS: "offset",
}
_PRODUCER_FIELDS = (
    ("producer_id", "producer_epoch"),
    ("v3_and_below_producer_id", "v3_and_below_producer_epoch"),
)
_LOST_EPOCH = -1


@dataclass(frozen=True, slots=True)
class _Scope:
    """The values of the structs around a field."""

    topic: str | None = None
    partition: int = -1
    group: str = ""
    member: str = ""


class ValueMapping:
    """What was learned so far, and requests translated by it.

    :param knowledge: names of recorded topic IDs
    :param keep_offsets: leave offsets as they were recorded
    """

    def __init__(
        self, knowledge: SessionContext, cluster: LiveCluster, *, keep_offsets: bool = False
    ) -> None:
        self.knowledge = knowledge
        self.cluster = cluster
        self.sessions = FetchSessions()
        self.offsets = Offsets()
        self._keep_offsets = keep_offsets
        self._given: dict[tuple[str, Any], Any] = {}
        self._generations: dict[tuple[str, str, int], int] = {}
        self._producers: dict[Producer, Producer] = {}

    def learn_producer(self, recorded: Producer, live: Producer) -> None:
        """Note who takes the place of a recorded producer."""
        self._producers[recorded] = live

    # ------------------------------------------------------------ requests
    def request(self, key: int, version: int, body: Body) -> tuple[Body, FetchSession | None]:
        """Return what is sent instead of a recorded request, and the fetch session it is part of, if any."""
        known = api(key)
        if known is None:
            return body, None
        made = self._struct(key, known.request[version].struct, body, _Scope())
        if key == ApiKey.API_VERSIONS and made.get("cluster_id") is not None:
            made["cluster_id"] = self.cluster.cluster_id
        if key == ApiKey.FETCH:
            return self.sessions.request(version, made)
        return made, None

    def _struct(self, key: int, struct: wire.Struct, value: Body, scope: _Scope) -> Body:
        scope = self._scope(value, scope)
        made = dict(value)
        for member in struct.all_members:
            found = value.get(member.name)
            if found is not None:
                made[member.name] = self._value(key, member, found, scope)
        for id_field, epoch_field in _PRODUCER_FIELDS:
            if epoch_field in value and value.get(id_field, -1) >= 0:
                made[id_field], made[epoch_field] = self._producer((value[id_field], value[epoch_field]))
        return made

    def _value(self, key: int, member: wire.Member, value: Any, scope: _Scope) -> Any:
        inside = wire.struct_inside(member.con)
        if inside is not None:
            con, many = inside
            if many:
                return [self._struct(key, con, each, scope) for each in value]
            return self._struct(key, con, value, scope)
        if isinstance(member.con, wire.Array):
            if getattr(member.field.type, "element", member.field.type).content == "topic_id":
                return [self._topic_id(each) for each in value]
            return value
        if isinstance(member.con, wire.Records):
            return with_producers(value, self._producer) if key == ApiKey.PRODUCE else value
        return self._leaf(key, member, value, scope)

    def _leaf(self, key: int, member: wire.Member, value: Any, scope: _Scope) -> Any:
        name = member.name
        if member.field.type.content == "topic_id":
            return self._topic_id(value)
        if name in GIVEN:
            return self._given.get((name, value), value)
        if name in GENERATIONS and value > 0:
            return self._generations.get((scope.group, scope.member, value), value)
        if member.field.type.domain is LEADER_EPOCH and value >= 0:
            return self._leader_epoch(name, value, scope)
        if name == _OFFSETS.get(key) and scope.topic and not self._keep_offsets:
            return self.offsets.live(places.TopicPartition(scope.topic, scope.partition), value)
        return value

    def _scope(self, value: Mapping[str, Any], scope: _Scope) -> _Scope:
        topic = places.topic(value, self.knowledge.topic_name)
        if topic != "?":
            scope = replace(scope, topic=topic)
        partition = places.index(value)
        if partition is not None:
            scope = replace(scope, partition=partition)
        if value.get("group_id"):
            scope = replace(scope, group=value["group_id"])
        if isinstance(value.get("member_id"), str):
            scope = replace(scope, member=value["member_id"])
        return scope

    def _topic_id(self, recorded: str) -> str:
        name = self.knowledge.topic_name(recorded)
        live = self.cluster.topic_id(name) if name else None
        return live or recorded

    def _producer(self, recorded: Producer) -> Producer:
        return self._producers.get(recorded, recorded)

    def _leader_epoch(self, name: str, recorded: int, scope: _Scope) -> int:
        """Return the epoch of the live leader; what a replica fetched last is not checked without one."""
        if scope.topic is None or name == "last_fetched_epoch":
            return _LOST_EPOCH
        leader = self.cluster.leader(scope.topic, scope.partition)
        return recorded if leader is None else leader.epoch

    # ------------------------------------------------------------ responses
    def learn(
        self,
        key: int,
        request: Mapping[str, Any],
        recorded: Mapping[str, Any] | None,
        sent: Mapping[str, Any],
        live: Mapping[str, Any] | None,
        session: FetchSession | None = None,
    ) -> None:
        """Learn from an exchange that was made again.

        :param request: as recorded
        :param recorded: the recorded response, None if there is none
        :param sent: the request as it was sent
        :param live: the live response, None if none came
        :param session: what :meth:`request` gave
        """
        if key == ApiKey.FETCH:
            self.sessions.recorded(session, recorded)
            answered(session, sent, live)
        if live is None:
            return
        self.cluster.observe(key, sent, live)
        if recorded is None:
            return
        for name in GIVEN:
            if recorded.get(name) and live.get(name):
                self._given[name, recorded[name]] = live[name]
        self._learn_generation(key, request, recorded, live)
        if key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN):
            self._learn_producer(recorded, live)
        self._learn_offsets(key, recorded, live)

    def _learn_generation(
        self, key: int, request: Mapping[str, Any], recorded: Mapping[str, Any], live: Mapping[str, Any]
    ) -> None:
        if key == ApiKey.JOIN_GROUP:
            before, after = recorded["generation_id"], live["generation_id"]
            member = recorded["member_id"]
        elif key in GROUP_HEARTBEATS:
            before, after = recorded["member_epoch"], live["member_epoch"]
            member = recorded.get("member_id") or request["member_id"]
        else:
            return
        if before > 0 and after > 0:
            self._generations[request["group_id"], member, before] = after

    def _learn_producer(self, recorded: Mapping[str, Any], live: Mapping[str, Any]) -> None:
        if recorded.get("producer_id", -1) >= 0 and live.get("producer_id", -1) >= 0:
            self._producers[recorded["producer_id"], recorded["producer_epoch"]] = (
                live["producer_id"],
                live["producer_epoch"],
            )

    def _learn_offsets(self, key: int, recorded: Mapping[str, Any], live: Mapping[str, Any]) -> None:
        if self._keep_offsets:
            return
        before = dict(told_offsets(key, recorded, self.knowledge.topic_name))
        after = dict(told_offsets(key, live, self.cluster.topic_name))
        for place, (begin, end) in before.items():
            # where nothing came instead of recorded records, the reader stays where it is
            now = after[place][1] if place in after else self.offsets.live(place, begin)
            self.offsets.learn(place, end, now)
