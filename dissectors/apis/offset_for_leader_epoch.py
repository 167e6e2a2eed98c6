"""OffsetForLeaderEpoch (key 23): find where a leader epoch ends, to detect log truncation (KIP-101).

First for followers only; consumers use it from v2 on (KIP-320). v1 returns the epoch (KIP-279).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, LEADER_EPOCH, OFFSET, REPLICA_ID
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message

OffsetForLeaderEpochRequest = Message(
    "OffsetForLeaderEpochRequest", 23, "request", "0-4", "4+",
    "replica_id" / BrokerId.of(REPLICA_ID).default(-2) @ "3+" * "broker id of a follower; -1 = consumer, -2 = not given",
    "topics" / Array(
        "topic" / TopicName * "topic name",
        "partitions" / Array(
            "partition" / Int32 * "partition number",
            "current_leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "2+" * "leader epoch the client knows, checked by the broker (KIP-320); -1 = no check",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch whose end is wanted",
        ) * "partitions to look up",
    ) * "topics to look up",
)

OffsetForLeaderEpochResponse = Message(
    "OffsetForLeaderEpochResponse", 23, "response", "0-4", "4+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "2+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "topics" / Array(
        "topic" / TopicName * "topic name",
        "partitions" / Array(
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the epoch could not be looked up",
            "partition" / Int32 * "partition number",
            "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "1+" * "largest epoch of the leader not above the one asked; -1 = unknown",
            "end_offset" / Int64.of(OFFSET).default(-1) * "end offset (exclusive) of that epoch; -1 = unknown",
        ) * "result by partition",
    ) * "result by topic",
)
