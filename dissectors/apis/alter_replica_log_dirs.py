"""AlterReplicaLogDirs (key 34): an admin client moves replicas between the log dirs of one broker

KIP-113. The answer comes when the move has been started, not when it is done; watch the copy with
DescribeLogDirs (is_future_key, offset_lag). Each broker must be asked for its own replicas.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import TopicName
from dissectors.schema import Array, Int16, Int32, Message, String

AlterReplicaLogDirsRequest = Message(
    "AlterReplicaLogDirsRequest", 34, "request", "0-2", "2+",
    "dirs" / Array(
        "path" / String * "absolute path of the target log dir",
        "topics" / Array(
            "name" / TopicName * "topic name",
            "partitions" / Array(Int32) * "partitions whose replica on this broker moves there",
        ) * "topics with replicas to move there",
    ) * "target log dirs on this broker",
)

AlterReplicaLogDirsResponse = Message(
    "AlterReplicaLogDirsResponse", 34, "response", "0-2", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "results" / Array(
        "topic_name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the move was not started (57 no such log dir, 56 dir offline)",
        ) * "result for each partition",
    ) * "result for each topic",
)
