"""StreamsGroupHeartbeat (key 88): a Kafka Streams member joins, keeps alive and gets its tasks.

The streams rebalance protocol (KIP-1071): the broker makes the assignment, creates the internal
topics and tells problems in status (3 and 5 at the start are normal).
Fields that did not change are null. v1 (4.4): same request; the response has
acceptable_recovery_lag as int64, topology_description_required (KIP-1331) and maybe status 6.
"""

from dissectors.domains import (
    ACCEPTABLE_RECOVERY_LAG,
    DURATION_MS,
    ERROR_CODE,
    HEARTBEAT_REBALANCE_TIMEOUT,
    MEMBER_EPOCH,
    MEMBER_EPOCH_REACHED,
    STREAMS_STATUS,
)
from dissectors.entities import GroupId
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct
from dissectors.structs import (
    ClientTag,
    StreamsEndpoint,
    StreamsTaskOffset,
    StreamsTasks,
    Subtopology,
    TopicPartitions,
)

StreamsGroupHeartbeatRequest = Message(
    "StreamsGroupHeartbeatRequest", 88, "request", "0-1", "0+",
    "group_id" / GroupId * "streams group (application.id)",
    "member_id" / String * "member id, made by the client, the same for its whole life",
    "member_epoch" / Int32.of(MEMBER_EPOCH) * "0 = join, -1 = leave, -2 = static leave, else epoch of the last response",
    "endpoint_information_epoch" / Int32 * "epoch of the endpoint list that the member has; a newer list comes back if it changed",
    "instance_id" / String.null().default(None) * "group.instance.id of a static member; null = dynamic",
    "rack_id" / String.null().default(None) * "client.rack; null = unknown or unchanged",
    "rebalance_timeout_ms" / Int32.of(HEARTBEAT_REBALANCE_TIMEOUT).default(-1) * "ms the member may take to revoke tasks; -1 = unchanged",
    "topology" / Struct(
        "epoch" / Int32 * "version of the topology",
        "subtopologies" / Array(Subtopology) * "subtopologies of the application",
    ).null().default(None) * "topology of the application, sent when joining; null = unchanged",
    "active_tasks" / Array(StreamsTasks).null().default(None) * "active tasks that the member owns; null = unchanged",
    "standby_tasks" / Array(StreamsTasks).null().default(None) * "standby tasks that the member owns; null = unchanged",
    "warmup_tasks" / Array(StreamsTasks).null().default(None) * "warm-up tasks that the member owns; null = unchanged",
    "process_id" / String.null().default(None) * "id of the Streams instance, shared by its threads; null = unchanged",
    "user_endpoint" / StreamsEndpoint.null().default(None) * "endpoint for interactive queries (application.server); null = none or unchanged",
    "client_tags" / Array(ClientTag).null().default(None) * "client tags for rack-aware standby tasks; null = unchanged",
    "task_offsets" / Array(StreamsTaskOffset).null().default(None) * "changelog offsets that stateful tasks have reached; null = unchanged; refused before 4.4",
    "task_end_offsets" / Array(StreamsTaskOffset).null().default(None) * "changelog end offsets of stateful tasks; null = unchanged; refused before 4.4",
    "shutdown_application" / Bool * "true = ask all members of the group to shut down",
)

StreamsGroupHeartbeatResponse = Message(
    "StreamsGroupHeartbeatResponse", 88, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the heartbeat failed",
    "error_message" / String.null().default(None) * "text for the error; null = none",
    "member_id" / String * "member id of the request",
    "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "member epoch to send in the next heartbeat",
    "heartbeat_interval_ms" / Int32.of(DURATION_MS) * "ms until the next heartbeat",
    "acceptable_recovery_lag_legacy" / Int32 @ "0" * "lag up to which a task counts as caught up (v0 only; then acceptable_recovery_lag)",
    "task_offset_interval_ms" / Int32.of(DURATION_MS) * "ms between reports of task offsets",
    "acceptable_recovery_lag" / Int64.of(ACCEPTABLE_RECOVERY_LAG).default(-1) @ "1+" * "lag up to which a task counts as caught up; -1 = not given",
    "status" / Array(
        "status_code" / Int8.of(STREAMS_STATUS) * "0 old topology, 1/3 source/internal topics gone, 2 partitioning, 4 shutdown, 5 delayed, 6 tags",
        "status_detail" / String * "text for the status",
    ).null() * "problems of the group that the member should know; null = unchanged",
    "active_tasks" / Array(StreamsTasks).null().default(None) * "active tasks to run; null = unchanged",
    "standby_tasks" / Array(StreamsTasks).null().default(None) * "standby tasks to keep; null = unchanged",
    "warmup_tasks" / Array(StreamsTasks).null().default(None) * "warm-up tasks to build up; null = unchanged",
    "topology_description_required" / Bool @ "1+" * "true = broker wants the full topology (StreamsGroupTopologyDescriptionUpdate, KIP-1331)",
    "endpoint_information_epoch" / Int32 * "epoch of the endpoint list, to send in the next heartbeat",
    "partitions_by_user_endpoint" / Array(
        "user_endpoint" / StreamsEndpoint * "endpoint of one Streams instance",
        "active_partitions" / Array(TopicPartitions) * "partitions of its active tasks",
        "standby_partitions" / Array(TopicPartitions) * "partitions of its standby tasks",
    ).null().default(None) * "which endpoint serves which partitions (interactive queries); null = unchanged",
)
