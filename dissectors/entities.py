"""Types of values that name an entity. On the wire they are ordinary strings and numbers.

They correspond to ``entityType`` in Kafka's message definitions, and serve code that looks for all topics or producers
of a message, whatever the fields are called.
"""

from __future__ import annotations

from dissectors import wire
from dissectors.schema import Entity, Int32, Int64, String

TopicName = String.names("topicName")
GroupId = String.names("groupId")
TransactionalId = String.names("transactionalId")
ClusterId = String.names("clusterId")
ProducerId = Int64.names("producerId")
BrokerId = Int32.names("brokerId")

TOPIC_FIELDS = ("name", "topic", "topic_name")
"""Fields that name a struct's topic, for code that has values but no declarations."""
PARTITION_FIELDS = ("partition_index", "index", "partition", "partition_id")
"""Fields with a struct's partition number, for the same code; Kafka has no entity type for partitions."""


def fields_naming(struct: wire.Struct, entity: Entity) -> tuple[str, ...]:
    """Return the names of the fields of `struct` that are declared to name an entity: values, or arrays of values."""
    return tuple(member.name for member in struct.all_members if member.field.type.entity == entity)


def topic_fields(struct: wire.Struct) -> tuple[str, ...]:
    """Return the names of the fields that name the topic of `struct`."""
    return tuple(name for name in fields_naming(struct, "topicName") if name in TOPIC_FIELDS)
