"""ListOffsets (key 2): find an offset by time, or the first or last offset of a partition.

v0 returned a list of segment start offsets; v1+ one offset and its time (KIP-79).
v2 isolation level (KIP-98), v4 leader epoch (KIP-320), v10 timeout for tiered lookups (KIP-1075).
Special times grew: -3 from v7 (KIP-734), -4 from v8 (KIP-405), -5 from v9 (KIP-1005), -6 from v11.
"""

from dissectors.domains import (
    DURATION_MS,
    ERROR_CODE,
    ISOLATION_LEVEL,
    LEADER_EPOCH,
    LIST_OFFSETS_TIMESTAMP,
    OFFSET,
    REPLICA_ID,
    TIMESTAMP_MS,
)
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Int8, Int16, Int32, Int64, Message

ListOffsetsRequest = Message(
    "ListOffsetsRequest", 2, "request", "0-11", "6+",
    "replica_id" / BrokerId.of(REPLICA_ID) * "broker id of a follower; -1 = consumer or admin client, -2 = debugging",
    "isolation_level" / Int8.of(ISOLATION_LEVEL) @ "2+" * "0 = read_uncommitted, 1 = read_committed (latest is then the last stable offset)",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "current_leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "4+" * "leader epoch the client knows, checked by the broker (KIP-320); -1 = no check",
            "timestamp" / Int64.of(LIST_OFFSETS_TIMESTAMP) * "ms since epoch; -1 latest, -2 earliest, -3 max time, -4 local, -5 tiered, -6 upload pending",
            "max_num_offsets" / Int32.default(1) @ "0" * "how many offsets to return at most (v0 only)",
        ) * "partitions to look up",
    ) * "topics to look up",
    "timeout_ms" / Int32.of(DURATION_MS) @ "10+" * "longest time in ms to wait for a lookup in tiered storage",
)

ListOffsetsResponse = Message(
    "ListOffsetsResponse", 2, "response", "0-11", "6+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "2+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the lookup in this partition failed",
            "old_style_offsets" / Array(Int64) @ "0" * "v0 only: segment start offsets before the time, newest first",
            "timestamp" / Int64.of(TIMESTAMP_MS).default(-1) @ "1+" * "time in ms of the found record; -1 = none or looked up by a special time",
            "offset" / Int64.of(OFFSET).default(-1) @ "1+" * "offset found; -1 = none",
            "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "4+" * "leader epoch of the offset found; -1 = unknown",
        ) * "result by partition",
    ) * "result by topic",
)
