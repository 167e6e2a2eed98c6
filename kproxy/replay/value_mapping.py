"""Values that only the live cluster knows, in place of recorded ones.

A recorded client repeated values that a broker had given it: its member ID, its generation, its producer ID, an offset.
The live broker gives different values at the same place of the same exchange, so each pair of recorded and live
response teaches which values to put into later requests. The meaning of a field follows from its declaration and the
structs around it. A value for which no counterpart is known is sent as recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from captures.meaning import topic_partitions
from dissectors import wire
from dissectors.api_keys import GROUP_HEARTBEATS, ApiKey
from dissectors.apis import api
from dissectors.domains import LEADER_EPOCH
from dissectors.session_context import SessionContext
from dissectors.visitor import Holders, replaced
from kproxy.replay.cluster import LiveCluster
from kproxy.replay.fetch_sessions import FetchSession, FetchSessions, answered
from kproxy.replay.offsets import Offsets, reported_offsets
from kproxy.replay.producers import Producer, with_producers

Body = dict[str, Any]


GIVEN: Final = ("member_id", "client_instance_id", "subscription_id")
"""Fields whose values a broker assigns, and clients repeat."""

GENERATIONS: Final = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
"""Fields that contain a generation or member epoch; values up to 0 have special meanings."""

_OFFSETS: dict[int, str] = {
    ApiKey.FETCH: "fetch_offset",
    ApiKey.OFFSET_COMMIT: "committed_offset",
    ApiKey.TXN_OFFSET_COMMIT: "committed_offset",
    ApiKey.DELETE_RECORDS: "offset",
}
_LOST_EPOCH = -1


class ValueMapping:
    """The values learned so far, and the translation of requests.

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
        self._producers[recorded] = live

    # ------------------------------------------------------------ requests
    def request(self, key: int, version: int, body: Body) -> tuple[Body, FetchSession | None]:
        """Return the body to send for a recorded request, and its fetch session, if any."""
        known = api(key)
        if known is None:
            return body, None
        made = replaced(known.request[version].struct, body, partial(self._replace, key))
        if key == ApiKey.API_VERSIONS and made.get("cluster_id") is not None:
            made["cluster_id"] = self.cluster.cluster_id
        if key == ApiKey.FETCH:
            return self.sessions.request(version, made)
        return made, None

    def _replace(self, key: int, member: wire.Member, value: Any, holders: Holders) -> Any:
        name, type_ = member.name, member.field.type
        if type_.value.content == "topic_id":
            return [*map(self._topic_id, value)] if isinstance(value, list) else self._topic_id(value)
        if isinstance(member.con, wire.Records):
            return with_producers(value, self._producer) if key == ApiKey.PRODUCE else value
        if name in GIVEN:
            return self._given.get((name, value), value)
        if name in GENERATIONS and value > 0:
            return self._generations.get((*_member(holders), value), value)
        if name.endswith(("producer_id", "producer_epoch")):
            identity, _, field = name.rpartition("producer_")
            producer = tuple(holders[-1].get(f"{identity}producer_{each}", -1) for each in ("id", "epoch"))
            return self._producer(producer)[field == "epoch"] if producer[0] >= 0 else value
        if type_.domain is LEADER_EPOCH and value >= 0:
            return self._leader_epoch(name, value, self._place(holders))
        if name == _OFFSETS.get(key) and not self._keep_offsets:
            tp = self._place(holders)
            return self.offsets.live(tp, value) if tp else value
        return value

    def _place(self, holders: Holders) -> topic_partitions.TopicPartition | None:
        """Return the partition that a field belongs to, None if the structs around it name no topic."""
        topics = (
            topic_partitions.topic(each, lambda uuid: self.knowledge.topic_name(uuid) or uuid)
            for each in reversed(holders)
        )
        topic = next((found for found in topics if found != "?"), None)
        indexes = map(topic_partitions.index, reversed(holders))
        partition = next((found for found in indexes if found is not None), -1)
        return None if topic is None else topic_partitions.TopicPartition(topic, partition)

    def _topic_id(self, recorded: str) -> str:
        name = self.knowledge.topic_name(recorded)
        live = self.cluster.topic_id(name) if name else None
        return live or recorded

    def _producer(self, recorded: Producer) -> Producer:
        return self._producers.get(recorded, recorded)

    def _leader_epoch(self, name: str, recorded: int, tp: topic_partitions.TopicPartition | None) -> int:
        """Return the live leader's epoch, `recorded` if unknown; -1, which is not checked, if there is no partition."""
        if tp is None or name == "last_fetched_epoch":
            return _LOST_EPOCH
        leader = self.cluster.leader(*tp)
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
        """Learn from a replayed exchange.

        :param request: as recorded
        :param recorded: the recorded response, None if there is none
        :param sent: the request as it was sent
        :param live: the live response, None if none arrived
        :param session: from :meth:`request`
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
        before = dict(reported_offsets(key, recorded, self.knowledge.topic_name))
        after = dict(reported_offsets(key, live, self.cluster.topic_name))
        for tp, (begin, end) in before.items():
            # if no records arrived in place of recorded ones, the reader stays where it is
            now = after[tp][1] if tp in after else self.offsets.live(tp, begin)
            self.offsets.learn(tp, end, now)


def _member(holders: Holders) -> tuple[str, str]:
    """Return the group and the member that a field belongs to, empty if unknown."""
    groups, members = ([each.get(name) for each in reversed(holders)] for name in ("group_id", "member_id"))
    member = next((found for found in members if isinstance(found, str)), "")
    return next(filter(None, groups), ""), member
