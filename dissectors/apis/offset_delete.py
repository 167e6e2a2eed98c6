"""OffsetDelete (key 47): an admin client deletes committed offsets of a group for some partitions

KIP-496. Goes to the group coordinator; topics that members still subscribe to are refused (86).
Never flexible: always the old headers and strings.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Int16, Int32, Message

OffsetDeleteRequest = Message(
    "OffsetDeleteRequest", 47, "request", "0", "none",
    "group_id" / GroupId * "group whose offsets are deleted",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
        ) * "partitions to delete offsets of",
    ) * "topics to delete offsets of",
)

OffsetDeleteResponse = Message(
    "OffsetDeleteResponse", 47, "response", "0", "none",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed (69 = no such group, 16 = not the coordinator)",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the offset stays (86 = the group subscribes to the topic)",
        ) * "result for each partition",
    ) * "result for each topic",
)
