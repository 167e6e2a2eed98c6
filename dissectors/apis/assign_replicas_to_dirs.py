"""AssignReplicasToDirs (key 73): a broker tells the controller which log dir each of its replicas is in

KIP-858, for brokers with several log dirs: the controller must know what a failed dir takes down.
"""

from dissectors.domains import BROKER_EPOCH, DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId
from dissectors.schema import Array, Int16, Int32, Int64, Message, Uuid

AssignReplicasToDirsRequest = Message(
    "AssignReplicasToDirsRequest", 73, "request", "0", "0+",
    "broker_id" / BrokerId * "broker that reports",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) * "epoch of that broker's registration; -1 = unknown",
    "directories" / Array(
        "id" / Uuid * "id of the log dir",
        "topics" / Array(
            "topic_id" / Uuid.holds("topic_id") * "topic id",
            "partitions" / Array(
                "partition_index" / Int32 * "partition number",
            ) * "partitions with their replica in this log dir",
        ) * "topics with replicas in this log dir",
    ) * "log dirs with replicas",
)

AssignReplicasToDirsResponse = Message(
    "AssignReplicasToDirsResponse", 73, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed (77 = old broker epoch, 41 = not the controller)",
    "directories" / Array(
        "id" / Uuid * "id of the log dir",
        "topics" / Array(
            "topic_id" / Uuid.holds("topic_id") * "topic id",
            "partitions" / Array(
                "partition_index" / Int32 * "partition number",
                "error_code" / Int16.of(ERROR_CODE) * "0 or why the controller did not take this assignment",
            ) * "result for each partition",
        ) * "result for each topic",
    ) * "result for each log dir",
)
