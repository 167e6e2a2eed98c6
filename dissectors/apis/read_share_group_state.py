"""ReadShareGroupState (key 84): a partition leader loads the state of a share-partition.

Between brokers only: partition leader to share coordinator (KIP-932), when the leader starts to
serve the share-partition, e.g. after a change of leader.
"""

from dissectors.domains import ERROR_CODE, LEADER_EPOCH, SHARE_START_OFFSET
from dissectors.entities import GroupId
from dissectors.schema import Array, Int16, Int32, Int64, Message, String, Uuid
from dissectors.structs import ShareStateBatch

ReadShareGroupStateRequest = Message(
    "ReadShareGroupStateRequest", 84, "request", "0", "0+",
    "group_id" / GroupId * "share group",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition" / Int32 * "partition index",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the partition leader that asks; an old one is fenced",
        ) * "partitions whose state is read",
    ) * "topics whose state is read",
)

ReadShareGroupStateResponse = Message(
    "ReadShareGroupStateResponse", 84, "response", "0", "0+",
    "results" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition" / Int32 * "partition index",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the state of this partition was not read",
            "error_message" / String.null().default(None) * "text for the error; null = none",
            "state_epoch" / Int32 * "state epoch of the share-partition; rises when its state is initialized anew",
            "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = not initialized",
            "state_batches" / Array(ShareStateBatch) * "offset ranges above the start offset with their delivery state",
        ) * "result for each partition",
    ) * "result for each topic",
)
