"""DeleteShareGroupState (key 86): the group coordinator deletes the state of share-partitions.

Between brokers only: group coordinator to share coordinator (KIP-932), when a share group, its
offsets or a topic is deleted.
"""

from dissectors.domains import ERROR_CODE
from dissectors.entities import GroupId
from dissectors.schema import Array, Int16, Int32, Message, String, Uuid

DeleteShareGroupStateRequest = Message(
    "DeleteShareGroupStateRequest", 86, "request", "0", "0+",
    "group_id" / GroupId * "share group",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition" / Int32 * "partition index",
        ) * "partitions whose state is deleted",
    ) * "topics whose state is deleted",
)

DeleteShareGroupStateResponse = Message(
    "DeleteShareGroupStateResponse", 86, "response", "0", "0+",
    "results" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition" / Int32 * "partition index",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the state of this partition was not deleted",
            "error_message" / String.null().default(None) * "text for the error; null = none",
        ) * "result for each partition",
    ) * "result for each topic",
)
