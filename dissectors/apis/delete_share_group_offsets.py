"""DeleteShareGroupOffsets (key 92): admin tools delete the offsets of whole topics of a share group.

KIP-932; used by kafka-share-groups --delete-offsets. Works by topic, not by partition.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Int16, Int32, Message, String, Uuid

DeleteShareGroupOffsetsRequest = Message(
    "DeleteShareGroupOffsetsRequest", 92, "request", "0", "0+",
    "group_id" / GroupId * "share group; must have no members",
    "topics" / Array(
        "topic_name" / TopicName * "topic name",
    ) * "topics whose offsets to delete",
)

DeleteShareGroupOffsetsResponse = Message(
    "DeleteShareGroupOffsetsResponse", 92, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed",
    "error_message" / String.null().default(None) * "text for the error; null = none",
    "responses" / Array(
        "topic_name" / TopicName * "topic name",
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why the offsets of this topic were not deleted",
        "error_message" / String.null().default(None) * "text for the error; null = none",
    ) * "result for each topic",
)
