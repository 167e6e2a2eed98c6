"""DescribeShareGroupOffsets (key 90): admin tools read the start offsets (and lag) of share groups.

KIP-932; used by kafka-share-groups --describe --offsets. v1 (4.2) adds the lag (KIP-1226).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, LAG, LEADER_EPOCH, SHARE_START_OFFSET
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message, String, Uuid

DescribeShareGroupOffsetsRequest = Message(
    "DescribeShareGroupOffsetsRequest", 90, "request", "0-1", "0+",
    "groups" / Array(
        "group_id" / GroupId * "share group",
        "topics" / Array(
            "topic_name" / TopicName * "topic name",
            "partitions" / Array(Int32) * "partition indexes",
        ).null() * "topics to describe; null = all topics with offsets",
    ) * "share groups to describe",
)

DescribeShareGroupOffsetsResponse = Message(
    "DescribeShareGroupOffsetsResponse", 90, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "groups" / Array(
        "group_id" / GroupId * "share group",
        "topics" / Array(
            "topic_name" / TopicName * "topic name",
            "topic_id" / Uuid.holds("topic_id") * "topic id",
            "partitions" / Array(
                "partition_index" / Int32 * "partition index",
                "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = none",
                "leader_epoch" / Int32.of(LEADER_EPOCH) * "partition leader epoch stored with the start offset",
                "lag" / Int64.of(LAG).default(-1) @ "1+" * "records that the group has not finished yet; -1 = unknown (KIP-1226)",
                "error_code" / Int16.of(ERROR_CODE) * "0 or why this partition failed",
                "error_message" / String.null().default(None) * "text for the error; null = none",
            ) * "partitions of the topic",
        ) * "topics of the group",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole group failed",
        "error_message" / String.null().default(None) * "text for the error; null = none",
    ) * "one entry for each group asked for",
)
