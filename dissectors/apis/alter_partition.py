"""AlterPartition (key 56): a partition leader asks the controller to change the in-sync replicas (ISR)

KIP-497, first called AlterIsr. v1 adds the recovery state (KIP-704), v2 has topic ids instead of
names, v3 gives the broker epoch of each ISR member (KIP-903).
Shrinks and grows of the ISR show here first.
"""

from dissectors.domains import (
    BROKER_EPOCH,
    DURATION_MS,
    ERROR_CODE,
    LEADER_EPOCH,
    LEADER_ID,
    LEADER_RECOVERY_STATE,
)
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Int8, Int16, Int32, Int64, Message, Uuid

AlterPartitionRequest = Message(
    "AlterPartitionRequest", 56, "request", "0-3", "0+",
    "broker_id" / BrokerId * "broker id of the leader that asks",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) * "epoch of that broker's registration; -1 = unknown",
    "topics" / Array(
        "topic_name" / TopicName @ "0-1" * "topic name",
        "topic_id" / Uuid.holds("topic_id") @ "2+" * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "leader epoch of the partition as the leader knows it",
            "new_isr" / Array(BrokerId) @ "0-2" * "broker ids of the wanted ISR",
            "new_isr_with_epochs" / Array(
                "broker_id" / BrokerId * "broker id of the ISR member",
                "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) * "epoch of that broker's registration; -1 = not checked",
            ) @ "3+" * "members of the wanted ISR",
            "leader_recovery_state" / Int8.of(LEADER_RECOVERY_STATE) @ "1+" * "0 recovered, 1 recovering from an unclean election",
            "partition_epoch" / Int32 * "partition epoch the change builds on (ZooKeeper version in ZooKeeper clusters)",
        ) * "partitions to change",
    ) * "topics to change",
)

AlterPartitionResponse = Message(
    "AlterPartitionResponse", 56, "response", "0-3", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed (77 = old broker epoch, 41 = not the controller)",
    "topics" / Array(
        "topic_name" / TopicName @ "0-1" * "topic name",
        "topic_id" / Uuid.holds("topic_id") @ "2+" * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the ISR stays (74 old leader epoch, 95 old partition epoch, 107 unfit replica)",
            "leader_id" / BrokerId.of(LEADER_ID) * "broker id of the leader",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "current leader epoch",
            "isr" / Array(BrokerId) * "broker ids of the ISR now in force",
            "leader_recovery_state" / Int8.of(LEADER_RECOVERY_STATE) @ "1+" * "0 recovered, 1 recovering from an unclean election",
            "partition_epoch" / Int32 * "new partition epoch",
        ) * "result for each partition",
    ) * "result for each topic",
)
