"""ControlledShutdown (key 7): a broker asks the ZooKeeper controller to move its leaderships away.

Removed in 4.0, the key stays reserved; KRaft does it by BrokerHeartbeat.
The header of v0 has no client id. v2 adds the broker epoch (KIP-380).
"""

from dissectors.domains import BROKER_EPOCH, ERROR_CODE
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message

ControlledShutdownRequest = Message(
    "ControlledShutdownRequest", 7, "request", "0-3", "3+",
    "broker_id" / BrokerId * "broker that wants to stop",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) @ "2+" * "epoch of the broker that wants to stop (KIP-380); -1 = not given",
)

ControlledShutdownResponse = Message(
    "ControlledShutdownResponse", 7, "response", "0-3", "3+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the controller could not handle the shutdown",
    "remaining_partitions" / Array(
        "topic_name" / TopicName * "topic name",
        "partition_index" / Int32 * "partition number",
    ) * "partitions still led by the broker; empty = it may stop",
)
