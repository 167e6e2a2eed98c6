"""ReadShareGroupStateSummary (key 87): reads the start offset of share-partitions without batches.

Between brokers only: group coordinator to share coordinator (KIP-932), e.g. to answer
DescribeShareGroupOffsets. v0 of the response gained leader_epoch between 4.0 (preview) and 4.1
without a new version. v1 (4.2) adds delivery_complete_count (KIP-1226).
"""

from dissectors.domains import DELIVERY_COMPLETE_COUNT, ERROR_CODE, LEADER_EPOCH, SHARE_START_OFFSET
from dissectors.entities import GroupId
from dissectors.schema import Array, EarlierLayout, Int16, Int32, Int64, Message, String, Uuid

ReadShareGroupStateSummaryRequest = Message(
    "ReadShareGroupStateSummaryRequest", 87, "request", "0-1", "0+",
    "group_id" / GroupId * "share group",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition" / Int32 * "partition index",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "partition leader epoch that the asking broker knows",
        ) * "partitions whose state is read",
    ) * "topics whose state is read",
)

ReadShareGroupStateSummaryResponse = Message(
    "ReadShareGroupStateSummaryResponse", 87, "response", "0-1", "0+",
    "results" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition" / Int32 * "partition index",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the state of this partition was not read",
            "error_message" / String.null().default(None) * "text for the error; null = none",
            "state_epoch" / Int32 * "state epoch of the share-partition; rises when its state is initialized anew",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "partition leader epoch stored with the state",
            "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = not initialized",
            "delivery_complete_count" / Int32.of(DELIVERY_COMPLETE_COUNT).default(-1) @ "1+" * "records from the start offset on whose delivery is finished; -1 = unknown (KIP-1226)",
        ) * "result for each partition",
    ) * "result for each topic",
    older=(EarlierLayout("0", "0+", without=("results.partitions.leader_epoch",)),),
)
