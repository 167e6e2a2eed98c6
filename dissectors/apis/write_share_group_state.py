"""WriteShareGroupState (key 85): a partition leader persists the delivery state of share-partitions.

Between brokers only: partition leader to share coordinator (KIP-932), after acknowledgements.
v1 (4.2) adds delivery_complete_count, the basis of share group lag (KIP-1226).
"""

from dissectors.domains import DELIVERY_COMPLETE_COUNT, LEADER_EPOCH, SHARE_START_OFFSET
from dissectors.entities import GroupId
from dissectors.schema import Array, Int32, Int64, Message, Uuid
from dissectors.structs import ShareStateBatch, ShareStateResult

WriteShareGroupStateRequest = Message(
    "WriteShareGroupStateRequest", 85, "request", "0-1", "0+",
    "group_id" / GroupId * "share group",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition" / Int32 * "partition index",
            "state_epoch" / Int32 * "state epoch that the leader knows; an old one is fenced",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the partition leader that writes; an old one is fenced",
            "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = not written",
            "delivery_complete_count" / Int32.of(DELIVERY_COMPLETE_COUNT).default(-1) @ "1+" * "records from the start offset on whose delivery is finished; -1 = unknown (KIP-1226)",
            "state_batches" / Array(ShareStateBatch) * "offset ranges whose delivery state changed",
        ) * "partitions whose state is written",
    ) * "topics whose state is written",
)

WriteShareGroupStateResponse = Message(
    "WriteShareGroupStateResponse", 85, "response", "0-1", "0+",
    "results" / Array(ShareStateResult) * "result for each topic",
)
