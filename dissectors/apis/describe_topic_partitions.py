"""DescribeTopicPartitions (key 75): an admin client describes topics page by page (KIP-966)

Unlike Metadata it has an upper limit for the answer, and it shows the eligible leader replicas
(ELR). The next page is asked for with the cursor of the last answer.
"""

from dissectors.domains import AUTHORIZED_OPERATIONS, DURATION_MS, ERROR_CODE, LEADER_EPOCH, LEADER_ID
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Message, Struct, Uuid

DescribeTopicPartitionsRequest = Message(
    "DescribeTopicPartitionsRequest", 75, "request", "0", "0+",
    "topics" / Array(
        "name" / TopicName * "topic name",
    ) * "topics to describe; empty = all",
    "response_partition_limit" / Int32.default(2000) * "most partitions wanted in one answer; the broker can allow fewer",
    "cursor" / Struct(
        "topic_name" / TopicName * "topic to start with",
        "partition_index" / Int32 * "partition to start with",
    ).null().default(None) * "where to go on; null = from the start",
)

DescribeTopicPartitionsResponse = Message(
    "DescribeTopicPartitionsResponse", 75, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "topics" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this topic cannot be described",
        "name" / TopicName.null() * "topic name; null = unknown",
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "is_internal" / Bool * "true = internal topic such as __consumer_offsets",
        "partitions" / Array(
            "error_code" / Int16.of(ERROR_CODE) * "0 or what is wrong with this partition (5 = no leader)",
            "partition_index" / Int32 * "partition number",
            "leader_id" / BrokerId.of(LEADER_ID) * "broker id of the leader; -1 = none",
            "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) * "leader epoch; -1 = unknown",
            "replica_nodes" / Array(BrokerId) * "broker ids of all replicas",
            "isr_nodes" / Array(BrokerId) * "broker ids of the in-sync replicas",
            "eligible_leader_replicas" / Array(BrokerId).null().default(None) * "brokers outside the ISR that can lead without loss (ELR); null = unknown",
            "last_known_elr" / Array(BrokerId).null().default(None) * "last known ELR, after unclean shutdowns; null = unknown",
            "offline_replicas" / Array(BrokerId) * "broker ids of the replicas that are offline",
        ) * "partitions of the topic on this page",
        "topic_authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) * "bit n = ACL operation n allowed; -2147483648 = not given",
    ) * "topics on this page",
    "next_cursor" / Struct(
        "topic_name" / TopicName * "first topic of the next page",
        "partition_index" / Int32 * "first partition of the next page",
    ).null().default(None) * "where the next page starts; null = this was the last",
)
