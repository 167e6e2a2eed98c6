"""InitializeShareGroupState (key 83): the group coordinator creates the state of share-partitions.

Between brokers only: group coordinator to share coordinator (KIP-932), which stores the state in
__share_group_state. Also sent when the offsets of a share group are altered.
"""

from dissectors.domains import SHARE_START_OFFSET
from dissectors.entities import GroupId
from dissectors.schema import Array, Int32, Int64, Message, Uuid
from dissectors.structs import ShareStateResult

InitializeShareGroupStateRequest = Message(
    "InitializeShareGroupStateRequest", 83, "request", "0", "0+",
    "group_id" / GroupId * "share group",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition" / Int32 * "partition index",
            "state_epoch" / Int32 * "state epoch to begin with; rises with every initialization",
            "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO) to set; -1 = not set yet",
        ) * "partitions whose state is initialized",
    ) * "topics whose state is initialized",
)

InitializeShareGroupStateResponse = Message(
    "InitializeShareGroupStateResponse", 83, "response", "0", "0+",
    "results" / Array(ShareStateResult) * "result for each topic",
)
