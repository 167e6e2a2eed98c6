"""Facts from earlier exchanges that later ones need to be understood.

Some messages cannot be understood alone: a Fetch names topics by ID since v13 (KIP-516), a SyncGroup before v5 does
not say which embedded protocol its assignments use, a SaslAuthenticate does not name its mechanism. A
:class:`SessionContext` observes every exchange in order and remembers these few facts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from typing import Any, NamedTuple

from dissectors.api_keys import ApiKey
from dissectors.wire import ZERO_UUID

#: APIs from which :meth:`SessionContext.observe` learns facts
OBSERVED_APIS = frozenset({
    ApiKey.METADATA, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.SASL_HANDSHAKE,
    ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.DESCRIBE_CLUSTER,
})  # fmt: skip

_NAMED = ("topic_id", "topic_name")

#: API key -> fields of the response that name topic IDs, for :class:`dissectors.projection.Projection`
TOPIC_NAMES: dict[int, frozenset[str]] = {
    ApiKey.METADATA: frozenset({"topics.name", "topics.topic_id"}),
    ApiKey.CREATE_TOPICS: frozenset({"topics.name", "topics.topic_id"}),
    ApiKey.DELETE_TOPICS: frozenset({"responses.name", "responses.topic_id"}),
    ApiKey.CONSUMER_GROUP_DESCRIBE: frozenset(
        f"groups.members.{assignment}.topic_partitions.{name}"
        for assignment in ("assignment", "target_assignment")
        for name in _NAMED
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: frozenset({"topics.name", "topics.topic_id"}),
}

# org.apache.kafka.common.Uuid.METADATA_TOPIC_ID: all zero except the last bit
CLUSTER_METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

_MOST_NODES = 10_000
"""Most addresses of brokers that are kept."""


class SessionFacts(NamedTuple):
    """Facts to be passed to another context.

    :ivar topics: topic ID -> name
    :ivar groups: group -> protocol type and chosen protocol name
    :ivar mechanisms: connection -> SASL mechanism
    :ivar clusters: connection -> cluster ID in a response on it
    :ivar nodes: host and port of a broker -> IDs of the clusters that list it
    """

    topics: dict[str, str]
    groups: dict[str, tuple[str, str | None]]
    mechanisms: dict[Hashable, str]
    clusters: dict[Hashable, str]
    nodes: Mapping[tuple[str, int], Set[str]]

    @property
    def of_messages(self) -> tuple[Mapping[Any, Any], ...]:
        """Those that change how messages are decoded and summarised."""
        return self.topics, self.groups, self.mechanisms

    def renamed(self, ids: Mapping[int, int]) -> SessionFacts:
        """Return the facts with connections replaced by those in `ids`; connections that are not in it are dropped."""

        def of_new(known: Mapping[Hashable, str]) -> dict[Hashable, str]:
            return {new: known[old] for old, new in ids.items() if old in known}

        return self._replace(mechanisms=of_new(self.mechanisms), clusters=of_new(self.clusters))


class SessionContext:
    """Facts learned from exchanges, for decoding later ones.

    Topic IDs are random 128-bit numbers, so one table serves any number of clusters.
    """

    def __init__(self) -> None:
        self._topics: dict[str, str] = {CLUSTER_METADATA_ID: "__cluster_metadata"}
        self._groups: dict[str, tuple[str, str | None]] = {}
        self._mechanisms: dict[Hashable, str] = {}
        self._clusters: dict[Hashable, str] = {}
        self._nodes: dict[tuple[str, int], set[str]] = {}

    @property
    def facts(self) -> SessionFacts:
        """A copy of all facts learned so far."""
        nodes = {address: frozenset(clusters) for address, clusters in self._nodes.items()}
        return SessionFacts(
            dict(self._topics), dict(self._groups), dict(self._mechanisms), dict(self._clusters), nodes
        )

    def add(self, facts: SessionFacts) -> None:
        """Add the facts of another context, replacing known values."""
        self._topics |= facts.topics
        self._groups |= facts.groups
        self._mechanisms |= facts.mechanisms
        self._clusters |= facts.clusters
        for address, clusters in facts.nodes.items():
            self._nodes.setdefault(address, set()).update(clusters)

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name that a response gave this topic ID."""
        return self._topics.get(topic_id)

    def learn_topic(self, topic_id: str, name: str) -> None:
        """Remember a topic's name, whichever message contained it."""
        if topic_id != ZERO_UUID:
            self._topics[topic_id] = name

    def group_protocol(self, group: str) -> tuple[str | None, str | None]:
        """Return protocol type and chosen protocol name of a group, None if unknown."""
        return self._groups.get(group, (None, None))

    def mechanism(self, connection: Hashable) -> str | None:
        """Return the SASL mechanism requested by a connection's handshake."""
        return self._mechanisms.get(connection)

    def repeat(self, connection: Hashable, first: Hashable) -> None:
        """Observe a response that repeats one on another connection, `first`."""
        if first in self._clusters:
            self._clusters[connection] = self._clusters[first]

    def observe(
        self,
        connection: Hashable,
        key: int,
        request: dict[str, Any] | None,
        response: dict[str, Any] | None,
    ) -> None:
        """Learn from one exchange; ``request`` and ``response`` are decoded bodies, partial ones included."""
        if key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER) and response and response.get("cluster_id"):
            self._learn_cluster(connection, response["cluster_id"], response.get("brokers") or ())
        if key in (ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_TOPIC_PARTITIONS):
            self._learn_topics((response or {}).get("topics"))
        elif key == ApiKey.DELETE_TOPICS:
            self._learn_topics((response or {}).get("responses"))
        elif key == ApiKey.CONSUMER_GROUP_DESCRIBE:
            self._learn_assignments(response or {})
        elif key == ApiKey.SASL_HANDSHAKE and request and request.get("mechanism"):
            self._mechanisms[connection] = request["mechanism"]
        elif key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP):
            self._learn_group(request or {}, response or {})
        elif key == ApiKey.DESCRIBE_GROUPS:
            for group in (response or {}).get("groups") or ():
                self._learn_protocol(
                    group.get("group_id"), group.get("protocol_type"), group.get("protocol_data")
                )

    def _learn_cluster(
        self, connection: Hashable, cluster: str, brokers: Iterable[Mapping[str, Any]]
    ) -> None:
        self._clusters[connection] = cluster
        for broker in brokers:
            address = broker.get("host") or "", broker.get("port") or 0
            if address in self._nodes or len(self._nodes) < _MOST_NODES:
                self._nodes.setdefault(address, set()).add(cluster)

    def _learn_topics(self, topics: Iterable[dict[str, Any]] | None) -> None:
        for topic in topics or ():
            topic_id, name = topic.get("topic_id"), topic.get("name")
            if topic_id and name:
                self.learn_topic(topic_id, name)

    def _learn_assignments(self, response: dict[str, Any]) -> None:
        for group in response.get("groups") or ():
            for member in group.get("members") or ():
                for name in ("assignment", "target_assignment"):
                    for topic in (member.get(name) or {}).get("topic_partitions") or ():
                        if topic.get("topic_id") and topic.get("topic_name"):
                            self.learn_topic(topic["topic_id"], topic["topic_name"])

    def _learn_group(self, request: dict[str, Any], response: dict[str, Any]) -> None:
        # the type in a request is the member's, in a response the one that the group agreed on
        for body in (request, response):
            self._learn_protocol(
                request.get("group_id"), body.get("protocol_type"), body.get("protocol_name")
            )

    def _learn_protocol(self, group: str | None, protocol_type: str | None, name: str | None) -> None:
        if not group:
            return
        known_type, known_name = self._groups.get(group, ("", None))
        if protocol_type or name:
            self._groups[group] = protocol_type or known_type, name or known_name
