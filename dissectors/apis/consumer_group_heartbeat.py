"""ConsumerGroupHeartbeat (key 68): a consumer joins, stays in and leaves a group (KIP-848 protocol)

Takes the place of JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Fields that have not changed
since the last heartbeat are left out (null or -1), so one heartbeat alone does not show all.
v1 adds a topic pattern evaluated by the broker, and the member makes its own id (KIP-1082).
v0 of the 3.5-3.6 preview has another layout than v0 of 3.7 and later.
"""

from dissectors.domains import (
    DURATION_MS,
    ERROR_CODE,
    HEARTBEAT_REBALANCE_TIMEOUT,
    MEMBER_EPOCH,
    MEMBER_EPOCH_REACHED,
)
from dissectors.entities import GroupId, TopicName
from dissectors.schema import (
    Array,
    Bool,
    Bytes,
    EarlierLayout,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uuid,
)
from dissectors.structs import TopicIdPartitions

ConsumerGroupHeartbeatRequest = Message(
    "ConsumerGroupHeartbeatRequest", 68, "request", "0-1", "0+",
    "group_id" / GroupId * "group id",
    "member_id" / String * "member id; empty in v0 to join, made by the member itself in v1+",
    "member_epoch" / Int32.of(MEMBER_EPOCH) * "member epoch; 0 = join, -1 = leave, -2 = static member leaves for a while",
    "instance_id" / String.null().default(None) * "static member name (group.instance.id); null = none or unchanged",
    "rack_id" / String.null().default(None) * "rack of the consumer (client.rack); null = none or unchanged",
    "rebalance_timeout_ms" / Int32.of(HEARTBEAT_REBALANCE_TIMEOUT).default(-1) * "ms the member may take to give up partitions; -1 = unchanged",
    "subscribed_topic_names" / Array(TopicName).null().default(None) * "topics subscribed to; null = unchanged",
    "subscribed_topic_regex" / String.null().default(None) @ "1+" * "topic pattern subscribed to, matched by the broker; null = unchanged",
    "server_assignor" / String.null().default(None) * "assignor wanted on the broker (uniform, range); null = unchanged or broker's choice",
    "topic_partitions" / Array(TopicIdPartitions).null().default(None) * "partitions the member owns now; null = unchanged",
    older=(
        EarlierLayout("0", "0+", instead={
            "subscribed_topic_regex": (
                "subscribed_topic_regex" / String.null().default(None) * "topic pattern subscribed to, matched by the broker; null = unchanged",
            ),
            "topic_partitions": (
                "client_assignors" / Array(
                    "name" / String * "name of the client-side assignor",
                    "minimum_version" / Int16 * "lowest metadata version the assignor reads",
                    "maximum_version" / Int16 * "highest metadata version the assignor reads",
                    "reason" / Int8 * "assignor-defined reason for the metadata update",
                    "metadata_version" / Int16 * "version of the assignor's own metadata",
                    "metadata_bytes" / Bytes * "the assignor's own metadata, opaque",
                ).null() * "client-side assignors of the member (dropped before release)",
                "topic_partitions" / Array(TopicIdPartitions).null().default(None) * "partitions the member owns now; null = unchanged",
            ),
        }),
    ),
)

ConsumerGroupHeartbeatResponse = Message(
    "ConsumerGroupHeartbeatResponse", 68, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why refused (25 unknown member, 110 fenced epoch, 111 instance id in use, 112 assignor)",
    "error_message" / String.null().default(None) * "explanation of error_code; null = none",
    "member_id" / String.null().default(None) * "member id that the coordinator gave or confirms; null = none",
    "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "member epoch to use from now on",
    "heartbeat_interval_ms" / Int32.of(DURATION_MS) * "ms until the next heartbeat is due",
    "assignment" / Struct(
        "topic_partitions" / Array(
            "topic_id" / Uuid.holds("topic_id") * "topic id",
            "partitions" / Array(Int32) * "assigned partition numbers",
        ) * "assigned partitions by topic",
    ).null().default(None) * "partitions the member may have now; null = unchanged",
    older=(
        EarlierLayout("0", "0+", instead={
            "heartbeat_interval_ms": (
                "should_compute_assignment" / Bool * "true = this member is asked to compute the assignment",
                "heartbeat_interval_ms" / Int32.of(DURATION_MS) * "ms until the next heartbeat is due",
            ),
            "assignment": (
                "assignment" / Struct(
                    "error" / Int8 * "assignor-defined error; 0 = none",
                    "assigned_topic_partitions" / Array(TopicIdPartitions) * "partitions the member owns",
                    "pending_topic_partitions" / Array(TopicIdPartitions) * "partitions that will follow once others gave them up",
                    "metadata_version" / Int16 * "version of the assignor's own metadata",
                    "metadata_bytes" / Bytes * "the assignor's own metadata, opaque",
                ).null().default(None) * "partitions the member may have now; null = unchanged",
            ),
        }),
    ),
)
