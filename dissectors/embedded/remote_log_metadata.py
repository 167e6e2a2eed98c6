"""Records of ``__remote_log_metadata``, the topic of tiered storage (KIP-405)."""

from dissectors.domains import (
    LEADER_EPOCH,
    REMOTE_LOG_SEGMENT_STATE,
    REMOTE_PARTITION_DELETE_STATE,
    TIMESTAMP_MS,
)
from dissectors.entities import BrokerId
from dissectors.schema import (
    Array,
    Bool,
    Bytes,
    EarlierLayout,
    Int8,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
)

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

_Segment = Struct(
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
)

RemoteLogSegmentMetadataRecord = Message(
    "RemoteLogSegmentMetadataRecord", 0, "data", "0", "0+",
    "remote_log_segment_id" / _RemoteLogSegmentId * "which segment in remote storage",
    *_Segment.fields,
    older=(EarlierLayout("0", "0+", without=("custom_metadata", "txn_index_empty")),),
)

RemoteLogSegmentMetadataUpdateRecord = Message(
    "RemoteLogSegmentMetadataUpdateRecord", 1, "data", "0", "0+",
    "remote_log_segment_id" / _RemoteLogSegmentId * "which segment in remote storage",
    "broker_id" / BrokerId * "broker that wrote this record",
    "event_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when this happened, ms since 1970",
    "custom_metadata" / Bytes.null().default(None) * "data of the remote storage plugin (KIP-917); null = none",
    "remote_log_segment_state" / Int8.of(REMOTE_LOG_SEGMENT_STATE) * "0 copy started, 1 copy finished, 2 delete started, 3 delete finished",
    older=(EarlierLayout("0", "0+", without=("custom_metadata",)),),
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
    *_Segment.fields,
    older=(EarlierLayout("0", "0+", without=("custom_metadata", "txn_index_empty")),),
)
