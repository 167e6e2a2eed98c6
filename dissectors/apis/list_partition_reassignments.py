"""ListPartitionReassignments (key 46): an admin client lists running moves of replicas (KIP-455)"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Int16, Int32, Message, String

ListPartitionReassignmentsRequest = Message(
    "ListPartitionReassignmentsRequest", 46, "request", "0", "0+",
    "timeout_ms" / Int32.of(DURATION_MS).default(60000) * "longest time in ms to wait for the answer",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partition_indexes" / Array(Int32) * "partition numbers to look at",
    ).null().default(None) * "topics to look at; null = all running moves",
)

ListPartitionReassignmentsResponse = Message(
    "ListPartitionReassignmentsResponse", 46, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed",
    "error_message" / String.null() * "explanation of error_code; null = none",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "replicas" / Array(BrokerId) * "broker ids of all replicas now, added and leaving ones included",
            "adding_replicas" / Array(BrokerId) * "broker ids being added",
            "removing_replicas" / Array(BrokerId) * "broker ids that leave when the move is done",
        ) * "partitions with a running move",
    ) * "topics with running moves",
)
