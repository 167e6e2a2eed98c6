"""AlterPartitionReassignments (key 45): an admin client starts or cancels moves of replicas

KIP-455. The answer comes when the moves are recorded, not when the data has been copied;
ListPartitionReassignments shows the progress.
v1 can forbid changes of the replication factor (KIP-860).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Message, String

AlterPartitionReassignmentsRequest = Message(
    "AlterPartitionReassignmentsRequest", 45, "request", "0-1", "0+",
    "timeout_ms" / Int32.of(DURATION_MS).default(60000) * "longest time in ms to wait for the moves to be recorded",
    "allow_replication_factor_change" / Bool.default(True) @ "1+" * "false = refuse moves that change the number of replicas",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "replicas" / Array(BrokerId).null().default(None) * "new replica set, preferred leader first; null = cancel the running move",
        ) * "partitions to move",
    ) * "topics with partitions to move",
)

AlterPartitionReassignmentsResponse = Message(
    "AlterPartitionReassignmentsResponse", 45, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "allow_replication_factor_change" / Bool.default(True) @ "1+" * "flag of the request, sent back",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed",
    "error_message" / String.null() * "explanation of error_code; null = none",
    "responses" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why refused (39 = bad replica set, 85 = nothing to cancel)",
            "error_message" / String.null() * "explanation of error_code; null = none",
        ) * "result for each partition",
    ) * "result for each topic",
)
