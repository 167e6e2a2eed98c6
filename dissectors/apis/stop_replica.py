"""StopReplica (key 5): the ZooKeeper controller tells a broker to stop replicas and maybe delete them.

Only between brokers and only with ZooKeeper; removed in 4.0, the key stays reserved.
v1 broker epoch (KIP-380), v3 leader epoch and deletion by partition (KIP-570), v4 KRaft migration.
"""

from dissectors.domains import BROKER_EPOCH, CONTROLLER_LEADER_EPOCH, ERROR_CODE
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Int64, Message

StopReplicaRequest = Message(
    "StopReplicaRequest", 5, "request", "0-4", "2+",
    "controller_id" / BrokerId * "broker id of the controller",
    "is_kraft_controller" / Bool @ "4+" * "true when a KRaft controller sends it during migration (KIP-866)",
    "controller_epoch" / Int32 * "epoch of the sending controller; an older one is refused",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) @ "1+" * "epoch of the receiving broker (KIP-380); -1 = not given",
    "delete_partitions" / Bool @ "0-2" * "whether to delete the data of all these partitions",
    "ungrouped_partitions" / Array(
        "topic_name" / TopicName * "topic name",
        "partition_index" / Int32 * "partition number",
    ) @ "0" * "partitions to stop, flat list (v0)",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partition_indexes" / Array(Int32) * "partition numbers to stop",
    ) @ "1-2" * "partitions to stop by topic (v1-2)",
    "topic_states" / Array(
        "topic_name" / TopicName * "topic name",
        "partition_states" / Array(
            "partition_index" / Int32 * "partition number",
            "leader_epoch" / Int32.of(CONTROLLER_LEADER_EPOCH).default(-1) * "epoch of the leader; -1 = none, -2 = topic being deleted",
            "delete_partition" / Bool * "whether to delete the data of this partition",
        ) * "partitions of this topic to stop",
    ) @ "3+" * "partitions to stop by topic (v3+)",
)

StopReplicaResponse = Message(
    "StopReplicaResponse", 5, "response", "0-4", "2+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed, e.g. 11 = stale controller epoch",
    "partition_errors" / Array(
        "topic_name" / TopicName * "topic name",
        "partition_index" / Int32 * "partition number",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this replica could not be stopped",
    ) * "result by partition",
)
