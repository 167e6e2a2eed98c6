"""FetchSnapshot (key 59): a KRaft node downloads a metadata snapshot piece by piece (KIP-630)

Follows a Fetch response that names a snapshot, because the log no longer reaches back far enough.
v1 adds the directory id and the leader's address (KIP-853).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, LEADER_EPOCH, MAX_BYTES, REPLICA_ID
from dissectors.entities import BrokerId, ClusterId, TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message, Records, Struct, Uuid
from dissectors.structs import CurrentLeader, QuorumNode

FetchSnapshotRequest = Message(
    "FetchSnapshotRequest", 59, "request", "0-1", "0+",
    "replica_id" / BrokerId.of(REPLICA_ID).default(-1) * "node id of the node that fetches; -1 = none",
    "max_bytes" / Int32.of(MAX_BYTES).default(2147483647) * "most bytes of snapshot wanted in this answer",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition" / Int32 * "partition number",
            "current_leader_epoch" / Int32.of(LEADER_EPOCH) * "leader epoch the sender knows; -1 = not checked",
            "snapshot_id" / Struct(
                "end_offset" / Int64 * "offset the snapshot reaches to (exclusive)",
                "epoch" / Int32 * "epoch of the last record in the snapshot",
            ) * "snapshot wanted",
            "position" / Int64 * "byte position in the snapshot to read from",
            "replica_directory_id" / Uuid.tag(0) @ "1+" * "metadata directory id of the node that fetches",
        ) * "partitions to fetch from",
    ) * "topics to fetch from; normally __cluster_metadata alone",
    "cluster_id" / ClusterId.null().tag(0).default(None) * "cluster id of the sender; null = not checked",
)

FetchSnapshotResponse = Message(
    "FetchSnapshotResponse", 59, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed (104 = other cluster id)",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why no data (98 no such snapshot, 99 bad position, 6 not leader, 74 old epoch)",
            "snapshot_id" / Struct(
                "end_offset" / Int64 * "offset the snapshot reaches to (exclusive)",
                "epoch" / Int32 * "epoch of the last record in the snapshot",
            ) * "snapshot the data comes from",
            "size" / Int64 * "size of the whole snapshot in bytes",
            "position" / Int64 * "byte position in the snapshot where this piece starts",
            "unaligned_records" / Records.holds("unaligned_records") * "piece of the snapshot; can begin and end in the middle of a batch",
            "current_leader" / CurrentLeader.tag(0) * "leader the answering node knows",
        ) * "result for each partition",
    ) * "result for each topic",
    "node_endpoints" / Array(QuorumNode).tag(0) @ "1+" * "address of the leader named above",
)
