"""CreatePartitions (key 37): an admin client adds partitions to topics

KIP-195. Partitions can only be added, never removed. v2 is flexible; from v3 the controller may
answer with error 89 when the mutation quota is used up (KIP-599).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Message, String

CreatePartitionsRequest = Message(
    "CreatePartitionsRequest", 37, "request", "0-3", "2+",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "count" / Int32 * "new total number of partitions, not the number to add",
        "assignments" / Array(
            "broker_ids" / Array(BrokerId) * "broker ids of the replicas, the preferred leader first",
        ).null() * "replicas of each new partition, in order; null = the controller chooses",
    ) * "topics to enlarge",
    "timeout_ms" / Int32.of(DURATION_MS) * "longest time in ms to wait for the partitions to be created",
    "validate_only" / Bool * "true = only check, create nothing",
)

CreatePartitionsResponse = Message(
    "CreatePartitionsResponse", 37, "response", "0-3", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "results" / Array(
        "name" / TopicName * "topic name",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this topic got no partitions (37 = count not larger, 89 = quota)",
        "error_message" / String.null().default(None) * "explanation of error_code; null = none",
    ) * "result for each topic",
)
