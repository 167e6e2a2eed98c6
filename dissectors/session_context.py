"""Facts from earlier exchanges that later ones need to be understood.

Some messages cannot be understood alone: a Fetch names topics by ID since v13 (KIP-516), a SyncGroup before v5 does
not say which embedded protocol its assignments use, a SaslAuthenticate does not name its mechanism. A
:class:`SessionContext` observes every exchange in order and remembers these few facts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from dissectors.api_keys import ApiKey
from dissectors.wire import ZERO_UUID

#: API key -> paths of the structs in the response that name topic IDs, and the field with the name
_NAMED_TOPICS: dict[int, tuple[tuple[str, ...], str]] = {
    ApiKey.METADATA: (("topics",), "name"),
    ApiKey.CREATE_TOPICS: (("topics",), "name"),
    ApiKey.DELETE_TOPICS: (("responses",), "name"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (("topics",), "name"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        tuple(f"groups.members.{name}.topic_partitions" for name in ("assignment", "target_assignment")),
        "topic_name",
    ),
}

#: API key -> fields of the response that name topic IDs, for :class:`dissectors.projection.Projection`
TOPIC_NAMES: dict[int, frozenset[str]] = {
    key: frozenset(f"{path}.{field}" for path in paths for field in ("topic_id", name))
    for key, (paths, name) in _NAMED_TOPICS.items()
}

#: APIs from which :meth:`SessionContext.observe` learns facts
OBSERVED_APIS = frozenset({
    *_NAMED_TOPICS, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.SASL_HANDSHAKE,
    ApiKey.DESCRIBE_CLUSTER,
})  # fmt: skip

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

    @property
    def of_no_connection(self) -> SessionFacts:
        """Those that do not depend on a connection."""
        return self._replace(mechanisms={}, clusters={})


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
        asked, answer = request or {}, response or {}
        if key in _NAMED_TOPICS:
            self._learn_topics(answer, *_NAMED_TOPICS[key])
        if key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER) and answer.get("cluster_id"):
            self._learn_cluster(connection, answer["cluster_id"], answer.get("brokers") or ())
        elif key == ApiKey.SASL_HANDSHAKE and asked.get("mechanism"):
            self._mechanisms[connection] = asked["mechanism"]
        elif key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP):
            # the type in a request is the member's, in a response the one that the group agreed on
            for body in (asked, answer):
                self._learn_protocol(
                    asked.get("group_id"), body.get("protocol_type"), body.get("protocol_name")
                )
        elif key == ApiKey.DESCRIBE_GROUPS:
            for group in answer.get("groups") or ():
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

    def _learn_topics(self, response: dict[str, Any], paths: Iterable[str], name: str) -> None:
        for path in paths:
            structs: Iterable[dict[str, Any]] = (response,)
            for field in path.split("."):
                structs = _structs(structs, field)
            for topic in structs:
                if topic.get("topic_id") and topic.get(name):
                    self.learn_topic(topic["topic_id"], topic[name])

    def _learn_protocol(self, group: str | None, protocol_type: str | None, name: str | None) -> None:
        if not group:
            return
        known_type, known_name = self._groups.get(group, ("", None))
        if protocol_type or name:
            self._groups[group] = protocol_type or known_type, name or known_name


def _structs(parents: Iterable[dict[str, Any]], field: str) -> Iterator[dict[str, Any]]:
    """Yield the structs in a field of other structs, which is a struct or an array; none if it was not read."""
    for parent in parents:
        found = parent.get(field) or ()
        yield from (found,) if isinstance(found, dict) else found
