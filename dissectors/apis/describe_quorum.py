"""DescribeQuorum (key 55): an admin client asks for leader, voters and lag of the KRaft quorum

KIP-595. v1 adds fetch times (KIP-836), v2 directory ids, addresses and messages (KIP-853).
Only the leader of the quorum can answer; others give error 6.
"""

from dissectors.domains import ERROR_CODE, LEADER_EPOCH, LEADER_ID, OFFSET, TIMESTAMP_MS
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message, String, Struct, Uuid
from dissectors.structs import QuorumListener

DescribeQuorumRequest = Message(
    "DescribeQuorumRequest", 55, "request", "0-2", "0+",
    "topics" / Array(
        "topic_name" / TopicName * "__cluster_metadata",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number, 0",
        ) * "partitions to describe; always 0 alone",
    ) * "topics to describe; always __cluster_metadata alone",
)

_Replica = Struct(
    "replica_id" / BrokerId * "node id of the replica",
    "replica_directory_id" / Uuid @ "2+" * "metadata directory id of the replica",
    "log_end_offset" / Int64.of(OFFSET) * "log end offset of the replica as the leader knows it; -1 = unknown",
    "last_fetch_timestamp" / Int64.of(TIMESTAMP_MS).default(-1) @ "1+" * "leader's time of the replica's last fetch, ms since 1970; -1 = unknown",
    "last_caught_up_timestamp" / Int64.of(TIMESTAMP_MS).default(-1) @ "1+" * "leader's time when the replica last was caught up, ms since 1970; -1 = unknown",
)

DescribeQuorumResponse = Message(
    "DescribeQuorumResponse", 55, "response", "0-2", "0+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed",
    "error_message" / String.null() @ "2+" * "explanation of error_code; null = none",
    "topics" / Array(
        "topic_name" / TopicName * "__cluster_metadata",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number, 0",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why it cannot be described (6 = not the leader)",
            "error_message" / String.null() @ "2+" * "explanation of error_code; null = none",
            "leader_id" / BrokerId.of(LEADER_ID) * "node id of the quorum's leader; -1 = unknown",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the leader",
            "high_watermark" / Int64.of(OFFSET) * "metadata offset up to which a majority has everything",
            "current_voters" / Array(_Replica) * "nodes that vote and count for the majority",
            "observers" / Array(_Replica) * "nodes that only follow the log: brokers and spare controllers",
        ) * "state of each partition",
    ) * "state of each topic",
    "nodes" / Array(
        "node_id" / BrokerId * "node id",
        "listeners" / Array(QuorumListener) * "listeners of the node",
    ) @ "2+" * "addresses of the voters",
)
