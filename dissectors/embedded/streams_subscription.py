"""The user data in a Kafka Streams member's subscription."""

from dissectors.domains import STREAMS_ASSIGNOR_ERROR, TASK_OFFSET_SUM
from dissectors.schema import Array, Bytes, Int8, Int32, Int64, Message, String, Uuid

SubscriptionInfoData = Message(
    "SubscriptionInfoData", None, "data", "1-11", "none",
    "version" / Int32 * "version of this data",
    "latest_supported_version" / Int32.default(-1) @ "3+" * "highest version that this member knows; -1 = not given",
    "process_id" / Uuid * "id of the Streams instance, shared by its threads",
    "prev_tasks" / Array(
        "topic_group_id" / Int32 * "subtopology number",
        "partition" / Int32 * "partition of the task",
    ) @ "1-6" * "active tasks that the member had before",
    "standby_tasks" / Array(
        "topic_group_id" / Int32 * "subtopology number",
        "partition" / Int32 * "partition of the task",
    ) @ "1-6" * "standby tasks that the member has state for",
    "user_end_point" / Bytes @ "2+" * "application.server as host:port; empty = none",
    "task_offset_sums" / Array(
        "topic_group_id" / Int32 * "subtopology number",
        "partition_to_offset_sum" / Array(
            "partition" / Int32 * "partition of the task",
            "offset_sum" / Int64.of(TASK_OFFSET_SUM) * "sum of the task's changelog offsets; -2 = runs as active task",
        ) @ "7-9" * "tasks of this subtopology",
        "partition" / Int32 @ "10+" * "partition of the task",
        "offset_sum" / Int64.of(TASK_OFFSET_SUM) @ "10+" * "sum of the task's changelog offsets; -2 = runs as active task",
        "named_topology" / String.null() @ "10+" * "named topology of the task; null = none",
    ) @ "7+" * "how far the state of each task has come (KIP-441)",
    "unique_field" / Int8 @ "8+" * "byte that a member changes to force a rebalance",
    "error_code" / Int32.of(STREAMS_ASSIGNOR_ERROR) @ "9+" * "what the member asks of the group, e.g. shutdown; 0 = nothing",
    "client_tags" / Array(
        "key" / Bytes * "client tag name",
        "value" / Bytes * "client tag value",
    ) @ "11+" * "client tags for rack-aware standby tasks (KIP-708)",
)
