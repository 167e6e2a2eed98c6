"""OffsetFetch (key 9): read a group's committed offsets; sent to the group coordinator.

v0 read from ZooKeeper, v1+ from __consumer_offsets. v2 can ask for all partitions and has a
group-level error (KIP-88), v7 require_stable (KIP-447), v8 several groups at once (KIP-709),
v9 member epoch (KIP-848), v10 topic ids.
"""

from dissectors.domains import (
    COMMITTED_OFFSET,
    DURATION_MS,
    ERROR_CODE,
    GENERATION_OR_MEMBER_EPOCH,
    LEADER_EPOCH,
)
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Int64, Message, String, Uuid

OffsetFetchRequest = Message(
    "OffsetFetchRequest", 9, "request", "0-10", "6+",
    "group_id" / GroupId @ "0-7" * "group id (v0-7)",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partition_indexes" / Array(Int32) * "partition numbers wanted",
    ).null("2-7") @ "0-7" * "topics wanted (v0-7); null = all partitions with a commit (v2+)",
    "groups" / Array(
        "group_id" / GroupId * "group id",
        "member_id" / String.null().default(None) @ "9+" * "member id, checked under KIP-848; null = no member",
        "member_epoch" / Int32.of(GENERATION_OR_MEMBER_EPOCH).default(-1) @ "9+" * "member epoch (KIP-848); -1 = not checked",
        "topics" / Array(
            "name" / TopicName @ "8-9" * "topic name; replaced by topic_id in v10",
            "topic_id" / Uuid.holds("topic_id") @ "10+" * "topic id; replaces the name",
            "partition_indexes" / Array(Int32) * "partition numbers wanted",
        ).null() * "topics wanted of this group; null = all partitions with a commit",
    ) @ "8+" * "groups to read (v8+)",
    "require_stable" / Bool @ "7+" * "fail with 88 while a transaction on the offsets is pending (KIP-447)",
)

OffsetFetchResponse = Message(
    "OffsetFetchResponse", 9, "response", "0-10", "6+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "3+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "committed_offset" / Int64.of(COMMITTED_OFFSET) * "committed offset, the next to read; -1 = none",
            "committed_leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "5-7" * "leader epoch stored with the offset; -1 = unknown",
            "metadata" / String.null() * "free text stored with the offset; empty or null = none",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why this partition's offset could not be read",
        ) * "offsets by partition",
    ) @ "0-7" * "offsets by topic (v0-7)",
    "error_code" / Int16.of(ERROR_CODE) @ "2-7" * "0 or why the group could not be read (v2-7)",
    "groups" / Array(
        "group_id" / GroupId * "group id",
        "topics" / Array(
            "name" / TopicName @ "8-9" * "topic name; replaced by topic_id in v10",
            "topic_id" / Uuid.holds("topic_id") @ "10+" * "topic id; replaces the name",
            "partitions" / Array(
                "partition_index" / Int32 * "partition number",
                "committed_offset" / Int64.of(COMMITTED_OFFSET) * "committed offset, the next to read; -1 = none",
                "committed_leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) * "leader epoch stored with the offset; -1 = unknown",
                "metadata" / String.null() * "free text stored with the offset; empty or null = none",
                "error_code" / Int16.of(ERROR_CODE) * "0 or why this partition's offset could not be read",
            ) * "offsets by partition",
        ) * "offsets by topic",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this group could not be read",
    ) @ "8+" * "offsets by group (v8+)",
)
