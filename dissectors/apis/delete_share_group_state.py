"""DeleteShareGroupState (key 86): the group coordinator deletes the state of share-partitions.

Between brokers only: group coordinator to share coordinator (KIP-932), when a share group, its
offsets or a topic is deleted.
"""

from dissectors.entities import GroupId
from dissectors.schema import Array, Int32, Message, Uuid
from dissectors.structs import ShareStateResult

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
    "results" / Array(ShareStateResult) * "result for each topic",
)
