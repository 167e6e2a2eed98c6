"""Types of values that name something: on the wire they are strings and numbers like any other.

They correspond to ``entityType`` in Kafka's message definitions, for code that looks for all topics or producers of a
message, under whatever field names.
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
"""Fields that name the topic that a struct is about, for code that has its value and not its declaration."""
PARTITION_FIELDS = ("partition_index", "index", "partition", "partition_id")
"""Fields with the number of the partition that a struct is about, in the same way; Kafka has no entity type for it."""


def fields_naming(struct: wire.Struct, entity: Entity) -> tuple[str, ...]:
    """Return the fields of a struct that name an entity by their declaration: values, or arrays of values."""
    return tuple(member.name for member in struct.all_members if member.field.type.entity == entity)


def topic_fields(struct: wire.Struct) -> tuple[str, ...]:
    """Return the fields that name the topic that a struct is about."""
    return tuple(name for name in fields_naming(struct, "topicName") if name in TOPIC_FIELDS)
