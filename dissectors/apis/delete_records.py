"""DeleteRecords (key 21): drop the records before an offset (KIP-107); sent to partition leaders.

Kafka Streams uses it to empty its repartition topics.
"""

from dissectors.domains import DELETE_BEFORE_OFFSET, DURATION_MS, ERROR_CODE, OFFSET
from dissectors.entities import TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message

DeleteRecordsRequest = Message(
    "DeleteRecordsRequest", 21, "request", "0-2", "2+",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "offset" / Int64.of(DELETE_BEFORE_OFFSET) * "first offset to keep; -1 = high watermark, i.e. drop everything",
        ) * "partitions to cut",
    ) * "topics to cut",
    "timeout_ms" / Int32.of(DURATION_MS) * "longest time in ms to wait until the replicas have followed",
)

DeleteRecordsResponse = Message(
    "DeleteRecordsResponse", 21, "response", "0-2", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "low_watermark" / Int64.of(OFFSET) * "lowest log start offset among the replicas afterwards; -1 on error",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the records were not deleted",
        ) * "result by partition",
    ) * "result by topic",
)
