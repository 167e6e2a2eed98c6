"""LeaderAndIsr (key 4): the ZooKeeper controller tells a broker which partitions to lead or follow.

Only between brokers and only with ZooKeeper; removed in 4.0, the key stays reserved.
v2 groups by topic and adds the broker epoch (KIP-380), v3 reassignment (KIP-455), v5 topic ids
(KIP-516), v6 leader recovery (KIP-704), v7 migration to KRaft (KIP-866).
"""

from dissectors.domains import BROKER_EPOCH, CONTROLLER_REQUEST_TYPE, ERROR_CODE, LEADER_RECOVERY_STATE
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Uuid
from dissectors.structs import ControllerPartitionState

LeaderAndIsrRequest = Message(
    "LeaderAndIsrRequest", 4, "request", "0-7", "4+",
    "controller_id" / BrokerId * "broker id of the controller",
    "is_kraft_controller" / Bool @ "7+" * "true when a KRaft controller sends it during migration (KIP-866)",
    "controller_epoch" / Int32 * "epoch of the sending controller; an older one is refused",
    "ungrouped_partition_states" / Array(
        "topic_name" / TopicName * "topic name",
        *ControllerPartitionState.fields,
        "partition_epoch" / Int32 * "version of the partition state in ZooKeeper, for conditional updates",
        "replicas" / Array(BrokerId) * "broker ids of all replicas, preferred leader first",
        "is_new" / Bool @ "1" * "true when the replica is new and its log is to be created",
    ) @ "0-1" * "partition states, flat list (v0-1)",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) @ "2+" * "epoch of the receiving broker (KIP-380); -1 = not given",
    "type" / Int8.of(CONTROLLER_REQUEST_TYPE) @ "5+" * "0 = unknown, 1 = only changed partitions, 2 = all partitions of the broker",
    "topic_states" / Array(
        "topic_name" / TopicName * "topic name",
        "topic_id" / Uuid.holds("topic_id") @ "5+" * "topic id; all-zero = none",
        "partition_states" / Array(
            *ControllerPartitionState.fields,
            "partition_epoch" / Int32 * "version of the partition state in ZooKeeper, for conditional updates",
            "replicas" / Array(BrokerId) * "broker ids of all replicas, preferred leader first",
            "adding_replicas" / Array(BrokerId) @ "3+" * "broker ids being added by a reassignment (KIP-455)",
            "removing_replicas" / Array(BrokerId) @ "3+" * "broker ids being removed by a reassignment (KIP-455)",
            "is_new" / Bool * "true when the replica is new and its log is to be created",
            "leader_recovery_state" / Int8.of(LEADER_RECOVERY_STATE) @ "6+" * "0 = recovered, 1 = recovering from an unclean election (KIP-704)",
        ) * "states of this topic's partitions",
    ) @ "2+" * "partition states by topic",
    "live_leaders" / Array(
        "broker_id" / BrokerId * "broker id of the leader",
        "host_name" / String * "host name of the leader",
        "port" / Int32 * "port of the leader",
    ) * "brokers that lead one of these partitions",
)

LeaderAndIsrResponse = Message(
    "LeaderAndIsrResponse", 4, "response", "0-7", "4+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed, e.g. 11 = stale controller epoch",
    "partition_errors" / Array(
        "topic_name" / TopicName * "topic name",
        "partition_index" / Int32 * "partition number",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why the broker could not take up this partition",
    ) @ "0-4" * "result by partition, flat list (v0-4)",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partition_errors" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the broker could not take up this partition",
        ) * "result by partition",
    ) @ "5+" * "result by topic (v5+)",
)
