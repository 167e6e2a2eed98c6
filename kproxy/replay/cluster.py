"""The live cluster, learned from its own responses, and which of its brokers a request goes to.

The counterpart of a recorded broker is the live one with the same node ID; recorded brokers without one are spread over
the existing ones. Requests that only one broker can answer go to that one: the leader of a partition, the coordinator
of a group or transaction, the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from captures.meaning import groups_in, topics_in, transactional_ids_in
from dissectors.api_keys import ApiKey
from dissectors.apis import NAMES
from dissectors.session_context import SessionContext

Body = Mapping[str, Any]

GROUP, TRANSACTION = 0, 1

_TO_LEADER = frozenset({"Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords"})
_TO_GROUP_COORDINATOR = frozenset(
    {
        "OffsetCommit",
        "OffsetFetch",
        "JoinGroup",
        "Heartbeat",
        "LeaveGroup",
        "SyncGroup",
        "DescribeGroups",
        "DeleteGroups",
        "OffsetDelete",
        "TxnOffsetCommit",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
        "ShareGroupHeartbeat",
        "ShareGroupDescribe",
        "StreamsGroupHeartbeat",
        "StreamsGroupDescribe",
        "DescribeShareGroupOffsets",
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
    }
)
_TO_TRANSACTION_COORDINATOR = frozenset(
    {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions"}
)
# brokers of a KRaft cluster pass these on to the controller; older ones answer NOT_CONTROLLER
_TO_CONTROLLER = frozenset(
    {
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "ElectLeaders",
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
        "UpdateFeatures",
    }
)


class Node(NamedTuple):
    """A live broker."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id} ({self.host}:{self.port})"


class Leader(NamedTuple):
    """The leader of a partition and its epoch; -1 for unknown."""

    node_id: int
    epoch: int


class Route(NamedTuple):
    """The destination of a request.

    :ivar kind: ``broker`` (the counterpart of the recorded one), ``leader``, ``coordinator`` or ``controller``
    :ivar key: topic and partition for a leader, type and key for a coordinator, else empty
    :ivar others: number of partitions in the request that have another leader
    """

    kind: Literal["broker", "leader", "coordinator", "controller"]
    key: tuple[Any, ...] = ()
    others: int = 0


class LiveCluster:
    """Brokers, leaders, topic IDs and coordinators.

    :ivar versions: lowest and highest version that all brokers offer, by API key
    :ivar nodes: brokers by node ID
    :ivar controller_id: -1 if unknown
    """

    def __init__(self, versions: Mapping[int, tuple[int, int]]) -> None:
        self.versions = dict(versions)
        self.nodes: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._leaders: dict[tuple[str, int], Leader] = {}
        self._topic_ids: dict[str, str] = {}
        self._knowledge = SessionContext()
        self._coordinators: dict[tuple[int, str], int] = {}

    def narrow(self, versions: Mapping[int, tuple[int, int]]) -> None:
        """Restrict the versions to those that another broker offers too."""
        both = {}
        for key in self.versions.keys() & versions.keys():
            low, high = zip(self.versions[key], versions[key], strict=True)
            if max(low) <= min(high):
                both[key] = max(low), min(high)
        self.versions = both

    # ------------------------------------------------------------ learning from responses
    def observe(self, key: int, request: Body, response: Body) -> None:
        """Learn from a live response to `request`, as it was sent."""
        if key == ApiKey.METADATA:
            self._see_nodes(response.get("brokers") or (), "node_id")
            self.controller_id = response.get("controller_id", self.controller_id)
            self.cluster_id = response.get("cluster_id", self.cluster_id)
        elif key == ApiKey.DESCRIBE_CLUSTER and response.get("endpoint_type", 1) == 1:
            self._see_nodes(response.get("brokers") or (), "broker_id")
        elif key == ApiKey.FIND_COORDINATOR:
            self._see_coordinators(request, response)
        if key in (ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_TOPIC_PARTITIONS):
            self._see_topics(response.get("topics") or ())

    def _see_nodes(self, brokers: Iterable[Body], id_field: str) -> None:
        for each in brokers:
            self.nodes[each[id_field]] = Node(each[id_field], each["host"], each["port"])

    def _see_coordinators(self, request: Body, response: Body) -> None:
        kind = request.get("key_type", GROUP)
        found = response.get("coordinators")
        if found is None:
            found = [{**response, "key": request.get("key", "")}]
        for each in found:
            if not each["error_code"]:
                self._coordinators[kind, each["key"]] = each["node_id"]
                self._see_nodes((each,), "node_id")

    def _see_topics(self, topics: Iterable[Body]) -> None:
        for topic in topics:
            name, topic_id = topic.get("name"), topic.get("topic_id")
            if topic.get("error_code") or not name:
                continue
            if topic_id:
                self._topic_ids[name] = topic_id
                self._knowledge.learn_topic(topic_id, name)
            for each in topic.get("partitions") or ():
                if "leader_id" in each:
                    leader = Leader(each["leader_id"], each.get("leader_epoch", -1))
                    self._leaders[name, each["partition_index"]] = leader

    def topic_id(self, name: str) -> str | None:
        """Return the ID of a topic, None if it has none or does not exist."""
        return self._topic_ids.get(name)

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of a topic by its ID, None if it is unknown."""
        return self._knowledge.topic_name(topic_id)

    def leader(self, topic: str, partition: int) -> Leader | None:
        """Return the leader of a partition, None if it is unknown."""
        return self._leaders.get((topic, partition))

    def coordinator(self, kind: int, key: str) -> Node | None:
        """Return the coordinator of a group or transaction, None if it is not known yet."""
        return self.nodes.get(self._coordinators.get((kind, key), -1))

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Forget a coordinator that has moved, so that it is looked up again."""
        self._coordinators.pop((kind, key), None)

    # ------------------------------------------------------------ routes
    def counterpart(self, recorded: int) -> Node:
        """Return the live broker that stands for a recorded one.

        :param recorded: its node ID, or, if that is unknown, a negative number that identifies it
        """
        if recorded in self.nodes:
            return self.nodes[recorded]
        order = sorted(self.nodes)
        return self.nodes[order[(recorded if recorded >= 0 else -1 - recorded) % len(order)]]

    def route(self, key: int, version: int, body: Body) -> Route:
        """Return the destination of a request.

        :param body: with live topic IDs
        """
        name = NAMES[key]
        if name in _TO_LEADER:
            return self._to_leader(topics_in(key, version, body, self.topic_name))
        if name in _TO_GROUP_COORDINATOR:
            groups = groups_in(key, version, body)
            return Route("coordinator", (GROUP, groups[0])) if groups else Route("broker")
        if name in _TO_TRANSACTION_COORDINATOR:
            found = transactional_ids_in(key, version, body)
            return Route("coordinator", (TRANSACTION, found[0])) if found else Route("broker")
        return Route("controller" if name in _TO_CONTROLLER else "broker")

    def _to_leader(self, topics: Mapping[str, Iterable[int]]) -> Route:
        """Return the route to the broker that leads most of the partitions, identified by the first of these."""
        leaders: Counter[int] = Counter()
        first: dict[int, tuple[str, int]] = {}
        for topic, partitions in topics.items():
            for partition in partitions:
                leader = self.leader(topic, partition)
                if leader is not None and leader.node_id >= 0:
                    leaders[leader.node_id] += 1
                    first.setdefault(leader.node_id, (topic, partition))
        if not leaders:
            return Route("broker")
        node, count = leaders.most_common(1)[0]
        return Route("leader", first[node], leaders.total() - count)

    def target(self, route: Route, recorded: int) -> Node | None:
        """Return the broker of a route; None for a coordinator that has to be looked up first."""
        if route.kind == "leader":
            leader = self.leader(*route.key)
            if leader is not None and leader.node_id in self.nodes:
                return self.nodes[leader.node_id]
        elif route.kind == "coordinator":
            return self.coordinator(*route.key)
        elif route.kind == "controller" and self.controller_id in self.nodes:
            return self.nodes[self.controller_id]
        return self.counterpart(recorded)
