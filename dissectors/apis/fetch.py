"""Fetch (key 1): read records; used by consumers, followers and KRaft replicas.

v4 isolation level (KIP-98), v7 sessions (KIP-227: an incremental fetch names only what changed),
v9 leader epoch (KIP-320), v11 rack to fetch from followers (KIP-392), v12 KRaft fields (KIP-595),
v13 topic ids (KIP-516), v15 replica_state (KIP-903), v16 leader addresses (KIP-951).
Records may end in the middle of a batch and may begin before fetch_offset; zstd needs v10.
KRaft replication is a Fetch of __cluster_metadata.
"""

from dissectors.domains import (
    BROKER_EPOCH,
    DURATION_MS,
    ERROR_CODE,
    FETCH_SESSION_EPOCH,
    FETCH_SESSION_ID,
    ISOLATION_LEVEL,
    KNOWN_HIGH_WATERMARK,
    LEADER_EPOCH,
    LEADER_ID,
    MAX_BYTES,
    NODE_ID,
    OFFSET,
    PRODUCER_ID,
    REPLICA_ID,
)
from dissectors.entities import BrokerId, ClusterId, ProducerId, TopicName
from dissectors.schema import Array, Int8, Int16, Int32, Int64, Message, Records, String, Struct, Uuid
from dissectors.structs import NodeEndpoint

FetchRequest = Message(
    "FetchRequest", 1, "request", "0-18", "12+",
    "replica_id" / BrokerId.of(REPLICA_ID).default(-1) @ "0-14" * "broker id of a follower; -1 = consumer, -2 = debugging; moved to replica_state in v15",
    "max_wait_ms" / Int32.of(DURATION_MS) * "longest time in ms the broker may wait for min_bytes",
    "min_bytes" / Int32 * "bytes to collect before the broker answers early; 0 = answer at once",
    "max_bytes" / Int32.of(MAX_BYTES).default(2147483647) @ "3+" * "soft limit in bytes for the whole answer; a first batch that is larger is still sent",
    "isolation_level" / Int8.of(ISOLATION_LEVEL) @ "4+" * "0 = read_uncommitted, 1 = read_committed (only up to the last stable offset)",
    "session_id" / Int32.of(FETCH_SESSION_ID) @ "7+" * "fetch session (KIP-227), 0 = none or a new one is asked for",
    "session_epoch" / Int32.of(FETCH_SESSION_EPOCH).default(-1) @ "7+" * "position in the session: -1 = no session or close it, 0 = open, 1+ = incremental fetch",
    "topics" / Array(
        "topic" / TopicName @ "0-12" * "topic name; replaced by topic_id in v13",
        "topic_id" / Uuid.holds("topic_id") @ "13+" * "topic id (KIP-516); replaces the name",
        "partitions" / Array(
            "partition" / Int32 * "partition number",
            "current_leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "9+" * "leader epoch the client knows, checked by the broker (KIP-320); -1 = no check",
            "fetch_offset" / Int64 * "first offset wanted",
            "last_fetched_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "12+" * "epoch of the last record the replica has, to find divergence; -1 = not given",
            "log_start_offset" / Int64.of(OFFSET).default(-1) @ "5+" * "follower's own log start offset; -1 = consumer",
            "partition_max_bytes" / Int32 * "limit in bytes for this partition; a first batch that is larger is still sent",
            "replica_directory_id" / Uuid.tag(0) @ "17+" * "log directory id of the fetching KRaft replica (KIP-853)",
            "high_watermark" / Int64.of(KNOWN_HIGH_WATERMARK).tag(1).default(9223372036854775807) @ "18+" * "high watermark the KRaft replica knows (KIP-1166); max int64 = not given",
        ) * "partitions to fetch",
    ) * "topics to fetch; in an incremental fetch only added or changed partitions, empty = as before",
    "forgotten_topics_data" / Array(
        "topic" / TopicName @ "7-12" * "topic name; replaced by topic_id in v13",
        "topic_id" / Uuid.holds("topic_id") @ "13+" * "topic id (KIP-516); replaces the name",
        "partitions" / Array(Int32) * "partition numbers to drop from the session",
    ) @ "7+" * "partitions to drop from the fetch session",
    "rack_id" / String @ "11+" * "rack of the consumer, to pick a near replica (KIP-392); empty = none",
    "cluster_id" / ClusterId.null().tag(0).default(None) @ "12+" * "cluster id the KRaft replica expects; null = not checked",
    "replica_state" / Struct(
        "replica_id" / BrokerId.of(REPLICA_ID).default(-1) * "broker id of a follower; -1 = consumer",
        "replica_epoch" / Int64.of(BROKER_EPOCH).default(-1) * "broker epoch of the follower, so a restarted broker is not mistaken; -1 = unknown",
    ).tag(1) @ "15+" * "who fetches (KIP-903); left out by consumers",
)

FetchResponse = Message(
    "FetchResponse", 1, "response", "0-18", "12+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) @ "7+" * "0 or why the whole fetch failed, e.g. 70/71 = session lost or out of step",
    "session_id" / Int32.of(FETCH_SESSION_ID) @ "7+" * "fetch session granted or continued; 0 = none",
    "responses" / Array(
        "topic" / TopicName @ "0-12" * "topic name; replaced by topic_id in v13",
        "topic_id" / Uuid.holds("topic_id") @ "13+" * "topic id (KIP-516); replaces the name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why this partition could not be fetched",
            "high_watermark" / Int64.of(OFFSET) * "offset up to which (exclusive) records are replicated and readable; -1 on error",
            "last_stable_offset" / Int64.of(OFFSET).default(-1) @ "4+" * "offset below which every transaction is decided; read_committed stops here; -1 = unknown",
            "log_start_offset" / Int64.of(OFFSET).default(-1) @ "5+" * "first offset still in the log; -1 = unknown",
            "aborted_transactions" / Array(
                "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id of the aborted transaction",
                "first_offset" / Int64 * "first offset of the aborted transaction",
            ).null() @ "4+" * "aborted transactions in this data, to be skipped; null with read_uncommitted",
            "preferred_read_replica" / BrokerId.of(NODE_ID).default(-1) @ "11+" * "broker the consumer should fetch from next (KIP-392); -1 = stay",
            "records" / Records.null() * "record batches; the last one may be cut off",
            "diverging_epoch" / Struct(
                "epoch" / Int32.of(LEADER_EPOCH).default(-1) * "largest epoch of the leader not above the one asked; -1 = none",
                "end_offset" / Int64.of(OFFSET).default(-1) * "end offset of that epoch in the leader's log; -1 = none",
            ).tag(0) @ "12+" * "where the replica's log departs from the leader's: truncate to it (KIP-595)",
            "current_leader" / Struct(
                "leader_id" / BrokerId.of(LEADER_ID).default(-1) * "broker id of the current leader; -1 = unknown",
                "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) * "epoch of the current leader; -1 = unknown",
            ).tag(1) @ "12+" * "leader to use instead, sent when this broker is not it (KIP-595, KIP-951)",
            "snapshot_id" / Struct(
                "end_offset" / Int64.of(OFFSET).default(-1) * "end offset (exclusive) of the snapshot; -1 = none",
                "epoch" / Int32.of(LEADER_EPOCH).default(-1) * "leader epoch of the snapshot; -1 = none",
            ).tag(2) @ "12+" * "snapshot to load with FetchSnapshot since the offset is gone (KIP-630)",
        ) * "fetched data by partition",
    ) * "fetched data by topic; in an incremental session only partitions with news",
    "node_endpoints" / Array(NodeEndpoint).tag(0) @ "16+" * "addresses of the leaders named in current_leader (KIP-951)",
)
