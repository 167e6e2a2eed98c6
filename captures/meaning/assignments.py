"""Partitions that group members report, and those that their coordinator assigns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from captures.meaning.exchange import Body, Names, inner, items, number, rows, text
from captures.meaning.topic_partitions import TopicPartition
from dissectors import embedded

_CONNECT = "connect"
STREAMS_ASSIGNOR = "stream"
"""Name of Kafka Streams' assignor in the classic protocol (``StreamsPartitionAssignor.java``)."""


Partitions = frozenset[TopicPartition]


def partitions_of(topics: Any, names: Names) -> Partitions | None:
    """Return partitions listed by topic, with its ID if ``names`` does not know its name; None if `topics` is not a
    list.
    """
    if not isinstance(topics, list | tuple):
        return None
    found: set[TopicPartition] = set()
    for topic in topics:
        if not isinstance(topic, Mapping):
            continue
        named = topic.get("topic") or topic.get("topic_id")
        if isinstance(named, str):
            named = names(named) or named if topic.get("topic") is None else named
            found.update(TopicPartition(named, index) for index in items(topic, "partitions"))
    return frozenset(found)


def embedded_value(content: str, data: Any, protocol_type: str, protocol: str) -> Mapping[str, Any] | None:
    """Return the subscription or assignment embedded in a message; None if it cannot be read.

    :param content: ``group_metadata`` or ``group_assignment``
    """
    if not isinstance(data, bytes) or not data:
        return None
    hints = embedded.Hints(protocol_type=protocol_type or None, protocol_name=protocol or None)
    value = embedded.decode(content, data, hints).value
    return value if isinstance(value, Mapping) else None


def synced(data: Any, protocol_type: str = "consumer", protocol: str = "") -> Partitions | None:
    """Return the partitions of an assignment in SyncGroup; None if it has none, like those of Kafka Connect."""
    if data == b"":
        return None if protocol_type == _CONNECT else frozenset()
    value = embedded_value("group_assignment", data, protocol_type, protocol)
    return None if value is None else partitions_of(value.get("assigned_partitions"), lambda _: None)


def worker_tasks(connectors: Any) -> Partitions:
    """Return connectors and tasks of Kafka Connect, listed by connector; as in Connect, task -1 is the connector
    itself.
    """
    return frozenset(
        TopicPartition(row["connector"], task)
        for row in (connectors if isinstance(connectors, list | tuple) else ())
        if isinstance(row, Mapping) and isinstance(row.get("connector"), str)
        for task in items(row, "tasks")
    )


def assigned_partitions(response: Body, names: Names) -> Partitions | None:
    """Return the partitions in the response to a consumer or share group's heartbeat; None if unchanged."""
    assignment = inner(response, "assignment")
    return partitions_of(
        assignment.get("topic_partitions", assignment.get("assigned_topic_partitions")), names
    )


def tasks_of(body: Body, field_name: str) -> Partitions | None:
    """Return tasks of a streams group, with the subtopology instead of the topic; None if unchanged (KIP-1071)."""
    if not isinstance(body.get(field_name), list):
        return None
    return frozenset(
        TopicPartition(text(row, "subtopology_id"), task)
        for row in rows(body, field_name)
        for task in items(row, "partitions")
    )


class Tasks(NamedTuple):
    """Target tasks of a Kafka Streams member, by subtopology and partition; None if unchanged.

    :ivar active: tasks that it runs
    :ivar standby: tasks whose state it replicates
    :ivar warmup: tasks whose state it builds up to run them soon; in classic groups they are among the standbys
    """

    active: Partitions | None
    standby: Partitions | None
    warmup: Partitions | None


def synced_tasks(data: Any, protocol_type: str, protocol: str) -> Tasks | None:
    """Return the tasks of an assignment in SyncGroup; None if it does not belong to Kafka Streams."""
    if protocol != STREAMS_ASSIGNOR:
        return None
    info = inner(embedded_value("group_assignment", data, protocol_type, protocol) or {}, "user_data")
    if "standby_tasks" not in info:
        return None
    active, standby = (
        frozenset(
            TopicPartition(str(number(row, "subtopology")), number(row, "partition"))
            for row in rows(info, f"{kind}_tasks")
        )
        for kind in ("active", "standby")
    )
    return Tasks(active, standby, frozenset())


def heartbeat_tasks(response: Body) -> Tasks:
    """Return the tasks in the response to a streams group's heartbeat (KIP-1071)."""
    return Tasks(*(tasks_of(response, f"{kind}_tasks") for kind in Tasks._fields))


def subtopologies(request: Body) -> dict[str, list[str]]:
    """Return the topics read by each subtopology of a streams group, from a heartbeat that sends its topology."""
    return {
        text(row, "subtopology_id"): [
            *(topic for topic in items(row, "source_topics") if isinstance(topic, str)),
            *(text(topic, "name") for topic in rows(row, "repartition_source_topics")),
        ]
        for row in rows(inner(request, "topology"), "subtopologies")
    }
