"""ShareGroupHeartbeat (key 76): a consumer joins, stays in and leaves a share group (KIP-932)

Several members can have the same partition at once; the member makes its own id.
v0 exists only in the early access of 3.9-4.0, v1 came with 4.1.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, MEMBER_EPOCH, MEMBER_EPOCH_REACHED
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Int16, Int32, Message, String, Struct, Uuid

ShareGroupHeartbeatRequest = Message(
    "ShareGroupHeartbeatRequest", 76, "request", "0-1", "0+",
    "group_id" / GroupId * "share group id",
    "member_id" / String * "member id, made by the member itself",
    "member_epoch" / Int32.of(MEMBER_EPOCH) * "member epoch; 0 = join, -1 = leave",
    "rack_id" / String.null().default(None) * "rack of the consumer (client.rack); null = none or unchanged",
    "subscribed_topic_names" / Array(TopicName).null().default(None) * "topics subscribed to; null = unchanged",
)

ShareGroupHeartbeatResponse = Message(
    "ShareGroupHeartbeatResponse", 76, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the heartbeat was refused (25 = unknown member, 110 = fenced epoch)",
    "error_message" / String.null().default(None) * "explanation of error_code; null = none",
    "member_id" / String.null().default(None) * "member id that the coordinator confirms; null = none",
    "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "member epoch to use from now on",
    "heartbeat_interval_ms" / Int32.of(DURATION_MS) * "ms until the next heartbeat is due",
    "assignment" / Struct(
        "topic_partitions" / Array(
            "topic_id" / Uuid.holds("topic_id") * "topic id",
            "partitions" / Array(Int32) * "assigned partition numbers, maybe shared with other members",
        ) * "assigned partitions by topic",
    ).null().default(None) * "partitions the member reads from now; null = unchanged",
)
