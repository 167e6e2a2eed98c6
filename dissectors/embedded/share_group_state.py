"""Records of ``__share_group_state``: delivery state of share groups (KIP-932)."""

from dissectors.domains import (
    DELIVERY_COMPLETE_COUNT,
    LEADER_EPOCH,
    SHARE_START_OFFSET,
    TIMESTAMP_MS,
)
from dissectors.entities import GroupId
from dissectors.schema import Array, EarlierLayout, Int32, Int64, Message, Uint16, Uuid
from dissectors.structs import ShareStateBatch

ShareSnapshotKey = Message(
    "ShareSnapshotKey", 0, "data", "0", "none",
    "group_id" / GroupId * "share group",
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "partition" / Int32 * "partition index",
)

ShareSnapshotValue = Message(
    "ShareSnapshotValue", 0, "data", "0", "0+",
    "snapshot_epoch" / Int32 * "number of the snapshot; rises with each one",
    "state_epoch" / Int32 * "state epoch; rises when the state is initialized anew",
    "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the partition leader that wrote the state",
    "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = not initialized",
    "create_timestamp" / Int64.of(TIMESTAMP_MS) * "when the state was made, ms since 1970",
    "write_timestamp" / Int64.of(TIMESTAMP_MS) * "when this record was written, ms since 1970",
    "state_batches" / Array(ShareStateBatch) * "offset ranges from the start offset on with their delivery state",
    "delivery_complete_count" / Int32.of(DELIVERY_COMPLETE_COUNT).tag(0).default(-1) * "records from the start offset on whose delivery is finished; -1 = unknown (KIP-1226)",
    older=(
        EarlierLayout("0", "0+", without=("create_timestamp", "write_timestamp", "delivery_complete_count"),
                instead={"snapshot_epoch": ("snapshot_epoch" / Uint16 * "number of the snapshot; rises with each one",)}),
    ),
)

ShareUpdateKey = Message(
    "ShareUpdateKey", 1, "data", "0", "none",
    "group_id" / GroupId * "share group",
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "partition" / Int32 * "partition index",
)

ShareUpdateValue = Message(
    "ShareUpdateValue", 1, "data", "0", "0+",
    "snapshot_epoch" / Int32 * "number of the snapshot that this update follows",
    "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the partition leader that wrote the state",
    "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = no change",
    "state_batches" / Array(ShareStateBatch) * "offset ranges whose delivery state changed",
    "delivery_complete_count" / Int32.of(DELIVERY_COMPLETE_COUNT).tag(0).default(-1) * "records from the start offset on whose delivery is finished; -1 = unknown (KIP-1226)",
    older=(
        EarlierLayout("0", "0+", without=("delivery_complete_count",),
                instead={"snapshot_epoch": ("snapshot_epoch" / Uint16 * "number of the snapshot that this update follows",)}),
    ),
)
