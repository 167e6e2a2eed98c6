"""ElectLeaders (key 43): an admin client has the controller elect leaders of partitions

v0 (ElectPreferredLeaders, KIP-183) knows only the preferred replica; v1 adds the election type
with unclean elections (KIP-460); v2 is flexible.
"""

from dissectors.domains import DURATION_MS, ELECTION_TYPE, ERROR_CODE
from dissectors.entities import TopicName
from dissectors.schema import Array, Int8, Int16, Int32, Message, String
from dissectors.structs import TopicPartitions

ElectLeadersRequest = Message(
    "ElectLeadersRequest", 43, "request", "0-2", "2+",
    "election_type" / Int8.of(ELECTION_TYPE) @ "1+" * "0 preferred replica, 1 unclean (a replica out of sync may lead, data can be lost)",
    "topic_partitions" / Array(TopicPartitions).null() * "partitions to elect leaders for; null = all",
    "timeout_ms" / Int32.of(DURATION_MS).default(60000) * "longest time in ms to wait for the elections",
)

ElectLeadersResponse = Message(
    "ElectLeadersResponse", 43, "response", "0-2", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) @ "1+" * "0 or why the whole request failed (31 = not authorized)",
    "replica_election_results" / Array(
        "topic" / TopicName * "topic name",
        "partition_result" / Array(
            "partition_id" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why no election (84 not needed, 80 preferred replica unavailable, 83 no eligible)",
            "error_message" / String.null() * "explanation of error_code; null = none",
        ) * "result for each partition",
    ) * "result for each topic",
)
