"""FindCoordinator (key 10): find the broker that coordinates a group, transaction or share partition.

Once called ConsumerMetadata, then GroupCoordinator. v1 adds transactions (KIP-98), v4 several keys
at once (KIP-699), v6 share coordinators (KIP-932).
Error 15 = coordinator not available (yet), seen when __consumer_offsets is still being created.
"""

from dissectors.domains import COORDINATOR_TYPE, DURATION_MS, ERROR_CODE, NODE_ID
from dissectors.entities import BrokerId
from dissectors.schema import Array, Int8, Int16, Int32, Message, String

FindCoordinatorRequest = Message(
    "FindCoordinatorRequest", 10, "request", "0-6", "3+",
    "key" / String @ "0-3" * "group id or transactional id to look up (v0-3)",
    "key_type" / Int8.of(COORDINATOR_TYPE) @ "1+" * "0 = group, 1 = transaction, 2 = share (v6+, KIP-932)",
    "coordinator_keys" / Array(String) @ "4+" * "group ids, transactional ids or share keys (group:topicId:partition) to look up (v4+)",
)

FindCoordinatorResponse = Message(
    "FindCoordinatorResponse", 10, "response", "0-6", "3+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) @ "0-3" * "0 or why no coordinator was found (v0-3)",
    "error_message" / String.null() @ "1-3" * "text of the error (v1-3); null = none",
    "node_id" / BrokerId.of(NODE_ID) @ "0-3" * "broker id of the coordinator (v0-3); -1 = not found",
    "host" / String @ "0-3" * "host name of the coordinator (v0-3)",
    "port" / Int32 @ "0-3" * "port of the coordinator (v0-3); -1 = not found",
    "coordinators" / Array(
        "key" / String * "key that was looked up",
        "node_id" / BrokerId.of(NODE_ID) * "broker id of the coordinator; -1 = not found",
        "host" / String * "host name of the coordinator",
        "port" / Int32 * "port of the coordinator; -1 = not found",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why no coordinator was found for this key",
        "error_message" / String.null() * "text of the error; null or empty = none",
    ) @ "4+" * "result by key (v4+)",
)
