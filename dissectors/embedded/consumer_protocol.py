"""Subscription and assignment of classic consumer groups (``ConsumerProtocol.java``)."""

from dissectors.domains import GENERATION_ID
from dissectors.entities import TopicName
from dissectors.schema import Array, Bytes, Int32, Message, String
from dissectors.structs import TopicPartitions

ConsumerProtocolSubscription = Message(
    "ConsumerProtocolSubscription", None, "data", "0-3", "none",
    "topics" / Array(TopicName) * "topics subscribed to",
    "user_data" / Bytes.null().default(None) * "data of the assignor (sticky: previous partitions); null = none",
    "owned_partitions" / Array(TopicPartitions) @ "1+" * "partitions owned before this rebalance (KIP-429)",
    "generation_id" / Int32.of(GENERATION_ID).default(-1) @ "2+" * "generation in which they were owned; -1 = none",
    "rack_id" / String.null().default(None) @ "3+" * "client.rack of the consumer (KIP-881); null = none",
)

ConsumerProtocolAssignment = Message(
    "ConsumerProtocolAssignment", None, "data", "0-3", "none",
    "assigned_partitions" / Array(TopicPartitions) * "partitions that the member gets",
    "user_data" / Bytes.null().default(None) * "data of the assignor; null = none",
)
