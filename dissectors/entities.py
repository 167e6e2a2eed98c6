"""Types of values that name something: on the wire they are strings and numbers like any other.

They say what ``entityType`` says in Kafka's message definitions, for whoever looks for all topics or producers of a
message, under whatever field names.
"""

from __future__ import annotations

from dissectors.schema import Int32, Int64, String

TopicName = String.names("topicName")
GroupId = String.names("groupId")
TransactionalId = String.names("transactionalId")
ClusterId = String.names("clusterId")
ProducerId = Int64.names("producerId")
BrokerId = Int32.names("brokerId")
