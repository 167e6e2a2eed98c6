"""Records of ``__transaction_state``, ``__share_group_state`` (KIP-932) and ``__remote_log_metadata`` (KIP-405).

What the transaction coordinator remembers, how far the records of share groups are delivered, and where the segments
of tiered storage are.
"""

from dissectors.domains import (
    DELIVERY_COMPLETE_COUNT,
    DURATION_MS,
    LEADER_EPOCH,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    REMOTE_LOG_SEGMENT_STATE,
    REMOTE_PARTITION_DELETE_STATE,
    SHARE_START_OFFSET,
    TIMESTAMP_MS,
    TRANSACTION_STATUS,
    TRANSACTION_VERSION,
)
from dissectors.entities import BrokerId, GroupId, ProducerId, TopicName, TransactionalId
from dissectors.schema import (
    Array,
    Bool,
    Bytes,
    Earlier,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uint16,
    Uuid,
)
from dissectors.structs import ShareStateBatch

# ---------------------------------------------------------------- __transaction_state
TransactionLogKey = Message(
    "TransactionLogKey", 0, "data", "0", "none",
    "transactional_id" / TransactionalId * "transactional.id of the producer",
)

TransactionLogValue = Message(
    "TransactionLogValue", 0, "data", "0-1", "1+",
    "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id in use",
    "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "producer epoch; an older one is fenced",
    "transaction_timeout_ms" / Int32.of(DURATION_MS) * "ms after which the coordinator aborts the open transaction",
    "transaction_status" / Int8.of(TRANSACTION_STATUS) * "0 empty, 1 ongoing, 2/3 prepare commit/abort, 4/5 complete commit/abort, 6 dead, 7 fencing",
    "transaction_partitions" / Array(
        "topic" / TopicName * "topic name",
        "partition_ids" / Array(Int32) * "partition indexes",
    ).null() * "partitions of the open transaction; null = none",
    "transaction_last_update_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when this state was reached, ms since 1970",
    "transaction_start_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when the transaction began, ms since 1970; -1 = none",
    "previous_producer_id" / ProducerId.of(PRODUCER_ID).tag(0).default(-1) @ "1+" * "producer id before the last change; -1 = none",
    "next_producer_id" / ProducerId.of(PRODUCER_ID).tag(1).default(-1) @ "1+" * "producer id to use after this transaction (KIP-890); -1 = none",
    "client_transaction_version" / Int16.of(TRANSACTION_VERSION).tag(2) @ "1+" * "transaction.version of the client: 2 = transactions v2 (KIP-890)",
    "next_producer_epoch" / Int16.of(PRODUCER_EPOCH).tag(3).default(-1) @ "1+" * "producer epoch to use after this transaction; -1 = none",
)


# ---------------------------------------------------------------- __share_group_state
ShareSnapshotKey = Message(
    "ShareSnapshotKey", 0, "data", "0", "none",
    "group_id" / GroupId * "share group",
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "partition" / Int32 * "partition index",
)

_ShareSnapshotValueUntil40 = Message(
    "ShareSnapshotValue", 0, "data", "0", "0+",
    "snapshot_epoch" / Uint16 * "number of the snapshot; rises with each one",
    "state_epoch" / Int32 * "state epoch; rises when the state is initialized anew",
    "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the partition leader that wrote the state",
    "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = not initialized",
    "state_batches" / Array(ShareStateBatch) * "offset ranges from the start offset on with their delivery state",
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
    older=(_ShareSnapshotValueUntil40,),
)

ShareUpdateKey = Message(
    "ShareUpdateKey", 1, "data", "0", "none",
    "group_id" / GroupId * "share group",
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "partition" / Int32 * "partition index",
)

_ShareUpdateValueUntil40 = Message(
    "ShareUpdateValue", 1, "data", "0", "0+",
    "snapshot_epoch" / Uint16 * "number of the snapshot that this update follows",
    "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the partition leader that wrote the state",
    "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = no change",
    "state_batches" / Array(ShareStateBatch) * "offset ranges whose delivery state changed",
)

ShareUpdateValue = Message(
    "ShareUpdateValue", 1, "data", "0", "0+",
    "snapshot_epoch" / Int32 * "number of the snapshot that this update follows",
    "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the partition leader that wrote the state",
    "start_offset" / Int64.of(SHARE_START_OFFSET) * "share-partition start offset (SPSO); -1 = no change",
    "state_batches" / Array(ShareStateBatch) * "offset ranges whose delivery state changed",
    "delivery_complete_count" / Int32.of(DELIVERY_COMPLETE_COUNT).tag(0).default(-1) * "records from the start offset on whose delivery is finished; -1 = unknown (KIP-1226)",
    older=(_ShareUpdateValueUntil40,),
)


# ---------------------------------------------------------------- __remote_log_metadata
_TopicIdPartition = Struct(
    "name" / String * "topic name",
    "id" / Uuid * "topic id",
    "partition" / Int32 * "partition index",
)

_RemoteLogSegmentId = Struct(
    "topic_id_partition" / _TopicIdPartition * "partition it is about",
    "id" / Uuid * "id of the remote segment",
)

_LeaderEpochStart = Struct(
    "leader_epoch" / Int32.of(LEADER_EPOCH) * "leader epoch",
    "offset" / Int64 * "first offset of this epoch",
)

RemoteLogSegmentMetadataRecord = Message(
    "RemoteLogSegmentMetadataRecord", 0, "data", "0", "0+",
    "remote_log_segment_id" / _RemoteLogSegmentId * "which segment in remote storage",
    "start_offset" / Int64 * "first offset of the segment",
    "end_offset" / Int64 * "last offset of the segment (included)",
    "broker_id" / BrokerId * "broker that wrote this record",
    "max_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "largest record timestamp of the segment, ms since 1970",
    "event_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when this happened, ms since 1970",
    "segment_leader_epochs" / Array(_LeaderEpochStart) * "leader epochs of the records in the segment",
    "segment_size_in_bytes" / Int32 * "size of the segment in bytes",
    "custom_metadata" / Bytes.null().default(None) * "data of the remote storage plugin (KIP-917); null = none",
    "remote_log_segment_state" / Int8.of(REMOTE_LOG_SEGMENT_STATE) * "0 copy started, 1 copy finished, 2 delete started, 3 delete finished",
    "txn_index_empty" / Bool.tag(0) * "true = the segment has no aborted transactions (no .txnindex to fetch)",
    older=(Earlier("0", "0+", without=("custom_metadata", "txn_index_empty")),),
)

RemoteLogSegmentMetadataUpdateRecord = Message(
    "RemoteLogSegmentMetadataUpdateRecord", 1, "data", "0", "0+",
    "remote_log_segment_id" / _RemoteLogSegmentId * "which segment in remote storage",
    "broker_id" / BrokerId * "broker that wrote this record",
    "event_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when this happened, ms since 1970",
    "custom_metadata" / Bytes.null().default(None) * "data of the remote storage plugin (KIP-917); null = none",
    "remote_log_segment_state" / Int8.of(REMOTE_LOG_SEGMENT_STATE) * "0 copy started, 1 copy finished, 2 delete started, 3 delete finished",
    older=(Earlier("0", "0+", without=("custom_metadata",)),),
)

RemotePartitionDeleteMetadataRecord = Message(
    "RemotePartitionDeleteMetadataRecord", 2, "data", "0", "0+",
    "topic_id_partition" / _TopicIdPartition * "partition it is about",
    "broker_id" / BrokerId * "broker that wrote this record",
    "event_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when this happened, ms since 1970",
    "remote_partition_delete_state" / Int8.of(REMOTE_PARTITION_DELETE_STATE) * "0 marked, 1 started, 2 finished",
)

RemoteLogSegmentMetadataSnapshotRecord = Message(
    "RemoteLogSegmentMetadataSnapshotRecord", 3, "data", "0", "0+",
    "segment_id" / Uuid * "id of the remote segment",
    "start_offset" / Int64 * "first offset of the segment",
    "end_offset" / Int64 * "last offset of the segment (included)",
    "broker_id" / BrokerId * "broker that wrote this record",
    "max_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "largest record timestamp of the segment, ms since 1970",
    "event_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when this happened, ms since 1970",
    "segment_leader_epochs" / Array(_LeaderEpochStart) * "leader epochs of the records in the segment",
    "segment_size_in_bytes" / Int32 * "size of the segment in bytes",
    "custom_metadata" / Bytes.null().default(None) * "data of the remote storage plugin (KIP-917); null = none",
    "remote_log_segment_state" / Int8.of(REMOTE_LOG_SEGMENT_STATE) * "0 copy started, 1 copy finished, 2 delete started, 3 delete finished",
    "txn_index_empty" / Bool.tag(0) * "true = the segment has no aborted transactions (no .txnindex to fetch)",
    older=(Earlier("0", "0+", without=("custom_metadata", "txn_index_empty")),),
)
