"""DescribeLogDirs (key 35): a client asks one broker for the size and lag of its replicas by log dir

KIP-113. v2 is flexible, v3 adds the error for the whole answer, v4 disk sizes (KIP-827),
v5 cordoned log dirs.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, VOLUME_BYTES
from dissectors.entities import TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Int64, Message, String

DescribeLogDirsRequest = Message(
    "DescribeLogDirsRequest", 35, "request", "0-5", "2+",
    "topics" / Array(
        "topic" / TopicName * "topic name",
        "partitions" / Array(Int32) * "partitions to describe",
    ).null() * "topics to describe; null = all",
)

DescribeLogDirsResponse = Message(
    "DescribeLogDirsResponse", 35, "response", "0-5", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) @ "3+" * "0 or why the whole request failed",
    "results" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or what is wrong with this log dir (56 = offline)",
        "log_dir" / String * "absolute path of the log dir",
        "topics" / Array(
            "name" / TopicName * "topic name",
            "partitions" / Array(
                "partition_index" / Int32 * "partition number",
                "partition_size" / Int64 * "bytes of all log segments of this replica",
                "offset_lag" / Int64 * "offsets missing up to the high watermark; future replica: up to the current one",
                "is_future_key" / Bool * "true = copy being made by AlterReplicaLogDirs, replaces the current one later",
            ) * "replicas of the topic in this log dir",
        ) * "topics with replicas in this log dir",
        "total_bytes" / Int64.of(VOLUME_BYTES).default(-1) @ "4+" * "size in bytes of the volume the log dir is on; -1 = unknown",
        "usable_bytes" / Int64.of(VOLUME_BYTES).default(-1) @ "4+" * "free bytes on the volume the log dir is on; -1 = unknown",
        "is_cordoned" / Bool @ "5+" * "true = log dir takes no new replicas",
    ) * "the log dirs of the broker",
)
