"""OffsetCommit (key 8): store a group's consumed offsets; sent to the group coordinator.

v0 stored in ZooKeeper, v1+ in __consumer_offsets. v1 had a time for each partition, v2-4 a
retention time for all (gone with KIP-211). v6 leader epoch (KIP-320), v7 static
members (KIP-345), v9 member epoch of the new group protocol (KIP-848), v10 topic ids.
Errors 22, 25 and 27 indicate a rebalance, 82 a fenced static member; 113 is normal with KIP-848.
"""

from dissectors.domains import (
    DURATION_MS,
    ERROR_CODE,
    GENERATION_OR_MEMBER_EPOCH,
    LEADER_EPOCH,
    OFFSET_RETENTION,
    TIMESTAMP_MS,
)
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message, String, Uuid

OffsetCommitRequest = Message(
    "OffsetCommitRequest", 8, "request", "0-10", "8+",
    "group_id" / GroupId * "group id",
    "generation_id_or_member_epoch" / Int32.of(GENERATION_OR_MEMBER_EPOCH).default(-1) @ "1+" * "generation of the classic group or member epoch (KIP-848); -1 = no member (admin, assign())",
    "member_id" / String @ "1+" * "member id given by the coordinator; empty = no member",
    "retention_time_ms" / Int64.of(OFFSET_RETENTION).default(-1) @ "2-4" * "how long to keep the offsets, in ms (v2-4); -1 = broker's default",
    "group_instance_id" / String.null().default(None) @ "7+" * "group.instance.id of a static member (KIP-345); null = dynamic member",
    "topics" / Array(
        "name" / TopicName @ "0-9" * "topic name; replaced by topic_id in v10",
        "topic_id" / Uuid.holds("topic_id") @ "10+" * "topic id; replaces the name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "committed_offset" / Int64 * "next offset to read, i.e. last one consumed + 1",
            "commit_timestamp" / Int64.of(TIMESTAMP_MS).default(-1) @ "1" * "time of the commit, ms since epoch (v1 only); -1 = broker's clock",
            "committed_leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "6+" * "leader epoch of the last record consumed (KIP-320); -1 = unknown",
            "committed_metadata" / String.null() * "free text kept with the offset; null = none",
        ) * "partitions with offsets to commit",
    ) * "topics with offsets to commit",
)

OffsetCommitResponse = Message(
    "OffsetCommitResponse", 8, "response", "0-10", "8+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "3+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "topics" / Array(
        "name" / TopicName @ "0-9" * "topic name; replaced by topic_id in v10",
        "topic_id" / Uuid.holds("topic_id") @ "10+" * "topic id; replaces the name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why this offset was not stored",
        ) * "result by partition",
    ) * "result by topic",
)
