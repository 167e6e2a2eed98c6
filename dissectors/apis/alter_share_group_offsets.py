"""AlterShareGroupOffsets (key 91): admin tools set the start offsets of an empty share group.

KIP-932; used by kafka-share-groups --reset-offsets.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message, String, Uuid

AlterShareGroupOffsetsRequest = Message(
    "AlterShareGroupOffsetsRequest", 91, "request", "0", "0+",
    "group_id" / GroupId * "share group; must have no members",
    "topics" / Array(
        "topic_name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition index",
            "start_offset" / Int64 * "new share-partition start offset (SPSO)",
        ) * "partitions to change",
    ) * "topics whose start offsets change",
)

AlterShareGroupOffsetsResponse = Message(
    "AlterShareGroupOffsetsResponse", 91, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed",
    "error_message" / String.null().default(None) * "text for the error; null = none",
    "responses" / Array(
        "topic_name" / TopicName * "topic name",
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition index",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the offset of this partition was not set",
            "error_message" / String.null().default(None) * "text for the error; null = none",
        ) * "result for each partition",
    ) * "result for each topic",
)
